"""The garbage that report 004 states of six models, and beside it what its rule and ours give where logs are.

Reported shares come from ``data/reported_runs.toml``, positions and magnitudes from ``data/logit_rules.toml``. The
report has no logs, so nothing here says whether its figures are right; they are never added to measured ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from engine.logits.figures import has_values, health
from engine.logits.rules import load_rules
from engine.store.entries import Entry
from engine.store.reported import load_reported
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store

PERCENT = "garbage_percent"


@dataclass(frozen=True, slots=True)
class ReportedModel:
    """A row of the report's table. ``positions`` are those of its garbage, sizes are of its values."""

    run_id: str
    model: str
    architecture: str
    size: str
    precision: str
    vocab_size: int
    garbage_share: float
    positions: tuple[int, ...]
    least: float | None
    largest: float | None
    tokens: int | None  # garbage tokens, where the report counts them


@dataclass(frozen=True, slots=True)
class Rate:
    """Garbage of one model by one log, or as reported; ``by_ours`` is null where there is no log to look at."""

    id: str  # of the log, or of the reported run
    origin: str
    engine: str
    model: str | None
    architecture: str | None
    precision: str | None
    vocab_size: int | None
    entries: int | None
    by_report: float  # share of entries by the report's own rule
    by_ours: float | None


def reported_models() -> list[ReportedModel]:
    """In the report's ranking, the least garbage first."""
    garbage = {one.run_id: one for one in load_rules().reported}
    found = []
    for run in load_reported():
        extra = json.loads(run.row.get("extra") or "{}")
        if PERCENT not in extra or run.run_id not in garbage:
            continue
        own = garbage[run.run_id]
        found.append(
            ReportedModel(
                run.run_id,
                run.row["model_alias"],
                extra["architecture"],
                extra["size"],
                extra["precision"],
                run.row["vocab_size"],
                extra[PERCENT] / 100,
                own.positions,
                own.least,
                own.largest,
                own.tokens,
            )
        )
    return sorted(found, key=lambda one: one.garbage_share)


def rates(store: Store, logs: Iterable[Entry] | None = None) -> list[Rate]:
    """The report's models, then the store's logs (or those given), each in the order of its garbage."""
    entries = store.found(LOGIT_LOG).entries if logs is None else logs
    measured = [_measured(store, entry) for entry in entries if has_values(entry)]
    return [*map(_reported, reported_models()), *sorted(measured, key=lambda one: one.by_report)]


def _reported(one: ReportedModel) -> Rate:
    return Rate(
        id=one.run_id,
        origin="reported",
        engine="llama.cpp",
        model=one.model,
        architecture=one.architecture,
        precision=one.precision,
        vocab_size=one.vocab_size,
        entries=None,
        by_report=one.garbage_share,
        by_ours=None,
    )


def _measured(store: Store, entry: Entry) -> Rate:
    found = health(store, entry)
    return Rate(
        id=entry.id,
        origin=entry.row["origin"],
        engine=found.engine,
        model=found.model,
        architecture=None,
        precision=found.precision,
        vocab_size=found.length,
        entries=found.entries,
        by_report=found.garbage_share,
        by_ours=found.damaged_share,
    )
