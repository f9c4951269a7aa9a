"""Which measured runs an advice may compare: one model, one setting, an LP each.

A setting is all that changes time or text besides the LP: sampling, batch, backend, device, precision, numbers, limit,
weights. Runs of other settings, and imported and reported runs, are named and left out. Not known here: on which of
several machines with a ``cpu`` a run was measured, and what else ran there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from engine.comparing.measures import has_samples
from engine.figures.words import counted
from engine.lp_records import FORMER, guard_words, split_cleanup, stored_lp
from engine.store.entries import Entry, is_profiled, model_name

CANDIDATES = ("none", "group-v2.1", "group-v4.3", "truncating", "exact", "guarded")
"""The candidates by default."""
MOST_REPEATS = 16
FITTED = "adaptive-placeholder"
_GPU_NUMBER = re.compile(r"\b(\w++):\d+")


@dataclass(frozen=True, slots=True)
class Setting:
    """Texts are empty and figures None where a run's maker did not say."""

    sampling: str
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    batch_size: int | None
    backend: str
    device: str  # cpu, or cuda with its name; which of several alike does not matter
    dtype: str
    attention: str
    is_compiled: bool
    numbers: str  # the number format, as the run's plan has it
    most_tokens: int | None
    tokenizer: str
    weights: str

    @property
    def words(self) -> str:
        parts = [
            f"sampling {self.sampling or '–'}",
            f"batches of {self.batch_size or '–'}",
            f"backend {self.backend or '–'}{', compiled' if self.is_compiled else ''}",
            f"{self.device or 'an unknown device'} in {self.dtype or 'an unknown precision'}",
        ]
        if self.most_tokens is not None:
            parts.append(f"at most {self.most_tokens:,} tokens")
        return ", ".join(parts)

    def differs(self, other: Setting) -> str:
        """What differs in the other setting, in words; empty where nothing does."""
        differences = []
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if mine != theirs and not (field.name in _IN_SAMPLING and self.sampling != other.sampling):
                what = field.name.replace("_", " ")
                differences.append(
                    "other weights" if what == "weights" else f"{what} {_said(theirs)}, not {_said(mine)}"
                )
        return "; ".join(differences)


_IN_SAMPLING = ("temperature", "top_k", "top_p", "min_p")
_TEXTS = ("sampling", "backend", "dtype", "attention", "tokenizer", "weights")


@dataclass(frozen=True, slots=True)
class SettingFilter:
    """What the reader wants of the setting; None and empty leave it open."""

    sampling: str = ""
    batch_size: int | None = None
    backend: str = ""
    device: str = ""  # cpu, cuda or mps

    def fits(self, setting: Setting) -> bool:
        return (
            self.sampling in ("", setting.sampling)
            and self.batch_size in (None, setting.batch_size)
            and self.backend in ("", setting.backend)
            and (not self.device or setting.device.startswith(self.device))
        )

    @property
    def words(self) -> str:
        names = {"sampling": "sampling", "batch_size": "batches of", "backend": "backend", "device": "device"}
        return ", ".join(f"{name} {getattr(self, field)}" for field, name in names.items() if getattr(self, field))


@dataclass(frozen=True, slots=True)
class OtherSetting:
    """Runs of the model that were left out because their setting is another one."""

    setting: Setting
    runs: int
    lps: tuple[str, ...]
    differs: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Runs of one model under one setting. Of each LP: the run that is read, then those that did the same work."""

    model: str
    setting: Setting
    runs: Mapping[str, tuple[Entry, ...]]
    others: tuple[OtherSetting, ...]
    left_out: tuple[str, ...]


def is_measured(entry: Entry) -> bool:
    """Measured here, with samples and a time; answers that were kept going for equal work are no evidence."""
    row = entry.row
    return row["origin"] == "measured" and has_samples(entry) and bool(row.get("wall_s")) and not row.get("equal_work")


def models_of(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Measured runs without a profiler by model, the newest model first, and each with its newest run first."""
    models: dict[str, list[Entry]] = {}
    for entry in reversed(list(entries)):
        if is_measured(entry) and not is_profiled(entry) and model_name(entry.row):
            models.setdefault(model_name(entry.row), []).append(entry)
    return models


def settings_of(entries: Sequence[Entry]) -> dict[Setting, list[Entry]]:
    """Those with most LPs first, then those with most samples, then the newest; ``entries`` are the newest first."""
    runs: dict[Setting, list[Entry]] = {}
    for entry in entries:
        runs.setdefault(setting_of(entry), []).append(entry)
    order = sorted(
        runs,
        key=lambda setting: (-len(_lps(runs[setting])), -max(entry.row.get("samples") or 0 for entry in runs[setting])),
    )
    return {setting: runs[setting] for setting in order}


