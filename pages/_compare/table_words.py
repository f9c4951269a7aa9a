"""The Compare page's table in words: figures, marks, what runs share, and one sentence per test.

Texts are plain; pages escape them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.comparing.figures import ComparedRun, RunFigures
from engine.comparing.measures import MEASURES
from engine.comparing.paired import PairedRuns
from engine.figures.words import UNKNOWN, counted, hundredths, number, percent, signed, span, times, whole
from engine.inspection.lp_cost_words import short_words
from engine.lp_records import guard_words, stored_lp
from engine.store.entries import Entry, rmsd_references
from pages._compare.table_cells import CLEAR, FigureCell, FigureLine, FigureRow, Form, Mark, cell_of

MARKS: dict[Mark, tuple[str, str]] = {
    "": ("", ""),
    "better": ("▲", "better"),
    "worse": ("▼", "worse"),
    "differs": ("◆", "differs"),
    "noise": ("≈", "within noise"),
    "same": ("=", "no difference"),
    "doubtful": ("±", "too close to call"),
    "unknown": ("?", "no interval"),
}
"""Signs and words."""
SETUP = (
    "tokenizer", "backend", "sampling", "device", "threads", "dtype", "batch_size", "placeholder", "descriptors",
    "guard", "generations", "judged_with", "rmsd",
)  # fmt: skip
"""Of a run, beside model and LP, what a difference may come from: columns, and the references of its RMSD."""
SETUP_WORDS = {
    "dtype": "precision",
    "batch_size": "batch size",
    "generations": "answers per molecule",
    "judged_with": "checks of geometry",
    "rmsd": "RMSD to the nearest of",
}


def value_words(value: float | None, form: Form = "number") -> str:
    """A figure of the table, without its unit."""
    if form == "share":
        return UNKNOWN if value is None else hundredths(value)
    return whole(value) if form == "count" else number(value)


def ratio_words(line: FigureLine, ratio: float) -> str:
    """Of a shorter time how much faster it is, as the sentences say it; else test over control."""
    return f"{times(1 / ratio)} faster" if is_faster(line, ratio) else times(ratio)


def is_faster(line: FigureLine | None, ratio: float | None) -> bool:
    return line is not None and line.unit in ("s", "ms") and ratio is not None and 0 < ratio < 1


def range_words(cell: FigureCell, line: FigureLine | None = None) -> str:
    """A test's interval over pairs, of the ratio or, where the control has nothing of it, of the difference.

    Of a shorter time both are turned round, as in ``ratio_words``.

    Where the ratio of whole runs lies outside the interval, the ratio over pairs is given too: whole runs have other
    answers as well, or a time that is not only the samples' own.
    """
    compared, interval, difference = cell.compared, cell.interval, cell.difference
    if compared is None or cell.mark == "" or (cell.mark == "same" and is_near(cell)):
        return ""
    if interval is not None and interval.ends:
        low, high = interval.ends
        value, is_inside = interval.value, cell.ratio is None or low <= cell.ratio <= high
        if low > 0 and is_faster(line, cell.ratio):
            value, low, high = 1 / value, 1 / high, 1 / low
        ends = span(low, high, times)
        return ends if is_inside else f"by answers {times(value)} ({ends})"
    if difference is None or not difference.ends:
        return ""
    least, most = (change(value, compared.measure) for value in difference.ends)
    return f"{least} to {most} {unit_of_change(compared.measure)}"


def is_near(cell: FigureCell) -> bool:
    """Whether the ratio of whole runs lies within the interval over pairs, give or take half a per cent."""
    if cell.ratio is None or cell.interval is None or not cell.interval.ends:
        return True
    low, high = cell.interval.ends
    return 0.995 * low <= cell.ratio <= 1.005 * high


def change(value: float, measure: str) -> str:
    return signed(100 * value if unit_of_change(measure) == "points" else value)


def unit_of_change(measure: str) -> str:
    if measure in ("cov_r", "cov_p") or (measure in MEASURES and MEASURES[measure].unit == "share"):
        return "points"
    if measure in ("rmsd_ang", "strain_moved_ang", "mat_r", "mat_p"):
        return "Å"
    if measure.startswith("strain_kcal"):
        return "kcal/mol"
    return {"wall_part_s": "s", "ms_a_token": "ms", "tokens": "tokens", "drift_abs": "tokens"}.get(
        measure, "per sample"
    )


def pairs_words(cell: FigureCell, paired: PairedRuns | None) -> str:
    compared = cell.compared
    if compared is None or not compared.answers:
        return ""
    both = counted(compared.answers, "pair")
    if paired is not None and not paired.is_paired:
        both = f"{counted(compared.answers, 'answer')} of both runs, not paired,"
    if compared.measure in ("cov_r", "cov_p", "mat_r", "mat_p"):
        return f"over {counted(compared.molecules, 'molecule')}"
    return f"over {both} of {counted(compared.molecules, 'molecule')}"


def hover(line: FigureLine, cell: FigureCell, paired: PairedRuns | None) -> str:
    """The whole basis of a cell's mark."""
    parts = [MARKS[cell.mark][1].capitalize()]
    if range_words(cell, line):
        parts.append(f"{range_words(cell, line)} {pairs_words(cell, paired)}")
    parts.append(cell.reason)
    if line.measure is not None and cell.compared is not None and cell.mark not in ("", "same"):
        parts.append(line.measure.caution)
    return ". ".join(part.strip().rstrip(".") for part in parts if part)


