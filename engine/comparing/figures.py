"""One row per run, from the runs' sheets alone, and its ratios to a control with a mark where a difference is noise.

What a sheet does not say is None, never 0. Figures that a report states are shown beside measured ones with their
``origin``; none are averaged. Pace is wall time over samples, or over tokens; between two runs it is compared over the
molecules that both have, by each sample's part of the wall time. What is
counted for a run as a whole has no mark. A run's drift is in its samples only, as is its strain per
heavy atom: they are read for the runs that are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.comparing.measures import PACE
from engine.comparing.paired import PairedRuns, compare_entries
from engine.comparing.reading import has_samples, samples_of
from engine.errors import StoreError
from engine.figures.statistics import Interval, quotient, wilson
from engine.inspection.lp_cost import RunCost, cost_of_run
from engine.inspection.runs import facts_of
from engine.lp_records import stored_name
from engine.store.entries import Entry, is_profiled, model_name, run_value
from engine.store.schema import RUNS, STEPS
from engine.store.store import Store
from engine.user_files import parsed_json

CONFORMERS = ("cov_r", "cov_p", "mat_r", "mat_p")
"""Coverage and mean least RMSD against reference ensembles; a report file may say them (COV-R, mat_p_ang, ...)."""
TIMES = ("wall_s", "wall_s_a_sample", "ms_a_token")
"""Figures without a ratio where a profiler ran beside one of the runs."""
COUNTED_WHOLE = "Counted once per run, so there is no interval."
_COLUMNS = frozenset(RUNS.names)
QUOTIENTS = {
    "wall_s_a_sample": ("wall_s", "samples"),
    "tokens_a_sample": ("tokens", "samples"),
    "forced_share": ("forced_tokens", "tokens"),
    "pass_rate": ("passes", "samples"),
    "decodes_rate": ("decodes", "samples"),
    "clean_rate": ("clean", "samples"),
    "usable_rate": ("usable", "judged"),
    "stereo_right_rate": ("stereo_right", "stereo_judged"),
    "geometry_right_rate": ("geometry_right", "geometry_judged"),
    "junk_letters_share": ("junk_letters", "blocks"),
    "junk_nonnumeric_share": ("junk_nonnumeric", "blocks"),
    "cut_share": ("cut_blocks", "blocks"),
    "unverified_share": ("unverified_blocks", "blocks"),
    "misread_share": ("misread_blocks", "blocks"),
}
"""Figures of a run that are one column over another."""


@dataclass(frozen=True)
class RunFigures:
    """One run: the columns of its sheet by their names, and what is computed of them.

    Texts are empty and figures None where the sheet does not say. ``drift_mean`` is that of a block, ``drift_abs_mean``
    its distance from 0, over blocks whose drift is known; the strain per heavy atom, and how far these move, are means
    over samples with right geometry. All None until they are read (``sample_means``), as is the LP's cost.
    """

    entry: Entry
    drift_mean: float | None = None
    drift_abs_mean: float | None = None
    strain_kcal_per_atom: float | None = None
    strain_moved_ang: float | None = None
    lp_cost: RunCost | None = None
    why_no_cost: str = ""  # where its steps are damaged

    def __getattr__(self, name: str) -> Any:
        """A column of the table ``runs``, such as ``wall_s``, a quotient of two, or stated coverage (``cov_r``)."""
        if name in CONFORMERS:
            return self._stated[name]
        if name in QUOTIENTS:
            part, whole = QUOTIENTS[name]
            return quotient(self.entry.row.get(part), self.entry.row.get(whole))
        if name not in _COLUMNS:
            raise AttributeError(f"a run has no figure {name!r}")
        return run_value(self.entry, name)

    @property
    def run_id(self) -> str:
        return self.entry.id

    @property
    def name(self) -> str:
        """What a person calls it."""
        return " · ".join(part for part in (self.model, self.lp_words, self.label) if part) or self.run_id

    @property
    def lp_words(self) -> str:
        return stored_name(self.lp, is_former=not self.descriptors)

    @property
    def model(self) -> str:
        """``alias:step``, or the family alone."""
        return model_name(self.entry.row) or str(self.model_family)

    @property
    def is_profiled(self) -> bool:
        return is_profiled(self.entry)

    @property
    def has_samples(self) -> bool:
        """Whether it can be looked into, paired and drawn from."""
        return has_samples(self.entry)

    @property
    def ms_a_token(self) -> float | None:
        return quotient(self.wall_s, self.tokens, 1000)

    @property
    def log_w(self) -> float | None:
        """Of the samples with known chances, at the sampling's temperature; 0 where the model is left alone."""
        interval = self.own_interval("log_w")
        return None if interval is None else interval.value

    @property
    def effective_share(self) -> float | None:
        """Of these samples, how many count when they stand for the model."""
        if self.lp_cost is None or self.lp_cost.tempered.effective is None:
            return None
        return self.lp_cost.tempered.effective.value / self.lp_cost.samples

    def own_interval(self, figure: str) -> Interval | None:
        """Of a figure that has one without a control."""
        if figure == "log_w":
            known = None if self.lp_cost is None else self.lp_cost.log_w_tempered
            return None if known is None else known.mapped(lambda nat: round(nat, 3) + 0.0)  # what rounding leaves
        return self.rate(figure) if figure == "pass_rate" else None

    @property
    def reported_pass_rate(self) -> float | None:
        """Of an imported file's own items."""
        passes, failures = self.entry.row.get("reported_passes"), self.entry.row.get("reported_failures")
        return None if passes is None or failures is None else quotient(passes, passes + failures)

    @property
    def pass_rate_low(self) -> float | None:
        return None if (rate := self.rate("pass_rate")) is None else rate.low

    @property
    def pass_rate_high(self) -> float | None:
        return None if (rate := self.rate("pass_rate")) is None else rate.high

    def rate(self, figure: str) -> Interval | None:
        """A quotient of counts with Wilson's interval, 95 %; without one where the counts cannot be."""
        value = getattr(self, figure)
        if value is None:
            return None
        part, whole = (self.entry.row[column] for column in QUOTIENTS[figure])
        return Interval(value, *wilson(part, whole)) if 0 <= part <= whole else Interval(value)

    @cached_property
    def _stated(self) -> dict[str, float | None]:
        """Coverage, from what a report file or a report says beyond the columns; its names are read in any spelling."""
        try:
            extra = parsed_json(self.entry.row.get("extra") or "{}")
        except ValueError:
            extra = {}
        coverage: dict[str, float | None] = dict.fromkeys(CONFORMERS)
        for key, value in extra.items() if isinstance(extra, dict) else ():
            name = key.lower().replace("-", "_").removesuffix("_ang")
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if name in coverage and is_number and abs(value) <= sys.float_info.max:  # a whole number may be larger
                coverage[name] = float(value)
        return coverage


