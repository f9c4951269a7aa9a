"""One row a run, from the runs' sheets alone, and its ratios to a control with a mark where a difference is noise.

What nobody said is None, never 0. Figures that a report states stand beside measured ones with their ``origin``; none
are averaged. Wall time has one figure a run, so its mark is that of the samples' own times; what is counted for a run
as a whole has no mark. A run's drift is in its samples only: it is read for the runs that are compared.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from engine.comparing.bootstrap import Estimate
from engine.comparing.paired import PairedRuns, compare_entries
from engine.comparing.reading import has_samples, samples_of
from engine.store.comparison import wilson
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.store import Store

CONFORMERS = ("cov_r", "cov_p", "mat_r", "mat_p")
"""Coverage and mean least RMSD against reference ensembles; a report file may say them (COV-R, mat_p_ang, ...)."""
COUNTED_WHOLE = "It is counted for a run as a whole, so no interval tells what is noise."


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Texts are empty and figures None where a run's maker did not say."""

    run_id: str
    label: str
    origin: str  # measured, imported or reported
    source: str
    created_at: datetime | None
    model: str  # alias:step, or the family alone
    model_family: str
    tokenizer: str
    lp: str
    backend: str
    sampling: str
    device: str
    batch_size: int | None
    molecules: int | None
    samples: int | None
    has_samples: bool  # to be looked into, paired and drawn from
    wall_s: float | None
    wall_s_a_sample: float | None
    decode_s: float | None
    tokens: int | None
    tokens_a_sample: float | None
    ms_a_token: float | None  # of decode_s, else of wall_s
    ms_a_token_of: str  # decode_s or wall_s
    forward_passes: int | None
    forced_share: float | None
    passes: int | None
    pass_rate: float | None
    pass_rate_low: float | None  # Wilson's interval, 95 %
    pass_rate_high: float | None
    clean: int | None
    clean_rate: float | None
    blocks: int | None
    junk_letters: int | None
    junk_letters_share: float | None  # of blocks
    junk_nonnumeric: int | None
    junk_nonnumeric_share: float | None
    bad_blocks: int | None
    cut_blocks: int | None
    cut_share: float | None
    unverified_blocks: int | None
    drift_mean: float | None  # of a block, where known; None until it is read
    drift_abs_mean: float | None  # its distance from 0
    rmsd_ang: float | None  # mean
    rmsd_samples: int | None
    cov_r: float | None
    cov_p: float | None
    mat_r: float | None
    mat_p: float | None
    notes: str

    @property
    def name(self) -> str:
        """What a person calls it."""
        return " · ".join(part for part in (self.model, self.lp, self.label) if part) or self.run_id


@dataclass(frozen=True, slots=True)
class Ratio:
    """Test over control. ``within_noise`` is None where nothing tells, and ``reason`` says why."""

    figure: str
    control: float | None
    test: float | None
    ratio: float | None  # None where one is not known, or the control has nothing of it
    within_noise: bool | None
    interval: Estimate | None  # of the ratio, over paired samples; its value is that of the pairs alone
    reason: str


RATIOS: dict[str, str] = {
    "wall_s": "",
    "wall_s_a_sample": "decode_s",
    "tokens": "",
    "tokens_a_sample": "tokens",
    "ms_a_token": "ms_a_token",
    "forward_passes": "",
    "forced_share": "forced_share",
    "pass_rate": "passed",
    "clean_rate": "clean",
    "junk_letters_share": "junk_letters",
    "junk_nonnumeric_share": "junk_nonnumeric",
    "cut_share": "cut_blocks",
    "drift_abs_mean": "drift_abs",
    "rmsd_ang": "rmsd_ang",
    "cov_r": "",
    "cov_p": "",
    "mat_r": "",
    "mat_p": "",
}
"""Figures that are compared, each with the measure of samples that says what is noise."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A test beside its control."""

    figures: RunFigures
    paired: PairedRuns
    ratios: tuple[Ratio, ...]

    def ratio(self, figure: str) -> Ratio:
        return self.ratios[list(RATIOS).index(figure)]


@dataclass(frozen=True, slots=True)
class Comparison:
    control: RunFigures
    tests: tuple[Beside, ...]


def all_figures(store: Store) -> list[RunFigures]:
    """Every run of the store, newest first, without opening a file but the sheets."""
    return [run_figures(entry) for entry in reversed(store.found().entries)]


def compare_with(store: Store, control: str, tests: Sequence[str], seed: int = 0) -> Comparison:
    """Tests beside a control, in the order given; the files of no other run are read."""
    found = store.found()
    base, *others = (found.get(run_id, RUN) for run_id in (control, *tests))
    return compare_entries_with(store, base, others, seed)


def compare_entries_with(store: Store, control: Entry, tests: Sequence[Entry], seed: int = 0) -> Comparison:
    """The same for entries that are at hand."""
    mine = run_figures(control, drift_means(store, control))
    beside = []
    for entry in tests:
        theirs, paired = run_figures(entry, drift_means(store, entry)), compare_entries(store, control, entry, seed)
        beside.append(Beside(theirs, paired, ratios_of(mine, theirs, paired)))
    return Comparison(mine, tuple(beside))


