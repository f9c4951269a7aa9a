"""Lanes that have ended: what became of the shown molecule in each, their figures side by side, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import nearest, superpose
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError
from engine.inspection.runs import run_facts
from engine.inspection.sample import Inspected
from engine.live.lane import REFERENCE_S
from engine.live.summary import figures_of, parting, with_ratios
from engine.store.entries import Entry
from pages._shared.components.token_strip import visible
from pages._shared.components.view3d import show_conformer, show_overlay
from pages._shared.drift.store import inspected, open_store
from pages._shared.drift.words import Fault, faults, verdict
from pages._shared.errors import escape_markdown
from pages._shared.live import session
from pages._shared.live.files import lane_files
from pages._shared.live.inputs import REFERENCES
from pages._shared.live.lanes import counters, heading, lane_columns, strip
from pages._shared.live.session import Running

HEIGHT_PX, HALF_PX = 300, 190  # lanes are narrow: what stands beside a conformer stands below it
PLACES = ("on top", "beside", "hidden")
COLUMNS: dict[str, Any] = {
    "lane": st.column_config.TextColumn("Lane", pinned=True),
    "seconds": st.column_config.NumberColumn("Time", format="%.2f s", help="Of decoding: from prompt to last token"),
    "time_ratio": st.column_config.NumberColumn("Time, ratio", format="%.2f×", help="Over the first lane's"),
    "tokens": st.column_config.NumberColumn("Tokens"),
    "tokens_a_second": st.column_config.NumberColumn("Tokens/s", format="%.0f"),
    "speed_ratio": st.column_config.NumberColumn("Tokens/s, ratio", format="%.2f×", help="Over the first lane's"),
    "forced_share": st.column_config.NumberColumn("Forced", format="percent", help="Tokens that the LP left no choice"),
    "forward_passes": st.column_config.NumberColumn("Passes", help="Through the model; forced tokens may need none"),
    "passes": st.column_config.NumberColumn("Passed", help="By the reports' rule: no issue named; junk may pass"),
    "clean": st.column_config.NumberColumn("Clean", help="Passed, and every block exact or unverified"),
    "bad_blocks": st.column_config.NumberColumn("Damaged blocks", help="Neither exact nor unverified"),
    "cut_blocks": st.column_config.NumberColumn("Cut blocks"),
    "rmsd_ang": st.column_config.NumberColumn(
        "RMSD",
        format="%.2f Å",
        help="To the nearest reference conformer: the mean over those answers that decode, so not over the same of all",
    ),
    "rmsd_samples": st.column_config.NumberColumn("RMSD of", help="Answers that decode and were compared"),
}


def show_results(shown: int) -> None:
    """Draw what there is when the last lane has ended."""
    lanes = session.lanes()
    entries = _entries(lanes)
    if entries:
        choose_reference()
    for column, one in zip(lane_columns(lanes), lanes, strict=False):
        with column, st.container(border=True):
            heading(one)
            _outcome(one, entries.get(one.run_id or ""), shown)
    if any(one.run_id for one in lanes):
        _partings(lanes, shown)
        _table(lanes, entries)


def _entries(lanes: list[Running]) -> Mapping[str, Entry]:
    wanted = {one.run_id for one in lanes}
    return {entry.id: entry for entry in open_store().found().entries if entry.id in wanted}


# --- one lane -----------------------------------------------------------------------------------------------------


def _outcome(one: Running, entry: Entry | None, shown: int) -> None:
    """Of the shown sample: the check, the conformer, the text."""
    if one.run_id is not None and entry is None:
        st.caption("This run is not there any more. Generate it again.")
    if entry is not None:
        store = open_store()
        seen = inspected(store, run_facts(store, entry.id), shown)
        _badge(seen)
        st.markdown(escape_markdown(verdict(seen.sample, seen.blocks)))
        _conformer(one, seen)
    counters(one, shown)
    strip(one, shown)
    if entry is not None:
        lane_files(one, entry, shown)
    for note in one.watch.finished.notes if one.watch.finished else ():
        st.caption(escape_markdown(note))


def _badge(seen: Inspected) -> None:
    if seen.sample["clean"]:
        st.badge("clean", color="green", icon=":material/check:")
    elif seen.sample["passed"]:
        st.badge("passed, damaged", color="orange", icon=":material/warning:")
    else:
        st.badge("failed", color="red", icon=":material/close:")


def choose_reference() -> None:
    """Where the reference conformer stands: for all lanes."""
    st.segmented_control(
        "Reference conformer",
        list(PLACES),
        default=PLACES[0],
        required=True,
        key="reference",
        bind="query-params",
        help="Grey, from ETKDGv3: the nearest one of several, turned so that it lies best on the answer.",
    )


def _conformer(one: Running, seen: Inspected) -> None:
    """In three dimensions with the nearest reference; marked where a block is damaged."""
    if seen.conformer is None:
        st.info(escape_markdown(seen.why_no_conformer), icon=":material/view_in_ar:")
        return
    reference, said = _nearest(seen)
    place = st.session_state.get("reference") or PLACES[0]
    is_beside = reference is not None and place == "beside"
    show_overlay(
        seen.conformer,
        reference if place == "on top" else None,
        junk=_marked(seen, "junk"),
        cut=_marked(seen, "cut"),
        height=HALF_PX if is_beside else HEIGHT_PX,
        alt=f"Conformer of lane {one.number} in three dimensions",
    )
    if reference is not None and is_beside:
        show_conformer(reference, height=HALF_PX, alt="The nearest reference conformer")
    if seen.why_no_conformer:
        st.caption(escape_markdown(seen.why_no_conformer))
    st.caption(said)


def _marked(seen: Inspected, fault: Fault) -> list[int]:
    """Atoms of the conformer whose block has it."""
    atoms = {row["atom"] for row in seen.blocks if fault in faults(row)}
    return [place for place, atom in enumerate(seen.conformer_atoms) if atom in atoms]


def _nearest(seen: Inspected) -> tuple[Chem.Mol | None, str]:
    """The reference conformer nearest to the answer's, moved onto it, and what the distance is."""
    assert seen.conformer is not None
    found = _references(seen.molecule.smiles)
    if isinstance(found, str):
        return None, found
    try:
        conformer, distance_ang = nearest(seen.conformer, found)
        moved, _ = superpose(found, seen.conformer, probe_conf=conformer)
    except DriftscopeError:
        return None, "No reference beside it: what can be read is not the whole molecule."
    of = "of what can be read " if seen.why_no_conformer else ""
    count = found.GetNumConformers()
    return moved, f"RMSD {of}**{distance_ang:.2f} Å** to the nearest of {count} reference conformers (ETKDGv3, seed 0)."


