"""The Evidence page's second section: filters, the claims by report and section, and the open claim."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import streamlit as st

from engine.errors import shown as shown_value
from engine.evidence.checks.finding import VERDICTS
from engine.evidence.claims import REPORTS
from engine.evidence.verdicts import FLAT, document, flat
from engine.store.store import Store
from pages._evidence import detail, state
from pages._evidence import store as evidence_store
from pages._evidence.claims import OVER_RUNS, Judged, places_of
from pages._evidence.words import list_groups, list_row
from pages._shared.components.claims_list import claims_list
from pages._shared.errors import escape_markdown
from pages._shared.rows import show_steps
from pages._shared.shown import put_shown
from pages._shared.table_files import csv_text, file_button

LIST = "claims"
MOST_CHARS = 200


def show(store: Store, rows: Sequence[Judged]) -> None:
    _filters(rows)
    shown = places_of(rows, state.claim_filter())
    _list_and_one(store, rows, shown)
    with st.container(horizontal=True):
        file_button("All as CSV", partial(csv_of, rows), "claims.csv")
        file_button("All as JSON", partial(json_of, rows), "claims.json")


def csv_of(rows: Sequence[Judged]) -> str:
    return csv_text(FLAT, [flat(row.claim, row.verdict) for row in rows])


def json_of(rows: Sequence[Judged]) -> str:
    documents = [document(row.claim, row.verdict) for row in rows]
    return json.dumps(documents, indent=1, ensure_ascii=False) + "\n"


def _filters(rows: Sequence[Judged]) -> None:
    first = st.container(horizontal=True, gap="medium")
    for label, options, key in (("Report", REPORTS, state.REPORT), ("Verdict", VERDICTS, state.VERDICT)):
        first.segmented_control(label, options, selection_mode="multi", key=key, bind="query-params", wrap=True)
    find, about, figure = st.columns([3, 3, 2], gap="small", vertical_alignment="bottom")
    find.text_input(
        "Contains",
        key=state.FIND,
        placeholder="any",
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
    """A click in the list redraws this part alone."""
    selected = next((place for place, row in enumerate(rows) if row.id == state.claim_id()), None)
    claim = None if selected is None else rows[selected]
    put_shown(claim=None if claim is None else claim.id, claims=[rows[place].id for place in shown])
    if claim is None and state.claim_id():
        message = f"There is no claim {shown_value(state.claim_id())}. Choose one below."
        st.error(escape_markdown(message), icon=":material/error:")
    _above(rows, shown, claim)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        claims_list(
            list_groups(rows),
            [list_row(row) for row in rows],
            shown,
            key=LIST,
            selected=selected,
            on_pick=lambda place: state.put_claim(None if place is None else rows[place].id),
        )
    with right:
        if claim is None:
            message = "Select a claim to see its figure beside the one computed here, the reason, and the query."
            st.info(message, icon=":material/arrow_back:")
            return
        lacks_runs = claim.claim.check in OVER_RUNS and not evidence_store.has_shipped_runs(store)
        detail.show(claim, rows, lacks_runs=lacks_runs)


def _above(rows: Sequence[Judged], shown: Sequence[int], claim: Judged | None) -> None:
    """How many claims pass the filters, and steps to the claims before and after the open one."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="above"):
        words = f"{len(rows):,} claims" if len(shown) == len(rows) else f"{len(shown):,} of {len(rows):,} claims"
        st.caption(words, width="content")
        if len(shown) < len(rows) and st.button(
            "Clear filters",
            icon=":material/filter_alt_off:",
            type="tertiary",
            key="drop_filters",
            on_click=state.drop_filters,
        ):
            st.rerun()  # the filters stand above, outside of the fragment
        st.space("stretch")
        if claim is not None:
            place = next((n for n, place in enumerate(shown) if rows[place].id == claim.id), None)
            words = f"{(place or 0) + 1:,} of {len(shown):,}"
            show_steps(place, len(shown), words, lambda target: state.put_claim(rows[shown[target]].id))
