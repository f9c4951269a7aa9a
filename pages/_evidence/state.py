"""What is chosen on the Evidence page, as its address has it: the section, the filters, and the claim that is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from pages._evidence.claims import ClaimFilter

CLAIM, VIEW = "claim", "view"
REPORT, VERDICT, FIND, ABOUT, FIGURE = "report", "verdict", "find", "about", "figure"
_NEXT = "claim to open"
ALL, LOST_THIRD = "All claims", "The lost third"


def _no_filters() -> dict[str, Any]:
    return {REPORT: [], VERDICT: [], FIND: "", ABOUT: None, FIGURE: False}


def claim_id() -> str:
    """The claim that the address names; empty where it names none."""
    if next_ := st.session_state.pop(_NEXT, None):
        put_claim(next_)
    return st.query_params.get(CLAIM, "")


def put_claim(id_: str | None) -> None:
    if id_ is not None:
        st.query_params[CLAIM] = id_
    elif CLAIM in st.query_params:
        del st.query_params[CLAIM]


def open_section(name: str) -> None:
    """For a callback."""
    st.session_state[VIEW] = name


def open_claim(id_: str) -> None:
    """Show this claim among all others; for a callback of a section that draws no filters.

    The section comes first into the address, so that Back leaves the claim before the section.
    """
    show_all()
    st.session_state[_NEXT] = id_


def show_all(reports: Sequence[str] = (), verdicts: Sequence[str] = ()) -> None:
    """Show the claims of these reports with these verdicts; for a callback of a section that draws no filters.

    Streamlit writes the session's values into the address only for filters that are drawn already.
    """
    chosen = {REPORT: list(reports), VERDICT: list(verdicts)}
    # At once: each change of the address is a step for the browser's Back. An empty list leaves it.
    gone: dict[str, list[str]] = {name: [] for name in _no_filters() if name in st.query_params}
    st.query_params.update(gone | chosen)
    st.session_state.update(_no_filters() | chosen | {VIEW: ALL})


def drop_filters() -> None:
    """As on a first visit; for a callback of the section that draws them."""
    st.session_state.update(_no_filters())


def open_named_claim() -> None:
    """A link that names a claim and no section means the section that has the claims."""
    if CLAIM in st.query_params and VIEW not in st.query_params:
        st.session_state.setdefault(VIEW, ALL)


def claim_filter() -> ClaimFilter:
    """The filters' values, once they are drawn."""
    state = st.session_state
    return ClaimFilter(
        reports=frozenset(state.get(REPORT) or ()),
        verdicts=frozenset(state.get(VERDICT) or ()),
        text=state.get(FIND) or "",
        subject=state.get(ABOUT) or "",
        with_figure=bool(state.get(FIGURE)),
    )
