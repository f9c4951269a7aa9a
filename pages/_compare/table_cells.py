"""The comparison as rows and cells: which figures, in what order, and what each ratio is worth.

No sentences and no markup here. A cell keeps the basis of its mark, so that the table, its files and the summary agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from engine.comparing.coverage import NAMES, Coverage, compare_coverage
from engine.comparing.figures import RATIOS, ComparedRun, Comparison, Ratio, RunFigures, profiled_words
from engine.comparing.measures import MEASURES, Measure
from engine.comparing.paired import Compared
from engine.figures.statistics import Interval
from engine.lp_records import UNKNOWN_LP, stored_lp
from engine.records import RULE_HELP

Mark = Literal["", "better", "worse", "differs", "noise", "same", "doubtful", "unknown"]
Form = Literal["number", "share", "count"]
CLEAR = ("better", "worse", "differs")
COMPUTED = "computed"  # on this page, on demand
HYPOTHETICAL = "hypothetical"
NO_TEMPLATE = "Drift of text that no template wrote is hypothetical: it is not compared."


@dataclass(frozen=True, slots=True)
class FigureLine:
    """One figure of ``RunFigures``."""

    group: str
    figure: str
    words: str
    unit: str
    form: Form
    help: str

    @property
    def is_main(self) -> bool:
        """Only these are shown at first."""
        return self.figure not in ("decode_s", "tokens", "molecules", "blocks", "bad_blocks", "drift_mean")

    @property
    def measure(self) -> Measure | None:
        """The measure that the noise of its ratio is estimated with."""
        return MEASURES.get(RATIOS.get(self.figure, ""))

    @property
    def heading(self) -> str:
        return f"{self.words} ({self.unit})" if self.unit else self.words


_GROUPS: dict[str, tuple[tuple[str, str, str, Form, str], ...]] = {
    "Time": (
        ("wall_s", "wall time", "s", "number", "From building templates to checking the last answer"),
        ("wall_s_a_sample", "wall time per sample", "s", "number", "Wall time over samples"),
        ("decode_s", "decoding", "s", "number", "Part of the wall time: from prompt to last token"),
        ("ms_a_token", "wall time per token", "ms", "number", "Wall time over tokens"),
        ("tokens", "tokens", "", "count", "Of all answers, with end tokens"),
        ("tokens_a_sample", "tokens per sample", "", "number", "With forced tokens"),
        ("forward_passes", "forward passes", "", "count", "Through the model, prefills included"),
        ("forced_share", "forced tokens", "%", "share", "Tokens forced by the LP"),
    ),
    "Answers": (
        ("molecules", "molecules", "", "count", "Distinct molecules"),
        ("samples", "samples", "", "count", "Answers"),
        ("pass_rate", "passed", "%", "share", RULE_HELP["passed"]),
        ("decodes_rate", "decodes", "%", "share", RULE_HELP["decodes"]),
        ("clean_rate", "clean", "%", "share", RULE_HELP["clean"]),
        (
            "log_w",
            "log w, LP and filters",
            "nat per sample",
            "number",
            "Sum of ln p − ln q over a sample's tokens, at the sampling's temperature; 0: the model's own distribution",
        ),
        ("effective_share", "effective samples", "%", "share", "Of those with kept steps: (sum w)² / sum w² over them"),
        ("reported_pass_rate", "passed, by its file", "%", "share", "As an imported file counts, by its own rule"),
    ),
    "Blocks": (
        ("blocks", "blocks", "", "count", "Coordinate blocks found"),
        ("junk_letters_share", "with letters", "% of blocks", "share", "The reports' first count of junk"),
        (
            "junk_nonnumeric_share",
            "not numeric",
            "% of blocks",
            "share",
            "Anything but digits . , -: their second count",
        ),
        ("cut_share", "cut", "% of blocks", "share", "Closed by force inside their numbers"),
        ("unverified_share", "unverified", "% of blocks", "share", "Closed by force; not known whether cut"),
        (
            "misread_share",
            "misread by the group's reader",
            "% of blocks",
            "share",
            "Blocks that it takes, and puts over 0.01 Å off what they state or reads where no number is",
        ),
        ("misread_most_ang", "misread at most by", "Å", "number", "The farthest block that states three numbers"),
        ("bad_blocks", "neither exact nor unverified", "", "count", "Blocks"),
        ("drift_mean", "drift", "tokens per block", "number", "Where known: + is junk-prone, − is cut"),
        (
            "drift_abs_mean",
            "mean absolute drift",
            "tokens per block",
            "number",
            "Where known. It is no count of damage",
        ),
        ("redrawn_blocks", "drawn anew", "", "count", "How often a guard found a block wrong and had it drawn again"),
        ("thrown_tokens", "tokens thrown away", "", "count", "By the guard; not among the tokens"),
        (
            "unmended_samples",
            "left wrong by the guard",
            "",
            "count",
            "Samples with a failed check when its tries were used up",
        ),
    ),
    "Conformers": (
        ("usable_rate", "usable", "%", "share", "Of judged answers: clean, stereo right, geometry right"),
        (
            "stereo_right_rate",
            "stereo right",
            "% of those with stereo",
            "share",
            "Of answers whose SMILES specifies any: all right",
        ),
        (
            "geometry_right_rate",
            "geometry right",
            "%",
            "share",
            "Of those with a conformer to judge: no check failed",
        ),
        (
            "strain_kcal",
            "strain",
            "kcal/mol",
            "number",
            "Above the relaxed conformer; mean over answers with right geometry",
        ),
        ("strain_kcal_per_atom", "strain per heavy atom", "kcal/mol", "number", "The same, over heavy atoms"),
        ("strain_moved_ang", "relaxing moves heavy atoms by", "Å", "number", "RMSD; mean where geometry is right"),
        ("rmsd_ang", "RMSD", "Å", "number", "Mean over answers: heavy atoms, to the nearest of the references"),
        ("cov_r", "COV-R", "%", "share", "References with a generated conformer within the threshold"),
        ("cov_p", "COV-P", "%", "share", "Generated conformers with a reference within the threshold"),
        ("mat_r", "MAT-R", "Å", "number", "Mean least RMSD of the references"),
        ("mat_p", "MAT-P", "Å", "number", "Mean least RMSD of the generated conformers"),
    ),
}
LINES = tuple(FigureLine(group, *line) for group, lines in _GROUPS.items() for line in lines)
TOTALS = ("wall_s", "tokens", "forward_passes")
"""Which grow with the number of samples."""
MORE_BETTER = ("cov_r", "cov_p")


@dataclass(frozen=True, slots=True)
class FigureCell:
    """``ratio`` and what follows are a test's. ``interval`` is of the ratio over pairs, ``difference`` of the means."""

    value: float | None
    low: float | None = None  # the figure's own interval
    high: float | None = None
    origin: str = ""  # of the figure: measured, imported, reported, computed
    ratio: float | None = None
    mark: Mark = ""
    compared: Compared | None = None
    reason: str = ""

    @property
    def interval(self) -> Interval | None:
        ratio = None if self.compared is None else self.compared.ratio
        return None if ratio is None or ratio.low is None else ratio

    @property
    def difference(self) -> Interval | None:
        difference = None if self.compared is None else self.compared.difference
        return None if difference is None or difference.low is None else difference


