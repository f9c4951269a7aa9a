"""What the LP did to the model: how likely what it forced was to the model, and how much of its mass it took away.

From the kept steps. A *forced* token left no choice; its ``p_raw`` and its rank say what the model thought of it. At a
*free* token the LP may still have blocked some; what it took is 1 less the allowed mass. Both are asked behind the very
text that the LP had led to so far, so they tell how far a step bends the model, not where the model alone would be.
Surprise is -ln p; a probability that rounds to 0 counts as ``LEAST_P``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.figures.statistics import Array, Bootstrap, Correlation, Interval, quotient, rank_correlation
from engine.inspection.memo import Memo
from engine.inspection.runs import RunFacts, run_facts
from engine.store.store import Store

LEAST_P = 1e-30
TENTHS = 10
MOST_SAMPLES = 5_000
"""Samples of a run that are looked at, the first whose steps are kept."""
MOST_KEPT = 16

_SPECIAL = r"<(\|[^<>|]*\||/?s|bos|eos|pad|unk)>"
_TOKENS = f"""
WITH chosen AS (SELECT DISTINCT sample_id FROM steps WHERE run_id = $run ORDER BY sample_id LIMIT $most),
     lengths AS (SELECT sample_id, max(pos) + 1 AS length FROM steps WHERE run_id = $run GROUP BY ALL)