def sharing(name: str, control: str, paired: PairedRuns) -> str:
    """Whether two runs answered the same questions; empty where all of both are paired."""
    if paired.reason:
        return paired.reason
    if not paired.is_paired:
        return (
            f"{name} and {control} share no molecule, so each is resampled by itself: that detects fewer"
            " differences, and different molecules may explain any of them."
        )
    sides = ((paired.control_alone, control), (paired.test_alone, name))
    unpaired = [f"{counted(count, 'answer')} of {run}" for count, run in sides if count]
    if not unpaired:
        return ""
    only = f"{len(paired.only_control):,} molecules are only in {control}, {len(paired.only_test):,} only in {name}"
    return (
        f"{name} and {control} share {counted(paired.shared_molecules, 'molecule')} ({paired.shared:,} pairs of"
        f" answers); {' and '.join(unpaired)} are not paired ({only}). Figures and ratios cover whole runs; marks,"
        " and ratios of time per sample and per token, only what they share."
    )


def setup_differences(runs: Sequence[tuple[str, Entry]]) -> str:
    """How the set-ups differ beyond model and LP, by letter; empty where no known column differs."""
    parts = []
    for column in SETUP:
        known = [(letter, entry.row.get(column)) for letter, entry in runs if entry.row.get(column) not in (None, "")]
        if column == "placeholder":
            by_placeholder = {letter for letter, entry in runs if stored_lp(entry.row.get("lp")).placeholder}
            known = [(letter, value) for letter, value in known if letter in by_placeholder]
        elif column == "guard":
            known = [(letter, guard_words(value) or "usual") for letter, value in known]
        elif column == "rmsd":
            known = [(letter, words) for letter, entry in runs if (words := rmsd_references(entry))]
        values = dict.fromkeys(value for _, value in known)
        if len(values) > 1:
            groups = (f"{''.join(letter for letter, of_run in known if of_run == value)} {value}" for value in values)
            parts.append(f"{SETUP_WORDS.get(column, column)} ({', '.join(groups)})")
    return "; ".join(parts)


def costs(runs: Sequence[RunFigures]) -> str:
    """What each LP did to the model, where steps tell; empty where none does."""
    known = dict.fromkeys(
        short_words(run.lp_cost, run.lp) for run in runs if run.lp_cost is not None and run.lp not in ("", "none")
    )
    damaged = dict.fromkeys(run.why_no_cost for run in runs if run.why_no_cost)
    parts = [("What the LP costs the model", known), ("What it costs is not known", damaged)]
    return " ".join(f"{what}: {'; '.join(told)}." for what, told in parts if told)


def own_interval(cell: FigureCell, form: Form) -> str:
    if cell.low is None:
        return ""
    return f"{value_words(cell.low, form)}{' to ' if cell.low < 0 else '–'}{value_words(cell.high, form)}"


# --- sentences ------------------------------------------------------------------------------------------------------
#
# Made of the table's cells, so that a sentence and the table always agree.

