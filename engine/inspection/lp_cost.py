"""What an LP costs a model, as one number: how far what is drawn under it is from what the model would have written.

A sample's **log w** is the sum over its steps of ln p - ln q: p the model's probability of the token, raw or at the
sampling's temperature, q the one that it was drawn with (1 where it was forced). Of samples drawn under an LP, the mean
of w estimates p(C): the model's mass on C, the id sequences that the LP admits and that end within the limit. Where
top-p, top-k or min-p leave tokens out behind the mask, or sampling is greedy, texts of C can never come, and the mean
is a lower bound. ``mask`` is the part of log w that the mask alone takes, ``filters`` the rest.

A guard changes q once more: its ``log_weight`` is part of log w, and a sample without one counts 0, as does one that
did not end. All is computed in logarithms, from kept steps (``cost_of_run``) or rows of one scoring pass
(``cost_of_steps``). Not known here: what the model would have written instead.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.figures import words
from engine.figures.statistics import Array, Bootstrap, Interval, interval
from engine.inspection.disagreement import Disagreement, disagreement_of
from engine.inspection.memo import computed_once
from engine.inspection.runs import RunFacts, facts_of
from engine.inspection.step_columns import PARTS, TENTHS, StepColumns, Whole, by_code
from engine.store.entries import Entry
from engine.store.schema import STEPS
from engine.store.store import Store

MOST_SAMPLES = 5_000
"""Samples of a run that are looked at, the first whose steps are kept."""
MOST_KEPT = 16
LEAST_EFFECTIVE, LEAST_SHARE = 10, 0.1
"""With a smaller effective size, or share of the samples, figures are unreliable."""
LITTLE, MUCH = 0.5, 5.0
"""In nat per sample."""
ROUNDING = 1e-4
"""In nat, of a step: the filters took less than that."""

_STEPS = f"""
WITH chosen AS (SELECT DISTINCT sample_id FROM steps WHERE run_id = $run AND ln_q IS NOT NULL
                ORDER BY sample_id LIMIT {MOST_SAMPLES})
SELECT sample_id, pos, piece, coalesce(forced, FALSE) AS forced, ln_p, ln_p_tempered, ln_mass, ln_q
FROM steps JOIN chosen USING (sample_id) WHERE run_id = $run ORDER BY sample_id, pos
"""
_SAMPLES = """
SELECT sample_id, smiles, stop_reason = 'end' AS ended, log_weight, redrawn_blocks IS NOT NULL AS guarded,
       rmsd_ang
FROM samples WHERE run_id = $run ORDER BY sample_id
"""
_ELEMENTS = "SELECT sample_id, block, element FROM blocks WHERE run_id = $run AND element IS NOT NULL"


@dataclass(frozen=True, slots=True)
class Estimate:
    """From samples with weights, by one p."""

    log_p: Interval | None  # log p(C); None where no sample counts
    effective: Interval | None  # sample size
    kl: Interval | None  # of what the LP draws from the model conditioned on C
    is_reliable: bool


@dataclass(frozen=True, slots=True)
class SampleCost:
    """One sample. ``log_w`` counts the guard's part too, and is -inf where the sample counts 0."""

    sample_id: int
    smiles: str
    counts: bool  # it ended, and its guard's weight is known
    log_w: float
    log_w_tempered: float
    forced: float  # parts of log w at the sampling's temperature, without the guard's: sum over forced tokens
    free: float  # over free ones
    mask: float
    filters: float
    guard: float | None
    blocks: Mapping[int, float] = field(repr=False)  # by block, at the sampling's temperature


@dataclass(frozen=True, slots=True)
class Place:
    """Tokens of one kind: log w at the sampling's temperature, as means in nat."""

    name: str
    tokens: int
    forced: float
    free: float  # what the mask took
    filters: float
    whole: Interval  # the sum of the three


@dataclass(frozen=True, slots=True)
class MoleculeCost:
    smiles: str
    samples: int
    counting: int
    raw: Estimate
    tempered: Estimate


@dataclass(frozen=True, slots=True)
class RunCost:
    """All samples of a run with known chances. Means of log w are over those that count."""

    samples: int
    counting: int
    is_bound: bool  # log p(C) is a lower bound
    is_guard_known: bool  # no guard, or weights of it
    raw: Estimate
    tempered: Estimate  # at the sampling's temperature; as raw where sampling is greedy
    log_w: Interval | None
    log_w_tempered: Interval | None
    forced: Interval | None
    free: Interval | None
    mask: Interval | None
    filters: Interval | None
    molecules: tuple[MoleculeCost, ...]
    tenths: tuple[Place, ...]  # per sample
    parts: tuple[Place, ...]  # per sample
    elements: tuple[Place, ...]  # per block
    disagreement: Disagreement
    each: tuple[SampleCost, ...]

    @property
    def lp_part(self) -> float:
        """Of log w, by mask and guard alone: filters take from a run without an LP as well."""
        if self.log_w_tempered is None or self.filters is None:
            return 0.0
        return self.log_w_tempered.value - self.filters.value

    @property
    def verdict(self) -> str:
        """Up to ``LITTLE`` the model keeps more than half of its mass; from ``MUCH`` on less than one text in a hundred
        of its own is in the LP's language."""
        if -self.lp_part <= LITTLE:
            return "leaves the model what it would have written"
        return (
            "draws from another distribution" if -self.lp_part >= MUCH else "shifts what the model would have written"
        )

    def short_words(self, lp: str) -> str:
        """``exact leaves the model what it would have written (log w −0.05 per sample, …)``"""
        figures = f"log w {nat(self.lp_part)} per sample without the sampling filters"
        if self.log_w_tempered is None:
            figures = "no sample counts"
        elif not self.is_filtered:
            figures = (
                f"log w {nat(self.log_w_tempered.value)} per sample, {effective_words(self.tempered, self.samples)}"
            )
        return f"{lp} {self.verdict} ({figures})"

    @property
    def is_filtered(self) -> bool:
        return self.filters is not None and abs(self.filters.value) >= 0.005


