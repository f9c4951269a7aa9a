"""The Drift inspector's choice of runs: what is there, what the address names, what is damaged, what is not kept."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError, StoreError
from engine.inspection.runs import RunFacts, choose, runs_with_samples
from engine.store.entries import Entry, Found
from engine.store.passing import is_passing, keep
from engine.store.schema import SAMPLES
from engine.store.store import Store
from pages._shared.damages import show_damages
from pages._shared.drift import state
from pages._shared.errors import escape_markdown

KEY = "chosen_runs"
NAMED = "runs named so far"
MOST_RUNS = 12
_EMPTY = """
There is no run with samples in this store yet. Three ways to one:

- Generate a molecule on the **Live generation** page and press *Inspect* or *Keep as run*.
- From a terminal: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp position-blocklist --lp exact`
- Bring the reports' files in: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def chosen_runs(store: Store) -> list[RunFacts]:
    """Draw the choice, and give the runs that were chosen, each once."""
    found = store.found()
    runs, passing = _offered(store, found)
    if not runs:
        st.info(_EMPTY, icon=":material/inbox:", title="Nothing to inspect yet")
        show_damages(found)
        return []
    names = state.run_names()
    chosen, complaints = _named(runs, names)
    _widget(runs, [run.run_id for run in chosen])
    for complaint in complaints:
        st.error(escape_markdown(complaint), icon=":material/error:")
    if not chosen and not complaints:
        st.info("Choose one run or several above.", icon=":material/arrow_upward:")
    show_damages(found)
    _offer_to_keep([entry for entry in passing if entry.id in {run.run_id for run in chosen}])
    return chosen


def _offered(store: Store, found: Found) -> tuple[list[RunFacts], list[Entry]]:
    """Kept runs are everybody's. What nobody has kept is shown to who has its whole name from the live page."""
    named: set[str] = st.session_state.setdefault(NAMED, set())
    named |= set(state.run_names() or ())
    passing = [entry for entry in found.entries if is_passing(entry)]
    hidden = {entry.id for entry in passing if entry.id not in named}
    runs = [run for run in runs_with_samples(store) if run.run_id not in hidden]
    return runs, passing


def _named(runs: Sequence[RunFacts], names: list[str] | None) -> tuple[list[RunFacts], list[str]]:
    if names is None:
        return [default_run(runs)], []
    chosen: dict[str, RunFacts] = {}
    complaints = []
    for name in names[:MOST_RUNS]:
        try:
            chosen |= {run.run_id: run for run in choose(runs, [name])}
        except StoreError as error:
            words = str(error)
            complaints.append(words[:1].upper() + words[1:])
    return list(chosen.values()), complaints


def default_run(runs: Sequence[RunFacts]) -> RunFacts:
    """Where there is most to see: the newest with junk and passes, else with bad blocks, else the newest."""
    with_junk = [run for run in runs if run.junk_letters and run.passes]
    with_bad = [run for run in runs if run.bad_blocks]
    return (with_junk or with_bad or list(runs))[0]


def _widget(runs: Sequence[RunFacts], ids: list[str]) -> None:
    by_id = {run.run_id: run for run in runs}
    st.session_state[KEY] = ids
    st.multiselect(
        "Runs",
        list(by_id),
        key=KEY,
        format_func=lambda run_id: run_words(by_id[run_id]),
        on_change=lambda: state.put_runs(st.session_state[KEY]),
        max_selections=MOST_RUNS,
        placeholder="Choose runs, newest first",
        help="A run is one model under one logits processor (LP). Several are shown in one table.",
    )


def run_words(run: RunFacts) -> str:
    """One line for the list: who wrote it, how many, how much of it is bad, when."""
    when = "" if run.created_at is None else f"{run.created_at:%d %b %H:%M}"
    bad = "" if run.bad_blocks is None else f"{run.bad_blocks:,} bad blocks" if run.bad_blocks else "no bad block"
    many = f"{run.samples:,} sample{'s' if run.samples != 1 else ''}"
    origin = "" if run.origin == "measured" else run.origin
    return " · ".join(part for part in (run.name, many, bad, origin, when) if part)


def _offer_to_keep(passing: Sequence[Entry]) -> None:
    for entry in passing:
        with st.container(border=True, horizontal=True, vertical_alignment="bottom", key=f"passing-{entry.id}"):
            st.markdown(
                f":material/hourglass_top: **Not kept yet.** {escape_markdown(entry.id)} was written on the live page "
                "and is gone when the app ends."
            )
            label = st.text_input("Label", key=f"label-{entry.id}", placeholder="optional", width=220, max_chars=200)
            if st.button("Keep as run", key=f"keep-{entry.id}", icon=":material/save:", type="primary"):
                _keep(entry, label)


def _keep(entry: Entry, label: str) -> None:
    try:
        with st.spinner("Writing the run …"):
            keep(entry, Store.open().home, label.strip())
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    st.toast(f"Kept with {SAMPLES.name}, blocks and steps.", icon=":material/save:")
    st.rerun()


def one_of(runs: Sequence[RunFacts]) -> RunFacts:
    """The run that a section about one run is about: the only one, or a choice among those chosen."""
    if len(runs) == 1:
        return runs[0]
    by_id = {run.run_id: run for run in runs}
    chosen = st.selectbox(
        "Of which run",
        list(by_id),
        format_func=lambda run_id: run_words(by_id[run_id]),
        key="one_run",
        bind="query-params",
        width=620,
    )
    return by_id.get(chosen or "", runs[0])
