"""The Profiles page's first section: where the time goes by families, and what makes up a difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import capitalised, number, percent, signed, times
from engine.models.summary import sized
from engine.profile.compare import FamilyRow, TraceComparison, document, family_row
from engine.profile.lp_words import head_words, lp_words, sample_words
from engine.profile.step_places import PLACE_WORDS, PlaceRow, pass_words, place_rows, place_words
from engine.profile.stored_trace import StoredTrace, Totals
from engine.profile.words import alone, are_unequal, incomparable, is_alone, is_known, other_words, where_from
from engine.store.entries import model_name
from engine.store.store import Store
from pages._profiles import families_charts as charts
from pages._profiles.traces import TraceSelection, comparison_of
from pages._shared.errors import escape_markdown
from pages._shared.html_table import ColumnGroup, TableCell, TableRow, grouped_table
from pages._shared.table_files import csv_text, file_button
from pages._shared.words import unbroken

MORE = "All columns"
PLACE_HELP = """
The same work may run in kernels of other names, so two traces are matched by family and by place in the pass. Places
are the marks of the engine, to a bin of the timeline. Rows under 1 % of all changes are left out. What lies outside of
the passes, such as set-up, is divided by their number too.
"""
LEAST_PLACE = 0.01
SIDES = {"device": "device operations", "host": "operators on the CPU, without operators inside them"}
RULE = """[[rule]]
side = "{side}"
family = "mine"
pattern = "part_of_a_name"   # a regular expression; the first rule that matches decides"""


def show(_: Store, chosen: TraceSelection) -> None:
    comparison = comparison_of(chosen)
    ends = chosen.entries[0], chosen.entries[-1]
    runs = [chosen.runs.get(str(entry.row.get("run_id")), {}) for entry in ends]
    is_one = is_alone(comparison)
    causes = " ".join(filter(None, (sample_words(comparison, *runs), lp_words(comparison, *runs))))
    text = (
        alone(comparison.control, comparison.families) if is_one else where_from(comparison, causes, head_words(*runs))
    )
    places = [] if is_one else place_rows(comparison)
    with st.container(border=True, key="families-say"):
        st.markdown(unbroken(escape_markdown(text)))
        if any(map(model_name, runs)):
            models = [sized(model_name(run)) if model_name(run) else "a model that is not known" for run in runs]
            devices = [entry.row.get("device") or "a CPU" for entry in ends]
            of = dict.fromkeys(f"{model}, on {device}" for model, device in zip(models, devices, strict=True))
            st.caption(escape_markdown(f"Of {'; and of '.join(of)}."))
    with st.container(key="profile-cards"):
        _cards(chosen, comparison)
    if comparison.families:
        names = " and ".join(chosen.name(entry.id) for entry in chosen.entries)
        is_full = st.toggle(MORE, key="columns", bind="query-params", help="Times per call, shares, and why")
        groups, lines = family_table(comparison, comparison.families, is_full=is_full)
        st.html(grouped_table("family", groups, lines, f"Families of work of {names}"))
        st.caption(unbroken(_legend(comparison, is_full=is_full)))
    if places:
        st.subheader("In which part of a pass?", anchor=False, help=PLACE_HELP)
        st.markdown(unbroken(escape_markdown(f"{place_words(places)} {pass_words(comparison)}")))
        st.html(grouped_table("family", PLACE_COLUMNS, place_lines(places), f"Work per pass of {names} by place"))
    _other(comparison)
    _downloads(comparison)


def _cards(chosen: TraceSelection, comparison: TraceComparison) -> None:
    if is_alone(comparison) or incomparable(comparison):
        charts.compute(chosen, comparison)
        return
    left, right = st.columns([3, 2], gap="small")
    with left:
        charts.way(chosen, comparison)
    with right:
        charts.compute(chosen, comparison)


def _legend(comparison: TraceComparison, *, is_full: bool) -> str:
    sides = dict.fromkeys(trace.work_side for trace in (comparison.control, comparison.test))
    text = f"Work: {' in A, '.join(SIDES[side] for side in sides)}{' in B' if len(sides) > 1 else ''}."
    if not is_alone(comparison):
        text += " × is test over control."
        if are_unequal(comparison):
            covered = times(comparison.figure("tokens").ratio)
            text += f" Times, calls and differences are of the whole traces; B has {covered} the tokens of A."
        text += (
            ""
            if incomparable(comparison) or not is_full
            else " *By calls*: cost of more calls. *By each*: cost of slower calls."
        )
    if not all(trace.is_whole for trace in (comparison.control, comparison.test)):
        text += " A report names some operations only; shares are of those."
    return text