@dataclass(frozen=True, slots=True)
class FigureRow:
    line: FigureLine
    cells: tuple[FigureCell, ...]  # the control's first

    @property
    def is_empty(self) -> bool:
        return all(cell.value is None for cell in self.cells)


Coverages = Mapping[str, Coverage]


def rows_of(comparison: Comparison, coverages: Coverages) -> list[FigureRow]:
    """All rows; ``coverages`` are those that were computed, by run."""
    return [_row(line, comparison, coverages) for line in LINES]


def cell_of(rows: list[FigureRow], figure: str, column: int) -> FigureCell:
    return next(row for row in rows if row.line.figure == figure).cells[column]


def mark_of(ratio: Ratio, measure: Measure | None, compared: Compared | None) -> Mark:
    """What a difference is worth; empty where there is nothing to compare."""
    if ratio.control is None or ratio.test is None:
        return ""
    if compared is None or compared.difference is None or compared.within_noise is None:
        return "unknown"
    if compared.within_noise:
        return "same" if compared.difference.low == compared.difference.high else "noise"
    if measure is not None and not is_believed(ratio.ratio, compared, measure):
        return "doubtful"
    better = "neither" if measure is None else measure.better
    if better == "neither":
        return "differs"
    return "better" if (compared.difference.value < 0) == (better == "less") else "worse"


