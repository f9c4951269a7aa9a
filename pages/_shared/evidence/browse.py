"""The Evidence page's second section: filters, the claims by report and section, and the one that is open."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import shown as shown_value
from engine.evidence.checks.finding import VERDICTS
from engine.evidence.claims import REPORTS
from engine.store.store import Store
from pages._shared.components.claims_list import claims_list
from pages._shared.errors import escape_markdown
from pages._shared.evidence import detail, files, state
from pages._shared.evidence import store as evidence_store
from pages._shared.evidence.claims import OVER_RUNS, Judged, places_of

LIST = "claims"
MOST_CHARS = 200


def show(store: Store, rows: Sequence[Judged]) -> None:
    """Draw the section."""
    _filters(rows)
    shown = places_of(rows, state.wanted())
    _list_and_one(store, rows, shown)
    with st.container(horizontal=True):
        files.buttons(rows)


def _filters(rows: Sequence[Judged]) -> None:
    first = st.container(horizontal=True, gap="medium")
    first.segmented_control("Report", REPORTS, selection_mode="multi", key=state.REPORT, bind="query-params", wrap=True)
    first.segmented_control(
        "Verdict",
        VERDICTS,
        selection_mode="multi",
        key=state.VERDICT,
        bind="query-params",
        wrap=True,
    )
    find, about, figure = st.columns([3, 3, 2], gap="small", vertical_alignment="bottom")
    find.text_input(
        "Contains",
        key=state.FIND,
        placeholder="words of the claim, its section or its reason",
        bind="query-params",
        max_chars=MOST_CHARS,
    )
    about.selectbox(
        "About",
        sorted({row.claim.subject for row in rows}),
        index=None,
        placeholder="anything",
        key=state.ABOUT,
        bind="query-params",
    )
    figure.toggle("Only with a figure", key=state.FIGURE, bind="query-params")


@st.fragment
def _list_and_one(store: Store, rows: Sequence[Judged], shown: Sequence[int]) -> None:
    """A click in the list draws nothing else anew."""
    one = state.opened(rows)
    _unknown(one)
    _above(rows, shown, one)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        place = None if one is None else next(at for at, row in enumerate(rows) if row.id == one.id)
        claims_list(rows, shown, key=LIST, selected=place, on_pick=lambda at: _take(rows, at))
    with right:
        if one is None:
            words = "Select a claim: its figure beside the one that comes out here, why, and the query behind it."
            st.info(words, icon=":material/arrow_back:")
            return
        needs_runs = one.claim.check in OVER_RUNS and not evidence_store.has_shipped_runs(store)
        detail.show(one, rows, lacks_runs=needs_runs)


def _unknown(one: Judged | None) -> None:
    named = state.claim_id()
    if one is None and named:
        words = f"There is no claim {shown_value(named)}. Choose one below."
        st.error(escape_markdown(words), icon=":material/error:")


def _above(rows: Sequence[Judged], shown: Sequence[int], one: Judged | None) -> None:
    """How many the filters leave, and steps to the claims before and behind the one that is open."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="above"):
        words = f"{len(rows):,} claims" if len(shown) == len(rows) else f"{len(shown):,} of {len(rows):,} claims"
        st.caption(words, width="content")
        if len(shown) < len(rows):
            _drop()
        st.space("stretch")
        if one is not None:
            _steps(rows, shown, one)


def _drop() -> None:
    dropped = st.button(
        "Drop all filters",
        icon=":material/filter_alt_off:",
        type="tertiary",
        key="drop_filters",
        on_click=state.drop_filters,
    )
    if dropped:
        st.rerun()  # the filters stand above, outside of the fragment


def _steps(rows: Sequence[Judged], shown: Sequence[int], one: Judged) -> None:
    at = next((at for at, place in enumerate(shown) if rows[place].id == one.id), None)
    words = "not among those shown" if at is None else f"{at + 1:,} of {len(shown):,}"
    st.caption(words, width="content")
    for word, step, icon, keys in (
        ("Previous", -1, ":material/arrow_upward:", "Alt+Up"),
        ("Next", 1, ":material/arrow_downward:", "Alt+Down"),
    ):
        there = None if at is None else at + step
        is_there = there is not None and 0 <= there < len(shown)
        st.button(
            word,
            icon=icon,
            shortcut=keys,
            key=f"go{step}",
            disabled=not is_there,
            on_click=state.put_claim,
            args=(rows[shown[there]].id if is_there and there is not None else one.id,),
        )


def _take(rows: Sequence[Judged], place: int | None) -> None:
    state.put_claim(None if place is None else rows[place].id)