@st.cache_resource(max_entries=64, show_spinner="Embedding reference conformers …")
def _references(smiles: str) -> Chem.Mol | str:
    try:
        return reference_conformers(parse_smiles(smiles), REFERENCES, max_seconds=REFERENCE_S)
    except DriftscopeError as error:
        return escape_markdown(str(error))


# --- all lanes ----------------------------------------------------------------------------------------------------


def _table(lanes: list[Running], entries: Mapping[str, Entry]) -> None:
    st.subheader("Lanes side by side", anchor=False)
    rows = []
    for one, row in zip(lanes, with_ratios([_figures(one, entries) for one in lanes]), strict=True):
        rows.append({"lane": one.title} | {name: row[name] for name in COLUMNS if name != "lane"})
    st.dataframe(
        rows,
        hide_index=True,
        column_config=COLUMNS,
        placeholder="–",
        alt="Figures of the lanes, and ratios to the first",
    )
    plan, opened = lanes[0].watch.lane.plan, lanes[0].watch.opened
    device = f" on {opened.device}" if opened is not None else ""
    st.caption(
        f"Measured here{escape_markdown(device)}, one lane after the other, with "
        f"{escape_markdown(f'{plan.model.alias}:{plan.model.step}')}, seed {plan.plan.seed}. "
        "The page's own work slows small models down a little; `python -m bench.decode` measures without it."
    )


def _figures(one: Running, entries: Mapping[str, Entry]) -> dict[str, Any]:
    entry = entries.get(one.run_id or "")
    row = None if entry is None else entry.row
    return figures_of(one.watch, row) | {"rmsd_samples": None if row is None else row.get("rmsd_samples")}


def _partings(lanes: list[Running], shown: int) -> None:
    """The first position where each lane's text leaves the first one's."""
    first = lanes[0]
    for one in lanes[1:]:
        if one.run_id is None or first.run_id is None:
            continue
        found = parting(first.watch, one.watch, shown)
        title = escape_markdown(one.title)
        if found is None:
            st.markdown(f"- **{title}** writes the very tokens of lane {first.number}.")
            continue
        molecule = one.watch.molecule_of(shown)
        where = "" if found.atom is None else f", in the block of atom {found.atom} {molecule.descriptors[found.atom]}"
        mine, theirs = map(_quoted, (found.piece, found.first_piece))
        st.markdown(
            f"- **{title}** parts from lane {first.number} at token {found.pos}{escape_markdown(where)}: "
            f"{mine} in place of {theirs}."
        )


def _quoted(piece: str) -> str:
    return f"“{escape_markdown(visible(piece))}”" if piece else "the end"
