"""Models by their garbage: the six of report 004 as it ranks them, and the store's logs of the same models.

Reported shares come from ``data/reported_runs.toml``, positions and magnitudes from ``data/logit_rules.toml``. The
report has no logs, so whether its figures are right is not known; they are never added to measured ones. A log is
matched with a reported model by names alone; its architecture is known where the registry has its model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import DriftscopeError
from engine.figures.statistics import wilson
from engine.figures.words import precision_name
from engine.logits.health import has_values, health
from engine.logits.rules import DamageExtent, load_rules
from engine.models.registry import load_registry
from engine.store.entries import Entry
from engine.store.reported import load_reported
from engine.store.store import Store

REPORTED_ENTRIES = 90
"""About as many entries as the report looked at, of all its models together."""
PERCENT = "garbage_percent"
_ARCHITECTURES = {"qwen3": "Qwen3", "llama3": "Llama-3"}
"""By the tokenizer, which the registry knows without opening a checkpoint."""


@dataclass(frozen=True, slots=True)
class GarbageRate:
    """Garbage of one model by one log, or as reported; ``by_ours`` is null for a reported one."""

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


@dataclass(frozen=True, slots=True)
class ReportedModel:
    """A row of the report's table."""

    run_id: str
    model: str
    architecture: str
    size: str
    precision: str
    vocab_size: int
    garbage_share: float
    garbage: DamageExtent

    @property
    def rate(self) -> GarbageRate:
        names = (self.model, self.architecture, self.precision, self.vocab_size)
        return GarbageRate(self.run_id, "reported", "llama.cpp", *names, None, self.garbage_share, None)


@dataclass(frozen=True, slots=True)
class Ranking:
    """``rates`` has the report's models first, then logs, each by its garbage under the report's rule."""

    models: tuple[ReportedModel, ...]
    rates: tuple[GarbageRate, ...]
    left_out: tuple[str, ...]  # logs that cannot be read

    @property
    def reported(self) -> tuple[GarbageRate, ...]:
        return tuple(rate for rate in self.rates if rate.origin == "reported")

    @property
    def logs(self) -> tuple[GarbageRate, ...]:
        return tuple(rate for rate in self.rates if rate.origin != "reported")

    def logs_of(self, model: ReportedModel) -> tuple[GarbageRate, ...]:
        return tuple(rate for rate in self.logs if is_same_model(rate, model))


def ranking(store: Store, logs: Iterable[Entry]) -> Ranking:
    """A log that cannot be read is left out and named."""
    measured, left_out = [], []
    for entry in filter(has_values, logs):
        try:
            measured.append(_rate(store, entry))
        except DriftscopeError:
            left_out.append(entry.id)
    measured.sort(key=lambda rate: (rate.by_report, rate.by_ours or 0))
    models = tuple(reported_models())
    return Ranking(models, (*(model.rate for model in models), *measured), tuple(left_out))


def reported_models() -> list[ReportedModel]:
    """In the report's ranking, the least garbage first."""
    reported, models = load_rules().reported, []
    for run in load_reported():
        extra = json.loads(run.row.get("extra") or "{}")
        if PERCENT in extra and run.run_id in reported:
            names = (run.row["model_alias"], extra["architecture"], extra["size"], extra["precision"])
            figures = (run.row["vocab_size"], extra[PERCENT] / 100, reported[run.run_id])
            models.append(ReportedModel(run.run_id, *names, *figures))
    return sorted(models, key=lambda model: model.garbage_share)


def reported_interval(share: float) -> tuple[float, float]:
    """95 % interval of a reported share, if its entries were spread evenly over the models."""
    entries = round(REPORTED_ENTRIES / len(reported_models()))
    return wilson(round(share * entries), entries)


def is_same_model(rate: GarbageRate, model: ReportedModel) -> bool:
    """The same name, whatever its suffix (``-Instruct``), and the same precision where the log has one."""
    names = (re.sub(r"[^a-z0-9]", "", name.lower()) for name in (rate.model or "", model.model))
    is_named = next(names).startswith(next(names))
    return is_named and (not rate.precision or precision_name(rate.precision) == precision_name(model.precision))


def family(architecture: str | None) -> str | None:
    """``Llama-3`` and ``Llama`` are one family: the name without its number."""
    match = re.match(r"[A-Za-z]+", architecture or "")
    return match[0] if match else None


def _rate(store: Store, entry: Entry) -> GarbageRate:
    counts = health(store, entry)
    return GarbageRate(
        id=entry.id,
        origin=entry.row["origin"],
        engine=counts.engine,
        model=counts.model,
        architecture=_architecture(counts.model),
        precision=counts.precision,
        vocab_size=counts.length,
        entries=counts.entries,
        by_report=counts.garbage_share,
        by_ours=counts.damaged_share,
    )


def _architecture(model: str | None) -> str | None:
    try:
        return _ARCHITECTURES.get(load_registry().find(model or "").tokenizer)
    except DriftscopeError:
        return None
