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

from engine.figures.statistics import Array, Bootstrap, Interval, interval
from engine.inspection.memo import computed_once
from engine.inspection.runs import RunFacts
from engine.store.store import Store

Whole = NDArray[np.int64]

MOST_SAMPLES = 5_000
"""Samples of a run that are looked at, the first whose steps are kept."""
MOST_KEPT = 16
LEAST_EFFECTIVE, LEAST_SHARE = 10, 0.1
"""With a smaller effective size, or share of the samples, figures are unreliable."""
ROUNDING = 1e-4
"""In nat, of a step: the filters took less than that."""

_STEPS = f"""
WITH chosen AS (SELECT DISTINCT sample_id FROM steps WHERE run_id = $run AND ln_q IS NOT NULL
                ORDER BY sample_id LIMIT {MOST_SAMPLES})
SELECT sample_id, pos, piece, coalesce(forced, FALSE) AS forced, ln_p, ln_p_tempered, ln_mass, ln_q
FROM steps JOIN chosen USING (sample_id) WHERE run_id = $run ORDER BY sample_id, pos
"""
_SAMPLES = """
SELECT sample_id, smiles, stop_reason = 'end' AS ended, log_weight, redrawn_blocks IS NOT NULL AS guarded
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
    each: tuple[SampleCost, ...]


@computed_once(MOST_KEPT)
def cost_of_run(store: Store, run: RunFacts) -> RunCost:
    """From the kept steps; a run without any, or of before they had ``ln_q``, has no samples here."""
    return cost_of_steps(store, run, store.table(_STEPS, {"run": run.run_id}, of=[run.run_id]))


def cost_of_steps(store: Store, run: RunFacts, steps: pa.Table) -> RunCost:
    """From rows of ``steps`` in their order; samples and blocks are the run's own."""
    of = [run.run_id]
    rows = {row["sample_id"]: row for row in store.table(_SAMPLES, {"run": run.run_id}, of=of).to_pylist()}
    blocks = store.table(_ELEMENTS, {"run": run.run_id}, of=of).to_pylist()
    elements = {(row["sample_id"], row["block"]): row["element"] for row in blocks}
    return _cost(_Steps(steps, rows), elements, is_guarded=run.lp_record.is_guarded)


PARTS = ("between the blocks", "opening a block", "x", "y", "z", "closing a block", "the end")
TENTHS = tuple(f"{start} to {start + 10} %" for start in range(0, 100, 10))


