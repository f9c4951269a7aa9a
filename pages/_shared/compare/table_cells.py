"""The comparison as rows and cells: which figures, in what order, and what each ratio is worth.

No words of a sentence and no markup here. A cell keeps what stands behind its mark, so that a table, a file and a
sentence say the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.comparing.bootstrap import Estimate
from engine.comparing.coverage import NAMES, Coverage, compare_coverage
from engine.comparing.figures import RATIOS, Beside, Comparison, Ratio, RunFigures
from engine.comparing.measures import MEASURES, Measure
from engine.comparing.paired import Compared

Mark = Literal["", "better", "worse", "differs", "noise", "same", "doubtful", "unknown"]
Form = Literal["number", "share", "count"]
CLEAR = ("better", "worse", "differs")
COMPUTED = "computed"  # where a figure is neither of the sheet nor of a report


@dataclass(frozen=True, slots=True)
class Line:
    """One figure. ``is_main`` ones are shown unless all are asked for."""

    group: str
    figure: str  # of RunFigures
    words: str
    unit: str
    form: Form
    help: str
    is_main: bool = True

    @property
    def measure(self) -> Measure | None:
        """What tells the noise of its ratio."""
        return MEASURES.get(RATIOS.get(self.figure, ""))

    @property
    def heading(self) -> str:
        return f"{self.words} ({self.unit})" if self.unit else self.words


LINES: tuple[Line, ...] = (
    Line("Time", "wall_s", "wall time", "s", "number", "From templates to the last answer read and checked"),
    Line("Time", "wall_s_a_sample", "wall time a sample", "s", "number", "Its noise is that of samples' own times"),
    Line("Time", "decode_s", "decoding", "s", "number", "From prompt to last token, of all batches", False),
    Line("Time", "ms_a_token", "time a token", "ms", "number", "Of decoding; of the wall time where that is not known"),
    Line("Time", "tokens", "tokens", "", "count", "Of all answers, end tokens too", False),
    Line("Time", "tokens_a_sample", "tokens a sample", "", "number", "Forced ones too"),
    Line("Time", "forward_passes", "forward passes", "", "count", "Through the model, prefills among them"),
    Line("Time", "forced_share", "forced tokens", "%", "share", "Tokens that the LP left no choice for"),
    Line("Answers", "molecules", "molecules", "", "count", "Different ones", False),
    Line("Answers", "samples", "samples", "", "count", "Answers"),
    Line("Answers", "pass_rate", "passed", "%", "share", "By the reports' rule: no issue named; junk may pass"),
    Line("Answers", "clean_rate", "clean", "%", "share", "Passed, and every block exact or unverified"),
    Line("Blocks", "blocks", "blocks", "", "count", "Coordinate blocks found", False),
    Line("Blocks", "junk_letters_share", "junk: letters", "% of blocks", "share", "Blocks with a letter"),
    Line(
        "Blocks",
        "junk_nonnumeric_share",
        "junk: not numeric",
        "% of blocks",
        "share",
        "Blocks with anything but digits . , -",
    ),
    Line("Blocks", "cut_share", "cut", "% of blocks", "share", "Closed by force in the middle of their numbers"),
    Line("Blocks", "unverified_share", "unverified", "% of blocks", "share", "Closed by force; nobody knows if cut"),
    Line("Blocks", "bad_blocks", "neither exact nor unverified", "", "count", "Blocks", False),
    Line("Blocks", "drift_mean", "drift", "tokens a block", "number", "Where known: + is junk-prone, − is cut", False),
    Line("Blocks", "drift_abs_mean", "distance of drift from 0", "tokens a block", "number", "Where drift is known"),
    Line("Conformers", "rmsd_ang", "RMSD", "Å", "number", "Heavy atoms, to the nearest reference conformer; a mean"),
    Line("Conformers", "cov_r", "COV-R", "%", "share", "References with a generated conformer within the threshold"),
    Line("Conformers", "cov_p", "COV-P", "%", "share", "Generated conformers with a reference within the threshold"),
    Line("Conformers", "mat_r", "MAT-R", "Å", "number", "Mean least RMSD of the references"),
    Line("Conformers", "mat_p", "MAT-P", "Å", "number", "Mean least RMSD of the generated conformers"),
)
MORE_BETTER = ("cov_r", "cov_p")
BY_FIGURE = {line.figure: line for line in LINES}


@dataclass(frozen=True, slots=True)
class Cell:
    """``ratio`` and what follows are a test's. ``interval`` is of the ratio over pairs, ``difference`` of the means."""

    value: float | None
    low: float | None = None  # the figure's own interval (Wilson)
    high: float | None = None
    origin: str = ""  # of the figure: measured, imported, reported, computed
    ratio: float | None = None
    mark: Mark = ""
    told: Compared | None = None
    reason: str = ""

    @property
    def interval(self) -> Estimate | None:
        found = None if self.told is None else self.told.ratio
        return found if found is not None and found.low is not None else None

    @property
    def difference(self) -> Estimate | None:
        found = None if self.told is None else self.told.difference
        return found if found is not None and found.low is not None else None


