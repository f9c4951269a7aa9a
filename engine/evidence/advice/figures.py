"""What each LP gave and cost: rates, seconds, junk, cut and RMSD with intervals, all over the same molecules.

Rates have Wilson's interval over answers. Everything else is drawn anew over molecules, the same draws for all LPs, so
that one LP over another has an interval as well. Seconds a usable conformer are all seconds over the usable answers:
infinite where there is none. Intervals are 95 % and know nothing of other machines, batches or models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.comparing.bootstrap import LEAST_MOLECULES, RESAMPLES, ends_of
from engine.comparing.paired import compare_entries
from engine.evidence.advice.measured import (
    Answers,
    answers_of,
    drawn_clock,
    drawn_ratios,
    shared_molecules,
    spread,
)
from engine.inspection.statistics import Interval
from engine.store.comparison import wilson
from engine.store.entries import Entry
from engine.store.store import Store

Array = NDArray[np.float64]
Want = Literal["clean", "passed"]

WANTS: tuple[Want, ...] = ("clean", "passed")
BASE = "none"


@dataclass(frozen=True, slots=True)
class LpFigures:
    """One LP over the shared molecules. What nobody counted is None; ``low`` and ``high`` where too few tell."""

    lp: str
    run_id: str
    repeats: int  # other runs of the same work, of which the time is the mean as well
    clock_spread: float | None  # the longest of those times over the shortest
    answers: int
    passed: int
    clean: int
    pass_rate: Interval
    clean_rate: Interval
    seconds_a_sample: Interval
    seconds_a_clean: Interval  # infinite where no answer is clean
    seconds_a_passed: Interval
    letters_share: Interval | None  # of blocks
    nonnumeric_share: Interval | None
    cut_share: Interval | None
    unverified_share: float | None  # of the run's blocks: closed by force, and nobody asked what the model wanted
    rmsd_ang: Interval | None
    rmsd_answers: int
    time_ratio: Interval | None  # seconds a sample over those without an LP
    rmsd_ratio: Interval | None  # over the answers that have one in both runs

    def rate(self, want: Want) -> Interval:
        return self.clean_rate if want == "clean" else self.pass_rate

    def cost(self, want: Want) -> Interval:
        return self.seconds_a_clean if want == "clean" else self.seconds_a_passed

    def usable(self, want: Want) -> int:
        return self.clean if want == "clean" else self.passed


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """All LPs that share molecules. Draws are [draws, LPs]; None where too few molecules tell."""

    lps: tuple[LpFigures, ...]
    smiles: tuple[str, ...]  # that all of them were asked for
    heavy_atoms: tuple[int, int] | None  # of the smallest and the largest
    rates: Mapping[Want, Array] | None
    costs: Mapping[Want, Array] | None
    apart: tuple[str, ...]  # LPs whose runs asked other molecules

    def figures(self, lp: str) -> LpFigures:
        return next(one for one in self.lps if one.lp == lp)

    @property
    def molecules(self) -> int:
        return len(self.smiles)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.lp for one in self.lps)


def measure(store: Store, runs: Mapping[str, Sequence[Entry]], seed: int = 0) -> Measured:
    """Figures of each LP's runs, over the molecules that they share."""
    order = sorted(runs, key=lambda lp: lp != BASE)  # who shares nothing with `none` is left out, not `none`
    found = {lp: answers_of(store, runs[lp]) for lp in order}
    read = [lp for lp in order if len(found[lp].smiles)]
    smiles, is_in = shared_molecules([found[lp] for lp in read], LEAST_MOLECULES)
    some = {lp for lp, one in zip(read, is_in, strict=True) if one}
    lps = [lp for lp in runs if lp in some]
    answers = {lp: found[lp].only(smiles) for lp in lps}
    drawn = _draws(answers, runs, seed) if len(smiles) >= LEAST_MOLECULES and lps else None
    sides = {lp: _Side(answers[lp], runs[lp], None if drawn is None else drawn[lp]) for lp in lps}
    figures = [_figures(store, lp, side, sides.get(BASE), seed) for lp, side in sides.items()]
    return Measured(
        tuple(figures),
        tuple(smiles),
        _sizes(next(iter(answers.values()), None)),
        None if drawn is None else {"clean": _side_by_side(drawn, 1), "passed": _side_by_side(drawn, 2)},
        None if drawn is None else {"clean": _side_by_side(drawn, 3), "passed": _side_by_side(drawn, 4)},
        tuple(lp for lp in runs if lp not in some),
    )