def setting_of(entry: Entry) -> Setting:
    row, plan = entry.row, _plan(entry)
    form = plan.get("form")
    values: dict[str, Any] = {name: row.get(name) for name in (*_IN_SAMPLING, "batch_size", "most_tokens")}
    values |= {name: row.get(name) or "" for name in _TEXTS}
    return Setting(
        **values,
        device=device_class(row.get("device") or ""),
        is_compiled=plan.get("compile") is True,
        numbers=", ".join(f"{key} {form[key]}" for key in sorted(form)) if isinstance(form, dict) else "",
    )


def device_class(device: str) -> str:
    return ", ".join(sorted({_GPU_NUMBER.sub(r"\1", name.strip()) for name in device.split(",")}))


def evidence_of(
    model: str, setting: Setting, by_setting: Mapping[Setting, Sequence[Entry]], lps: Sequence[str]
) -> Evidence:
    """The runs of this setting, one of each LP of those wanted."""
    mine = by_setting[setting]
    size = _commonest_size(mine, lps)
    runs, words = {}, []
    for lp in lps:
        of_lp = [entry for entry in mine if entry.row.get("lp") == lp]
        plain = [entry for entry in of_lp if _is_own(entry, lp)]
        if len(plain) < len(of_lp):
            words.append(f"{counted(len(of_lp) - len(plain), 'run')} of {lp} with non-default parameters")
        if plain:
            chosen = next((entry for entry in plain if _size(entry) == size), plain[0])
            same = [entry for entry in plain if entry is not chosen and _work(entry) == _work(chosen)]
            runs[lp] = (chosen, *same[:MOST_REPEATS])
    names = Counter(entry.row.get("lp") or "an unknown LP" for entry in mine)
    words += [f"{counted(names[lp], 'run')} of {lp}, which is not a candidate" for lp in names if lp not in lps]
    others = tuple(
        OtherSetting(other, len(entries), tuple(_lps(entries)), setting.differs(other))
        for other, entries in by_setting.items()
        if other != setting
    )
    return Evidence(model, setting, runs, others, tuple(words))


def figures_elsewhere(entries: Iterable[Entry], model: str) -> str:
    """Imported and reported runs that bear the model's name: named, and never used."""
    alias = model.partition(":")[0]
    counts = {
        origin: sum(entry.row["origin"] == origin and entry.row.get("model_alias") == alias for entry in entries)
        for origin in ("imported", "reported")
    }
    words = " and ".join(f"{count} {origin}" for origin, count in counts.items() if count)
    return f"{words} under this model's name: not measured here" if words else ""


def _is_own(entry: Entry, lp: str) -> bool:
    """Whether the LP ran with its own rules, placeholder, descriptors and guard, as the advised one would."""
    name, placeholder = split_cleanup(lp)[0], entry.row.get("placeholder") or ""
    record = stored_lp(name, is_former=not entry.row.get("descriptors"))
    default = record.placeholder or placeholder
    is_placed = name == FITTED or placeholder in ("", default)
    is_own = is_placed and not guard_words(entry.row.get("guard"))
    is_written = record.descriptors in (None, entry.row.get("descriptors"))
    return is_own and is_written and not record.name.startswith(FORMER)


def _commonest_size(entries: Sequence[Entry], lps: Sequence[str]) -> tuple[Any, ...]:
    """Molecules and samples that most LPs have a run of; of several the largest."""
    lps_by_size: dict[tuple[Any, ...], set[str]] = {}
    for entry in entries:
        if entry.row.get("lp") in lps:
            lps_by_size.setdefault(_size(entry), set()).add(entry.row["lp"])
    return max(lps_by_size, key=lambda size: (len(lps_by_size[size]), size[1]), default=(0, 0))


def _size(entry: Entry) -> tuple[Any, ...]:
    return (entry.row.get("molecules") or 0, entry.row.get("samples") or 0)


def _work(entry: Entry) -> tuple[Any, ...]:
    """What two runs have in common that wrote the same: then only the clock differs."""
    return tuple(entry.row.get(name) for name in ("molecules", "samples", "generations", "seed", "tokens", "blocks"))


def _lps(entries: Iterable[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.row.get("lp") or "" for entry in entries))


def _plan(entry: Entry) -> Mapping[str, Any]:
    """What the run was asked to do. A sheet of another version may have anything there."""
    plan = entry.sheet.get("plan")
    inner = plan.get("plan") if isinstance(plan, dict) else None
    return inner if isinstance(inner, dict) else {}


def _said(value: object) -> str:
    return "unknown" if value is None or value == "" else str(value)