@dataclass(frozen=True, slots=True)
class Ratio:
    """Test over control, of pace over the molecules that both have. ``within_noise`` is None where nothing tells, and
    ``reason`` says why.
    """

    figure: str
    control: float | None
    test: float | None
    ratio: float | None  # None where one is not known, or the control has nothing of it
    within_noise: bool | None
    interval: Interval | None  # of the ratio, over paired samples; its value is that of the pairs alone
    reason: str


RATIOS: dict[str, str] = {
    "wall_s": "",
    "wall_s_a_sample": "wall_part_s",
    "tokens": "",
    "tokens_a_sample": "tokens",
    "ms_a_token": "ms_a_token",
    "forward_passes": "",
    "forced_share": "forced_share",
    "pass_rate": "passed",
    "decodes_rate": "decodes",
    "clean_rate": "clean",
    "usable_rate": "usable",
    "stereo_right_rate": "stereo_right",
    "geometry_right_rate": "geometry_right",
    "strain_kcal": "strain_kcal",
    "strain_kcal_per_atom": "strain_kcal_per_atom",
    "strain_moved_ang": "strain_moved_ang",
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


ROW_COLUMNS = (
    "origin label model_alias model_step model_family tokenizer lp backend sampling samples passes decodes clean "
    "blocks junk_letters junk_nonnumeric bad_blocks cut_blocks wall_s decode_s tokens forced_tokens forward_passes "
    "chars_raw chars_clean"
).split()
ROW_FIGURES = (
    "pass_rate", "pass_rate_low", "pass_rate_high", "decodes_rate", "clean_rate", "usable_rate", "ms_a_token",
    "wall_s_a_sample", "forced_share",
)  # fmt: skip
ROW_RATIOS = ("wall_s", "tokens", "ms_a_token", "forward_passes", "pass_rate", "wall_s_a_sample")
"""Columns, figures and ratios of a row of `compare --json`."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A test run, its samples paired with the control's, and its ratios to the control."""

    figures: RunFigures
    paired: PairedRuns
    ratios: tuple[Ratio, ...]

    def ratio(self, figure: str) -> Ratio:
        return self.ratios[list(RATIOS).index(figure)]


@dataclass(frozen=True, slots=True)
class Comparison:
    control: RunFigures
    tests: tuple[ComparedRun, ...]


def all_figures(store: Store) -> list[RunFigures]:
    """Every run of the store, newest first, without opening a file but the sheets."""
    return [RunFigures(entry) for entry in reversed(store.found().entries)]


def compare_entries_with(store: Store, control: Entry, tests: Sequence[Entry]) -> Comparison:
    """Tests beside a control, in the order given; the files of no other run are read."""
    mine = _read(store, control)
    beside = []
    for entry in tests:
        theirs, paired = _read(store, entry), compare_entries(store, control, entry)
        beside.append(ComparedRun(theirs, paired, ratios_of(mine, theirs, paired)))
    return Comparison(mine, tuple(beside))


def _read(store: Store, entry: Entry) -> RunFigures:
    """With what its samples and steps know."""
    cost, why_not = known_cost(store, entry)
    return RunFigures(entry, **sample_means(store, entry), lp_cost=cost, why_no_cost=why_not)


def known_cost(store: Store, entry: Entry) -> tuple[RunCost | None, str]:
    """What the LP cost the model, where kept steps tell; else None, and what is wrong with them."""
    if not has_samples(entry) or STEPS.name not in entry.parts:
        return None, ""
    try:
        cost = cost_of_run(store, facts_of(entry))
    except StoreError as error:
        return None, f"{entry.id}: {error.what}"
    return (cost if cost.counting else None), ""


def sample_means(store: Store, entry: Entry) -> dict[str, float]:
    """Figures of a run that its sheet lacks; nothing of those that no sample knows."""
    means: dict[str, float] = {}
    if not has_samples(entry):
        return means
    run = samples_of(store, entry)
    blocks = run.weights["drift_blocks"]
    if whole := float(blocks.sum()):
        means["drift_mean"] = float(np.nansum(run.columns["drift"])) / whole
        means["drift_abs_mean"] = float(np.nansum(run.columns["drift_abs"] * blocks)) / whole
    for name in ("strain_kcal_per_atom", "strain_moved_ang"):
        if np.isfinite(run.columns[name]).any():
            means[name] = float(np.nanmean(run.columns[name]))
    return means


def ratios_of(control: RunFigures, test: RunFigures, paired: PairedRuns) -> tuple[Ratio, ...]:
    return tuple(_ratio(figure, measure, control, test, paired) for figure, measure in RATIOS.items())


def compare_rows(store: Store, control: Entry, tests: Sequence[Entry]) -> list[dict[str, Any]]:
    """The rows of `compare --json`, the control first: the columns, the figures and the ratios with their intervals."""
    base = RunFigures(control)
    rows: list[dict[str, Any]] = []
    for run in (base, *map(RunFigures, tests)):
        row: dict[str, Any] = {"part": "test" if rows else "control", "run_id": run.run_id}
        row |= {name: run.entry.row.get(name) for name in ROW_COLUMNS}
        row |= {name: getattr(run, name) for name in ROW_FIGURES}
        paired = compare_entries(store, control, run.entry)
        for name in ROW_RATIOS:
            ratio = _ratio(name, RATIOS[name], base, run, paired)
            row[f"{name}_ratio"] = ratio.ratio
            if RATIOS[name]:
                low, high = (None, None) if ratio.interval is None else (ratio.interval.low, ratio.interval.high)
                row |= {f"{name}_ratio_low": low, f"{name}_ratio_high": high}
        rows.append(row)
    return rows


def profiled_words(figure: str, control: RunFigures, test: RunFigures) -> str:
    """Why a figure of time has no ratio; empty where it may have one."""
    names = [name for name, run in (("control", control), ("test", test)) if run.is_profiled]
    if figure not in TIMES or not names:
        return ""
    return f"A profiler, which slows a run, ran beside the {' and the '.join(names)}: times are not compared."


def _ratio(figure: str, measure: str, control: RunFigures, test: RunFigures, paired: PairedRuns) -> Ratio:
    one, other = getattr(control, figure), getattr(test, figure)
    if one is None or other is None:
        unknown = [part for part, value in (("control", one), ("test", other)) if value is None]
        return Ratio(figure, one, other, None, None, None, f"Not known of the {' and the '.join(unknown)}.")
    if profiled := profiled_words(figure, control, test):
        return Ratio(figure, one, other, None, None, None, profiled)
    if not measure:
        return Ratio(figure, one, other, quotient(other, one), None, None, COUNTED_WHOLE)
    compared = paired.measure(measure)
    reason = compared.reason or ("" if compared.within_noise is not None else paired.reason)
    ratio = quotient(other, one)
    if measure in PACE and compared.ratio is not None and paired.is_paired:
        ratio = compared.ratio.value
    return Ratio(figure, one, other, ratio, compared.within_noise, compared.ratio, reason)
