"""The Profiles page's third section: single operations, those that came, went, grew and shrank, and what each costs.

Names of kernels run to thousands of characters: the table has short ones, a row that is picked shows its own in full.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.profile.compare import Change, Comparison, KernelRow
from engine.profile.words import incomparable, is_alone, kernels_words
from engine.store.store import Store
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.profiles import families_html as html
from pages._shared.profiles import kernels_chart as chart
from pages._shared.profiles import kernels_table as tables
from pages._shared.profiles.reading import comparison_of
from pages._shared.profiles.state import Chosen
from pages._shared.profiles.traces import say_nobody
from pages._shared.rows import picked_rows, show_rows
from pages._shared.table_files import CSV

KEY, PICKED = "kernel_rows", "operation"
MOST_ROWS, ROW_HEIGHT, TABLE_HEIGHT = 1000, 35, 458
CHANGES: dict[str, Change] = {
    "only in B": "added",
    "only in A": "gone",
    "more calls": "grown",
    "fewer calls": "shrunk",
    "as many calls": "same",
}
BY_TIME, BY_CALLS = "time", "calls"
FILTER_WIDTH = 240


def show(store: Store, chosen: Chosen | None) -> None:
    """Draw this section; ``chosen`` is None where no trace is chosen."""
    if chosen is None:
        say_nobody(store, "its kernels")
        return
    found = comparison_of(chosen)
    if not found.kernels:
        st.info("No work with a name is in these traces.", icon=":material/inbox:")
        return
    if reason := incomparable(found):
        st.info(escape_markdown(reason), icon=":material/balance:", title="These two do not compare")
        return
    st.html(html.style())
    _section(chosen, found)


@st.fragment
def _section(chosen: Chosen, found: Comparison) -> None:
    if not is_alone(found):
        with st.container(border=True, key="kernels-say"):
            st.markdown(escape_markdown(kernels_words(found)))
    by_calls = _filters(found)
    rows = tables.sorted_rows([row for row in found.kernels if _is_wanted(row)], found, by_calls=by_calls)
    if not rows:
        st.info("No operation is like that. Take a filter away.", icon=":material/filter_alt_off:")
        return
    with st.container(key="profile-cards"):
        chart.show(chosen, found, rows, by_calls=by_calls)
    _table(found, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        st.caption(f"The first {MOST_ROWS:,} of {len(rows):,}; the file has all.")
    _one(found, rows[:MOST_ROWS])
    _downloads(found)


def _filters(found: Comparison) -> bool:
    """Whether calls decide the order, and not time."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="kernel-filters"):
        if not is_alone(found):
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
            sorted({row.family for row in found.kernels}),
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
            help="In an operation's whole name",
            width=FILTER_WIDTH,
        )
        by = st.segmented_control(
            "Largest by", [BY_TIME, BY_CALLS], default=BY_TIME, required=True, key="by", bind="query-params"
        )
    return by == BY_CALLS


def _is_wanted(row: KernelRow) -> bool:
    asked = st.session_state
    if (changes := asked.get("change")) and row.change not in [CHANGES[one] for one in changes]:
        return False
    if (families := asked.get("family")) and row.family not in families:
        return False
    name = row.name.casefold()
    return all(word in name for word in (asked.get("kernel") or "").casefold().split())


def _table(found: Comparison, rows: Sequence[KernelRow]) -> None:
    picked = st.query_params.get(PICKED)
    show_rows(KEY, [place for place, row in enumerate(rows) if tables.key_of(row) == picked][:1])
    st.dataframe(
        tables.shown(found, rows),
        hide_index=True,
        height=min(TABLE_HEIGHT, ROW_HEIGHT * (len(rows) + 1) + 2),
        column_config=tables.columns(found),
        key=KEY,
        on_select=lambda: _pick(rows),
        selection_mode="single-row",
        placeholder="–",
        alt="Operations: tick one to see its whole name",
    )


def _pick(rows: Sequence[KernelRow]) -> None:
    places = picked_rows(KEY)
    if places is None:
        return
    if places and places[0] < len(rows):
        st.query_params[PICKED] = tables.key_of(rows[places[0]])
    else:
        st.query_params.pop(PICKED, None)


def _one(found: Comparison, rows: Sequence[KernelRow]) -> None:
    """The whole name of the one that is picked, and what is known of it stream by stream."""
    picked = st.query_params.get(PICKED)
    row = next((one for one in rows if tables.key_of(one) == picked), None)
    if row is None:
        st.caption("Tick a row for its whole name, its streams, and its shortest and longest call.")
        return
    with st.container(border=True, key="one-kernel"):
        st.code(visible_text(row.name), language=None, wrap_lines=True)
        groups, lines = tables.by_stream(found, row)
        st.html(html.table("trace, stream", groups, lines, "The operation by traces and streams", "told"))


def _downloads(found: Comparison) -> None:
    st.download_button(
        "CSV",
        lambda: tables.csv_of(found),
        "operations.csv",
        CSV,
        icon=":material/download:",
        help="All operations with their whole names, whatever the filters show",
        on_click="ignore",
        type="tertiary",
        key="kernels_csv",
    )
