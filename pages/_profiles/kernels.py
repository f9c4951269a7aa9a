"""The Profiles page's third section: single operations, those that came, went, grew and shrank, and what each costs.

Names of kernels run to thousands of characters: the table has short ones, a row that is picked shows its own in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.errors import one_line
from engine.figures.words import microseconds, number, percent, shortened, signed_microseconds
from engine.profile.compare import KernelRow, TraceComparison
from engine.profile.words import incomparable, is_alone, kernels_words
from engine.store.store import Store
from pages._profiles import kernels_table as tables
from pages._profiles.kernels_table import CHANGES, short
from pages._profiles.traces import TraceSelection, comparison_of
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Row, chart, lanes
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.html_table import grouped_table
from pages._shared.rows import BOX_PX, MORE_COLUMNS, ONE_ROW, PAGE_PX, fitting, picked_rows, show_rows, table_height
from pages._shared.shown import put_shown
from pages._shared.table_files import file_button
from pages._shared.theme import palette
from pages._shared.words import unbroken, visible_text

KEY, PICKED = "kernel_rows", "operation"
MOST_ROWS, TABLE_HEIGHT = 1000, 458
FILTER_WIDTH = 240


@dataclass(frozen=True, slots=True)
class KernelMeasure:
    """What operations are sorted and drawn by: calls or time, of a trace alone or as a difference of two."""

    is_alone: bool
    by_calls: bool

    @property
    def name(self) -> str:
        return "calls" if self.by_calls else "time"

    def of(self, row: KernelRow) -> float:
        """A number of calls, or microseconds."""
        if self.is_alone:
            return row.control.calls if self.by_calls else row.control.total_us
        return row.test.calls - row.control.calls if self.by_calls else row.difference_us

    def words(self, row: KernelRow) -> str:
        value = self.of(row)
        if self.is_alone:
            return f"{value:,.0f} calls" if self.by_calls else microseconds(value)
        return f"{'+' if value > 0 else ''}{number(value)} calls" if self.by_calls else signed_microseconds(value)


def show(_: Store, chosen: TraceSelection) -> None:
    comparison = comparison_of(chosen)
    if not comparison.kernels:
        st.info("No work with a name is in these traces.", icon=":material/inbox:")
        return
    if reason := incomparable(comparison):
        st.info(escape_markdown(reason), icon=":material/balance:", title="These two do not compare")
        return
    _section(comparison)


@st.fragment
def _section(comparison: TraceComparison) -> None:
    if not is_alone(comparison):
        with st.container(border=True, key="kernels-say"):
            st.markdown(unbroken(escape_markdown(kernels_words(comparison))))
    measure = KernelMeasure(is_alone(comparison), by_calls=_filters(comparison))
    rows = sorted(filter(_is_wanted, comparison.kernels), key=lambda row: (-abs(measure.of(row)), row.name))
    if not rows:
        st.info("No operation matches. Remove a filter.", icon=":material/filter_alt_off:")
        return
    with st.container(key="profile-cards"):
        _chart(measure, rows)
    _table(comparison, rows[:MOST_ROWS], by_calls=measure.by_calls)
    if len(rows) > MOST_ROWS:
        st.caption(f"{MOST_ROWS:,} of {len(rows):,} operations are listed; the CSV has all.")
    _one(comparison, rows[:MOST_ROWS])
    what = "All operations with full names; filters do not apply"
    file_button("CSV", lambda: tables.csv_of(comparison), "operations.csv", key="kernels_csv", help=what)


def _filters(comparison: TraceComparison) -> bool:
    """Whether calls decide the order, and not time."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="kernel-filters"):
        if not is_alone(comparison):
            st.pills(
                "Change of calls",
                list(CHANGES),
                selection_mode="multi",
                key="change",
                bind="query-params",
                width="content",
            )
        st.multiselect(
            "Family",
            sorted({row.family for row in comparison.kernels}),
            key="family",
            placeholder="any",
            bind="query-params",
            width=FILTER_WIDTH,
        )
        st.text_input(
            "Contains",
            key="kernel",
            placeholder="any",
            bind="query-params",
            max_chars=200,
            help="Words in the operation's full name",
            width=FILTER_WIDTH,
        )
        return one_of("Largest by", ("time", "calls"), "by") == "calls"


def _is_wanted(row: KernelRow) -> bool:
    filters = st.session_state
    if (changes := filters.get("change")) and row.change not in [CHANGES[change] for change in changes]:
        return False
    if (families := filters.get("family")) and row.family not in families:
        return False
    name = row.name.casefold()
    return all(word in name for word in (filters.get("kernel") or "").casefold().split())