Teller = Callable[[int, RunFigures, ComparedRun, list[FigureRow]], str]
NO_CUT = "nothing cut"
LETTERS = "junk_letters_share", "no letters", "{} with letters"
NOT_NUMERIC = "junk_nonnumeric_share", "only numeric characters", "{} not numeric"
"""The reports' two counts of junk: the figure, and what is said of none and of some."""
NO_CONFORMER = "no RMSD: no answer is a conformer of its molecule to the strict reader, which takes no junk"
RATE_WORDS = {
    "passed": "Passed: no issue by the reports' rule; junk may pass.",
    "decodes": "Decodes: the group's reader takes every block, junk or not.",
    "clean": "Clean: passed, decodes, and no block known to be damaged.",
    "usable": "Usable: a clean text, and the molecule right in 3D; of judged answers.",
}


def alone(run: RunFigures, rows: list[FigureRow]) -> str:
    cell = cell_of(rows, "pass_rate", 0)
    passed = ""
    if cell.value is not None:
        within = f"95 % interval {own_interval(cell, 'share')} %"
        passed = f"{percent(cell.value)} of {counted(run.samples or 0, 'sample')} passed ({within})"
    rates = (("decodes", "decode"), ("clean", "clean"), ("usable", "usable"))
    parts = [passed, *(_rate(rows, figure, word) for figure, word in rates), _blocks(rows, 0, run)]
    return "; ".join(part for part in parts if part) + "."


def _rate(rows: list[FigureRow], figure: str, word: str) -> str:
    cell = cell_of(rows, f"{figure}_rate", 0)
    return "" if cell.value is None else f"{percent(cell.value)} {word}"


def lead(column: int, control: RunFigures, beside: ComparedRun, rows: list[FigureRow]) -> str:
    """What decides between a test and its control, in a line: the time, the answers of use, the damage."""
    run, time = beside.figures, cell_of(rows, "wall_s_a_sample", column)
    if "reported" in (run.origin, control.origin):
        return _reported(column, control, run, rows)
    pace = f"{speed(time.ratio)} per sample" if time.ratio and time.mark in CLEAR else _time(time)
    of_use = _share(rows, column, "usable") or _share(rows, column, "clean") or _passes(rows, column, control, run)
    return "; ".join(part for part in (pace, of_use, _blocks(rows, column, run)) if part) + "."


def sentence(column: int, control: RunFigures, beside: ComparedRun, rows: list[FigureRow]) -> str:
    """What the comparison shows about the test in this column, in one line."""
    run = beside.figures
    if "reported" in (run.origin, control.origin):
        return _reported(column, control, run, rows)
    parts = [
        _time(cell_of(rows, "wall_s_a_sample", column)),
        _passes(rows, column, control, run),
        _share(rows, column, "decodes", "decode"),
        _share(rows, column, "clean"),
        _share(rows, column, "usable"),
        _blocks(rows, column, run),
        _rmsd(rows, column, run),
    ]
    return "; ".join(part for part in parts if part) + "."


def _share(rows: list[FigureRow], column: int, figure: str, word: str = "") -> str:
    first, test = (cell_of(rows, f"{figure}_rate", place) for place in (0, column))
    if test.mark in CLEAR:
        return f"{percent(test.value)} {word or figure} (control {percent(first.value)})"
    if figure != "usable" or test.mark not in ("noise", "same"):
        return ""
    same = "the same" if test.mark == "same" else f"{percent(first.value)}, within noise"
    return f"{percent(test.value)} usable (control {same})"


def _reported(column: int, control: RunFigures, run: RunFigures, rows: list[FigureRow]) -> str:
    cell = cell_of(rows, "wall_s_a_sample", column)
    whose = "its figures" if run.origin == "reported" else "the control's figures"
    if run.origin == control.origin:
        whose = "the figures of both"
    ratio = (
        f"; {speed(cell.ratio)} by wall time per sample ({run.origin} beside {control.origin})" if cell.ratio else ""
    )
    return f"{whose} are stated by a report{ratio}."


