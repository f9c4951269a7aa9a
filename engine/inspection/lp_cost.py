"""What an LP costs a model, as one number: how far what is drawn under it is from what the model would have written.

A sample's **log w** is the sum over its steps of ln p - ln q: p the model's probability of the token, raw or at the
sampling's temperature, q the one that it was drawn with (1 where it was forced). Of samples drawn under an LP, the mean
of w estimates p(C): the model's mass on C, the id sequences that the LP admits and that end within the limit. Where
top-p, top-k or min-p leave tokens out behind the mask, or sampling is greedy, texts of C can never come, and the mean
is a lower bound. ``mask`` is the part of log w that the mask alone takes, ``filters`` the rest.

A guard changes q once more: its ``log_weight`` is part of log w, and a sample without one counts 0, as does one that
did not end. Under ``shaped`` it is a part by token, ``places``, an estimate with bounds: the share of the LP's mass
that leaves a right place. All is computed in logarithms, from kept steps (``cost_of_run``) or rows of one scoring pass
(``cost_of_steps``). Where in its text a token is, is known by the pieces alone: brackets and commas.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.errors import StoreError
from engine.figures import words
from engine.figures.statistics import Array, Bootstrap, Interval, correlation_within, interval
from engine.inspection.runs import RunFacts, facts_of
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import SAMPLES, STEPS
from engine.store.store import Store

MOST_SAMPLES = 5_000
"""Samples of a run that are looked at, the first with kept steps."""
MOST_KEPT = 16
LEAST_EFFECTIVE, LEAST_SHARE = 10, 0.1
"""With a smaller effective size, or share of the samples, figures are unreliable."""
LITTLE, MUCH = 0.5, 5.0
"""In nat per sample."""
ROUNDING = 1e-4
"""In nat, of a step: the filters took less than that."""

PARTS = ("between the blocks", "opening a block", "x", "y", "z", "closing a block", "the end")
TENTHS = tuple(f"{start} to {start + 10} %" for start in range(0, 100, 10))
Row = dict[str, Any]
Whole = NDArray[np.int64]

_STEPS = f"""
WITH chosen AS (SELECT DISTINCT sample_id FROM steps WHERE run_id = $run AND ln_q IS NOT NULL
                ORDER BY sample_id LIMIT {MOST_SAMPLES})
SELECT sample_id, pos, piece, coalesce(forced, FALSE) AS forced, ln_p, ln_p_tempered, ln_mass, ln_q, ln_share
FROM steps JOIN chosen USING (sample_id) WHERE run_id = $run ORDER BY sample_id, pos
"""
_SAMPLES = """
SELECT sample_id, smiles, stop_reason = 'end' AS ended, log_weight, log_weight_least, log_weight_most,
       redrawn_blocks IS NOT NULL AS guarded, rmsd_ang
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
class Disagreement:
    """Where a model disagrees with its LP: does -log w grow along the text, and does it go with RMSD? Of samples that
    count, levels taken out of both answers: a sample's own mean from its blocks, so that long texts do not mean
    late blocks, and a molecule's own from its samples, so that hard molecules do not mean wrong conformers.
    Intervals are over molecules; of one molecule, that of ``slope`` is over its samples."""

    slope: Interval | None  # of -log w, in nat per block further along the text
    blocks: int
    rmsd: Interval | None  # rank correlation (Spearman) of -log w and RMSD within molecules
    rmsd_samples: int
    rmsd_molecules: int  # that have an RMSD of two samples or more


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
    places: Interval | None  # what ``shaped`` took, token by token
    places_bounds: tuple[float, float] | None  # means: if the tokens that it did not ask are all wrong, or all right
    filters: Interval | None
    molecules: list[Row]  # smiles, samples, counting, raw and tempered: estimates
    tenths: list[Row]  # per sample, tokens of one kind: means in nat, at the sampling's temperature
    parts: list[Row]  # per sample
    elements: list[Row]  # per block
    disagreement: Disagreement
    each: list[Row]  # a sample: parts of log w at the sampling's temperature, without the guard's; by block

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
            return "does not change what the model writes"
        is_much = -self.lp_part >= MUCH
        return "is far from the model's own distribution" if is_much else "shifts what the model writes"

    def short_words(self, lp: str) -> str:
        """``exact does not change what the model writes (log w −0.05 per sample, …)``"""
        figures = "no sample counts"
        if self.filters is not None and abs(self.filters.value) >= 0.005:
            figures = f"log w {nat(self.lp_part)} per sample without the sampling filters"
        elif self.log_w_tempered is not None:
            size = effective_words(self.tempered, self.samples)
            figures = f"log w {nat(self.log_w_tempered.value)} per sample, {size}"
        return f"{lp} {self.verdict} ({figures})"