def _table(comparison: TraceComparison, rows: Sequence[KernelRow], *, by_calls: bool) -> None:
    picked = st.query_params.get(PICKED)
    key = show_rows(KEY, [tables.key_of(row) for row in rows], [picked])
    table, looks = tables.shown(comparison, rows, by_calls=by_calls)
    st.dataframe(
        table,
        hide_index=True,
        height=table_height(len(rows), TABLE_HEIGHT),
        column_config=looks,
        column_order=fitting(looks, looks, PAGE_PX - BOX_PX),
        key=key,
        on_select=lambda: _pick(key, rows),
        selection_mode=ONE_ROW,
        placeholder="–",
        alt="Operations: tick one to see its full name",
    )


def _pick(key: str, rows: Sequence[KernelRow]) -> None:
    places = picked_rows(key)
    if places is None:
        return
    if places and places[0] < len(rows):
        st.query_params[PICKED] = tables.key_of(rows[places[0]])
    else:
        st.query_params.pop(PICKED, None)


def _one(comparison: TraceComparison, rows: Sequence[KernelRow]) -> None:
    """The whole name of the one that is picked, and what is known of it stream by stream."""
    picked = st.query_params.get(PICKED)
    row = next((row for row in rows if tables.key_of(row) == picked), None)
    put_shown(**{PICKED: None if row is None else picked})
    if row is None:
        st.caption(f"Tick a row for its full name, its streams, and its shortest and longest call. {MORE_COLUMNS}")
        return
    with st.container(border=True, key="one-kernel"):
        st.code(visible_text(row.name), language=None, wrap_lines=True)
        groups, lines = tables.by_stream(comparison, row)
        st.html(grouped_table("trace, stream", groups, lines, "The operation by traces and streams", "told"))


HELP = """
Of the operations that the filters leave, the largest by time or by calls. Bars to the right are what the test has more
of, to the left what it has less of; hatched ones are operations that only one of the two has.
"""
HELP_ALONE = "Of the operations that the filters leave, the largest by time or by calls."
MOST = 12
MOST_NAME = 34


def _chart(measure: KernelMeasure, rows: Sequence[KernelRow]) -> None:
    drawn = [row for row in rows if measure.of(row)][:MOST]
    question = f"Which take most {measure.name}?" if measure.is_alone else f"Which differ most in {measure.name}?"
    with card("kernels", question, HELP_ALONE if measure.is_alone else HELP) as frame:
        frame.tell(chart_sentence(measure, rows, drawn))
        if drawn:
            frame.draw(kernels_chart(measure, drawn))


def chart_sentence(measure: KernelMeasure, rows: Sequence[KernelRow], drawn: Sequence[KernelRow]) -> str:
    """How much of all these few are."""
    if not drawn:
        return "None of these operations differs."
    first = f"{short(drawn[0])} {'takes' if measure.is_alone else 'differs'} most, {measure.words(drawn[0])}."
    if len(drawn) == len(rows):
        return first
    whole, part = (sum(abs(measure.of(row)) for row in group) for group in (rows, drawn))
    of = f"their {measure.name}" if measure.is_alone else f"all changes of {measure.name}, up and down"
    which = f"The {len(drawn)} drawn of {len(rows):,} are" if len(drawn) > 1 else f"It alone of {len(rows):,} is"
    return f"{first} {which} {percent(part / whole)} of {of}."


def kernels_chart(measure: KernelMeasure, rows: Sequence[KernelRow]) -> Chart:
    colours = palette()
    values = [measure.of(row) for row in rows]
    is_ms = max(abs(value) for value in values) >= 1000
    scale, unit = (1.0, "calls") if measure.by_calls else (1000.0, "ms") if is_ms else (1.0, "µs")
    bars: list[dict[str, Any]] = [
        {
            "lane": lane,
            "value": value / scale,
            "text": measure.words(row),
            "colour": colours.muted if measure.is_alone else colours.text if value > 0 else colours.boundary,
            "pattern": "/" if row.change in ("added", "gone") else "",
            "row": row,
        }
        for lane, (row, value) in enumerate(zip(rows, values, strict=True))
    ]

    def hover(bar: Row) -> tuple[str, ...]:
        row: KernelRow = bar["row"]
        calls = f"calls: A {row.control.calls:,}, B {row.test.calls:,}"
        return row.name, f"{row.family}, {bar['text']}", calls

    low, high = min(0.0, *values) / scale, max(0.0, *values) / scale
    room = 0.28 * (high - low)
    return chart(
        Marks(kind="bars", rows=bars, x="value", y="lane", is_across=True, hover=hover),
        x=Axis(
            title=f"{unit}{'' if measure.is_alone else ', B − A'}",
            range=[low - (room if low < 0 else 0), high + (room if high > 0 else 0)],
            more={"zeroline": True},
        ),
        y=lanes([shortened(one_line(short(row)), MOST_NAME) for row in rows]),
        height=90 + 26 * len(rows),
        more={"margin": {"r": 48}},
        alt=", ".join(f"{short(bar['row'])[:60]} {bar['text']}" for bar in bars) + ".",
    )