def effective_words(estimate: Estimate, samples: int) -> str:
    size = 0 if estimate.effective is None else max(1, round(estimate.effective.value))
    return f"effective sample size {size:,} of {samples:,}"


def nat(value: float) -> str:
    """Two decimals tell enough of a logarithm."""
    rounded = round(value, 2) or 0.0
    return words.number(rounded) if abs(rounded) >= 10 else f"{rounded:.2f}".replace("-", "−") if rounded else "0"


@computed_once(MOST_KEPT)
def cost_of_run(store: Store, run: RunFacts) -> RunCost:
    """From the kept steps; a run without any, or of before they had ``ln_q``, has no samples here."""
    return cost_of_steps(store, run, store.table(_STEPS, {"run": run.run_id}, of=[run.run_id]))


def known_cost(store: Store, entry: Entry) -> tuple[RunCost | None, str]:
    """What the LP cost the model, where kept steps tell; else None, and what is wrong with them."""
    if STEPS.name not in entry.parts:
        return None, ""
    try:
        cost = cost_of_run(store, facts_of(entry))
    except StoreError as error:
        return None, f"{entry.id}: {error.what}"
    return (cost if cost.counting else None), ""


def cost_of_steps(store: Store, run: RunFacts, steps: pa.Table) -> RunCost:
    """From rows of ``steps`` in their order; samples and blocks are the run's own."""
    of = [run.run_id]
    rows = {row["sample_id"]: row for row in store.table(_SAMPLES, {"run": run.run_id}, of=of).to_pylist()}
    blocks = store.table(_ELEMENTS, {"run": run.run_id}, of=of).to_pylist()
    elements = {(row["sample_id"], row["block"]): row["element"] for row in blocks}
    return _cost(StepColumns(steps, rows), elements, is_guarded=run.lp_record.is_guarded)


# --- weights ----------------------------------------------------------------------------------------------------------


def _cost(steps: StepColumns, elements: Mapping[tuple[int, int], str], *, is_guarded: bool) -> RunCost:
    rows = steps.rows
    guard = np.array([_guard_part(row) for row in rows], dtype=np.float64)
    by_token = (steps.raw, steps.tempered, steps.mask, np.where(steps.forced, steps.tempered, 0.0))
    with np.errstate(invalid="ignore"):
        raw, tempered, mask, forced = (by_code(steps.sample, values, len(rows)) for values in by_token)
        weights = np.array([raw, tempered]) + guard
        is_filtered = bool((np.abs(steps.tempered - steps.mask) > ROUNDING).any())
        parts = {"forced": forced, "free": tempered - forced, "mask": mask, "filters": tempered - mask}
    counts = np.array([bool(row["ended"]) for row in rows], dtype=bool) & np.isfinite(weights).all(axis=0)
    raw, tempered = np.where(counts, weights, -np.inf)
    parts |= {"log_w": raw, "log_w_tempered": tempered}
    smiles = [str(row["smiles"]) for row in rows]
    names, unit = np.unique(smiles, return_inverse=True) if rows else ((), np.zeros(0, dtype=np.int64))
    units = _Units(counts, unit if len(names) > 1 else np.arange(len(rows)))
    rmsd_ang = np.array([row["rmsd_ang"] for row in rows], dtype=np.float64)  # NaN where not known
    block_elements = [elements.get((int(steps.ids[sample]), block), "") for sample, block in steps.blocks]
    return RunCost(
        samples=len(rows),
        counting=int(counts.sum()),
        is_bound=is_guarded or is_filtered,
        is_guard_known=not is_guarded or bool(np.isfinite(guard).any()),
        raw=_estimate(raw, units.of, units.draws),
        tempered=_estimate(tempered, units.of, units.draws),
        molecules=tuple(_molecules(smiles, counts, raw, tempered)),
        tenths=tuple(_places(steps, units, TENTHS, steps.tenth)),
        parts=tuple(_places(steps, units, PARTS, steps.part)),
        elements=tuple(sorted(_elements(steps, units, block_elements), key=lambda place: place.whole.value)),
        each=tuple(_each(steps, counts, parts)),
        disagreement=disagreement_of(steps, tempered, rmsd_ang, smiles, units.of, units.draws),
        **{name: units.mean(values) for name, values in parts.items()},
    )