def _time(cell: FigureCell) -> str:
    if cell.ratio is None:
        is_profiled = "profiler" in cell.reason
        return "times not compared (profiled)" if is_profiled else "" if cell.value is None else "no time to compare"
    if cell.mark == "unknown":
        return f"{speed(cell.ratio)} by wall time per sample (no interval)"
    if cell.mark not in CLEAR:
        how = "within noise" if cell.mark in ("noise", "same") else "too close to call with one run each"
        return f"about as fast ({times(cell.ratio)} the wall time per sample, {how})"
    if cell.interval is None or not cell.interval.ends or not cell.interval.low:
        return f"{speed(cell.ratio)} by wall time per sample"
    low, high = sorted(1 / end for end in cell.interval.ends) if cell.ratio < 1 else cell.interval.ends
    return f"{speed(cell.ratio)} per sample (95 % CI {span(low, high)})"


def speed(ratio: float) -> str:
    """Of a ratio of times, test over control."""
    return f"{times(1 / ratio)} faster" if 0 < ratio < 1 else f"{times(ratio)} the time"


def _passes(rows: list[FigureRow], column: int, control: RunFigures, run: RunFigures) -> str:
    first, test = cell_of(rows, "pass_rate", 0), cell_of(rows, "pass_rate", column)
    if first.value is None or test.value is None:
        return "pass rate unknown for one of the runs"
    both = f"{percent(first.value)} of {control.samples:,} and {percent(test.value)} of {run.samples:,}"
    if first.value == test.value and control.samples == run.samples:
        return f"same pass rate ({percent(test.value)} of {counted(run.samples or 0, 'sample')} in both)"
    if test.mark in ("noise", "same"):
        return f"same pass rate within noise ({both})"
    if test.mark in CLEAR:
        return f"pass rate {test.mark}: {both}{_points(test)}"
    return f"pass rates {both}, without an interval"


def _points(cell: FigureCell) -> str:
    points = cell.difference
    if points is None or not points.ends or cell.compared is None:
        return ""
    value, low, high = (change(part, cell.compared.measure) for part in (points.value, *points.ends))
    return f" ({value} points, {low} to {high})"


def _blocks(rows: list[FigureRow], column: int, run: RunFigures) -> str:
    figure, nothing, some = LETTERS if run.junk_nonnumeric_share is None else NOT_NUMERIC
    junk, cut = _of_blocks(rows, figure, column, run, nothing, some), _cut(rows, column, run)
    if f"{nothing} in " in junk and f"{NO_CUT} in " in cut:
        return junk.replace(nothing, f"{nothing} and {NO_CUT}")
    return "; ".join(part for part in (junk, cut) if part)


def _cut(rows: list[FigureRow], column: int, run: RunFigures) -> str:
    if run.unverified_blocks and cell_of(rows, "cut_share", column).value == 0:
        return f"nothing known to be cut, {run.unverified_blocks:,} of {run.blocks:,} blocks unverified"
    return _of_blocks(rows, "cut_share", column, run, NO_CUT, "{} cut")


def _of_blocks(rows: list[FigureRow], figure: str, column: int, run: RunFigures, nothing: str, some: str) -> str:
    first, test = cell_of(rows, figure, 0), cell_of(rows, figure, column)
    if test.value is None:
        return ""
    share = some.format(f"{percent(test.value)} of blocks") if test.value else f"{nothing} in {run.blocks:,} blocks"
    if column and first.value and (test.value == 0 or test.mark in ("better", "worse")):
        share += f" (control {percent(first.value)})"
    elif column and test.mark in ("noise", "unknown") and test.value:
        share += f" (control {percent(first.value)}, {MARKS[test.mark][1]})"
    elif column and test.value and first.value == 0:
        share += " (control none)"
    return share


def _rmsd(rows: list[FigureRow], column: int, run: RunFigures) -> str:
    first, test = cell_of(rows, "rmsd_ang", 0), cell_of(rows, "rmsd_ang", column)
    if first.value is None:
        return ""
    if test.value is None:
        return NO_CONFORMER if rmsd_references(run.entry) else "RMSD was not computed"
    if test.mark == "same":
        return f"the same RMSD ({number(test.value)} Å)"
    if test.mark == "noise":
        return f"RMSD within noise {pairs_words(test, None)} where both are known"
    if test.mark == "unknown" and test.compared is not None and test.compared.answers:
        return f"RMSD with no interval {pairs_words(test, None)} where both are known"
    if test.mark in CLEAR:
        return f"RMSD {test.mark} ({range_words(test)} {pairs_words(test, None)})"
    return ""
