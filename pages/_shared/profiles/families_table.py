"""Families of one trace or two as a table: calls, times, shares, and what a difference is made of; and as files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.profile.compare import Comparison, FamilyRow, Totals, family_row
from engine.profile.figures import UNKNOWN, number, per_cent, times
from engine.profile.words import incomparable, is_alone, is_known
from pages._shared.profiles.families_html import Cell, Group, Line
from pages._shared.table_files import csv_text

PAIR = ("A", "B", "×")
Figure = Callable[[Totals, float | None], float | None]
SIDES = {"device": "device", "host": "CPU"}
MEANINGS = {
    "attention": "Real compute, as the reports call it",
    "gemm": "Products of matrices: real compute, as the reports call it",
    "other": "What no rule of a family caught",
}


def groups(found: Comparison, *, of_work: bool = True) -> list[Group]:
    """Columns of the table; those of which nothing is known are left out."""
    names = () if is_alone(found) else PAIR
    said = [
        Group("time, ms", names, "All calls of the family, without what operators wait for inside them"),
        Group("calls", names),
        Group("each, µs", names, "Time over calls"),
    ]
    for words, each in (("a token, µs", "tokens"), ("a sample, µs", "samples")):
        if any(trace.known(each) for trace in (found.control, found.test)):
            said.append(Group(words, names, f"Time over the {each} that the trace covers"))
    if of_work and not is_alone(found) and not incomparable(found):
        made_of = ("sum", "by calls", "by each")
        said.append(Group("difference, ms", made_of, "More calls and slower calls; the two add up to it"))
    if of_work:
        said.append(Group("share", names[:2], "Of all work of the trace"))
    return said


def lines(found: Comparison, rows: Sequence[FamilyRow], *, of_work: bool = True) -> list[Line]:
    """A line a family, by its time, and one for all of them."""
    some = [group.heading for group in groups(found, of_work=of_work)]
    whole = _whole(rows)
    by_time = sorted(rows, key=lambda row: -max(row.control.total_us, row.test.total_us))
    told = [Line(_name(found, row), _cells(found, row, whole, some), MEANINGS.get(row.family, "")) for row in by_time]
    return [*told, Line("all", _cells(found, whole, whole, some, rows), is_sum=True)] if len(rows) > 1 else told


def _name(found: Comparison, row: FamilyRow) -> str:
    """With its side, where the two are of two sides."""
    is_mixed = row.side in SIDES and found.control.work_side != found.test.work_side
    return f"{row.family}, {SIDES[row.side]}" if is_mixed else row.family


def _whole(rows: Sequence[FamilyRow]) -> FamilyRow:
    sums = (
        Totals(sum(one.calls for one in side), sum(one.total_us for one in side))
        for side in ([row.control for row in rows], [row.test for row in rows])
    )
    return FamilyRow("", "all", *sums)


def _cells(
    found: Comparison, row: FamilyRow, whole: FamilyRow, headings: Sequence[str], of: Sequence[FamilyRow] = ()
) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    for heading in headings:
        if heading == "difference, ms":
            cells += _difference(row, of or [row])
        elif heading == "share":
            cells += _shares(found, row, whole)
        else:
            cells += _pair(found, heading, row)
    return tuple(cells)


def _pair(found: Comparison, heading: str, row: FamilyRow) -> list[Cell]:
    figure = FIGURES[heading]
    each = {"a token, µs": "tokens", "a sample, µs": "samples"}.get(heading, "")
    one, other = (
        figure(totals, trace.known(each) if each else None) if row.side == "" or is_known(trace, row, totals) else None
        for totals, trace in ((row.control, found.control), (row.test, found.test))
    )
    if is_alone(found):
        return [Cell(number(one))]
    ratio = None if other is None or not one or (row.side == "" and incomparable(found)) else other / one
    return [Cell(number(one)), Cell(number(other)), Cell(times(ratio), "ratio")]


FIGURES: dict[str, Figure] = {
    "time, ms": lambda totals, _: totals.total_us / 1000,
    "calls": lambda totals, _: totals.calls,
    "each, µs": lambda totals, _: totals.mean_us,
    "a token, µs": lambda totals, count: totals.total_us / count if count else None,
    "a sample, µs": lambda totals, count: totals.total_us / count if count else None,
}


def _difference(row: FamilyRow, of: Sequence[FamilyRow]) -> list[Cell]:
    """Of several families: the sum of theirs, so that the columns add up."""
    parts = row.difference_us, sum(one.by_calls_us for one in of), sum(one.by_mean_us for one in of)
    return [Cell(signed(part / 1000)) for part in parts]


def signed(value: float) -> str:
    return f"+{number(value)}" if value > 0 else number(value)


def _shares(found: Comparison, row: FamilyRow, whole: FamilyRow) -> list[Cell]:
    pairs = [(found.control, row.control, whole.control), (found.test, row.test, whole.test)]
    parts = [
        one.total_us / all_.total_us if all_.total_us > 0 and (not row.side or is_known(trace, row, one)) else None
        for trace, one, all_ in pairs
    ]
    some = parts[:1] if is_alone(found) else parts
    return [Cell(UNKNOWN if part is None else per_cent(part), "share", part or 0.0) for part in some]


def csv_of(found: Comparison) -> str:
    """All families of the work and of calls into the runtime, with every figure."""
    rows = [family_row(row, found) for row in (*found.families, *found.calls)]
    names = list(rows[0]) if rows else ["side", "family"]
    if is_alone(found):
        told = [name for name in names if not name.endswith(("_test", "_ratio")) and name not in _OF_TWO]
        return csv_text(
            [name.removesuffix("_control") for name in told], [[row[name] for name in told] for row in rows]
        )
    return csv_text(names, [[row[name] for name in names] for row in rows])


_OF_TWO = ("difference_us", "by_calls_us", "by_mean_us")
