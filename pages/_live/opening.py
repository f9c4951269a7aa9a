"""What the live page shows before anything is generated: a stored molecule in three lanes, drawn as new ones are."""

from __future__ import annotations

import streamlit as st

from engine.errors import DriftscopeError
from engine.inspection.atoms import tokens_of_sample
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import Inspected
from engine.models.loading import sized
from engine.paths import DATA
from engine.store.files import Files
from engine.store.store import Store
from pages._kit.components.atom_view import atom_view
from pages._kit.errors import escaped
from pages._kit.inspected import inspected
from pages._live.conformer import conformer
from pages._live.lanes import level, machine_words, time_words, title
from pages._live.results import show_failures, show_verdict

WORDS = "A stored result: adrenaline by {} on {}. *Generate* writes your own."


def show_opening() -> None:
    """Nothing where the store that ships cannot be read: the inputs are enough."""
    store = Store(Files(DATA / "opening")).snapshot()
    try:
        lanes = [inspected(store, run, 0) for run in reversed(runs_with_samples(store))]
    except DriftscopeError:
        return
    if not lanes:
        return
    rows = [store.entry(seen.run.run_id).row for seen in lanes]
    st.markdown(WORDS.format(escaped(sized(lanes[0].run.model)), escaped(machine_words(rows[0]))))

    def verdict(seen: Inspected) -> None:
        place = lanes.index(seen)
        pace = time_words(rows[place]["decode_s"], rows[0]["decode_s"] if place else None)
        title(f"{place + 1} · {seen.run.lp_words}", pace, seen.run.model, rows[place])
        show_verdict(seen)

    def text(seen: Inspected) -> None:
        name = seen.run.lp
        atom_view([], text=tokens_of_sample(seen, seen.steps), key=f"opening_{name}", label=f"Lane {name}")

    level(lanes, verdict, lambda seen: conformer(seen.run.lp, seen), text, show_failures)
