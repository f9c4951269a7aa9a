"""Model times LP: each LP over none within a model, and each model over another within an LP.

Runs of several models beside one control say neither: their ratios mix what the LP does with what the model does. Of
several runs of one model under one LP the first counts, and a reported run is only compared with reported ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.comparing.figures import ComparedRun, RunFigures, ratios_of
from engine.comparing.paired import compare_entries
from engine.store.entries import Entry
from engine.store.store import Store

OFF = "none"


@dataclass(frozen=True, slots=True)
class OneApart:
    """Two runs that differ in their LP alone, or in their model alone."""

    within: str  # the model, or the LP, that both have
    control_name: str  # the model, or the LP, in which they differ
    test_name: str
    control: RunFigures
    test: ComparedRun


def models_by_lp(store: Store, entries: Sequence[Entry]) -> tuple[list[OneApart], list[OneApart]]:
    """LP on over off within each model, then model over model within each LP: over the model that comes first."""
    runs: dict[tuple[str, str, str], RunFigures] = {}
    for run in map(RunFigures, entries):
        if run.model and run.lp:
            runs.setdefault((run.origin, run.model, run.lp_words), run)
    models = [*dict.fromkeys(model for _, model, _ in runs)]
    runs = dict(sorted(runs.items(), key=lambda item: models.index(item[0][1])))

    def apart(control: RunFigures, test: RunFigures, within: str, differs: str) -> OneApart:
        paired = compare_entries(store, control.entry, test.entry)
        compared = ComparedRun(test, paired, ratios_of(control, test, paired))
        return OneApart(getattr(test, within), getattr(control, differs), getattr(test, differs), control, compared)

    on_over_off = [
        apart(runs[origin, model, OFF], run, "model", "lp_words")
        for (origin, model, lp), run in runs.items()
        if lp != OFF and (origin, model, OFF) in runs
    ]
    first: dict[tuple[str, str], RunFigures] = {}
    for (origin, _, lp), run in runs.items():
        first.setdefault((origin, lp), run)
    over_first = [
        apart(first[origin, lp], run, "lp_words", "model")
        for (origin, _, lp), run in runs.items()
        if run is not first[origin, lp]
    ]
    return on_over_off, over_first