def is_believed(ratio: float | None, compared: Compared, measure: Measure) -> bool:
    """Not where it is smaller than what one run tells, nor where the runs as wholes point the other way."""
    if ratio is None or compared.ratio is None:
        return True
    is_small = abs(compared.ratio.value - 1) <= measure.doubt or abs(ratio - 1) <= measure.doubt
    return not (measure.doubt and is_small) and (ratio - 1) * (compared.ratio.value - 1) >= 0


def _row(line: FigureLine, comparison: Comparison, coverages: Coverages) -> FigureRow:
    control = comparison.control
    if line.figure in NAMES:
        first = _coverage_cell(line, control, coverages)
        tests = [_coverage_test(line, control, first, test, coverages) for test in comparison.tests]
    else:
        first = _plain(line, control)
        tests = [_test(line, control, test) for test in comparison.tests]
    return FigureRow(line, (first, *tests))


def has_template(run: RunFigures) -> bool:
    """Whether a template wrote its texts, as far as is known: only there drift costs anything."""
    lp = stored_lp(run.lp)
    return lp is UNKNOWN_LP or bool(lp.placeholder)


def _plain(line: FigureLine, run: RunFigures) -> FigureCell:
    value = getattr(run, line.figure)
    own = run.own_interval(line.figure)
    low, high = (None, None) if own is None else (own.low, own.high)
    origin = HYPOTHETICAL if line.figure.startswith("drift_") and not has_template(run) else run.origin
    return FigureCell(value, low, high, origin)


def _test(line: FigureLine, control: RunFigures, test: ComparedRun) -> FigureCell:
    plain = _plain(line, test.figures)
    if line.figure not in RATIOS:
        return plain
    if line.figure in TOTALS and control.samples != test.figures.samples:
        return replace(plain, reason="Another number of samples: only figures per sample compare.")
    if line.figure == "drift_abs_mean" and not (has_template(control) and has_template(test.figures)):
        return replace(plain, reason=NO_TEMPLATE)
    ratio, measure = test.ratio(line.figure), line.measure
    is_profiled = bool(profiled_words(line.figure, control, test.figures))
    compared = None if measure is None or is_profiled else test.paired.measure(measure.name)
    reason = ratio.reason
    mark = mark_of(ratio, measure, compared)
    if mark == "doubtful":
        reason = "Beyond noise over molecules, but too small a time difference for one run each."
    return FigureCell(plain.value, plain.low, plain.high, plain.origin, ratio.ratio, mark, compared, reason)


def _coverage_cell(line: FigureLine, run: RunFigures, coverages: Coverages) -> FigureCell:
    """As a report states it, else as computed."""
    stated = getattr(run, line.figure)
    if stated is not None:
        return FigureCell(stated, origin="stated")
    coverage = coverages.get(run.run_id)
    return FigureCell(None if coverage is None else coverage.figure(line.figure), origin=COMPUTED)


def _coverage_test(
    line: FigureLine, control: RunFigures, first: FigureCell, test: ComparedRun, coverages: Coverages
) -> FigureCell:
    cell = _coverage_cell(line, test.figures, coverages)
    if first.value is None or cell.value is None:
        return cell
    if first.origin != cell.origin:
        reason = "One is stated, the other computed here with other references: no ratio."
        return FigureCell(cell.value, origin=cell.origin, mark="unknown", reason=reason)
    ratio = cell.value / first.value if first.value else None
    if cell.origin != COMPUTED:
        return FigureCell(cell.value, origin=cell.origin, ratio=ratio, mark="unknown", reason="Both are stated.")
    compared = compare_coverage(coverages[control.run_id], coverages[test.figures.run_id])[NAMES.index(line.figure)]
    measure = Measure(line.figure, line.help, line.unit, "more" if line.figure in MORE_BETTER else "less")
    mark = mark_of(Ratio(line.figure, first.value, cell.value, ratio, None, None, ""), measure, compared)
    return FigureCell(cell.value, origin=cell.origin, ratio=ratio, mark=mark, compared=compared, reason=compared.reason)