@dataclass(frozen=True, slots=True)
class Row:
    line: Line
    cells: tuple[Cell, ...]  # the control's first

    @property
    def is_empty(self) -> bool:
        return all(cell.value is None for cell in self.cells)


Coverages = Mapping[str, Coverage]


def rows_of(comparison: Comparison, coverages: Coverages) -> list[Row]:
    """All rows; ``coverages`` are those that were computed, by run."""
    return [_row(line, comparison, coverages) for line in LINES]


def cell_of(rows: list[Row], figure: str, column: int) -> Cell:
    return next(row for row in rows if row.line.figure == figure).cells[column]


def mark_of(ratio: Ratio, measure: Measure | None, told: Compared | None) -> Mark:
    """What a difference is worth; empty where there is nothing to compare."""
    if ratio.control is None or ratio.test is None:
        return ""
    if told is None or told.difference is None or told.within_noise is None:
        return "unknown"
    if told.within_noise:
        return "same" if told.difference.low == told.difference.high else "noise"
    if measure is not None and not is_believed(ratio.ratio, told, measure):
        return "doubtful"
    return _direction(told.difference.value, "neither" if measure is None else measure.better)


def is_believed(ratio: float | None, told: Compared, measure: Measure) -> bool:
    """Not where it is smaller than what one run tells, nor where the runs as wholes point the other way."""
    if ratio is None or told.ratio is None:
        return True
    is_small = abs(told.ratio.value - 1) <= measure.doubt or abs(ratio - 1) <= measure.doubt
    return not (measure.doubt and is_small) and (ratio - 1) * (told.ratio.value - 1) >= 0


def _direction(difference: float, better: str) -> Mark:
    if better == "neither":
        return "differs"
    return "better" if (difference < 0) == (better == "less") else "worse"


def _row(line: Line, comparison: Comparison, coverages: Coverages) -> Row:
    if line.figure in NAMES:
        return Row(line, _coverage_cells(line, comparison, coverages))
    control = comparison.control
    cells = [_plain(line, control), *(_test(line, control, one) for one in comparison.tests)]
    return Row(line, tuple(cells))


def _plain(line: Line, run: RunFigures) -> Cell:
    value = figure_of(run, line.figure)
    low, high = (run.pass_rate_low, run.pass_rate_high) if line.figure == "pass_rate" else (None, None)
    return Cell(value, low, high, run.origin)


def figure_of(run: RunFigures, figure: str) -> float | None:
    if figure == "unverified_share":
        has_both = run.unverified_blocks is not None and run.blocks
        return (run.unverified_blocks or 0) / (run.blocks or 1) if has_both else None
    value: float | None = getattr(run, figure)
    return value


def _test(line: Line, control: RunFigures, beside: Beside) -> Cell:
    plain = _plain(line, beside.figures)
    if line.figure not in RATIOS:
        return plain
    ratio, measure = beside.ratio(line.figure), line.measure
    told = None if measure is None else beside.paired.measure(measure.name)
    reason = ratio.reason
    mark = mark_of(ratio, measure, told)
    if mark == "doubtful":
        reason = "More than noise over molecules, but less than one run each can tell of time."
    if line.figure == "ms_a_token" and control.ms_a_token_of != beside.figures.ms_a_token_of:
        reason = f"Both by wall time, since one has no other. {reason}".strip()
    return Cell(plain.value, plain.low, plain.high, plain.origin, ratio.ratio, mark, told, reason)


def _coverage_cells(line: Line, comparison: Comparison, coverages: Coverages) -> tuple[Cell, ...]:
    first = _coverage_cell(line, comparison.control, coverages)
    return (first, *(_beside_coverage(line, comparison.control, first, one, coverages) for one in comparison.tests))


def _coverage_cell(line: Line, run: RunFigures, coverages: Coverages) -> Cell:
    """As stated where somebody states it, else as computed."""
    stated = figure_of(run, line.figure)
    if stated is not None:
        return Cell(stated, origin="stated")
    found = coverages.get(run.run_id)
    return Cell(None if found is None else found.figure(line.figure), origin=COMPUTED)


def _beside_coverage(line: Line, control: RunFigures, first: Cell, beside: Beside, coverages: Coverages) -> Cell:
    cell = _coverage_cell(line, beside.figures, coverages)
    if first.value is None or cell.value is None:
        return cell
    if first.origin != cell.origin:
        reason = "One is stated, the other computed here: against other references, so no ratio is made of them."
        return Cell(cell.value, origin=cell.origin, mark="unknown", reason=reason)
    ratio = cell.value / first.value if first.value else None
    if cell.origin != COMPUTED:
        return Cell(cell.value, origin=cell.origin, ratio=ratio, mark="unknown", reason="Both are stated.")
    told = _told(coverages[control.run_id], coverages[beside.figures.run_id], line.figure)
    measure = Measure(line.figure, line.help, line.unit, "more" if line.figure in MORE_BETTER else "less")
    mark = mark_of(Ratio(line.figure, first.value, cell.value, ratio, None, None, ""), measure, told)
    return Cell(cell.value, origin=cell.origin, ratio=ratio, mark=mark, told=told, reason=told.reason)


def _told(control: Coverage, test: Coverage, figure: str) -> Compared:
    return compare_coverage(control, test)[NAMES.index(figure)]