class _Units:
    """What is drawn again: molecules, or the samples of one; with the samples that count."""

    def __init__(self, counts: NDArray[np.bool_], of: Whole) -> None:
        self.counts, self.of = counts, of
        self.draws = Bootstrap(int(of.max(initial=-1)) + 1)

    def sums(self, values: Array, samples: Whole) -> Array:
        return by_code(self.of[samples], values, self.draws.units)

    def mean(self, values: Array) -> Interval | None:
        samples = np.flatnonzero(self.counts)
        return self.draws.ratio(self.sums(values[samples], samples), self.sums(np.ones(len(samples)), samples))


def _guard_part(row: Mapping[str, Any]) -> float:
    """NaN where it is not known. A molecule that no guard could be made for was written as under ``exact``."""
    if not row["guarded"]:
        return 0.0
    return math.nan if row["log_weight"] is None else float(row["log_weight"])


def _molecules(smiles: list[str], counts: NDArray[np.bool_], raw: Array, tempered: Array) -> Iterator[MoleculeCost]:
    of_molecule: dict[str, list[int]] = {}
    for number, name in enumerate(smiles):
        of_molecule.setdefault(name, []).append(number)
    for name, numbers in of_molecule.items():
        estimates = (
            _estimate(log_w[numbers], np.arange(len(numbers)), _few(len(numbers))) for log_w in (raw, tempered)
        )
        yield MoleculeCost(name, len(numbers), int(counts[numbers].sum()), *estimates)


@functools.lru_cache(maxsize=32)
def _few(samples: int) -> Bootstrap:
    return Bootstrap(samples)


def _estimate(log_w: Array, unit: Whole, draws: Bootstrap) -> Estimate:
    """Relative to the largest weight, so that none is too small for a number."""
    is_known = log_w > -np.inf
    if not is_known.any():
        return Estimate(None, None, None, False)
    top = float(log_w.max())
    w, logs = np.exp(log_w - top), np.where(is_known, log_w - top, 0.0)
    columns = [np.bincount(unit, part, draws.units) for part in (np.ones(len(w)), is_known, w, w * w, logs)]
    sums = np.stack(columns, axis=1)

    def figures(sums: Array) -> tuple[Array, Array, Array]:
        samples, known, mass, squares, logs = sums.T
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have no weight at all
            kl = np.log(mass / known) - logs / known
            return top + np.log(mass / samples), mass * mass / squares, np.maximum(kl, 0.0)

    drawn = figures(draws.weights @ sums) if draws.units > 1 else (None, None, None)
    values = figures(sums.sum(axis=0, keepdims=True))
    log_p, effective, kl = (
        interval(float(value[0]), part, draws.units) for value, part in zip(values, drawn, strict=True)
    )
    is_reliable = effective.value >= max(LEAST_EFFECTIVE, LEAST_SHARE * len(w))
    return Estimate(log_p, effective, kl, is_reliable)


# --- where ------------------------------------------------------------------------------------------------------------


def _each(steps: StepColumns, counts: NDArray[np.bool_], parts: Mapping[str, Array]) -> Iterator[SampleCost]:
    sums = by_code(steps.key, steps.tempered, len(steps.blocks)).tolist()
    blocks: list[dict[int, float]] = [{} for _ in steps.rows]
    for (sample, block), log_w in zip(steps.blocks, sums, strict=True):
        if block >= 0:
            blocks[sample][block] = log_w
    for number, row in enumerate(steps.rows):
        yield SampleCost(
            sample_id=row["sample_id"],
            smiles=str(row["smiles"]),
            counts=bool(counts[number]),
            guard=row["log_weight"],
            blocks=blocks[number],
            **{name: float(values[number]) for name, values in parts.items()},
        )


def _elements(steps: StepColumns, units: _Units, of_block: Sequence[str]) -> Iterator[Place]:
    names, code = np.unique([*of_block, ""], return_inverse=True)
    return _places(steps, units, names.tolist(), code[steps.key], per_block=True)


def _places(
    steps: StepColumns, units: _Units, names: Sequence[str], code: Whole, *, per_block: bool = False
) -> Iterator[Place]:
    """Of the tokens of each code, over samples that count; per sample, or per block."""
    for number, name in enumerate(names):
        tokens = units.counts[steps.sample] & (code == number)
        if not name or not tokens.any():
            continue
        sample, key = steps.sample[tokens], steps.key[tokens]
        over = sample[np.unique(key, return_index=True)[1]] if per_block else np.flatnonzero(units.counts)
        per = units.sums(np.ones(len(over)), over)
        tempered, mask, is_forced = steps.tempered[tokens], steps.mask[tokens], steps.forced[tokens]
        whole = units.draws.ratio(units.sums(tempered, sample), per)
        assert whole is not None
        if np.count_nonzero(per) < 2:  # no draw differs
            whole = Interval(whole.value)
        taken = (tempered[is_forced], mask[~is_forced], (tempered - mask)[~is_forced])
        forced, free, filters = (float(part.sum() / len(over)) for part in taken)
        yield Place(name, int(tokens.sum()), forced, free, filters, whole)
