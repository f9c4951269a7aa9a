"""The Drift inspector's choice of runs: which there are, which the address names, damaged ones, unsaved ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import streamlit as st

from engine.figures.words import counted
from engine.inspection.runs import RunFacts, runs_with_samples
from engine.questions.question import Option
from engine.store.entries import Entry
from engine.store.schema import RUN
from engine.store.store import Store, is_temporary
from pages._drift import state
from pages._kit.card import choose
from pages._kit.entry_table import RUN_TABLE
from pages._kit.errors import escaped
from pages._kit.inspected import save_run
from pages._kit.picker import Picker
from pages._kit.run_colours import run_colours
from pages._kit.words import run_title

NAMED, ONE = "runs named so far", "one_run"
MOST_RUNS, MANY_SAMPLES = 12, 30
EMPTY = """
Three ways to get one:

- Generate a molecule on the **Live generation** page and press *Inspect* or *Save to store*.
- From a terminal: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp group-v2.1 --lp exact`
- Import the reports' files: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def chosen_runs(store: Store) -> list[RunFacts]:
    """Draw the choice, and give the runs that were chosen, each once."""
    listing = store.listing()
    # Saved runs are for all visitors; an unsaved one only for those who have its whole name from the Live page.
    named: set[str] = st.session_state.setdefault(NAMED, set())
    named |= set(state.run_names() or ())
    hidden = {entry.id for entry in listing.entries if is_temporary(entry) and entry.id not in named}
    runs = {run.run_id: run for run in runs_with_samples(store) if run.run_id not in hidden}
    entries = tuple(entry for entry in listing.entries if entry.id in runs)

    def default(entries: Sequence[Entry], is_apart: bool) -> Sequence[Entry]:
        run_id = default_run(list(runs.values())).run_id
        return [entry for entry in entries if entry.id == run_id]

    chosen = inspected_picker(default).show(replace(listing, entries=entries), run_colours(store))
    for entry in filter(is_temporary, chosen):
        _save_form(entry)
    return [runs[entry.id] for entry in chosen]


def inspected_picker(default: Callable[[Sequence[Entry], bool], Sequence[Entry]]) -> Picker:
    """Runs of equal standing. Others clear what was chosen inside of the earlier ones."""
    return Picker(
        RUN,
        replace(RUN_TABLE, prefix="run_"),
        state.RUN,
        state.RUN,
        MOST_RUNS,
        default,
        lambda entries: {entry.id: run_title(entry) for entry in entries},
        EMPTY,
        " with samples",
        (state.OF, state.SAMPLE, state.ATOM, state.TOKEN, state.BIN, state.CONFORMER, state.OTHER_READER),
    )


def default_run(runs: Sequence[RunFacts]) -> RunFacts:
    """The largest run with junk and passes, else with bad blocks, else the largest; of equal ones the newest.

    Of runs with many samples, where there are any: one sample shows little.
    """
    many = [run for run in runs if run.samples >= MANY_SAMPLES] or runs
    with_junk = [run for run in many if run.junk_letters and run.passes]
    with_bad = [run for run in many if run.bad_blocks]
    return max(with_junk or with_bad or many, key=lambda run: run.samples)


def run_words(run: RunFacts) -> str:
    when = "" if run.created_at is None else f"{run.created_at:%d %b %H:%M}"
    bad = ""
    if run.bad_blocks is not None:
        bad = f"{run.bad_blocks:,} bad blocks" if run.bad_blocks else "no bad block"
    samples = counted(run.samples, "sample")
    origin = "" if run.origin == "measured" else run.origin
    return " · ".join(part for part in (run.name, samples, bad, origin, when) if part)


def _save_form(entry: Entry) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="bottom", key=f"passing-{entry.id}"):
        st.markdown(
            f"**Not saved.** {escaped(entry.id)} was generated on the Live page and is lost when the app stops."
        )
        label = st.text_input("Label", key=f"label-{entry.id}", placeholder="optional", width=220, max_chars=200)
        if st.button("Save to store", key=f"keep-{entry.id}", icon=":material/save:", type="primary"):
            save_run(entry, label.strip())


def choose_one(runs: Sequence[RunFacts]) -> RunFacts:
    """The run that a section of one run shows: the only chosen run, or a choice among them."""
    if len(runs) == 1:
        return runs[0]
    words = {run.run_id: run_words(run) for run in runs}
    same = Counter(words.values())
    named = st.query_params.get(ONE)
    if ids := [run_id for run_id, text in words.items() if text == named]:
        st.query_params[ONE] = ids[0]  # links once had the words
    titles = {run_id: text if same[text] == 1 else f"{text} · {run_id}" for run_id, text in words.items()}
    chosen = choose(Option(ONE), "Run", titles)
    return next(run for run in runs if run.run_id == chosen)
