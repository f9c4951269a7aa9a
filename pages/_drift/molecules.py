"""The Drift inspector's molecules: a narrow list that stays in sight, beside it the open one; and the table of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.chem.verdict import CODES, check_words
from engine.errors import DriftscopeError
from engine.figures.words import fixed, signed
from engine.inspection.molecules import JUDGED, SHOWS
from engine.inspection.runs import RunFacts
from engine.inspection.sample import Inspected
from engine.questions import ask, choices_of
from engine.questions import drift_molecules as question
from engine.questions.drift_molecules import ORDERS, ROW_LIMITS, WORST, counts, worst_words
from engine.questions.question import Answered, Column
from engine.store.store import Store
from pages._drift import files, state
from pages._drift import molecule as drift_molecule
from pages._drift.state import Spot
from pages._kit.card import card, show_table
from pages._kit.components.molecule_list import Cell, Line, molecule_list
from pages._kit.errors import error_markdown, escaped
from pages._kit.inspected import inspected
from pages._kit.managing.entries import judge_button
from pages._kit.run_colours import run_colours
from pages._kit.shown import put_shown
from pages._kit.small_drawing import small_drawing
from pages._kit.theme import DARK, palette
from pages._kit.words import HYPOTHETICAL_HELP, glossed, visible_text

MOST_LISTED = 200
"""Molecules that the list has, the first in their order: each brings its drawing."""


def show(store: Store, runs: Sequence[RunFacts]) -> None:
    """The list, and next to it the chosen molecule; on a narrow screen above it."""
    answered = _answered(store, runs)
    table = answered.tables["main"]
    chosen = state.spot([run.run_id for run in runs])
    if chosen is None and table.num_rows:
        chosen = _spot_at(table, 0)
    inspection, error_words = _inspected(store, runs, chosen)
    spot = None if inspection is None else chosen
    put_shown(run=spot and spot.run_id, sample=spot and spot.sample_id, bin=state.named_bar())
    left, right = st.container(key="molecule-beside-list").columns([1, 4], gap="small")
    with left.container(gap="xsmall", key="molecule-list"):
        with st.popover(_order_words(answered.options), icon=":material/filter_list:", width="stretch"):
            st.caption(glossed(escaped(counts(answered.tables))), unsafe_allow_html=True)
            _filters(runs)
        _bar_chip()
        _list(store, table, chosen, runs)
    with right:
        if error_words:
            st.error(error_words, icon=":material/error:")
        if chosen is not None and inspection is not None:
            drift_molecule.show(store, inspection, _lead(answered, chosen))
        judge_button(store, [store.entry(run.run_id) for run in runs])


def show_all(store: Store, runs: Sequence[RunFacts]) -> None:
    """The table with all columns, the histogram of blocks, and damage of texts with that of molecules."""
    answered = _answered(store, runs)
    table = answered.tables["main"]
    put_shown(bin=state.named_bar())
    st.markdown(glossed(escaped(counts(answered.tables))), unsafe_allow_html=True)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _filters(runs)
    _bar_chip()
    if table.num_rows:
        columns = _wide_columns(table, runs)
        show_table("molecules", _with_links(table, list(columns)), columns)
        with st.container(horizontal=True):
            files.buttons(store, table)
    else:
        _no_match()
    ids = [run.run_id for run in runs]
    card("drift_histogram", store, ids)
    if any(run.judged for run in runs):
        card("drift_damage", store, ids)


def _inspected(store: Store, runs: Sequence[RunFacts], chosen: Spot | None) -> tuple[Inspected | None, str]:
    """The chosen sample, or why it cannot be read, as Markdown."""
    if chosen is None:
        return None, ""
    run = next(run for run in runs if run.run_id == chosen.run_id)
    try:
        return inspected(store, run, chosen.sample_id), ""
    except DriftscopeError as error:
        return None, error_markdown(error)


# --- filters ------------------------------------------------------------------------------------------------------


def _filters(runs: Sequence[RunFacts]) -> None:
    shows = [*SHOWS, *(JUDGED if any(run.judged for run in runs) else ())]
    st.selectbox("Order", list(ORDERS), key="order", bind="query-params", width=220, help=question.__doc__)
    st.segmented_control("Show only", shows, key="show", bind="query-params", wrap=True)
    st.text_input("SMILES contains", key="contains", placeholder="any", bind="query-params", max_chars=300, width=170)
    st.selectbox("Rows", list(ROW_LIMITS), key="first", bind="query-params", width=100)


def _order_words(options: Mapping[str, Any]) -> str:
    """``Worst first, with junk``: what the list's order is, and what it leaves out."""
    contains = f"with {visible_text(options['contains'])}" if options["contains"] else ""
    first = f"{options['first']} rows" if options["first"] != question.ALL else ""
    return escaped(", ".join(filter(None, (options["order"], options["show"].lower(), contains, first))))


def _bar_chip() -> None:
    bar = state.bar()
    if state.named_bar() is not None:
        of = {"axis": "axis ", "element": "element ", "tokenizer": "", "lp": "LP ", "run": "run "}
        filter_words = "a cut block" if bar is None else f"drift {signed(bar.drift)} · {of[bar.by]}{bar.group}"
        st.button(
            escaped(f"Only molecules with {filter_words}"),
            icon=":material/close:",
            icon_position="right",
            key="bar_chip",
            on_click=state.clear_bar,
            help="Clear this filter",
        )


def _no_match() -> None:
    st.info("No molecule matches the filters.", icon=":material/filter_alt_off:")
    st.button("Clear filters", icon=":material/filter_alt_off:", key="drop_filters", on_click=_clear_filters)


