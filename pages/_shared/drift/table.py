"""The Drift inspector's table of molecules: filters, order, pages of rows with drawings and small charts, selection."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from engine.chem.drawing import draw_svg
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.inspection.molecules import Filter, Show
from engine.inspection.runs import RunFacts
from engine.store.store import Store
from pages._shared.drift import state
from pages._shared.drift import store as drift_store
from pages._shared.drift.state import Spot
from pages._shared.drift.words import visible_text
from pages._shared.rows import picked_rows, show_rows
from pages._shared.theme import DARK, palette

KEY = "drift_molecules"
ROWS_A_PAGE = 100
ROW_HEIGHT = 64
DRAWING = (124, 62)  # at most, in pixels
TABLE_HEIGHT = 430
EVERYTHING = 10_000_000
SHOWS: dict[str, Show] = {
    "With junk": "junk",
    "Cut": "cut",
    "Failed": "failed",
    "Unverified": "unverified",
    "Clean": "clean",
}
ORDERS: dict[str, tuple[str, bool] | None] = {
    "Worst first": None,
    "As written": None,
    "Most blocks with junk": ("junk_blocks", True),
    "Most blocks cut": ("cut_blocks", True),
    "Highest drift": ("drift", True),
    "Lowest drift": ("drift", False),
    "Largest RMSD": ("rmsd_ang", True),
    "Most tokens": ("tokens", True),
    "SMILES": ("smiles", False),
}
FIRSTS = {"all": EVERYTHING, "10": 10, "25": 25, "100": 100}
_SELECTOR = re.compile(r"<circle [^>]*atom-selector[^>]*/>\s*")


def filters() -> None:
    """Draw what chooses the rows."""
    show, text, order, first = st.columns([5.7, 2, 2.1, 1.2], vertical_alignment="bottom")
    show.segmented_control("Show only", list(SHOWS), key="show", bind="query-params", wrap=True)
    text.text_input("SMILES contains", key="contains", placeholder="any", bind="query-params", max_chars=300)
    order.selectbox("Order", list(ORDERS), key="order", bind="query-params")
    first.selectbox("Only the first", list(FIRSTS), key="first", bind="query-params")


def drop_filters() -> None:
    """As on a first visit; to be called before the widgets are drawn."""
    st.session_state.update({"show": None, "contains": "", "first": next(iter(FIRSTS))})


def found(store: Store, runs: Sequence[RunFacts]) -> pa.Table:
    """The rows that the filters leave, in the order chosen."""
    most = FIRSTS.get(st.session_state.get("first") or "", EVERYTHING)
    order = st.session_state.get("order") or "Worst first"
    table = drift_store.samples(
        store,
        runs,
        Filter(
            show=SHOWS.get(st.session_state.get("show") or "", "all"),
            smiles=(st.session_state.get("contains") or "").strip(),
            worst=EVERYTHING if order == "Worst first" else None,
            bin=state.bar(),
        ),
    )
    if state.only_cut():
        table = table.filter(pc.greater(table["cut_blocks"], 0))
    return _ordered(table, order).slice(0, most)


def _ordered(table: pa.Table, order: str) -> pa.Table:
    by = ORDERS.get(order)
    if by is None:
        return table
    column, is_descending = by
    # What is not known comes last, in either direction.
    places = pc.sort_indices(table, sort_keys=[(column, "descending" if is_descending else "ascending")])
    return table.take(places)


def place_of(table: pa.Table, chosen: Spot | None) -> int | None:
    """The row of a sample, where the filters leave it."""
    if chosen is None:
        return None
    is_it = pc.and_(pc.equal(table["run_id"], chosen.run_id), pc.equal(table["sample_id"], chosen.sample_id))
    place = pc.index(is_it, True).as_py()
    return None if place < 0 else int(place)


def spot_at(table: pa.Table, place: int) -> Spot:
    return Spot(table["run_id"][place].as_py(), table["sample_id"][place].as_py())


def rows(table: pa.Table, chosen: Spot | None, runs: Sequence[RunFacts]) -> None:
    """Draw one page of rows, that of the chosen sample, which is selected in it."""
    place = place_of(table, chosen)
    above = st.container()
    start = (_page(table, place) - 1) * ROWS_A_PAGE
    part = table.slice(start, ROWS_A_PAGE)
    inside = place is not None and start <= place < start + part.num_rows
    apart = [name for name in ("model", "lp") if len({getattr(run, name) for run in runs}) > 1]
    show_rows(KEY, [place - start] if inside and place is not None else [])
    above.dataframe(
        [_row(one, apart) for one in part.to_pylist()],
        hide_index=True,
        height=min(TABLE_HEIGHT, 40 + ROW_HEIGHT * part.num_rows),
        row_height=ROW_HEIGHT,
        column_config=_columns(table),
        key=KEY,
        on_select=lambda: _take(part),
        selection_mode="single-row",
        placeholder="–",
        alt="Molecules: select a row to look into it",
    )


def _page(table: pa.Table, place: int | None) -> int:
    """The page of rows, from 1. Another sample or other rows begin at the page that has the sample."""
    pages = -(-table.num_rows // ROWS_A_PAGE)
    if pages <= 1:
        return 1
    begin = 1 if place is None else place // ROWS_A_PAGE + 1
    return st.pagination(pages, default=begin, key=f"rows of {_digest(table)} from {place}")


def _digest(table: pa.Table) -> int:
    """Tells tables apart well enough for the state of a widget."""
    ends = [table[name][place].as_py() for name in ("run_id", "sample_id", "tokens") for place in (0, -1)]
    return hash((table.num_rows, *ends))


def _take(part: pa.Table) -> None:
    selected = picked_rows(KEY)
    if selected and selected[0] < part.num_rows:
        state.put_spot(spot_at(part, selected[0]))


def _row(one: Mapping[str, Any], apart: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"drawing": drawing(one["smiles"], palette() is DARK)}
    row |= {name: one[name] for name in apart}
    return row | {
        "verdict": "clean" if one["clean"] else "passed" if one["passed"] else "failed",
        "junk": one["junk_blocks"],
        "cut": one["cut_blocks"],
        "drifts": [0 if drift is None else drift for drift in one["drifts"]],
        "drift": one["drift"],
        "tokens": one["tokens"],
        "RMSD": one["rmsd_ang"],
        "forced": None if one["forced_share"] is None else 100 * one["forced_share"],
        "SMILES": visible_text(one["smiles"]),
        "sample": one["sample_id"],
    }


def _columns(table: pa.Table) -> dict[str, Any]:
    config = st.column_config
    atoms = max(1, _most(table, "blocks"))
    reach = max(2, _most(table, "drift_max"), -_least(table, "drift_min"))
    return {
        "drawing": config.ImageColumn("molecule", width=112, pinned=True),
        "model": config.TextColumn("model", width=120),
        "lp": config.TextColumn("LP", width=110),
        "verdict": config.TextColumn(
            "pass", width=56, help="passed: by the reports' rule, junk may pass. clean: and every block is whole"
        ),
        "junk": config.ProgressColumn(
            "junk", width=64, help="Blocks with junk in them", format="%d", min_value=0, max_value=atoms, color="violet"
        ),
        "cut": config.ProgressColumn(
            "cut", width=58, help="Blocks closed by force", format="%d", min_value=0, max_value=atoms, color="red"
        ),
        "drifts": config.BarChartColumn(
            "drift by block",
            width=100,
            help="A bar a block, in order: up is positions left over, down is missing. Nothing: fits, or not known",
            y_min=-reach,
            y_max=reach,
        ),
        "drift": config.NumberColumn(
            "drift",
            width=50,
            help="Sum over blocks where it is known; only an LP that counts positions makes junk or cuts of it",
            format="%+d",
        ),
        "tokens": config.NumberColumn("tokens", width=56),
        "RMSD": config.NumberColumn(
            "RMSD (Å)", width=70, help="Heavy atoms, to the nearest reference conformer", format="%.2f"
        ),
        "forced": config.NumberColumn(
            "forced", width=64, help="Tokens that the LP left no choice for", format="%.0f %%"
        ),
        "SMILES": config.TextColumn("SMILES", width=220),
        "sample": config.NumberColumn("sample", width=62),
    }


def _most(table: pa.Table, column: str) -> int:
    return int(pc.max(table[column]).as_py() or 0)


def _least(table: pa.Table, column: str) -> int:
    return int(pc.min(table[column]).as_py() or 0)


@st.cache_data(max_entries=4_000, show_spinner=False)
def drawing(smiles: str, dark: bool) -> str | None:
    """The molecule as a small picture; none where it does not read."""
    try:
        svg = draw_svg(parse_smiles(smiles), width=DRAWING[0], height=DRAWING[1], dark=dark)
    except DriftscopeError:
        return None
    return "data:image/svg+xml;base64," + base64.b64encode(_SELECTOR.sub("", svg).encode()).decode()