def _other(comparison: TraceComparison) -> None:
    """What no rule matches, and how to add one."""
    notes = [other_words(comparison.control, comparison.families)]
    if not is_alone(comparison):
        of_test = other_words(comparison.test, comparison.families, of_test=True)
        notes = [f"{letter}: {words}" for letter, words in (("A", notes[0]), ("B", of_test)) if words]
    if not any(notes):
        return
    with st.expander("What is in `other`?", icon=":material/help:"):
        unmatched = "; ".join(unbroken(escape_markdown(note)) for note in notes)
        st.markdown(f"No rule of a family matches {unmatched}.")
        st.markdown(
            "Families are rules over names, in `data/trace_families.toml`. To add your own, write them into a file, "
            "set `DRIFTSCOPE_TRACE_FAMILIES` to its path, and add the trace again. Your rules come first."
        )
        st.code(RULE.format(side=comparison.control.work_side), language="toml")


def _downloads(comparison: TraceComparison) -> None:
    name = "trace" if is_alone(comparison) else "traces"
    what = "One row per family, with every figure"
    with st.container(horizontal=True):
        file_button("CSV", lambda: csv_of(comparison), f"{name}-families.csv", key="families_csv", help=what)
        if not is_alone(comparison):
            file_button(
                "JSON",
                lambda: json.dumps(document(comparison), ensure_ascii=False, indent=1),
                "traces.json",
                key="families_json",
                help="Families, figures and kernels, as `trace compare --json` has them",
            )


PAIR = ("A", "B", "×")
FOLDED = {"calls", "each, µs", "per sample, µs", "share"}
"""Columns that show on demand: with them the table is wider than a small window."""
Figure = Callable[[Totals, StoredTrace], float | None]
Cells = Callable[[FamilyRow], list[TableCell]]
SIDE_NAMES = {"device": "device", "host": "CPU"}
MEANINGS = {
    "attention": "Real compute, as the reports call it",
    "gemm": "Products of matrices: real compute, as the reports call it",
    "other": "Matched by no rule of a family",
}


PLACE_COLUMNS = [ColumnGroup("per pass, µs", ("A", "B")), ColumnGroup("difference")]


def place_lines(rows: Sequence[PlaceRow]) -> list[TableRow]:
    """Places in the order of their changes, the families of each under its name."""
    moved = sum(abs(row.difference_us) for row in rows)
    large = [row for row in rows if abs(row.difference_us) >= LEAST_PLACE * moved]
    return [
        TableRow(
            row.family,
            tuple(TableCell(text) for text in (number(row.control_us), number(row.test_us), signed(row.difference_us))),
            group=capitalised(PLACE_WORDS[place]),
        )
        for place in dict.fromkeys(row.place for row in large)
        for row in large
        if row.place == place
    ]


def family_table(
    comparison: TraceComparison, rows: Sequence[FamilyRow], *, of_work: bool = True, is_full: bool = True
) -> tuple[list[ColumnGroup], list[TableRow]]:
    """Columns of which something is known; a line a family, by its time, and one for all of them."""
    sides = [row.control for row in rows], [row.test for row in rows]
    sums = (Totals(sum(one.calls for one in side), sum(one.total_us for one in side)) for side in sides)
    whole = FamilyRow("", "all", *sums)
    columns = _columns(comparison, rows, whole, of_work)
    if not is_full:
        columns = [_one_column(*column) for column in columns if column[0].heading not in FOLDED]

    def line(name: str, row: FamilyRow, **more: Any) -> TableRow:
        return TableRow(name, tuple(cell for _, cells in columns for cell in cells(row)), **more)

    by_time = sorted(rows, key=lambda row: -max(row.control.total_us, row.test.total_us))
    lines = [line(_name(comparison, row), row, help=MEANINGS.get(row.family, "")) for row in by_time]
    if len(rows) > 1:
        lines.append(line("all", whole, is_sum=True))
    return [group for group, _ in columns], lines


