"""What the LP did to the model: how likely what it forced was to the model, and how much of its mass it took away.

From the kept steps. A *forced* token left no choice; its ``p_raw`` and its rank say what the model thought of it. At a
*free* token the LP may still have blocked some; what it took is 1 less the allowed mass. Both are asked behind the very
text that the LP had led to so far, so they tell how far a step bends the model, not where the model alone would be.
Surprise is -ln p; a probability that rounds to 0 counts as ``LEAST_P``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from engine.figures.statistics import Array, Bootstrap, Correlation, Interval, quotient, rank_correlation
from engine.inspection.memo import computed_once
from engine.inspection.runs import RunFacts
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
            WHEN regexp_matches(piece, '[A-Za-z]') AND NOT contains(piece, 'CONFORMER') THEN 'inside a descriptor'
            ELSE 'between the blocks' END AS place,
       count(*)::DOUBLE AS tokens, count_if(rank_raw = 1)::DOUBLE AS first,
       coalesce(sum(-ln(greatest(p_raw, {LEAST_P}))), 0) AS surprise,
       coalesce(sum(greatest(round(1 - allowed_mass, 6), 0)), 0) AS removed
FROM steps JOIN chosen USING (sample_id) JOIN lengths USING (sample_id)
WHERE run_id = $run AND CASE WHEN forced THEN p_raw ELSE allowed_mass END IS NOT NULL
GROUP BY ALL ORDER BY ALL
"""
_SAMPLES = "SELECT sample_id, rmsd_ang, heavy_atoms FROM samples WHERE run_id = $run ORDER BY sample_id"


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


