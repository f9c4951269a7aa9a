"""One sentence for each test of the Compare page's table: what the comparison shows, and how sure that is.

A sentence is made of the table's own cells, so it can say nothing that they do not. It is plain text; whoever draws it
escapes it.
"""

from __future__ import annotations

from engine.comparing.figures import Beside, RunFigures
from pages._shared.compare.table_cells import CLEAR, Cell, Row, cell_of
from pages._shared.compare.table_words import (
    MARK_WORDS,
    change,
    count,
    is_near,
    number,
    own_interval,
    pairs_words,
    range_words,
    three_digits,
    times,
)

NO_JUNK, NO_CUT = "no junk", "nothing cut"


def alone(run: RunFigures, rows: list[Row]) -> str:
    """A run without a test beside it."""
    cell = cell_of(rows, "pass_rate", 0)
    passed = ""
    if cell.value is not None:
        within = f"95 % interval {own_interval(cell, 'share')} %"
        passed = f"{_share(cell)} of {count(run.samples or 0, 'sample')} passed ({within})"
    parts = [passed, _blocks(rows, 0, run)]
    return "; ".join(part for part in parts if part) + "."


def sentence(column: int, control: RunFigures, beside: Beside, rows: list[Row]) -> str:
    """What the comparison shows of the test in this column, in one line."""
    run = beside.figures
    if "reported" in (run.origin, control.origin):
        return _reported(column, control, run, rows)
    parts = [
        _time(cell_of(rows, "wall_s_a_sample", column)),
        _passes(rows, column, control, run),
        _clean(rows, column),
        _blocks(rows, column, run),
        _rmsd(rows, column),
    ]
    return "; ".join(part for part in parts if part) + "."


def _reported(column: int, control: RunFigures, run: RunFigures, rows: list[Row]) -> str:
    cell = cell_of(rows, "wall_s_a_sample", column)
    whose = "its figures stand" if run.origin == "reported" else "the control's figures stand"
    if run.origin == control.origin:
        whose = "the figures of both stand"
    speed = (
        "" if cell.ratio is None else f"; {times(cell.ratio)} the wall time a sample ({run.origin} ÷ {control.origin})"
    )
    return f"{whose} as a report states them{speed}."


def _time(cell: Cell) -> str:
    if cell.ratio is None:
        return "" if cell.value is None else "no time to compare with"
    if cell.mark == "unknown":
        return f"{_speed(cell.ratio)} in wall time a sample (no interval)"
    if cell.mark not in CLEAR:
        how = "within noise" if cell.mark in ("noise", "same") else "too near to tell from one run each"
        if cell.interval is not None and not is_near(cell):
            own = times(cell.interval.value)
            return f"{times(cell.ratio)} the wall time a sample, but {own} by the answers that are compared: {how}"
        return f"about as fast ({times(cell.ratio)} the wall time a sample, {how})"
    return f"{_speed(cell.ratio)} in wall time a sample{_speed_range(cell)}"


def _speed(ratio: float) -> str:
    return f"{times(1 / ratio)[:-1]} times as fast" if 0 < ratio < 1 else f"{times(ratio)} the time"


def _speed_range(cell: Cell) -> str:
    interval = cell.interval
    if interval is None or not interval.low or interval.high is None or cell.ratio is None:
        return ""
    low, high = (1 / interval.high, 1 / interval.low) if cell.ratio < 1 else (interval.low, interval.high)
    return f" ({three_digits(low)} to {three_digits(high)} in the samples' own times, set-up left out)"


def _passes(rows: list[Row], column: int, control: RunFigures, run: RunFigures) -> str:
    one, other = cell_of(rows, "pass_rate", 0), cell_of(rows, "pass_rate", column)
    if one.value is None or other.value is None:
        return "pass rate not known of both"
    both = f"{_share(one)} of {control.samples:,} and {_share(other)} of {run.samples:,}"
    if other.mark in ("noise", "same"):
        return f"same pass rate within noise ({both})"
    if other.mark in CLEAR:
        return f"pass rate {other.mark}: {both}{_points(other)}"
    return f"pass rates {both}, without an interval"


def _points(cell: Cell) -> str:
    found = cell.difference
    if found is None or found.low is None or found.high is None or cell.told is None:
        return ""
    low, high = change(found.low, cell.told.measure), change(found.high, cell.told.measure)
    return f" ({change(found.value, cell.told.measure)} points, {low} to {high})"


def _clean(rows: list[Row], column: int) -> str:
    one, other = cell_of(rows, "clean_rate", 0), cell_of(rows, "clean_rate", column)
    if other.mark not in CLEAR:
        return ""
    return f"{_share(other)} clean where the control has {_share(one)}"


def _blocks(rows: list[Row], column: int, run: RunFigures) -> str:
    junk, cut = _junk(rows, column, run), _cut(rows, column, run)
    if f"{NO_JUNK} in " in junk and f"{NO_CUT} in " in cut:
        return junk.replace(NO_JUNK, f"{NO_JUNK} and {NO_CUT}")
    return "; ".join(part for part in (junk, cut) if part)


def _junk(rows: list[Row], column: int, run: RunFigures) -> str:
    figure = "junk_letters_share" if run.junk_nonnumeric_share is None else "junk_nonnumeric_share"
    return _of_blocks(rows, figure, column, run, NO_JUNK, "junk in {}")


def _cut(rows: list[Row], column: int, run: RunFigures) -> str:
    if run.unverified_blocks and cell_of(rows, "cut_share", column).value == 0:
        return f"nothing known to be cut, {run.unverified_blocks:,} of {run.blocks:,} blocks unverified"
    return _of_blocks(rows, "cut_share", column, run, NO_CUT, "{} cut")


def _of_blocks(rows: list[Row], figure: str, column: int, run: RunFigures, nothing: str, some: str) -> str:
    one, other = cell_of(rows, figure, 0), cell_of(rows, figure, column)
    if other.value is None:
        return ""
    said = f"{nothing} in {run.blocks:,} blocks" if other.value == 0 else some.format(f"{_share(other)} of blocks")
    if column and one.value and (other.value == 0 or other.mark in ("better", "worse")):
        said += f" (control {_share(one)})"
    elif column and other.mark in ("noise", "unknown") and other.value:
        said += f" (control {_share(one)}, {MARK_WORDS[other.mark]})"
    elif column and other.value and one.value == 0:
        said += " (control none)"
    return said


def _rmsd(rows: list[Row], column: int) -> str:
    one, other = cell_of(rows, "rmsd_ang", 0), cell_of(rows, "rmsd_ang", column)
    if one.value is None:
        return ""
    if other.value is None:
        return "no RMSD: none of its answers was laid on a reference"
    if other.mark == "same":
        return f"the same RMSD ({number(other.value)} Å)"
    if other.mark == "noise":
        return f"RMSD within noise {pairs_words(other, None)} that have it on both sides"
    if other.mark in CLEAR:
        return f"RMSD {other.mark} ({range_words(other)} {pairs_words(other, None)})"
    return ""


def _share(cell: Cell) -> str:
    return f"{number(cell.value, 'share')} %"