class _Steps:
    """Steps of samples as columns, sample by sample."""

    def __init__(self, steps: pa.Table, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self.ids, self.sample = np.unique(steps["sample_id"].to_numpy(), return_inverse=True)
        self.rows = [rows[id_] for id_ in self.ids.tolist()]
        ln_p, ln_tempered, self.mask, ln_q = (
            steps[name].to_numpy().astype(np.float64) for name in ("ln_p", "ln_p_tempered", "ln_mass", "ln_q")
        )  # ln_q is NaN where the token was not allowed
        self.forced = steps["forced"].to_numpy().astype(bool)
        self.raw: Array = ln_p - ln_q
        self.tempered: Array = ln_tempered - ln_q
        self.pos = steps["pos"].to_numpy()
        self.block, self.part = _places_of(steps["piece"], self.sample)

    def by_sample(self, values: Array) -> Array:
        return np.bincount(self.sample, values, minlength=len(self.rows)).astype(np.float64)

    @property
    def tenth(self) -> Whole:
        length = np.bincount(self.sample, minlength=len(self.rows))
        found: Whole = np.minimum(10 * self.pos // np.maximum(length, 1)[self.sample], 9)
        return found


def _places_of(pieces: pa.ChunkedArray, sample: Whole) -> tuple[Whole, Whole]:
    """Of each token its block, -1 outside, and its place in ``PARTS``. A comma belongs to the number that it ends."""
    encoded = pieces.combine_chunks().dictionary_encode()
    known = [piece or "" for piece in encoded.dictionary.to_pylist()]
    of_token = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    is_special = np.array([len(piece) > 2 and piece[0] == "<" and piece[-1] == ">" for piece in known], dtype=bool)
    counts = {
        mark: np.array([piece.count(mark) for piece in known], dtype=np.int64)[of_token] * ~is_special[of_token]
        for mark in "<>,"
    }
    first = np.searchsorted(sample, sample)

    def before(mark: str) -> Whole:
        sums = counts[mark].cumsum() - counts[mark]
        found: Whole = sums - sums[first]
        return found

    opened, closed, commas = map(before, "<>,")
    is_inside = opened > closed
    key = sample * (closed.max(initial=0) + 1) + closed
    begins = np.full(key.max(initial=0) + 1, np.iinfo(np.int64).max)
    np.minimum.at(begins, key[is_inside], commas[is_inside])
    number = np.clip(commas - begins[key], 0, 2)
    choices = [is_special[of_token], is_inside & (counts[">"] > 0), is_inside, counts["<"] > 0]
    part = np.select(choices, [PARTS.index("the end"), PARTS.index("closing a block"), 2 + number, 1], 0)
    return np.where(is_inside | (part == 1), closed, -1), part


# --- weights ----------------------------------------------------------------------------------------------------------


def _cost(steps: _Steps, elements: Mapping[tuple[int, int], str], *, is_guarded: bool) -> RunCost:
    rows, count = steps.rows, len(steps.rows)
    guard = np.array([_guard_part(row) for row in rows], dtype=np.float64)
    with np.errstate(invalid="ignore"):
        sums = {name: steps.by_sample(getattr(steps, name)) for name in ("raw", "tempered", "mask")}
        forced = steps.by_sample(np.where(steps.forced, steps.tempered, 0.0))
        free, filters = sums["tempered"] - forced, sums["tempered"] - sums["mask"]
        weights = [sums[name] + guard for name in ("raw", "tempered")]
        left_out = np.abs(steps.tempered - steps.mask) > ROUNDING
    ended = np.array([bool(row["ended"]) for row in rows], dtype=bool)
    counts = ended & np.isfinite(weights).all(axis=0)
    raw, tempered = (np.where(counts, log_w, -np.inf) for log_w in weights)
    smiles = [str(row["smiles"]) for row in rows]
    names, unit = np.unique(smiles, return_inverse=True) if rows else ((), np.zeros(0, dtype=np.int64))
    unit = unit if len(names) > 1 else np.arange(count)
    draws = Bootstrap(int(unit.max(initial=-1)) + 1)
    mean = functools.partial(_mean, counts=counts, unit=unit, draws=draws)
    tenths, by_part, by_element = _places(steps, elements, counts, unit, draws)
    return RunCost(
        samples=count,
        counting=int(counts.sum()),
        is_bound=is_guarded or bool(left_out.any()),
        is_guard_known=not is_guarded or bool(np.isfinite(guard).any()),
        raw=_estimate(raw, unit, draws),
        tempered=_estimate(tempered, unit, draws),
        log_w=mean(raw),
        log_w_tempered=mean(tempered),
        forced=mean(forced),
        free=mean(free),
        mask=mean(sums["mask"]),
        filters=mean(filters),
        molecules=tuple(_molecules(smiles, counts, raw, tempered)),
        tenths=tenths,
        parts=by_part,
        elements=by_element,
        each=tuple(
            SampleCost(
                sample_id=row["sample_id"],
                smiles=smiles[number],
                counts=bool(counts[number]),
                log_w=float(raw[number]),
                log_w_tempered=float(tempered[number]),
                forced=float(forced[number]),
                free=float(free[number]),
                mask=float(sums["mask"][number]),
                filters=float(filters[number]),
                guard=row["log_weight"],
                blocks=blocks,
            )
            for number, (row, blocks) in enumerate(zip(rows, _by_block(steps), strict=True))
        ),
    )


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


def _mean(values: Array, counts: NDArray[np.bool_], unit: Whole, draws: Bootstrap) -> Interval | None:
    parts = np.bincount(unit, np.where(counts, values, 0.0), draws.units).astype(np.float64)
    return draws.ratio(parts, np.bincount(unit, counts, draws.units).astype(np.float64))


# --- where ------------------------------------------------------------------------------------------------------------


def _by_block(steps: _Steps) -> Iterator[dict[int, float]]:
    inside = steps.block >= 0
    width = int(steps.block.max(initial=0)) + 1
    at = (steps.sample * width + steps.block)[inside]
    shape = (len(steps.rows), width)
    sums = np.bincount(at, steps.tempered[inside], len(steps.rows) * width).reshape(shape)
    tokens = np.bincount(at, minlength=len(steps.rows) * width).reshape(shape)
    for row, known in zip(sums.tolist(), tokens.tolist(), strict=True):
        yield {block: value for block, (value, any_) in enumerate(zip(row, known, strict=True)) if any_}


def _places(
    steps: _Steps,
    elements: Mapping[tuple[int, int], str],
    counts: NDArray[np.bool_],
    unit: Whole,
    draws: Bootstrap,
) -> tuple[tuple[Place, ...], tuple[Place, ...], tuple[Place, ...]]:
    """By tenth and part per sample, by element per block, over samples that count."""
    chosen = counts[steps.sample] if len(steps.rows) else np.zeros(0, dtype=bool)
    known, element = np.unique(_element_of(steps, elements), return_inverse=True)
    samples = np.bincount(unit, counts, draws.units)

    def places(names: Sequence[str], of_token: Whole, by_element: bool = False) -> Iterator[Place]:
        for number, name in enumerate(names):
            tokens = chosen & (of_token == number)
            if not name or not tokens.any():
                continue
            per = samples
            if by_element:
                blocks = np.unique(np.stack([steps.sample[tokens], steps.block[tokens]]), axis=1)[0]
                per = np.bincount(unit[blocks], minlength=draws.units)
            yield _place(name, steps, tokens, unit, per.astype(np.float64), draws)

    of_elements = sorted(places(known.tolist(), element, by_element=True), key=lambda place: place.whole.value)
    return tuple(places(TENTHS, steps.tenth)), tuple(places(PARTS, steps.part)), tuple(of_elements)


def _element_of(steps: _Steps, elements: Mapping[tuple[int, int], str]) -> NDArray[np.str_]:
    """Of each token; empty outside blocks."""
    width = int(steps.block.max(initial=0)) + 2
    keys, of_token = np.unique(steps.sample * width + steps.block + 1, return_inverse=True)
    ids = steps.ids.tolist()
    named = [elements.get((ids[key // width], key % width - 1), "") for key in keys.tolist()]
    return np.array(named or [""], dtype=str)[of_token]


def _place(name: str, steps: _Steps, tokens: NDArray[np.bool_], unit: Whole, per: Array, draws: Bootstrap) -> Place:
    tempered, mask, is_forced = steps.tempered[tokens], steps.mask[tokens], steps.forced[tokens]
    whole = draws.ratio(np.bincount(unit[steps.sample[tokens]], tempered, draws.units).astype(np.float64), per)
    assert whole is not None
    if np.count_nonzero(per) < 2:  # no draw differs
        whole = Interval(whole.value)
    over = float(per.sum())
    return Place(
        name,
        int(tokens.sum()),
        float(tempered[is_forced].sum() / over),
        float(mask[~is_forced].sum() / over),
        float((tempered - mask)[~is_forced].sum() / over),
        whole,
    )