@computed_once(MOST_KEPT)
def effect_of_run(store: Store, run: RunFacts) -> RunEffect:
    """A run without steps has no figures."""
    rows = store.table(_TOKENS, {"run": run.run_id, "most": MOST_SAMPLES})
    sample_ids, sample = np.unique(rows["sample_id"].to_numpy(), return_inverse=True)
    draws = Bootstrap(len(sample_ids))
    forced, free = (_Tokens(rows, sample, len(sample_ids), is_forced=flag) for flag in (True, False))
    of_forced, of_free = forced.sums(), free.sums()
    points = _points(store, run, sample_ids.tolist(), of_forced, of_free)
    known = [point for point in points if point.rmsd_ang is not None]
    forced_halves, free_halves = (tokens.sums(tokens.columns["tenth"] * 2 // TENTHS, 2) for tokens in (forced, free))
    return RunEffect(
        samples=len(points),
        forced=int(of_forced.tokens.sum()),
        free=int(of_free.tokens.sum()),
        first_choice=draws.share(of_forced.first, of_forced.tokens),
        p_forced=_likelihood(draws.ratio(of_forced.surprise, of_forced.tokens)),
        removed=draws.ratio(of_free.removed, of_free.tokens),
        forced_places=_forced_places(forced, draws),
        free_places=_free_places(free, draws),
        tenths=_tenths(forced, free, draws),
        surprise_trend=draws.difference(forced_halves.surprise, forced_halves.tokens),
        removed_trend=draws.difference(free_halves.removed, free_halves.tokens),
        rmsd_surprise=_against_rmsd(known, [point.surprise_nat for point in known]),
        rmsd_removed=_against_rmsd(known, [point.removed for point in known]),
        rmsd_samples=len(known),
        points=points,
        has_steps=run.has_steps,
    )


def _likelihood(surprise: Interval | None) -> Interval | None:
    return None if surprise is None else surprise.mapped(lambda nat: math.exp(-nat))


def _against_rmsd(points: Sequence[SamplePoint], values: Sequence[float | None]) -> Correlation | None:
    known = [(point, value) for point, value in zip(points, values, strict=True) if value is not None]
    rmsd = np.array([point.rmsd_ang for point, _ in known], dtype=float)
    sizes = [point.heavy_atoms for point, _ in known]
    held = None if None in sizes else np.array(sizes, dtype=float)
    return rank_correlation(np.array([value for _, value in known], dtype=float), rmsd, held)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """By sample: [samples], or [samples, columns]."""

    tokens: Array
    first: Array
    surprise: Array
    removed: Array


class _Tokens:
    """The forced tokens of a run, or the free ones, as the store added them up by sample, place and tenth."""

    def __init__(self, rows: pa.Table, sample: Any, samples: int, *, is_forced: bool) -> None:
        chosen = rows["is_forced"].to_numpy() == is_forced
        self.columns = {name: rows[name].to_numpy()[chosen] for name in rows.column_names}
        self.sample, self.samples = sample[chosen], samples

    def sums(self, column: Any = 0, width: int = 1, chosen: Any = np.s_[:]) -> _Sums:
        """Over chosen rows; by column where each row is given one of so many."""
        at = (self.sample * width + column)[chosen]
        shape = (self.samples, width) if width > 1 else (self.samples,)

        def added(name: str) -> Array:
            sums = np.bincount(at, self.columns[name][chosen], minlength=self.samples * width)
            return sums.reshape(shape).astype(np.float64)

        return _Sums(added("tokens"), added("first"), added("surprise"), added("removed"))

    def places(self) -> Iterable[tuple[str, _Sums]]:
        for name in dict.fromkeys(self.columns["place"].tolist()):
            yield name, self.sums(chosen=self.columns["place"] == name)


def _forced_places(forced: _Tokens, draws: Bootstrap) -> tuple[ForcedPlace, ...]:
    places = []
    for name, sums in forced.places():
        share = draws.share(sums.first, sums.tokens)
        likelihood = _likelihood(draws.ratio(sums.surprise, sums.tokens))
        if share is not None and likelihood is not None:
            places.append(ForcedPlace(name, int(sums.tokens.sum()), share, likelihood))
    return tuple(sorted(places, key=lambda place: (place.tokens * (place.first_choice.value - 1), place.name)))


def _free_places(free: _Tokens, draws: Bootstrap) -> tuple[FreePlace, ...]:
    means = ((name, sums, draws.ratio(sums.removed, sums.tokens)) for name, sums in free.places())
    places = [FreePlace(name, int(sums.tokens.sum()), mean) for name, sums, mean in means if mean is not None]
    return tuple(sorted(places, key=lambda place: (-place.tokens * place.removed.value, place.name)))


def _tenths(forced: _Tokens, free: _Tokens, draws: Bootstrap) -> tuple[Tenth, ...]:
    of_forced, of_free = (tokens.sums(tokens.columns["tenth"], TENTHS) for tokens in (forced, free))
    return tuple(
        Tenth(
            tenth=tenth,
            forced=int(of_forced.tokens[:, tenth].sum()),
            surprise_nat=draws.ratio(of_forced.surprise[:, tenth], of_forced.tokens[:, tenth]),
            free=int(of_free.tokens[:, tenth].sum()),
            removed=draws.ratio(of_free.removed[:, tenth], of_free.tokens[:, tenth]),
        )
        for tenth in range(TENTHS)
    )


def _points(
    store: Store, run: RunFacts, sample_ids: Sequence[int], forced: _Sums, free: _Sums
) -> tuple[SamplePoint, ...]:
    rows = {row["sample_id"]: row for row in store.rows(_SAMPLES, {"run": run.run_id})}
    return tuple(
        SamplePoint(
            sample_id=sample_id,
            forced=int(forced.tokens[number]),
            free=int(free.tokens[number]),
            surprise_nat=quotient(forced.surprise[number], forced.tokens[number]),
            removed=quotient(free.removed[number], free.tokens[number]),
            rmsd_ang=rows.get(sample_id, {}).get("rmsd_ang"),
            heavy_atoms=rows.get(sample_id, {}).get("heavy_atoms"),
        )
        for number, sample_id in enumerate(sample_ids)
    )