def effective_words(estimate: Estimate, samples: int) -> str:
    size = 0 if estimate.effective is None else max(1, round(estimate.effective.value))
    return f"effective sample size {size:,} of {samples:,}"


def nat(value: float) -> str:
    """Two decimals tell enough of a logarithm."""
    if not (rounded := words.rounded(value, 2)):
        return "0"
    return words.number(rounded) if abs(rounded) >= 10 else words.fixed(rounded, 2)


@computed_once(MOST_KEPT)
def cost_of_run(store: Store, run: RunFacts) -> RunCost:
    """From the kept steps; a run without any, or of before they had ``ln_q``, has no samples here."""
    return cost_of_steps(store, run, store.table(_STEPS, {"run": run.run_id}, of=[run.run_id]))


def known_cost(store: Store, entry: Entry) -> tuple[RunCost | None, str]:
    """What the LP cost the model, where kept steps tell; else None, and what is wrong with them."""
    if not {STEPS.name, SAMPLES.name} <= entry.parts.keys():
        return None, ""
    try:
        cost = cost_of_run(store, facts_of(entry))
    except StoreError as error:
        return None, f"{entry.id}: {error.what}"
    return (cost if cost.counting else None), ""


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """Kept steps as arrays of [tokens], in nat: NaN where the token was not allowed."""

    sample: Whole  # the place of its sample among those with kept steps
    raw: Array  # ln p - ln q
    tempered: Array  # the same at the sampling's temperature; the next four are parts of it
    forced: Array
    mask: Array
    places: Array
    filters: Array
    is_forced: NDArray[np.bool_]
    block: Whole  # -1 outside of any
    part: Whole  # in ``PARTS``
    segment: Whole  # blocks that were closed before it

    @classmethod
    def of(cls, steps: pa.Table, sample: Whole, *, is_shaped: bool) -> _Tokens:
        names = ("ln_p", "ln_p_tempered", "ln_mass", "ln_q", "ln_share")
        ln_p, ln_tempered, mask, ln_q, ln_share = (steps[name].to_numpy().astype(np.float64) for name in names)
        tempered, places = ln_tempered - ln_q, np.nan_to_num(ln_share) * is_shaped
        is_forced = steps["forced"].to_numpy().astype(bool)
        parts = (np.where(is_forced, tempered, 0.0), mask, places, tempered - mask - places)
        return cls(sample, ln_p - ln_q, tempered, *parts, is_forced, *_locate_tokens(steps["piece"], sample))

    def by_sample(self, samples: int) -> dict[str, Array]:
        names = ("raw", "tempered", "forced", "mask", "places", "filters")
        return {name: by_code(self.sample, getattr(self, name), samples) for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class _Samples:
    """Samples as arrays of [samples]: which of them count, and what is drawn again, molecules or samples of one."""

    smiles: NDArray[np.object_]
    counts: NDArray[np.bool_]
    unit: Whole
    draws: Bootstrap

    @classmethod
    def of(cls, rows: Sequence[Row], counts: NDArray[np.bool_]) -> _Samples:
        smiles = np.array([str(row["smiles"]) for row in rows], dtype=object)
        molecules, unit = np.unique(smiles.astype(str), return_inverse=True)
        unit = unit if len(molecules) > 1 else np.arange(len(rows))
        return cls(smiles, counts, unit, Bootstrap(int(unit.max(initial=-1)) + 1))

    def summed(self, of: Whole, values: Array | None = None) -> Array:
        """Values of these samples, or how many they are, by unit."""
        return by_code(self.unit[of], values, self.draws.units)

    def mean(self, values: Array) -> Interval | None:
        """Over those that count."""
        of = np.flatnonzero(self.counts)
        return self.draws.ratio(self.summed(of, values[of]), self.summed(of))

    def molecules(self, raw: Array, tempered: Array) -> Iterator[Row]:
        """Each in the order in which they come first, its samples drawn again."""
        few = functools.cache(Bootstrap)
        for name in dict.fromkeys(self.smiles):
            of = np.flatnonzero(self.smiles == name)
            estimates = [_estimate(values[of], np.arange(len(of)), few(len(of))) for values in (raw, tempered)]
            row = {"smiles": name, "samples": len(of), "counting": int(self.counts[of].sum())}
            yield row | dict(zip(("raw", "tempered"), estimates, strict=True))

    def each(
        self, rows: Sequence[Row], parts: dict[str, Array], of_blocks: Iterable[tuple[tuple[int, int], float]]
    ) -> list[Row]:
        """``of_blocks``: log w by sample and block, -1 for what is outside of any."""
        each = []
        for n, row in enumerate(rows):
            of_parts = {name: float(values[n]) for name, values in parts.items()}
            about = {"sample_id": row["sample_id"], "smiles": self.smiles[n], "counts": bool(self.counts[n])}
            each.append({**about, **of_parts, "guard": row["log_weight"], "blocks": {}})
        for (n, block), log_w in of_blocks:
            if block >= 0:
                each[n]["blocks"][block] = log_w
        return each

    def breakdown(self, tokens: _Tokens, names: Sequence[str], code: Whole, block: Whole | None = None) -> list[Row]:
        """Of the tokens of each code, over samples that count; per sample, or per ``block``, by the block's number."""
        costs = []
        for number, name in enumerate(names):
            chosen = self.counts[tokens.sample] & (code == number)
            if not name or not chosen.any():
                continue
            over = np.flatnonzero(self.counts)
            if block is not None:
                over = tokens.sample[chosen][np.unique(block[chosen], return_index=True)[1]]
            per, free = self.summed(over), chosen & ~tokens.is_forced
            whole = self.draws.ratio(self.summed(tokens.sample[chosen], tokens.tempered[chosen]), per)
            assert whole is not None
            if np.count_nonzero(per) < 2:  # no draw differs
                whole = Interval(whole.value)
            taken = {
                "forced": tokens.forced[chosen],
                "free": tokens.mask[free],
                "places": tokens.places[free],
                "filters": tokens.filters[free],
            }
            means = {kind: float(part.sum() / len(over)) for kind, part in taken.items()}
            costs.append({"name": name, "tokens": int(chosen.sum()), **means, "whole": whole})
        return costs


def cost_of_steps(store: Store, run: RunFacts, steps: pa.Table) -> RunCost:
    """From rows of ``steps`` in their order; samples and blocks are the run's own."""
    samples, named = (
        store.table(sql, {"run": run.run_id}, of=[run.run_id]).to_pylist() for sql in (_SAMPLES, _ELEMENTS)
    )
    by_id = {row["sample_id"]: row for row in samples}
    ids, sample = np.unique(steps["sample_id"].to_numpy(), return_inverse=True)
    if strangers := [id_ for id_ in ids.tolist() if id_ not in by_id]:
        problem = f"steps are of sample {strangers[0]}, and its run has none of that number"
        raise StoreError(problem, "Run or import it again")
    rows, is_guarded = [by_id[id_] for id_ in ids.tolist()], run.lp_record.is_guarded
    guard = _guard_weights(rows, run.lp_record.asks_tokens)
    with np.errstate(invalid="ignore"):
        tokens = _Tokens.of(steps, sample, is_shaped=run.lp_record.asks_tokens)
        sums = tokens.by_sample(len(rows))
        weights = np.array([sums["raw"], sums["tempered"]]) + guard  # [2, samples]
        of_free = sums["tempered"] - sums["forced"]
    ended = np.array([bool(row["ended"]) for row in rows], dtype=bool)
    whole = _Samples.of(rows, ended & np.isfinite(weights).all(axis=0))
    raw, tempered = np.where(whole.counts, weights, -np.inf)
    parts = {
        "forced": sums["forced"],
        "free": of_free,
        **{name: sums[name] for name in ("mask", "places", "filters")},
        "log_w": raw,
        "log_w_tempered": tempered,
    }

    # A token's block by a number of its own: ``of_block`` has the sample and the block of each.
    width = int(tokens.block.max(initial=0)) + 2
    keys, block = np.unique(sample * width + tokens.block + 1, return_inverse=True)
    of_block = [(at // width, at % width - 1) for at in keys.tolist()]
    elements = {(row["sample_id"], row["block"]): row["element"] for row in named}
    names = [elements.get((rows[n]["sample_id"], at), "") for n, at in of_block]
    kinds, kind = np.unique([*names, ""], return_inverse=True)
    by_element = whole.breakdown(tokens, kinds.tolist(), kind[block], block)
    log_ws = zip(of_block, by_code(block, tokens.tempered, len(keys)).tolist(), strict=True)
    tenth = np.minimum(10 * steps["pos"].to_numpy() // np.bincount(sample)[sample], 9)
    return RunCost(
        samples=len(rows),
        counting=int(whole.counts.sum()),
        is_bound=is_guarded or bool((np.abs(tokens.filters) > ROUNDING).any()),
        places_bounds=_bounds(rows, whole.counts),
        is_guard_known=not is_guarded or bool(np.isfinite(guard).any()),
        raw=_estimate(raw, whole.unit, whole.draws),
        tempered=_estimate(tempered, whole.unit, whole.draws),
        molecules=list(whole.molecules(raw, tempered)),
        tenths=whole.breakdown(tokens, TENTHS, tenth),
        parts=whole.breakdown(tokens, PARTS, tokens.part),
        elements=sorted(by_element, key=lambda row: row["whole"].value),
        disagreement=_disagreement(tokens, whole, tempered, rows),
        each=whole.each(rows, parts, log_ws),
        **{name: whole.mean(values) for name, values in parts.items()},
    )


def _disagreement(tokens: _Tokens, samples: _Samples, tempered: Array, rows: Sequence[Row]) -> Disagreement:
    blocks = np.zeros(len(rows), dtype=np.int64)
    np.maximum.at(blocks, tokens.sample, tokens.block + 1)
    # Leading to a block; what follows the last one does not.
    is_leading = (tokens.segment < blocks[tokens.sample]) & samples.counts[tokens.sample]
    of_leading = (tokens.sample[is_leading], tokens.segment[is_leading], -tokens.tempered[is_leading])
    rmsd_ang = np.array([row["rmsd_ang"] for row in rows], dtype=np.float64)  # NaN where not known
    slope, blocks_counted = _slope(*of_leading, samples.unit, samples.draws)
    return Disagreement(slope, blocks_counted, *correlation_within(-tempered, rmsd_ang, samples.smiles.tolist()))


def _guard_weights(rows: Sequence[Row], is_shaped: bool) -> Array:
    """[samples] NaN where it is not known. A molecule that no guard could be made for was written as under ``exact``;
    what ``shaped`` took is among the tokens' own."""
    weights = np.array([(row["log_weight"] if row["guarded"] else 0.0) for row in rows], dtype=np.float64)
    return np.where(np.isfinite(weights), 0.0, np.nan) if is_shaped else weights


def _bounds(rows: Sequence[Row], counts: NDArray[np.bool_]) -> tuple[float, float] | None:
    """Means over the samples that count."""
    ends = np.array([(row["log_weight_least"], row["log_weight_most"]) for row in rows], dtype=np.float64)
    ends = ends.reshape(-1, 2)[counts]  # [samples, 2]
    known = ends[np.isfinite(ends).all(axis=1)]
    return (float(known[:, 0].mean()), float(known[:, 1].mean())) if len(known) else None


def _locate_tokens(pieces: pa.ChunkedArray, sample: Whole) -> tuple[Whole, Whole, Whole]:
    """Of each token its block, -1 outside, its place in ``PARTS``, and the blocks that were closed before it. A comma
    belongs to the number that it ends."""
    encoded = pieces.combine_chunks().fill_null("").dictionary_encode()
    distinct, of_token = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
    is_special = np.array([len(text) > 2 and text[0] == "<" and text[-1] == ">" for text in distinct], bool)[of_token]
    marks = np.array([(text.count("<"), text.count(">"), text.count(",")) for text in distinct], np.int64)
    opens, closes, ends_number = marks.reshape(-1, 3)[of_token].T * ~is_special  # [tokens] each
    first = np.searchsorted(sample, sample)
    before = (count.cumsum() - count for count in (opens, closes, ends_number))
    opened, closed, commas = (sums - sums[first] for sums in before)
    is_inside = opened > closed
    keys, key = np.unique(sample * (closed.max(initial=0) + 1) + closed, return_inverse=True)
    begins = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(begins, key[is_inside], commas[is_inside])
    number = PARTS.index("x") + np.clip(commas - begins[key], 0, 2)
    choices = [is_special, is_inside & (closes > 0), is_inside, opens > 0]
    part = np.select(choices, [PARTS.index("the end"), PARTS.index("closing a block"), number, 1], 0)
    return np.where(is_inside | (part == 1), closed, -1), part, closed


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
        samples, counted, mass, squares, logs = sums.T
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have no weight at all
            kl = np.log(mass / counted) - logs / counted
            return top + np.log(mass / samples), mass * mass / squares, np.maximum(kl, 0.0)

    drawn = figures(draws.weights @ sums) if draws.units > 1 else (None, None, None)
    values = figures(sums.sum(axis=0, keepdims=True))
    log_p, effective, kl = (
        interval(float(value[0]), part, draws.units) for value, part in zip(values, drawn, strict=True)
    )
    is_reliable = effective.value >= max(LEAST_EFFECTIVE, LEAST_SHARE * len(w))
    return Estimate(log_p, effective, kl, is_reliable)


def by_code(codes: Whole, values: Array | None, count: int) -> Array:
    """The sum of the values of each code, 0 to ``count`` - 1, or how many they are."""
    return np.bincount(codes, values, count).astype(np.float64)


def _slope(sample: Whole, segment: Whole, nat: Array, unit: Whole, draws: Bootstrap) -> tuple[Interval | None, int]:
    """Of tokens, with the blocks that were closed before: a block counts with the text that leads to it."""
    width = int(segment.max(initial=0)) + 1
    keys, at = np.unique(sample * width + segment, return_inverse=True)
    nat = by_code(at, nat, len(keys))
    sample, order = keys // width, (keys % width).astype(np.float64)
    counts = np.maximum(np.bincount(sample, minlength=len(unit)), 1)
    away = order - (np.bincount(sample, order, len(unit)) / counts)[sample]
    parts, wholes = (by_code(unit[sample], away * values, draws.units) for values in (nat, away))
    return draws.ratio(parts, wholes), len(keys)