def drift_means(store: Store, entry: Entry) -> tuple[float | None, float | None]:
    """Mean drift of a block, and its mean distance from 0, over blocks whose drift is known."""
    if not has_samples(entry):
        return None, None
    run = samples_of(store, entry)
    blocks = run.weights["drift_blocks"]
    whole = float(blocks.sum())
    if not whole:
        return None, None
    distance = float(np.nansum(run.columns["drift_abs"] * blocks))
    return float(np.nansum(run.columns["drift"])) / whole, distance / whole


def ratios_of(control: RunFigures, test: RunFigures, paired: PairedRuns) -> tuple[Ratio, ...]:
    return tuple(_ratio(figure, measure, control, test, paired) for figure, measure in RATIOS.items())


def run_figures(entry: Entry, drift: tuple[float | None, float | None] = (None, None)) -> RunFigures:
    """One run's row; ``drift`` from ``drift_means``."""
    row = entry.row
    samples, blocks, tokens = (row.get(name) for name in ("samples", "blocks", "tokens"))
    low, high = _interval(row.get("passes"), samples)
    basis = "decode_s" if row.get("decode_s") else "wall_s"
    told: dict[str, Any] = {name: row.get(name) for name in _AS_SAID} | {name: row.get(name) or "" for name in _TEXTS}
    told |= _conformers(row.get("extra"))
    return RunFigures(
        **told,
        run_id=entry.id,
        model=_model(row),
        has_samples=has_samples(entry),
        wall_s_a_sample=over(row.get("wall_s"), samples),
        tokens_a_sample=over(tokens, samples),
        ms_a_token=over(row.get(basis), tokens, 1000),
        ms_a_token_of=basis,
        forced_share=over(row.get("forced_tokens"), tokens),
        pass_rate=None if low is None else over(row.get("passes"), samples),
        pass_rate_low=low,
        pass_rate_high=high,
        clean_rate=over(row.get("clean"), samples),
        junk_letters_share=over(row.get("junk_letters"), blocks),
        junk_nonnumeric_share=over(row.get("junk_nonnumeric"), blocks),
        cut_share=over(row.get("cut_blocks"), blocks),
        drift_mean=drift[0],
        drift_abs_mean=drift[1],
    )


_TEXTS = ("label", "origin", "source", "model_family", "tokenizer", "lp", "backend", "sampling", "device", "notes")
_AS_SAID = (
    "created_at batch_size molecules samples wall_s decode_s tokens forward_passes passes clean blocks junk_letters "
    "junk_nonnumeric bad_blocks cut_blocks unverified_blocks rmsd_ang rmsd_samples"
).split()


def over(part: float | None, whole: float | None, scale: float = 1) -> float | None:
    """None where one of them is not known, or the whole is nothing."""
    if part is None or not whole:
        return None
    found = scale * part / whole
    return found if math.isfinite(found) else None


def _ratio(figure: str, measure: str, control: RunFigures, test: RunFigures, paired: PairedRuns) -> Ratio:
    one, other = (getattr(run, figure) for run in (control, test))
    if figure == "ms_a_token" and control.ms_a_token_of != test.ms_a_token_of:  # like is compared with like
        one, other = (over(run.wall_s, run.tokens, 1000) for run in (control, test))
    if one is None or other is None:
        unknown = [part for part, value in (("control", one), ("test", other)) if value is None]
        return Ratio(figure, one, other, None, None, None, f"Nobody said it of the {' and the '.join(unknown)}.")
    if not measure:
        return Ratio(figure, one, other, over(other, one), None, None, COUNTED_WHOLE)
    told = paired.measure(measure)
    reason = told.reason or ("" if told.within_noise is not None else paired.reason)
    return Ratio(figure, one, other, over(other, one), told.within_noise, told.ratio, reason)


def _interval(passes: int | None, samples: int | None) -> tuple[float | None, float | None]:
    is_rate = passes is not None and samples is not None and 0 <= passes <= samples and samples > 0
    return wilson(passes or 0, samples or 0) if is_rate else (None, None)


def _model(row: Mapping[str, Any]) -> str:
    parts = [row.get("model_alias"), row.get("model_step")]
    return ":".join(part for part in parts if part) or row.get("model_family") or ""


def _conformers(extra: str | None) -> dict[str, float | None]:
    """From what a report file, or a report, said beyond the columns; its names are taken however they are spelt."""
    try:
        said = json.loads(extra) if extra else {}
    except ValueError:
        said = {}
    found: dict[str, float | None] = dict.fromkeys(CONFORMERS)
    for key, value in said.items() if isinstance(said, dict) else ():
        name = key.lower().replace("-", "_").removesuffix("_ang")
        if name in found and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[name] = float(value)
    return found
