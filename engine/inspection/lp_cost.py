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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.errors import StoreError
from engine.figures import words
from engine.figures.statistics import LEAST_SAMPLES, Array, Bootstrap, Interval, interval, ranks
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

Row = dict[str, Any]

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
class Disagreement:
    """Where a model disagrees with its LP: does -log w grow along the text, and does it go with RMSD? Of samples that
    count, levels taken out of both answers: a sample's own mean from its blocks, so that long texts do not stand for
    late blocks, and a molecule's own from its samples, so that hard molecules do not stand for wrong conformers.
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


def _cost(steps: StepColumns, elements: Mapping[tuple[int, int], str], *, is_guarded: bool) -> RunCost:
    rows = steps.rows  # of samples
    # A molecule that no guard could be made for was written as under ``exact``.
    guard = np.array([(row["log_weight"] if row["guarded"] else 0.0) for row in rows], dtype=np.float64)
    by_token = (steps.raw, steps.tempered, steps.mask, np.where(steps.forced, steps.tempered, 0.0))
    with np.errstate(invalid="ignore"):
        raw, tempered, mask, forced = (by_code(steps.sample, values, len(rows)) for values in by_token)
        weights = np.array([raw, tempered]) + guard
        is_filtered = bool((np.abs(steps.tempered - steps.mask) > ROUNDING).any())
        parts = {"forced": forced, "free": tempered - forced, "mask": mask, "filters": tempered - mask}
    counts = np.array([bool(row["ended"]) for row in rows], dtype=bool) & np.isfinite(weights).all(axis=0)
    raw, tempered = np.where(counts, weights, -np.inf)
    parts |= {"log_w": raw, "log_w_tempered": tempered}
    smiles = np.array([str(row["smiles"]) for row in rows], dtype=object)
    molecules, unit = list(dict.fromkeys(smiles)), np.unique(smiles.astype(str), return_inverse=True)[1]
    units = unit if len(molecules) > 1 else np.arange(len(rows))  # what is drawn again: molecules, or samples of one
    draws, counting = Bootstrap(int(units.max(initial=-1)) + 1), np.flatnonzero(counts)

    def mean(values: Array) -> Interval | None:
        over = by_code(units[counting], np.ones(len(counting)), draws.units)
        return draws.ratio(by_code(units[counting], values[counting], draws.units), over)

    def of_molecule(name: str) -> Row:
        own = np.flatnonzero(smiles == name)
        known = [_estimate(log_w[own], np.arange(len(own)), _few(len(own))) for log_w in (raw, tempered)]
        named = {"smiles": name, "samples": len(own), "counting": int(counts[own].sum())}
        return named | dict(zip(("raw", "tempered"), known, strict=True))

    def places(names: Sequence[str], code: Whole, *, per_block: bool = False) -> list[Row]:
        """Of the tokens of each code, over samples that count; per sample, or per block."""
        found = []
        for number, name in enumerate(names):
            tokens = counts[steps.sample] & (code == number)
            if not name or not tokens.any():
                continue
            sample = steps.sample[tokens]
            over = sample[np.unique(steps.key[tokens], return_index=True)[1]] if per_block else counting
            per = by_code(units[over], np.ones(len(over)), draws.units)
            log_w, masked, is_forced = steps.tempered[tokens], steps.mask[tokens], steps.forced[tokens]
            whole = draws.ratio(by_code(units[sample], log_w, draws.units), per)
            assert whole is not None
            if np.count_nonzero(per) < 2:  # no draw differs
                whole = Interval(whole.value)
            taken = {"forced": log_w[is_forced], "free": masked[~is_forced], "filters": (log_w - masked)[~is_forced]}
            means = {kind: float(part.sum() / len(over)) for kind, part in taken.items()}
            found.append({"name": name, "tokens": int(tokens.sum()), **means, "whole": whole})
        return found

    blocks: list[dict[int, float]] = [{} for _ in rows]
    sums = by_code(steps.key, steps.tempered, len(steps.blocks)).tolist()
    for (sample, block), log_w in zip(steps.blocks, sums, strict=True):
        if block >= 0:
            blocks[sample][block] = log_w
    named = [elements.get((int(steps.ids[sample]), block), "") for sample, block in steps.blocks]
    names, code = np.unique([*named, ""], return_inverse=True)
    rmsd_ang = np.array([row["rmsd_ang"] for row in rows], dtype=np.float64)  # NaN where not known
    return RunCost(
        samples=len(rows),
        counting=len(counting),
        is_bound=is_guarded or is_filtered,
        is_guard_known=not is_guarded or bool(np.isfinite(guard).any()),
        raw=_estimate(raw, units, draws),
        tempered=_estimate(tempered, units, draws),
        molecules=[of_molecule(name) for name in molecules],
        tenths=places(TENTHS, steps.tenth),
        parts=places(PARTS, steps.part),
        elements=sorted(places(names.tolist(), code[steps.key], per_block=True), key=lambda row: row["whole"].value),
        disagreement=disagreement_of(steps, tempered, rmsd_ang, smiles.tolist(), units, draws),
        each=[
            {"sample_id": row["sample_id"], "smiles": str(row["smiles"]), "counts": bool(counts[n]),
             **{name: float(values[n]) for name, values in parts.items()}, "guard": row["log_weight"],
             "blocks": blocks[n]}
            for n, row in enumerate(rows)
        ],
        **{name: mean(values) for name, values in parts.items()},
    )  # fmt: skip


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


def disagreement_of(
    steps: StepColumns, log_w: Array, rmsd_ang: Array, smiles: Sequence[str], unit: Whole, draws: Bootstrap
) -> Disagreement:
    """``log_w`` by sample, -inf where it does not count; ``rmsd_ang`` by sample, NaN where it is not known."""
    slope, blocks = _slope(steps, log_w, unit, draws)
    return Disagreement(slope, blocks, *against_rmsd(log_w, rmsd_ang, smiles))


def _slope(steps: StepColumns, log_w: Array, unit: Whole, draws: Bootstrap) -> tuple[Interval | None, int]:
    """A block counts with the text that leads to it; what follows a sample's last block does not."""
    samples = len(log_w)
    width = int(steps.segment.max(initial=0)) + 1
    counted = (steps.segment < steps.block_count[steps.sample]) & np.isfinite(log_w)[steps.sample]
    keys, at = np.unique((steps.sample * width + steps.segment)[counted], return_inverse=True)
    nat = by_code(at, -steps.tempered[counted], len(keys))
    sample, place = keys // width, (keys % width).astype(np.float64)
    own = np.maximum(by_code(sample, np.ones(len(keys)), samples), 1)
    away = place - (by_code(sample, place, samples) / own)[sample]
    parts, wholes = (by_code(unit[sample], away * values, draws.units) for values in (nat, away))
    return draws.ratio(parts, wholes), len(keys)


def against_rmsd(log_w: Array, rmsd_ang: Array, smiles: Sequence[str]) -> tuple[Interval | None, int, int]:
    """The rank correlation with the samples and molecules that it is over."""
    is_known = np.isfinite(log_w) & np.isfinite(rmsd_ang)
    sums, samples = [], 0
    for molecule in dict.fromkeys(smiles):
        own = is_known & np.array([text == molecule for text in smiles])
        if (count := int(own.sum())) < 2:
            continue
        samples += count
        one, other = (ranks(values[own]) / count - (count + 1) / (2 * count) for values in (-log_w, rmsd_ang))
        sums.append((one @ other, one @ one, other @ other))
    figures = np.array(sums).reshape(-1, 3)
    if samples < LEAST_SAMPLES or not figures[:, 1:].sum(axis=0).all():
        return None, samples, len(figures)

    def correlation(sums: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # a draw may have nothing that differs
            found: Array = sums[:, 0] / np.sqrt(sums[:, 1] * sums[:, 2])
        return found

    draws = Bootstrap(len(figures))
    drawn = correlation(draws.weights @ figures) if draws.units > 1 else None
    value = float(correlation(figures.sum(axis=0, keepdims=True))[0])
    return interval(value, drawn, draws.units), samples, len(figures)
