"""What each LP gave and cost: rates, seconds, junk, cut and RMSD with intervals, all over the same molecules.

Rates have Wilson's interval over answers. Everything else is a bootstrap over molecules, the same draws for all LPs, so
that one LP over another has an interval as well. Seconds a usable conformer are all seconds over the usable answers:
infinite where there is none. Intervals are 95 % and know nothing of other machines, batches or models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.comparing.reading import compare_entries
from engine.evidence.advice.measured import (
    Answers,
    answers_of,
    drawn_clock,
    drawn_ratios,
    shared_molecules,
    spread,
)
from engine.figures.statistics import LEAST_MOLECULES, RESAMPLES, Interval, interval, quotient, wilson
from engine.inspection.lp_cost import known_cost
from engine.inspection.lp_cost_words import short_words
from engine.store.entries import Entry, rmsd_references
from engine.store.store import Store

Array = NDArray[np.float64]
Draws = dict[str, Array]
"""By figure, one value per draw."""
Want = Literal["usable", "clean", "passed"]

WANTS: tuple[Want, ...] = get_args(Want)
BASE = "none"
RATES: dict[Want, str] = {"usable": "usable_rate", "clean": "clean_rate", "passed": "pass_rate"}
COSTS: dict[Want, str] = {want: f"seconds_a_{want}" for want in WANTS}
QUOTIENTS = {
    "seconds_a_sample": ("seconds", "answers"),
    **{RATES[want]: (want, "answers") for want in WANTS},
    **{COSTS[want]: ("seconds", want) for want in WANTS},
    "letters_share": ("letters", "blocks"),
    "nonnumeric_share": ("nonnumeric", "blocks"),
    "cut_share": ("cut", "blocks"),
    "rmsd_ang": ("rmsd_ang", "rmsd_known"),
}
"""Figures that are one sum of `Answers` over another."""
TIMES = ("seconds_a_sample", *COSTS.values())


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
    decodes: int | None  # None, like its rate, of runs from before there was this rule
    judged: int  # answers with a verdict on their molecule
    usable: int | None  # None, like its rate and its cost, before all answers are judged
    pass_rate: Interval
    clean_rate: Interval
    decodes_rate: Interval | None
    usable_rate: Interval | None
    seconds_a_sample: Interval
    seconds_a_clean: Interval  # infinite where no answer is clean
    seconds_a_passed: Interval
    seconds_a_usable: Interval | None
    letters_share: Interval | None  # of blocks
    nonnumeric_share: Interval | None
    cut_share: Interval | None
    unverified_share: float | None  # of the run's blocks: closed by force, and the model's own choice is not known
    thrown_share: float | None  # of the run's tokens: drawn, and thrown away by a guard; None without a guard
    rmsd_ang: Interval | None
    rmsd_answers: int
    time_ratio: Interval | None  # seconds a sample over those without an LP
    rmsd_to: str  # what RMSD is taken to, in words; empty where it is not said
    rmsd_ratio: Interval | None  # over the answers that have one in both runs
    lp_cost: str  # what it does to the model, in words; empty without kept steps that tell

    def rate(self, want: Want) -> Interval:
        rate: Interval = getattr(self, RATES[want])
        return rate

    def cost(self, want: Want) -> Interval:
        cost: Interval = getattr(self, COSTS[want])
        return cost

    def count(self, want: Want) -> int:
        count: int = getattr(self, want)
        return count


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
    read = [lp for lp in order if len(by_lp[lp].smiles) and np.isfinite(by_lp[lp].seconds).all()]
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
        None if drawn is None else {want: _side_by_side(drawn, RATES[want]) for want in WANTS},
        None if drawn is None else {want: _side_by_side(drawn, COSTS[want]) for want in WANTS},
        tuple(lp for lp in runs if lp not in some),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    answers: Answers
    runs: Sequence[Entry]
    drawn: Draws | None

    def share(self, figure: str) -> Interval | None:
        """A quotient with its interval; None where it is over nothing."""
        value, weight = (float(getattr(self.answers, part).sum()) for part in QUOTIENTS[figure])
        if not weight:
            return None
        column = self.column(figure) if value else None  # of nothing every draw has nothing, which is no certainty
        return interval(value / weight, column, len(self.answers.smiles))

    def column(self, figure: str) -> Array | None:
        return None if self.drawn is None else self.drawn[figure]

    def cost(self, figure: str) -> Interval:
        return self.share(figure) or Interval(math.inf, *((math.inf, math.inf) if self.drawn is not None else ()))


def _draws(answers: Mapping[str, Answers], runs: Mapping[str, Sequence[Entry]], seed: int) -> dict[str, Draws]:
    parts = [
        (getattr(of_lp, value), getattr(of_lp, weight))
        for of_lp in answers.values()
        for value, weight in QUOTIENTS.values()
    ]
    ratios = iter(drawn_ratios(parts, seed).T)
    draws = {}
    for place, lp in enumerate(answers):
        columns = dict(zip(QUOTIENTS, ratios, strict=False))  # the next so many
        clock = drawn_clock(runs[lp], seed + place + 1)
        if clock is not None:
            columns |= {figure: columns[figure] * clock for figure in TIMES}
        draws[lp] = columns
    return draws


def _side_by_side(drawn: Mapping[str, Draws], figure: str) -> Array:
    return np.stack([columns[figure] for columns in drawn.values()], axis=1) if drawn else np.empty((RESAMPLES, 0))


def _figures(store: Store, lp: str, side: _Side, base: _Side | None, seed: int) -> LpFigures:
    answers, entry = side.answers, side.runs[0]
    counts = {name: round(float(getattr(answers, name).sum())) for name in ("answers", "judged", *WANTS)}
    unverified, blocks = entry.row.get("unverified_blocks"), entry.row.get("blocks")
    thrown, tokens = entry.row.get("thrown_tokens"), entry.row.get("tokens")
    time_ratio = rmsd_ratio = None
    if base is not None and lp != BASE:
        if rmsd_references(base.runs[0]) == rmsd_references(entry):
            rmsd_ratio = compare_entries(store, base.runs[0], entry, seed).measure("rmsd_ang").ratio
        mine, theirs = side.cost("seconds_a_sample").value, base.cost("seconds_a_sample").value
        drawn, base_drawn = side.column("seconds_a_sample"), base.column("seconds_a_sample")
        if theirs:
            ratios = None if drawn is None or base_drawn is None else drawn / base_drawn
            time_ratio = interval(mine / theirs, ratios, len(answers.smiles))
    figures: dict[str, Any] = dict(counts)
    figures |= {RATES[want]: _rate(counts[want], counts["answers"]) for want in WANTS}
    decodes = float(answers.decodes.sum())
    figures["decodes"] = None if math.isnan(decodes) else round(decodes)
    figures["decodes_rate"] = None if math.isnan(decodes) else _rate(round(decodes), counts["answers"])
    figures |= {name: side.cost(name) for name in TIMES}
    figures |= {name: side.share(name) for name in ("letters_share", "nonnumeric_share", "cut_share", "rmsd_ang")}
    if counts["judged"] < counts["answers"]:
        figures |= dict.fromkeys(("usable", RATES["usable"], COSTS["usable"]))
    return LpFigures(
        lp=lp,
        run_id=entry.id,
        repeats=len(side.runs) - 1,
        clock_spread=spread(side.runs),
        unverified_share=quotient(unverified, blocks),
        thrown_share=None if thrown is None or tokens is None else quotient(thrown, thrown + tokens),
        rmsd_answers=round(float(answers.rmsd_known.sum())),
        time_ratio=time_ratio,
        rmsd_to=rmsd_references(entry) if entry.row.get("rmsd_samples") else "",
        rmsd_ratio=rmsd_ratio,
        lp_cost="" if lp == BASE else _cost_words(store, entry, lp),
        **figures,
    )


def _cost_words(store: Store, entry: Entry, lp: str) -> str:
    cost, why_not = known_cost(store, entry)
    return why_not if cost is None else short_words(cost, lp)


def _rate(count: int, answers: int) -> Interval:
    return Interval(quotient(count, answers) or 0.0, *wilson(count, answers))
