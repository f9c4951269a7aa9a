"""The Compare page's choice of runs: a control and its tests, and the default where the address names none."""

from __future__ import annotations

from collections.abc import Sequence

from engine.comparing.measures import has_samples, run_names
from engine.store.entries import Entry, is_profiled
from engine.store.schema import RUN
from pages._kit.picker import Picker, run_cells, run_columns
from pages._shared.links import MOST_TESTS

MOST_DEFAULT = 7
EMPTY = """
Three ways to get a first run:

- Start runs below, under *Manage*, or from a terminal:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --lp group-v2.1 --lp exact`
- Generate a molecule on the **Live generation** page and press *Save to store*.
- Import the reports' files: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def default_choice(entries: Sequence[Entry]) -> list[Entry]:
    """The newest run without an LP, and of the same model and size the newest under each LP, oldest first.

    Runs beside which a profiler ran are left out where there are others, since their times say little. Where there is
    no such control: the newest run with samples, alone.
    """
    with_samples = [entry for entry in reversed(entries) if has_samples(entry)]
    newest = [entry for entry in with_samples if not is_profiled(entry)] or with_samples
    same = ("model_alias", "model_step", "model_family", "molecules", "samples", "origin")
    for control in newest:
        by_lp: dict[str, Entry] = {}
        for entry in newest if control.row.get("lp") == "none" else ():
            is_alike = all(entry.row.get(name) == control.row.get(name) for name in same)
            if is_alike and (lp := entry.row.get("lp")) not in (None, "none"):
                by_lp.setdefault(str(lp), entry)
        if by_lp:
            return [control, *list(reversed(by_lp.values()))[:MOST_DEFAULT]]
    return newest[:1]


RUNS = Picker(
    RUN, "run", "control", "test", 1 + MOST_TESTS, run_cells, run_columns(), default_choice, run_names, EMPTY
)  # fmt: skip
