"""What the live page shows before anything is generated: a stored molecule in three lanes, drawn as new ones are."""

from __future__ import annotations

import streamlit as st

from engine.errors import DriftscopeError
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import Inspected
from engine.paths import DATA
from engine.store.files import Files
from engine.store.store import Store
from pages._kit.errors import escaped
from pages._kit.inspected import inspected
from pages._live.conformer import conformer
from pages._live.lanes import level, stored_atoms
from pages._live.results import show_failures, show_verdict

WORDS = "A stored result: adrenaline by {}, without an LP, with the group's and with the exact one."


def show_opening() -> None:
    """Nothing where the store that ships cannot be read: the inputs above are enough."""
    store = Store(Files(DATA / "opening")).snapshot()
    try:
        lanes = [inspected(store, run, 0) for run in reversed(runs_with_samples(store))]
    except DriftscopeError:
        return
    if lanes:
        st.markdown(WORDS.format(escaped(lanes[0].run.model)))
        level(
            lanes,
            _verdict,
            lambda seen: conformer(seen.run.lp, seen),
            lambda seen: stored_atoms(seen, key=f"opening_{seen.run.lp}", label=f"Lane {seen.run.lp}"),
            show_failures,
        )


def _verdict(seen: Inspected) -> None:
    st.markdown(f"**{escaped(seen.run.lp_words)}** :gray[:small[{seen.sample['tokens']} tokens]]")
    show_verdict(seen)