SELECT sample_id, coalesce(forced, FALSE) AS is_forced, least({TENTHS} * pos // length, {TENTHS} - 1)::INT AS tenth,
       CASE WHEN NOT coalesce(forced, FALSE) THEN coalesce(rule, '')
            WHEN regexp_full_match(piece, '{_SPECIAL}') THEN 'the end'
            WHEN contains(piece, '>') THEN 'closing a block'
            WHEN contains(piece, '<') THEN 'opening a block'
            WHEN role = 'FREE' THEN 'inside the numbers'
            ELSE 'between the blocks' END AS place,
       count(*)::DOUBLE AS tokens, count_if(rank_raw = 1)::DOUBLE AS first,
       coalesce(sum(-ln(greatest(p_raw, {LEAST_P}))), 0) AS surprise,
       coalesce(sum(greatest(1 - allowed_mass, 0)), 0) AS removed
FROM steps JOIN chosen USING (sample_id) JOIN lengths USING (sample_id)
WHERE run_id = $run AND CASE WHEN forced THEN p_raw ELSE allowed_mass END IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""
_SAMPLES = "SELECT sample_id, rmsd_ang, heavy_atoms FROM samples WHERE run_id = $run ORDER BY sample_id"


@dataclass(frozen=True, slots=True)
class ForcedToken:
    pos: int
    p_raw: float
    rank: int | None

    @property
    def surprise_nat(self) -> float:
        return surprise_of(self.p_raw)


@dataclass(frozen=True, slots=True)
class FreeToken:
    pos: int
    removed: float  # of the model's mass


@dataclass(frozen=True, slots=True)
class SampleEffect:
    """One sample, token by token. Means are None where there is no token of the kind."""

    forced: tuple[ForcedToken, ...]
    free: tuple[FreeToken, ...]
    first_choice: float | None  # share of forced tokens that were the model's own first choice
    p_forced: float | None  # geometric mean
    removed: float | None
    rmsd_ang: float | None


@dataclass(frozen=True, slots=True)
class SamplePoint:
    """One sample of a run, as a point against its RMSD."""

    sample_id: int
    forced: int
    free: int
    surprise_nat: float | None  # mean over forced tokens
    removed: float | None  # mean over free tokens
    rmsd_ang: float | None
    heavy_atoms: int | None


@dataclass(frozen=True, slots=True)
class Tenth:
    """A tenth of the answers' tokens, from the first to the last."""

    tenth: int
    forced: int
    surprise_nat: Interval | None
    free: int
    removed: Interval | None


@dataclass(frozen=True, slots=True)
class ForcedPlace:
    """Forced tokens of one kind: opening a block, closing it, between blocks, ..."""

    name: str
    tokens: int
    first_choice: Interval
    p_forced: Interval


@dataclass(frozen=True, slots=True)
class FreePlace:
    """Free tokens under one rule, in the rule's words."""

    name: str
    tokens: int
    removed: Interval


@dataclass(frozen=True, slots=True)
class RunEffect:
    """All samples of a run whose steps are kept. Figures are None where no token tells them."""

    samples: int
    forced: int
    free: int
    first_choice: Interval | None  # share of forced tokens
    p_forced: Interval | None  # geometric mean
    removed: Interval | None  # mean share of the mass, over free tokens
    forced_places: tuple[ForcedPlace, ...]  # those first where the model's own choice was overruled most often
    free_places: tuple[FreePlace, ...]  # those first where most mass was taken in all
    tenths: tuple[Tenth, ...]
    surprise_trend: Interval | None  # mean of the answers' second half less that of the first
    removed_trend: Interval | None
    rmsd_surprise: Correlation | None  # between samples; adjusted for heavy atoms
    rmsd_removed: Correlation | None
    rmsd_samples: int
    points: tuple[SamplePoint, ...]
    has_steps: bool  # whether the run kept steps at all, of whatever use


_kept: Memo[RunEffect] = Memo(MOST_KEPT)


def effect_of_run(store: Store, run_id: str) -> RunEffect:
    """Kept for the last runs asked for. A run without steps has no figures."""
    run = run_facts(store, run_id)
    return _kept.of(run.key, lambda: _effect_of_run(store, run))


def effect_of_sample(
    steps: Mapping[int, Mapping[str, Any]] | Iterable[Mapping[str, Any]], rmsd_ang: float | None = None
) -> SampleEffect:
    """From rows of ``steps``, stored or scored anew. Rows that do not say what is asked of them are passed by."""
    rows = sorted(steps.values() if isinstance(steps, Mapping) else steps, key=lambda row: row["pos"])
    forced = tuple(
        ForcedToken(row["pos"], row["p_raw"], row["rank_raw"])
        for row in rows
        if row["forced"] and row["p_raw"] is not None
    )
    free = tuple(
        FreeToken(row["pos"], max(0.0, 1 - row["allowed_mass"]))
        for row in rows
        if not row["forced"] and row["allowed_mass"] is not None
    )
    surprise = _mean([one.surprise_nat for one in forced])
    return SampleEffect(
        forced=forced,
        free=free,
        first_choice=_mean([float(one.rank == 1) for one in forced]),
        p_forced=None if surprise is None else math.exp(-surprise),
        removed=_mean([one.removed for one in free]),
        rmsd_ang=rmsd_ang,
    )


def surprise_of(p_raw: float) -> float:
    return -math.log(max(p_raw, LEAST_P))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


# --- a run --------------------------------------------------------------------------------------------------------


def _effect_of_run(store: Store, run: RunFacts) -> RunEffect:
    rows = store.table(_TOKENS, {"run": run.run_id, "most": MOST_SAMPLES})
    sums = _Sums.of(rows)
    about = {row["sample_id"]: row for row in store.rows(_SAMPLES, {"run": run.run_id})}
    points = sums.points(about)
    known = [point for point in points if point.rmsd_ang is not None]
    forced, free = sums.of_all(is_forced=True), sums.of_all(is_forced=False)
    return RunEffect(
        samples=len(points),
        forced=int(forced.tokens.sum()),
        free=int(free.tokens.sum()),
        first_choice=sums.draws.share(forced.first, forced.tokens),
        p_forced=_likelihood(sums.draws.ratio(forced.surprise, forced.tokens)),
        removed=sums.draws.ratio(free.removed, free.tokens),
        forced_places=sums.forced_places(),
        free_places=sums.free_places(),
        tenths=sums.tenths(),
        surprise_trend=sums.trend("surprise", is_forced=True),
        removed_trend=sums.trend("removed", is_forced=False),
        rmsd_surprise=_against_rmsd(known, [point.surprise_nat for point in known]),
        rmsd_removed=_against_rmsd(known, [point.removed for point in known]),
        rmsd_samples=len(known),
        points=points,
        has_steps=run.has_steps,
    )


def _likelihood(surprise: Interval | None) -> Interval | None:
    return None if surprise is None else surprise.mapped(lambda nat: math.exp(-nat))


def _against_rmsd(points: Sequence[SamplePoint], values: Sequence[float | None]) -> Correlation | None:
    told = [(point, value) for point, value in zip(points, values, strict=True) if value is not None]
    rmsd = np.array([point.rmsd_ang for point, _ in told], dtype=float)
    sizes = [point.heavy_atoms for point, _ in told]
    held = None if None in sizes else np.array(sizes, dtype=float)
    return rank_correlation(np.array([value for _, value in told], dtype=float), rmsd, held)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Sums by sample: [samples], or [samples, some]."""

    tokens: Array
    first: Array
    surprise: Array
    removed: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of tokens by sample, place and tenth, as the store added them up."""

    samples: tuple[int, ...]
    columns: Mapping[str, Any]  # NumPy arrays of one length
    sample: Any  # [rows] index into ``samples``
    draws: Bootstrap

    @classmethod
    def of(cls, rows: pa.Table) -> _Sums:
        columns = {name: rows[name].to_numpy() for name in rows.column_names}
        samples, place = np.unique(columns["sample_id"], return_inverse=True)
        return cls(tuple(samples.tolist()), columns, place, Bootstrap(len(samples)))

    def of_all(self, *, is_forced: bool) -> _Part:
        return self._added(self.columns["is_forced"] == is_forced)

    def _added(self, chosen: Any, columns: Any = None, width: int = 1) -> _Part:
        """Sums by sample over chosen rows; by sample and column where each row is given one."""
        at = (self.sample * width + (0 if columns is None else columns))[chosen]
        shape = (len(self.samples),) if columns is None else (len(self.samples), width)

        def added(name: str) -> Array:
            found = np.bincount(at, self.columns[name][chosen], minlength=len(self.samples) * width)
            return found.reshape(shape).astype(np.float64)

        return _Part(added("tokens"), added("first"), added("surprise"), added("removed"))

    def _places(self, *, is_forced: bool) -> Iterable[tuple[str, _Part]]:
        chosen = self.columns["is_forced"] == is_forced
        for name in dict.fromkeys(self.columns["place"][chosen].tolist()):
            yield name, self._added(chosen & (self.columns["place"] == name))

    def forced_places(self) -> tuple[ForcedPlace, ...]:
        found = []
        for name, part in self._places(is_forced=True):
            share = self.draws.share(part.first, part.tokens)
            likelihood = _likelihood(self.draws.ratio(part.surprise, part.tokens))
            if share is not None and likelihood is not None:
                found.append(ForcedPlace(name, int(part.tokens.sum()), share, likelihood))
        return tuple(sorted(found, key=lambda one: (one.tokens * (one.first_choice.value - 1), one.name)))

    def free_places(self) -> tuple[FreePlace, ...]:
        parts = self._places(is_forced=False)
        told = ((name, part, self.draws.ratio(part.removed, part.tokens)) for name, part in parts)
        found = [FreePlace(name, int(part.tokens.sum()), mean) for name, part, mean in told if mean is not None]
        return tuple(sorted(found, key=lambda one: (-one.tokens * one.removed.value, one.name)))

    def tenths(self) -> tuple[Tenth, ...]:
        is_forced, tenth = self.columns["is_forced"], self.columns["tenth"]
        forced, free = (self._added(is_forced == flag, tenth, TENTHS) for flag in (True, False))
        return tuple(
            Tenth(
                tenth=number,
                forced=int(forced.tokens[:, number].sum()),
                surprise_nat=self.draws.ratio(forced.surprise[:, number], forced.tokens[:, number]),
                free=int(free.tokens[:, number].sum()),
                removed=self.draws.ratio(free.removed[:, number], free.tokens[:, number]),
            )
            for number in range(TENTHS)
        )

    def trend(self, name: str, *, is_forced: bool) -> Interval | None:
        half = (self.columns["tenth"] >= TENTHS // 2).astype(np.int64)
        part = self._added(self.columns["is_forced"] == is_forced, half, 2)
        return self.draws.difference(getattr(part, name), part.tokens)

    def points(self, about: Mapping[int, Mapping[str, Any]]) -> tuple[SamplePoint, ...]:
        forced, free = self.of_all(is_forced=True), self.of_all(is_forced=False)
        return tuple(
            SamplePoint(
                sample_id=sample_id,
                forced=int(forced.tokens[number]),
                free=int(free.tokens[number]),
                surprise_nat=quotient(forced.surprise[number], forced.tokens[number]),
                removed=quotient(free.removed[number], free.tokens[number]),
                rmsd_ang=about.get(sample_id, {}).get("rmsd_ang"),
                heavy_atoms=about.get(sample_id, {}).get("heavy_atoms"),
            )
            for number, sample_id in enumerate(self.samples)
        )