def _clear_filters() -> None:
    """As on a first visit; runs before the widgets are drawn."""
    st.session_state.update({"show": None, "contains": "", "first": next(iter(ROW_LIMITS))})
    state.clear_bar()


def _answered(store: Store, runs: Sequence[RunFacts]) -> Answered:
    """With what of the question's options is chosen, also before its widget has read the address; nothing of an address
    that names what there is not."""
    chosen = {}
    for option in question.OPTIONS:
        value = st.session_state.get(option.name, st.query_params.get(option.name))
        chosen[option.name] = str(value or "").strip()
    chosen["bin"] = state.named_bar() or ""
    choices = {option.name: choices_of(option, store, ()) for option in question.OPTIONS}
    options = {name: value for name, value in chosen.items() if not choices[name] or value in choices[name]}
    return ask(store, "drift_molecules", [run.run_id for run in runs], options)


# --- the list -----------------------------------------------------------------------------------------------------


def _list(store: Store, table: pa.Table, chosen: Spot | None, runs: Sequence[RunFacts]) -> None:
    if not table.num_rows:
        _no_match()
        return
    differing = [name for name in ("model", "lp") if len({getattr(run, name) for run in runs}) > 1]
    rows = table.slice(0, MOST_LISTED).to_pylist()
    drawn = {smiles: place for place, smiles in enumerate(dict.fromkeys(row["smiles"] for row in rows))}
    spots = [Spot(row["run_id"], row["sample_id"]) for row in rows]
    colours = run_colours(store) if len(runs) > 1 else {}
    molecule_list(
        [_cell(row, drawn[row["smiles"]], differing, colours.get(row["run_id"], "")) for row in rows],
        [small_drawing(smiles, palette() is DARK) for smiles in drawn],
        key=f"molecule_list {hash(tuple(spots))}",  # places of another order mean others
        label="Molecules",
        selected=spots.index(chosen) if chosen in spots else None,
        on_pick=lambda place: None if place is None else state.put_spot(spots[place]),
        total=table.num_rows,
    )


def _cell(row: Mapping[str, Any], drawing: int, differing: Sequence[str], colour: str) -> Cell:
    checks, run_words = checks_words(row), ", ".join(str(row[name]) for name in differing)
    lost: Line = [(f"{fixed(row['lost_ang'], 2)} Å", "")] if row["lost_ang"] else []
    of_row: Line = [*lost, *verdict_line(row)]
    lines = [of_row, *([[(run_words, "-")]] if run_words else ())]
    about = [drift_molecule.rule_words(row), f"in 3D: {checks}" if checks else "", f"sample {row['sample_id']}"]
    return Cell(visible_text(row["smiles"]), drawing, lines, "\n".join(filter(None, about)), colour)


def verdict_line(row: Mapping[str, Any]) -> Line:
    """What is wrong with the text, else what is wrong in 3D, else how good it is."""
    damage: list[tuple[str, str]] = [("failed", "w")] if row["passed"] is False else []
    damage += [(f"{row['junk_blocks']} junk", "w")] if row["junk_blocks"] else []
    damage += [(f"{row['cut_blocks']} cut", "d")] if row["cut_blocks"] else []
    if damage:
        return damage
    if row["checks"] and row["checks"] != CODES:
        first, *more = row["checks"].split(", ")
        return [(check_words(first) + (f" and {len(more)} more" if more else ""), "w")]
    good = next((name for name in ("usable", "clean", "passed") if row[name]), "")
    return [(good or "no text", "r" if good in ("usable", "clean") else "-")]


def checks_words(row: Mapping[str, Any]) -> str | None:
    """Nothing where the molecule was not judged."""
    checks = row["checks"]
    if checks is None:
        return None
    if checks:
        return ", ".join(map(check_words, checks.split(", ")))
    if not row["geometry_right"]:
        return "geometry not judged"
    is_open = row["clean"] and not row["usable"]  # nothing failed, and yet it is not known to be right
    return "stereo not judged" if is_open else "right"


def _spot_at(table: pa.Table, row: int) -> Spot:
    return Spot(table["run_id"][row].as_py(), table["sample_id"][row].as_py())


def _lead(answered: Answered, chosen: Spot) -> str:
    """Of the worst of several molecules: what is wrong with it."""
    table = answered.tables["main"]
    is_worst = answered.options["order"] == WORST and table.num_rows > 0 and _spot_at(table, 0) == chosen
    return worst_words(table) if is_worst else ""


# --- the table ----------------------------------------------------------------------------------------------------


def _with_links(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Its columns of these names. The first opens the molecule."""
    rows = table.to_pylist()
    links = [f"run={row['run_id']}&sample={row['sample_id']}" for row in rows]
    checks = pa.array([checks_words(row) for row in rows], pa.string())
    table = table.set_column(table.column_names.index("checks"), "checks", checks)
    return table.append_column("open", pa.array(links)).select(names)


def _wide_columns(table: pa.Table, runs: Sequence[RunFacts]) -> dict[str, Column]:
    """Those with words, also those that a terminal has no room for; none that is empty."""
    columns = {"open": Column("sample", page="drift", is_pinned=True)}
    for name, column in question.COLUMNS.items():
        is_known = name in table.column_names and table[name].null_count < table.num_rows
        if column.words and is_known and name != "sample_id":
            columns[name] = replace(column, is_hidden=False)
    if all(run.is_hypothetical for run in runs) and "drift" in columns:
        columns["drift"] = replace(question.COLUMNS["drift"], words="hypothetical drift", help=HYPOTHETICAL_HELP)
    return columns
