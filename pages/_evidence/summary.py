"""The top of the Evidence page: counts by verdict, when they were computed, and whether they are out of date."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError
from engine.evidence.checks.finding import VERDICTS
from engine.evidence.verdicts import Judgement, why_outdated
from engine.store.store import Store
from pages._evidence import store as evidence_store
from pages._evidence.claims import Judged
from pages._evidence.store import LatestVerdicts
from pages._shared.errors import error_markdown, escape_markdown
from pages._shared.verdicts import LOOKS, UNJUDGED, UNJUDGED_WORD

COMMIT_CHARS = 10


def counts(rows: Sequence[Judged]) -> None:
    """How many claims have which verdict."""
    by_verdict = Counter(row.name for row in rows)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="counts"):
        st.markdown(f"**{len(rows):,} claims:**", width="content")
        for name in VERDICTS:
            look = LOOKS[name]
            st.badge(f"{look.sign} {by_verdict[name]:,} {name}", color=look.badge, help=look.means)
        if by_verdict[None]:
            st.badge(f"{UNJUDGED.sign} {by_verdict[None]:,} {UNJUDGED_WORD}", color=UNJUDGED.badge, help=UNJUDGED.means)


def standing(store: Store, last: LatestVerdicts) -> None:
    """When the verdicts were computed, whether they are out of date, and the button that re-checks them."""
    judgement = last.judgement
    outdated = None if judgement is None else why_outdated(judgement, store)
    if last.fault:
        st.error(escape_markdown(last.fault), icon=":material/error:")
    if judgement is None:
        words = "No verdict has been computed yet. Re-check all claims now, or run `make claims` to save the result."
        st.info(words, icon=":material/gavel:", title="Not checked yet")
    elif outdated:
        words = f"Since these verdicts were computed, {escape_markdown(outdated.removesuffix(' since'))}. "
        words += "They may no longer hold: re-check all claims."
        st.warning(words, icon=":material/update:", title="Out of date")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="standing"):
        if judgement is not None:
            st.caption(checked_words(judgement, last.is_kept), width="stretch", help=_versions(judgement))
        _button(store, is_wanted=judgement is None or outdated is not None)


def checked_words(judgement: Judgement, is_kept: bool) -> str:
    """One line on the last verdicts."""
    commit = escape_markdown((judgement.git_commit or "no checkout")[:COMMIT_CHARS])
    edited = ", with changes not committed" if (judgement.git_commit or "").endswith("+") else ""
    kept = "saved by `make claims`" if is_kept else "computed on this page, lost when the app stops"
    return f"Checked {judgement.when:%d %b %Y, %H:%M} UTC from commit {commit}{edited} · {kept}"


def _versions(judgement: Judgement) -> str:
    try:
        versions: dict[str, str] = dict(json.loads(judgement.versions))
    except (ValueError, TypeError):
        return "The versions cannot be read."
    return "Computed with " + ", ".join(escape_markdown(f"{name} {value}") for name, value in versions.items())


def _button(store: Store, *, is_wanted: bool) -> None:
    clicked = st.button(
        "Re-check all claims",
        icon=":material/gavel:",
        key="judge",
        type="primary" if is_wanted else "tertiary",
        help="Computes every verdict again: about five seconds, longer with many runs. They are shown until the app "
        "stops; `make claims` saves them.",
    )
    if not clicked:
        return
    try:
        with st.spinner("Checking all claims …", show_time=True):
            evidence_store.recheck(store)
    except DriftscopeError as error:
        st.error(error_markdown(error), icon=":material/error:")
    else:
        st.rerun()
