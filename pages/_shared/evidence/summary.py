"""The top of the Evidence page: verdicts in numbers, when and from what they were computed, and whether that holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError
from engine.evidence.checks.finding import VERDICTS
from engine.evidence.verdicts import Judgement, why_outdated
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.evidence import store as evidence_store
from pages._shared.evidence.claims import Judged
from pages._shared.evidence.store import Last
from pages._shared.evidence.words import LOOKS, UNJUDGED, UNJUDGED_WORD

COMMIT_CHARS = 10


def counts(rows: Sequence[Judged]) -> None:
    """How many claims have which verdict, in words and in colour."""
    found = Counter(row.name for row in rows)
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="counts"):
        st.markdown(f"**{len(rows):,} claims:**", width="content")
        for name in VERDICTS:
            look = LOOKS[name]
            st.badge(f"{look.sign} {found[name]:,} {name}", color=look.badge, help=look.means)
        if found[None]:
            st.badge(f"{UNJUDGED.sign} {found[None]:,} {UNJUDGED_WORD}", color=UNJUDGED.badge, help=UNJUDGED.means)


def standing(store: Store, last: Last) -> None:
    """When the verdicts were computed, why they may not hold any more, and the button that computes them now."""
    judgement = last.judgement
    outdated = None if judgement is None else why_outdated(judgement, store)
    if last.fault:
        st.error(escape_markdown(last.fault), icon=":material/error:")
    if judgement is None:
        words = "No verdicts have been computed yet. Judge all claims now, or run `make claims`, which keeps them."
        st.info(words, icon=":material/gavel:", title="Not judged yet")
    elif outdated:
        words = f"Since these verdicts were computed, {escape_markdown(outdated.removesuffix(' since'))}. "
        words += "What is shown may not be what would come out now."
        st.warning(words, icon=":material/update:", title="Out of date")
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="standing"):
        if judgement is not None:
            st.caption(when_words(judgement, last.is_kept), width="stretch", help=_versions(judgement))
        _button(store, is_wanted=judgement is None or outdated is not None)


def when_words(judgement: Judgement, is_kept: bool) -> str:
    """One line on the last verdicts."""
    commit = escape_markdown((judgement.git_commit or "no checkout")[:COMMIT_CHARS])
    edited = ", with changes not committed" if (judgement.git_commit or "").endswith("+") else ""
    kept = "kept by `make claims`" if is_kept else "asked for on this page, and kept until the app ends"
    return f"Judged {judgement.when:%d %b %Y, %H:%M} UTC from commit {commit}{edited} · {kept}"


def _versions(judgement: Judgement) -> str:
    try:
        versions: dict[str, str] = dict(json.loads(judgement.versions))
    except (ValueError, TypeError):
        return "Its versions cannot be read."
    return "Computed with " + ", ".join(escape_markdown(f"{name} {value}") for name, value in versions.items())


def _button(store: Store, *, is_wanted: bool) -> None:
    clicked = st.button(
        "Judge anew",
        icon=":material/gavel:",
        key="judge",
        type="primary" if is_wanted else "tertiary",
        help="Computes every verdict now: some five seconds, more where the store has many runs. They are shown "
        "until the app ends; `make claims` keeps them.",
    )
    if not clicked:
        return
    try:
        with st.spinner("Judging all claims …", show_time=True):
            evidence_store.judge_anew(store)
    except DriftscopeError as error:
        words = str(error)
        st.error(escape_markdown(words[:1].upper() + words[1:]), icon=":material/error:")
    else:
        st.rerun()
