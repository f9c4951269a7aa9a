"""The Drift inspector's choice of runs: which there are, which the address names, damaged ones, unsaved ones."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError, StoreError
from engine.figures.words import counted
from engine.inspection.runs import RunFacts, choose, runs_with_samples
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.temporary_runs import is_temporary, keep
from pages._drift import state
from pages._shared.damages import show_damages
from pages._shared.errors import escape_markdown

KEY = "chosen_runs"
NAMED = "runs named so far"
MOST_RUNS = 12
_EMPTY = """
This store has no run with samples yet. Three ways to get one:

- Generate a molecule on the **Live generation** page and press *Inspect* or *Save to store*.
- From a terminal: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp position-blocklist --lp exact`
- Import the reports' files: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def chosen_runs(store: Store) -> list[RunFacts]:
    """Draw the choice, and give the runs that were chosen, each once."""
    listing = store.found()
    # Saved runs are for all visitors; an unsaved one only for those who have its whole name from the Live page.
    named: set[str] = st.session_state.setdefault(NAMED, set())
    named |= set(state.run_names() or ())
    unsaved = [entry for entry in listing.entries if is_temporary(entry)]
    hidden = {entry.id for entry in unsaved if entry.id not in named}
    runs = [run for run in runs_with_samples(store) if run.run_id not in hidden]
    if not runs:
        st.info(_EMPTY, icon=":material/inbox:", title="Nothing to inspect yet")
        show_damages(listing)
        return []
    names = state.run_names()
    chosen, errors = _named(runs, names)
    _input(runs, [run.run_id for run in chosen])
    for error in errors:
        st.error(escape_markdown(error), icon=":material/error:")
    if not chosen and not errors:
        st.info("Choose at least one run above.", icon=":material/arrow_upward:")
    show_damages(listing)
    for entry in unsaved:
        if entry.id in {run.run_id for run in chosen}:
            _save_form(entry)
    return chosen


def _named(runs: Sequence[RunFacts], names: list[str] | None) -> tuple[list[RunFacts], list[str]]:
    if names is None:
        return [default_run(runs)], []
    chosen: dict[str, RunFacts] = {}
    errors = []
    for name in names[:MOST_RUNS]:
        try:
            chosen |= {run.run_id: run for run in choose(runs, [name])}
        except StoreError as error:
            errors.append(str(error)[:1].upper() + str(error)[1:])
    return list(chosen.values()), errors


def default_run(runs: Sequence[RunFacts]) -> RunFacts:
    """The newest run with junk and passes, else with bad blocks, else the newest: most to see."""
    with_junk = [run for run in runs if run.junk_letters and run.passes]
    with_bad = [run for run in runs if run.bad_blocks]
    return (with_junk or with_bad or list(runs))[0]


def _input(runs: Sequence[RunFacts], ids: list[str]) -> None:
    by_id = {run.run_id: run for run in runs}
    st.session_state[KEY] = ids
    st.multiselect(
        "Runs",
        list(by_id),
        key=KEY,
        format_func=lambda run_id: run_words(by_id[run_id]),
        on_change=lambda: state.put_runs(st.session_state[KEY]),
        max_selections=MOST_RUNS,
        placeholder="Choose runs (newest first)",
        help="A run is one model under one logits processor (LP). Several are shown in one table.",
    )


def run_words(run: RunFacts) -> str:
    """One line for the list: model and LP, samples, bad blocks, origin, time."""
    when = "" if run.created_at is None else f"{run.created_at:%d %b %H:%M}"
    bad = "" if run.bad_blocks is None else f"{run.bad_blocks:,} bad blocks" if run.bad_blocks else "no bad block"
    samples = counted(run.samples, "sample")
    origin = "" if run.origin == "measured" else run.origin
    return " · ".join(part for part in (run.name, samples, bad, origin, when) if part)


def _save_form(entry: Entry) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="bottom", key=f"passing-{entry.id}"):
        st.markdown(
            f":material/hourglass_top: **Not saved.** {escape_markdown(entry.id)} was generated on the Live page "
            "and is lost when the app stops."
        )
        label = st.text_input("Label", key=f"label-{entry.id}", placeholder="optional", width=220, max_chars=200)
        if not st.button("Save to store", key=f"keep-{entry.id}", icon=":material/save:", type="primary"):
            return
        try:
            with st.spinner("Writing the run …"):
                keep(entry, Store.open().home, label.strip())
        except DriftscopeError as error:
            st.error(escape_markdown(str(error)), icon=":material/error:")
        else:
            st.toast(f"Saved as {escape_markdown(entry.id)}", icon=":material/save:")
            st.rerun()


def choose_one(runs: Sequence[RunFacts]) -> RunFacts:
    """The run that a section of one run shows: the only chosen run, or a choice among them."""
    if len(runs) == 1:
        return runs[0]
    by_id = {run.run_id: run for run in runs}
    chosen = st.selectbox(
        "Run",
        list(by_id),
        format_func=lambda run_id: run_words(by_id[run_id]),
        key="one_run",
        bind="query-params",
        width=620,
    )
    return by_id.get(chosen or "", runs[0])
