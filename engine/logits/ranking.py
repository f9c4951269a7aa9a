"""Models by their garbage: the report's six as it ranks them, each beside the store's logs of the same model.

Whether a log is of a reported model is told by names alone. The architecture of a log's model is known where the
registry has the model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from engine.errors import DriftscopeError
from engine.logits.reported import Rate, ReportedModel, rates, reported_models
from engine.models.registry import load_registry
from engine.store.comparison import wilson
from engine.store.entries import Entry
from engine.store.store import Store

REPORTED_ENTRIES = 90
"""About so many entries the report says that it looked at, of all its models together."""
_ARCHITECTURES = {"qwen3": "Qwen3", "llama3": "Llama-3"}
"""By the tokenizer, which the registry says without opening a checkpoint."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    log_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Ranking:
    """``rates`` has the report's models first, then logs, each in the order of its garbage by the report's rule."""

    models: tuple[ReportedModel, ...]
    rates: tuple[Rate, ...]
    left_out: tuple[LeftOut, ...]

    @property
    def reported(self) -> tuple[Rate, ...]:
        return tuple(one for one in self.rates if one.origin == "reported")

    @property
    def logs(self) -> tuple[Rate, ...]:
        return tuple(one for one in self.rates if one.origin != "reported")

    def logs_of(self, model: ReportedModel) -> tuple[Rate, ...]:
        return tuple(one for one in self.logs if is_same_model(one, model))


def ranking(store: Store, logs: Iterable[Entry]) -> Ranking:
    """A log that cannot be read is left out and named."""
    found, left_out = _readable(store, list(logs))
    measured = sorted(
        (one for one in found if one.origin != "reported"), key=lambda one: (one.by_report, one.by_ours or 0)
    )
    reported = [one for one in found if one.origin == "reported"]
    return Ranking(tuple(reported_models()), (*reported, *map(_with_architecture, measured)), tuple(left_out))


def _readable(store: Store, logs: list[Entry]) -> tuple[list[Rate], list[LeftOut]]:
    """One log after the other only where one of them does not read."""
    with suppress(DriftscopeError):
        return rates(store, logs), []
    found, left_out = rates(store, []), []
    for entry in logs:
        try:
            found += [one for one in rates(store, [entry]) if one.origin != "reported"]
        except DriftscopeError as error:
            left_out.append(LeftOut(entry.id, error.what))
    return found, left_out


def reported_interval(share: float) -> tuple[float, float]:
    """What a reported share may be off by, if its entries were spread evenly over the models: 95 %."""
    entries = round(REPORTED_ENTRIES / len(reported_models()))
    return wilson(round(share * entries), entries)


def is_same_model(rate: Rate, model: ReportedModel) -> bool:
    """The same name, whatever stands behind it (``-Instruct``), and the same precision where the log says it."""
    named = _plain(rate.model or "").startswith(_plain(model.model))
    return named and (not rate.precision or precision_name(rate.precision) == precision_name(model.precision))


def family(architecture: str | None) -> str | None:
    """``Llama-3`` and ``Llama`` are of one: the name without its number."""
    found = re.match(r"[A-Za-z]+", architecture or "")
    return found[0] if found else None


def precision_name(precision: str | None) -> str | None:
    """``fp16``, ``float16`` and ``F16`` are one."""
    return re.sub(r"^(FLOAT|FP)(?=\d)", "F", precision.strip().upper()) if precision else None


def _with_architecture(rate: Rate) -> Rate:
    return replace(rate, architecture=_architecture(rate.model))


def _architecture(model: str | None) -> str | None:
    try:
        return _ARCHITECTURES.get(load_registry().find(model or "").tokenizer)
    except DriftscopeError:
        return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
