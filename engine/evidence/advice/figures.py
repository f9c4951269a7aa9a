"""What each LP gave and cost: rates, seconds, junk, cut and RMSD with intervals, all over the same molecules.

Rates have Wilson's interval over answers. Everything else is a bootstrap over molecules, the same draws for all LPs, so
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

from engine.comparing.paired import compare_entries
from engine.evidence.advice.measured import (
    Answers,
    answers_of,
    drawn_clock,
    drawn_ratios,
    shared_molecules,
    spread,
)
from engine.figures.statistics import LEAST_MOLECULES, RESAMPLES, Interval, interval, quotient, wilson
from engine.store.entries import Entry
from engine.store.store import Store

Array = NDArray[np.float64]
Want = Literal["clean", "passed"]

WANTS: tuple[Want, ...] = ("clean", "passed")
BASE = "none"


@dataclass(frozen=True, slots=True)
class LpFigures:
    """One LP over the shared molecules. Unknown figures are None; so are ``low`` and ``high`` of few molecules."""

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
    unverified_share: float | None  # of the run's blocks: closed by force, and the model's own choice is not known
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
        return next(figures for figures in self.lps if figures.lp == lp)

    @property
    def molecules(self) -> int:
        return len(self.smiles)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(figures.lp for figures in self.lps)


def measure(store: Store, runs: Mapping[str, Sequence[Entry]], seed: int = 0) -> Measured:
    """Figures of each LP's runs, over the molecules that they share."""
    order = sorted(runs, key=lambda lp: lp != BASE)  # an LP that shares nothing with `none` is left out, not `none`
    by_lp = {lp: answers_of(store, runs[lp]) for lp in order}
    read = [lp for lp in order if len(by_lp[lp].smiles)]
    smiles, is_in = shared_molecules([by_lp[lp] for lp in read], LEAST_MOLECULES)
    some = {lp for lp, is_shared in zip(read, is_in, strict=True) if is_shared}
    lps = [lp for lp in runs if lp in some]
    answers = {lp: by_lp[lp].only(smiles) for lp in lps}
    drawn = _draws(answers, runs, seed) if len(smiles) >= LEAST_MOLECULES and lps else None
    sides = {lp: _Side(answers[lp], runs[lp], None if drawn is None else drawn[lp]) for lp in lps}
    figures = [_figures(store, lp, side, sides.get(BASE), seed) for lp, side in sides.items()]
    atoms = np.concatenate([side.heavy_atoms / side.answers for side in list(answers.values())[:1]] or [np.zeros(0)])
    return Measured(
        tuple(figures),
        tuple(smiles),
        (round(float(atoms.min())), round(float(atoms.max()))) if len(atoms) and atoms.min() > 0 else None,
        None if drawn is None else {"clean": _side_by_side(drawn, 1), "passed": _side_by_side(drawn, 2)},
        None if drawn is None else {"clean": _side_by_side(drawn, 3), "passed": _side_by_side(drawn, 4)},
        tuple(lp for lp in runs if lp not in some),
    )


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


def _parts(answers: Answers) -> list[tuple[Array, Array]]:
    return [
        (answers.seconds, answers.answers),
        (answers.clean, answers.answers),
        (answers.passed, answers.answers),
        (answers.seconds, answers.clean),
        (answers.seconds, answers.passed),
        (answers.letters, answers.blocks),
        (answers.nonnumeric, answers.blocks),
        (answers.cut, answers.blocks),
        (answers.rmsd_ang, answers.rmsd_known),
    ]


def _draws(answers: Mapping[str, Answers], runs: Mapping[str, Sequence[Entry]], seed: int) -> dict[str, Array]:
    parts = [_parts(of_lp) for of_lp in answers.values()]
    drawn = drawn_ratios([part for of_lp in parts for part in of_lp], seed)
    draws = {}
    for place, lp in enumerate(answers):
        columns = drawn[:, place * len(parts[0]) : (place + 1) * len(parts[0])].copy()
        clock = drawn_clock(runs[lp], seed + place + 1)
        if clock is not None:
            columns[:, [0, 3, 4]] *= clock[:, None]  # what is in seconds
        draws[lp] = columns
    return draws


def _side_by_side(drawn: Mapping[str, Array], part: int) -> Array:
    return np.stack([columns[:, part] for columns in drawn.values()], axis=1) if drawn else np.empty((RESAMPLES, 0))


def _figures(store: Store, lp: str, side: _Side, base: _Side | None, seed: int) -> LpFigures:
    answers, entry = side.answers, side.runs[0]
    count, passed, clean = (round(float(part.sum())) for part in (answers.answers, answers.passed, answers.clean))
    unverified, blocks = entry.row.get("unverified_blocks"), entry.row.get("blocks")
    time_ratio = rmsd_ratio = None
    if base is not None and lp != BASE:
        rmsd_ratio = compare_entries(store, base.runs[0], entry, seed).measure("rmsd_ang").ratio
        base_s, drawn, base_drawn = base.cost(0).value, side.column(0), base.column(0)
        if base_s:
            ratios = None if drawn is None or base_drawn is None else drawn / base_drawn
            time_ratio = interval(side.cost(0).value / base_s, ratios, len(answers.smiles))
    return LpFigures(
        lp=lp,
        run_id=entry.id,
        repeats=len(side.runs) - 1,
        clock_spread=spread(side.runs),
        answers=count,
        passed=passed,
        clean=clean,
        pass_rate=Interval(quotient(passed, count) or 0.0, *wilson(passed, count)),
        clean_rate=Interval(quotient(clean, count) or 0.0, *wilson(clean, count)),
        seconds_a_sample=side.cost(0),
        seconds_a_clean=side.cost(3),
        seconds_a_passed=side.cost(4),
        letters_share=side.share(5),
        nonnumeric_share=side.share(6),
        cut_share=side.share(7),
        unverified_share=quotient(unverified, blocks),
        rmsd_ang=side.share(8),
        rmsd_answers=round(float(answers.rmsd_known.sum())),
        time_ratio=time_ratio,
        rmsd_ratio=rmsd_ratio,
    )