def interval(value: float, drawn: Array | None, molecules: int) -> Interval:
    """The value, and where its draws of so many molecules lie. A draw without any of it may be infinite."""
    return Interval(value, *ends_of(drawn, molecules))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    answers: Answers
    runs: Sequence[Entry]
    drawn: Array | None  # [draws, parts]

    def share(self, part: int) -> Interval | None:
        """A quotient with its interval; None where it is over nothing."""
        value, weight = _parts(self.answers)[part]
        part_sum, whole = float(value.sum()), float(weight.sum())
        if not whole:
            return None
        column = self.column(part) if part_sum else None  # of nothing every draw has nothing, which is no certainty
        return interval(part_sum / whole, column, len(self.answers.smiles))

    def column(self, part: int) -> Array | None:
        return None if self.drawn is None else self.drawn[:, part]

    def cost(self, part: int) -> Interval:
        return self.share(part) or Interval(math.inf, *((math.inf, math.inf) if self.drawn is not None else ()))


def _parts(one: Answers) -> list[tuple[Array, Array]]:
    return [
        (one.seconds, one.answers),
        (one.clean, one.answers),
        (one.passed, one.answers),
        (one.seconds, one.clean),
        (one.seconds, one.passed),
        (one.letters, one.blocks),
        (one.nonnumeric, one.blocks),
        (one.cut, one.blocks),
        (one.rmsd_ang, one.rmsd_known),
    ]


def _draws(answers: Mapping[str, Answers], runs: Mapping[str, Sequence[Entry]], seed: int) -> dict[str, Array]:
    parts = [_parts(one) for one in answers.values()]
    drawn = drawn_ratios([part for of_lp in parts for part in of_lp], seed)
    found = {}
    for place, lp in enumerate(answers):
        mine = drawn[:, place * len(parts[0]) : (place + 1) * len(parts[0])].copy()
        clock = drawn_clock(runs[lp], seed + place + 1)
        if clock is not None:
            mine[:, [0, 3, 4]] *= clock[:, None]  # what is in seconds
        found[lp] = mine
    return found


def _side_by_side(drawn: Mapping[str, Array], part: int) -> Array:
    return np.stack([one[:, part] for one in drawn.values()], axis=1) if drawn else np.empty((RESAMPLES, 0))


def _figures(store: Store, lp: str, side: _Side, base: _Side | None, seed: int) -> LpFigures:
    one, entry = side.answers, side.runs[0]
    count, passed, clean = (round(float(part.sum())) for part in (one.answers, one.passed, one.clean))
    unverified, blocks = entry.row.get("unverified_blocks"), entry.row.get("blocks")
    return LpFigures(
        lp=lp,
        run_id=entry.id,
        repeats=len(side.runs) - 1,
        clock_spread=spread(side.runs),
        answers=count,
        passed=passed,
        clean=clean,
        pass_rate=_rate(passed, count),
        clean_rate=_rate(clean, count),
        seconds_a_sample=side.cost(0),
        seconds_a_clean=side.cost(3),
        seconds_a_passed=side.cost(4),
        letters_share=side.share(5),
        nonnumeric_share=side.share(6),
        cut_share=side.share(7),
        unverified_share=unverified / blocks if unverified is not None and blocks else None,
        rmsd_ang=side.share(8),
        rmsd_answers=round(float(one.rmsd_known.sum())),
        time_ratio=_time_ratio(side, base),
        rmsd_ratio=None if base is None or lp == BASE else _rmsd_ratio(store, base.runs[0], entry, seed),
    )


def _rate(part: int, whole: int) -> Interval:
    return Interval(part / whole if whole else 0.0, *wilson(part, whole))


def _time_ratio(side: _Side, base: _Side | None) -> Interval | None:
    if base is None or base is side:
        return None
    one, other = side.cost(0).value, base.cost(0).value
    mine, theirs = side.column(0), base.column(0)
    drawn = None if mine is None or theirs is None else mine / theirs
    return interval(one / other, drawn, len(side.answers.smiles)) if other else None


def _rmsd_ratio(store: Store, base: Entry, entry: Entry, seed: int) -> Interval | None:
    found = compare_entries(store, base, entry, seed).measure("rmsd_ang").ratio
    return None if found is None else Interval(found.value, found.low, found.high)


def _sizes(one: Answers | None) -> tuple[int, int] | None:
    if one is None or not len(one.smiles):
        return None
    atoms = one.heavy_atoms / one.answers
    return (round(float(atoms.min())), round(float(atoms.max()))) if atoms.min() > 0 else None
