"""The Drift inspector's first section: the histogram, the table of molecules, and the one that is open below them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from engine.errors import DriftscopeError
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected
from engine.store.store import Store
from pages._shared.drift import files, state
from pages._shared.drift import histogram as drift_histogram
from pages._shared.drift import molecule as drift_molecule
from pages._shared.drift import store as drift_store
from pages._shared.drift import table as drift_table
from pages._shared.drift.state import Spot
from pages._shared.errors import escape_markdown


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """Draw the section."""
    drift_table.filters()
    _chip()
    table = drift_table.found(store, runs)
    chosen = state.spot([run.run_id for run in runs]) or _first(table)
    one, why_not = _opened(store, runs, chosen)
    left, right = st.columns([32, 17], gap="medium")
    with left:
        _table(store, runs, table, chosen)
    with right:
        drift_histogram.show(store, runs, one)
    if why_not:
        st.error(escape_markdown(why_not), icon=":material/error:")
    if chosen is not None and one is not None:
        _neighbours(table, chosen)
        drift_molecule.show(one)


def _first(table: pa.Table) -> Spot | None:
    """The first row of which the steps were kept, since there is most to see of it; else the first."""
    if not table.num_rows:
        return None
    return drift_table.spot_at(table, max(0, pc.index(table["has_steps"], True).as_py()))


def _opened(store: Store, runs: Sequence[RunFacts], chosen: Spot | None) -> tuple[Inspected | None, str]:
    if chosen is None:
        return None, ""
    run = next(run for run in runs if run.run_id == chosen.run_id)
    try:
        return drift_store.inspected(store, run, chosen.sample_id), ""
    except DriftscopeError as error:
        words = str(error)
        return None, words[:1].upper() + words[1:]


def _chip() -> None:
    """The bar of the histogram that filters the table, and how to let go of it."""
    bar = state.bar()
    if bar is not None or state.only_cut():
        what = "a cut block" if bar is None else drift_histogram.words(bar)
        st.button(
            escape_markdown(f"Only molecules with {what}"),
            icon=":material/close:",
            icon_position="right",
            key="bar_chip",
            on_click=lambda: state.put_bar(None),
            help="Show all molecules again",
        )


def _table(store: Store, runs: Sequence[RunFacts], table: pa.Table, chosen: Spot | None) -> None:
    if not table.num_rows:
        words = "No molecule of these runs is left by the filters above."
        st.info(words, icon=":material/filter_alt_off:", title="No match")
        st.button("Drop all filters", icon=":material/filter_alt_off:", key="drop_filters", on_click=_drop_filters)
        return
    drift_table.rows(table, chosen, runs)
    st.caption(_counts(table, sum(run.samples for run in runs)))
    with st.container(horizontal=True):
        files.buttons(store, table)


def _drop_filters() -> None:
    drift_table.drop_filters()
    state.put_bar(None)


def _counts(table: pa.Table, samples: int) -> str:
    columns = {name: table[name].to_numpy() for name in ("junk_blocks", "cut_blocks", "passed", "clean")}
    shown = f"{table.num_rows:,} of {samples:,}" if table.num_rows < samples else f"{samples:,}"
    return (
        f"{shown} sample{'s' if samples != 1 else ''}: {int((columns['junk_blocks'] > 0).sum()):,} with junk, "
        f"{int((columns['cut_blocks'] > 0).sum()):,} with a cut, {int((~columns['passed']).sum()):,} failed, "
        f"{int(columns['clean'].sum()):,} clean."
    )


def _neighbours(table: pa.Table, chosen: Spot) -> None:
    """A heading with steps to the rows before and behind."""
    place = drift_table.place_of(table, chosen)
    with st.container(horizontal=True, vertical_alignment="center", key="molecule-heading"):
        st.subheader("One molecule", anchor=False, width="stretch")
        st.caption(
            "not among those above" if place is None else f"{place + 1:,} of {table.num_rows:,} above", width="content"
        )
        for word, step, icon, keys in (
            ("Previous", -1, ":material/arrow_upward:", "Alt+Up"),
            ("Next", 1, ":material/arrow_downward:", "Alt+Down"),
        ):
            there = None if place is None else place + step
            is_there = there is not None and 0 <= there < table.num_rows
            st.button(
                word,
                icon=icon,
                shortcut=keys,
                key=f"go{step}",
                disabled=not is_there,
                on_click=state.put_spot,
                args=(drift_table.spot_at(table, there),) if is_there and there is not None else (chosen,),
            )