def _one_column(group: ColumnGroup, cells: Cells) -> tuple[ColumnGroup, Cells]:
    """Of the difference its sum."""
    if not group.heading.startswith("difference"):
        return group, cells
    return ColumnGroup(group.heading, (), group.help), lambda row: cells(row)[:1]


def _name(comparison: TraceComparison, row: FamilyRow) -> str:
    """With its side, where the two are of two sides."""
    is_mixed = row.side in SIDE_NAMES and comparison.control.work_side != comparison.test.work_side
    return f"{row.family}, {SIDE_NAMES[row.side]}" if is_mixed else row.family


def _columns(
    comparison: TraceComparison, rows: Sequence[FamilyRow], whole: FamilyRow, of_work: bool
) -> list[tuple[ColumnGroup, Cells]]:
    """Each with what makes its cells of a row."""
    control, test = comparison.control, comparison.test
    names = () if is_alone(comparison) else PAIR

    def values(row: FamilyRow, figure: Figure) -> list[float | None]:
        sides = (row.control, control), (row.test, test)
        return [figure(one, trace) if row is whole or is_known(trace, row, one) else None for one, trace in sides]

    def pair(heading: str, help_: str, figure: Figure) -> tuple[ColumnGroup, Cells]:
        def cells(row: FamilyRow) -> list[TableCell]:
            one, other = values(row, figure)
            is_unlike = row is whole and incomparable(comparison)
            return figure_cells(comparison, one, other, None if is_unlike else quotient(other, one))

        return ColumnGroup(heading, names, help_), cells

    def difference(row: FamilyRow) -> list[TableCell]:
        of = rows if row is whole else [row]  # so that the columns add up
        parts = row.difference_us, sum(one.by_calls_us for one in of), sum(one.by_mean_us for one in of)
        return [TableCell(signed(part / 1000)) for part in parts]

    def shares(row: FamilyRow) -> list[TableCell]:
        wholes = max(0.0, whole.control.total_us), max(0.0, whole.test.total_us)
        parts = map(quotient, values(row, lambda totals, _: totals.total_us), wholes)
        return [TableCell(percent(part), "share", part or 0.0) for part in parts][: 1 if is_alone(comparison) else 2]

    columns = [
        pair("time, ms", "All calls of the family; of operators, their own time", lambda one, _: one.total_us / 1000),
        pair("calls", "", lambda one, _: one.calls),
        pair("each, µs", "Time per call", lambda one, _: one.mean_us),
    ]
    if of_work and any(trace.known("tokens") for trace in (control, test)):
        help_ = "Time over the tokens that the trace covers"
        columns.append(pair("per token, µs", help_, lambda one, of: quotient(one.total_us, of.known("tokens"))))
    if of_work and any(trace.known("samples") for trace in (control, test)):
        help_ = "Time over the samples that the trace covers"
        columns.append(pair("per sample, µs", help_, lambda one, of: quotient(one.total_us, of.known("samples"))))
    if of_work and not is_alone(comparison) and not incomparable(comparison):
        help_ = "More calls and slower calls; the two add up to it"
        of = " of whole traces" if are_unequal(comparison) else ""
        columns.append((ColumnGroup(f"difference{of}, ms", ("sum", "by calls", "by each"), help_), difference))
    if of_work:
        columns.append((ColumnGroup("share", names[:2], "Of all work of the trace"), shares))
    return columns


def figure_cells(
    comparison: TraceComparison, control: float | None, test: float | None, ratio: float | None
) -> list[TableCell]:
    """A figure of both and its ratio; of a trace alone the figure."""
    cells = [TableCell(number(control)), TableCell(number(test)), TableCell(times(ratio), "ratio")]
    return cells[:1] if is_alone(comparison) else cells


def csv_of(comparison: TraceComparison) -> str:
    """All families of the work and of calls into the runtime, with every figure."""
    rows = [family_row(row, comparison) for row in (*comparison.families, *comparison.calls)]
    names = list(rows[0]) if rows else ["side", "family"]
    if is_alone(comparison):
        columns = [name for name in names if not name.endswith(("_test", "_ratio")) and name not in _OF_TWO]
        return csv_text(
            [name.removesuffix("_control") for name in columns], [[row[name] for name in columns] for row in rows]
        )
    return csv_text(names, [[row[name] for name in names] for row in rows])


_OF_TWO = ("difference_us", "by_calls_us", "by_mean_us")
