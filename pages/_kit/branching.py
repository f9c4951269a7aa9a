"""Branches of a sample that a page shows: what else might have come at the token that was clicked, and answers that go
on from there under any LP. The app's worker scores and writes; Drift and Live show the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine import questions
from engine.errors import DriftscopeError
from engine.figures.words import counted, percent
from engine.inspection.runs import run_facts
from engine.inspection.sample import Inspected
from engine.jobs.branching import (
    LEAST,
    PUT_RIGHT,
    TokenChoice,
    branch_off,
    find_alternatives,
    lost_place,
    place_of,
    usual_lp,
)
from engine.jobs.service import Work
from engine.lp_records import LPS, lp_record
from engine.store.entries import branch_place
from engine.store.store import Store, is_temporary
from pages._kit.asked import Asked, asked, progress
from pages._kit.components.atom_view import visible
from pages._kit.errors import escaped
from pages._kit.inspected import inspected, open_store, save_run

HELP = (
    "Probability of each token before the LP → among the tokens that the LP allows (shaped and guarded take more away "
    "later). A click goes on from there: all ids before stay, and the rest is written anew by the sample's own seed."
)
MOST_SHOWN = 40
OnWritten = Callable[[str], None]
"""Gets the branch, RUN/SAMPLE."""


def _of(inspection: Inspected) -> tuple[str, int]:
    return inspection.run.run_id, inspection.sample["sample_id"]


def position_of(inspection: Inspected, column: int | None) -> int | None:
    """In the answer, of the token in this column of its alignment."""
    rows = () if inspection.alignment is None else inspection.alignment.rows
    return rows[column].pos if column is not None and column < len(rows) else None


def ask(inspection: Inspected, at: int | None) -> None:
    """For a click on a token: its alternatives, under the LP that was chosen last."""
    if at is None or not inspection.can_score:
        return
    chosen = st.session_state.get(f"branch-lp-{inspection.run.run_id}")
    lp = str(chosen or usual_lp(inspection.run.lp_record.name))
    alternatives = asked("alternatives", *_of(inspection), at, lp)
    if alternatives.job is None and alternatives.result is None:
        alternatives.submit(lambda: partial(find_alternatives, place_of(open_store(), inspection, at), lp))


def _write(inspection: Inspected, at: int, lp: str, tokens: Sequence[int] | None) -> None:
    def work() -> Work[str]:
        store = open_store()
        return partial(branch_off, store, place_of(store, inspection, at), lp, tokens)

    asked("branch", *_of(inspection)).submit(work)


def show(inspection: Inspected, at: int | None, on_written: OnWritten = lambda branch: None) -> None:
    """Next to the view of tokens. ``at`` is the position of the one that was clicked."""
    if not inspection.can_score:
        return
    key = f"{inspection.run.run_id}-{inspection.sample['sample_id']}"
    writing = asked("branch", *_of(inspection))
    if writing.job is not None:
        progress(writing, f"branch-{key}", on_done=lambda run_id: on_written(f"{run_id}/0"))
        return
    with st.container(gap="xsmall", key=f"branching-{key}"):
        _show_error(writing)
        if inspection.lost:
            _put_right(inspection, key)
        if at is not None:
            _alternatives(inspection, at, key)


def _show_error(of: Asked) -> None:
    """As a caption: a box is too wide for the column of the 3D view."""
    if of.error:
        st.caption(f":red[:material/error: {escaped(of.error)}]")


def _put_right(inspection: Inspected, key: str) -> None:
    """From the mark of the token that lost the molecule."""
    try:
        at = lost_place(inspection)
    except DriftscopeError as error:
        st.caption(escaped(f"No branch puts this answer right: {error.what}."))
        return
    st.button(
        f"Put right from token {at:,} under {PUT_RIGHT}",
        key=f"put-right-{key}",
        icon=":material/call_split:",
        help=f"{escaped(inspection.lost[0].words)}. The ids before it stay, the rest is written anew.",
        on_click=_write,
        args=(inspection, at, PUT_RIGHT, ()),
    )


def _alternatives(inspection: Inspected, at: int, key: str) -> None:
    names, own = [name for name in LPS if not lp_record(name).by_server], usual_lp(inspection.run.lp_record.name)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
        lp = st.selectbox(
            "Branch under the LP",
            names,
            index=names.index(own) if own in names else 0,
            key=f"branch-lp-{inspection.run.run_id}",
            width=190,
            on_change=ask,
            args=(inspection, at),
        )
        found = asked("alternatives", *_of(inspection), at, lp)
        if found.result is not None:
            st.button(
                f"All over {100 * LEAST:g} %",
                key=f"branch-all-{key}",
                icon=":material/account_tree:",
                help="One branch for each other token, in one run: how much does this token decide?",
                on_click=_write,
                args=(inspection, at, lp, None),
            )
        elif found.job is None:
            st.button(f"Alternatives at {at:,}", key=f"branch-ask-{key}", on_click=ask, args=(inspection, at))
    _show_error(found)
    if found.job is not None:
        progress(found, f"alternatives-of-{key}")
    elif found.result is not None:
        _buttons(inspection, at, lp, found.result, key)


def _buttons(inspection: Inspected, at: int, lp: str, found: Sequence[TokenChoice], key: str) -> None:
    st.caption(escaped(f"Token {at:,}: before the LP → after {lp}"), help=HELP)
    if found[0].p_lp is None:
        st.caption(escaped(f"{lp} does not allow the text before this token. Choose another LP, such as none."))
    with st.container(horizontal=True, gap="xsmall", key=f"alternatives-{key}"):
        for token in [token for place, token in enumerate(found) if place < MOST_SHOWN or token.is_written]:
            after = percent(token.p_lp) if token.p_lp else "not allowed"
            st.button(
                f"**{escaped(visible(token.piece))}** {percent(token.p_raw)} → {after}",
                key=f"branch-{key}-{token.token_id}",
                icon=":material/check:" if token.is_written else None,
                disabled=not token.p_lp,
                help="Written here" if token.is_written else f"Go on from here with id {token.token_id}",
                on_click=_write,
                args=(inspection, at, lp, (token.token_id,)),
            )


# --- what is stored -------------------------------------------------------------------------------------------------


def branches_of(store: Store, inspection: Inspected) -> dict[str, str]:
    """Of this sample: RUN/SAMPLE and what is said of it, the newest run first."""
    words: dict[str, str] = {}
    for entry in reversed(store.listing().entries):
        branch = branch_place(entry)
        if branch is not None and branch[:2] == _of(inspection):
            about = f"branch from token {branch[2]:,} · {entry.row['lp']}"
            count = int(entry.row.get("samples") or 0)
            for number in range(count):
                of = f" · {number + 1} of {counted(count, 'token')}" if count > 1 else ""
                words[f"{entry.id}/{number}"] = about + of
    return words


def inspected_branch(store: Store, name: str, number: int) -> Inspected:
    """With the conformer of this number in view."""
    run_id, _, sample = name.rpartition("/")
    return inspected(store, run_facts(store, run_id), int(sample)).of_conformer(number)


def chosen_branch(store: Store, inspection: Inspected, *, draws: bool = False) -> Inspected | None:
    """On a page whose address does not name it: the newest at first. ``draws`` the choice."""
    words = branches_of(store, inspection)
    if not words:
        return None
    key = f"branch-under-{inspection.run.run_id}-{inspection.sample['sample_id']}-{len(words)}"
    name = st.session_state.setdefault(key, next(iter(words)))
    if draws:
        with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall"):
            hidden: Any = {"label_visibility": "collapsed", "placeholder": "Branch under each row"}
            name = st.selectbox("Branch", list(words), index=None, key=key, format_func=words.__getitem__, **hidden)
            entry = store.entry(name.rpartition("/")[0]) if name else None
            if entry is not None and is_temporary(entry):
                about = "Save this branch to the store, with its lane and the lane's other branches"
                if st.button("Save", icon=":material/save:", key=f"save-{key}", help=about):
                    save_run(entry)
        if entry is not None:
            st.caption(escaped(questions.ask(store, "drift_branches", [entry.id]).answer))
    return inspected_branch(store, name, inspection.number) if name in words else None
