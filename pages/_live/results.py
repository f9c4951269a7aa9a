"""Results of the lanes: the shown sample in each, their figures side by side, where they diverge, and downloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.rmsd import nearest, superpose
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import LOADED
from engine.errors import DriftscopeError
from engine.evidence.advice.predicted import sized
from engine.inspection.runs import run_facts
from engine.inspection.sample import Inspected
from engine.live.lane import REFERENCE_S
from engine.live.summary import figures_of, first_divergence, with_ratios
from engine.records import RULE_HELP
from engine.store.entries import Entry
from pages._live import session
from pages._live.files import lane_files
from pages._live.inputs import REFERENCES
from pages._live.lanes import counters, heading, lane_columns, strip
from pages._live.session import Running
from pages._live.speed import speed_words
from pages._shared.choices import one_of
from pages._shared.components.token_strip import visible
from pages._shared.components.view3d import show_conformer, show_overlay
from pages._shared.errors import escape_markdown
from pages._shared.inspected import inspected, open_store
from pages._shared.tries import still_wrong, thrown_tries
from pages._shared.verdict_badges import failed_checks, molecule_badges, text_badge
from pages._shared.words import atom_faults, verdict, wrong_atoms

HEIGHT_PX, HALF_PX = 300, 190  # lanes are narrow: a reference "beside" is drawn below
MOST_FAILED = 3
PLACES = ("on top", "beside", "hidden")
COLUMNS: dict[str, Any] = {
    "lane": st.column_config.TextColumn("Lane", pinned=True),
    "seconds": st.column_config.NumberColumn("Time", format="%.2f s", help="Decoding time, from prompt to last token"),
    "time_ratio": st.column_config.NumberColumn("Time, ratio", format="%.2f×", help="Divided by the first lane's"),
    "tokens": st.column_config.NumberColumn("Tokens"),
    "tokens_a_second": st.column_config.NumberColumn("Tokens/s", format="%.0f"),
    "speed_ratio": st.column_config.NumberColumn("Tokens/s, ratio", format="%.2f×", help="Divided by the first lane's"),
    "forced_share": st.column_config.NumberColumn("Forced", format="percent", help="Tokens without a choice"),
    "forward_passes": st.column_config.NumberColumn("Passes", help="Forward passes; forced tokens may need none"),
    "redrawn_blocks": st.column_config.NumberColumn("Drawn anew", help="How often the guard found a block wrong"),
    "thrown_tokens": st.column_config.NumberColumn("Thrown tokens", help="Cost of that; not among the tokens"),
    "passes": st.column_config.NumberColumn("Passed", help=RULE_HELP["passed"]),
    "decodes": st.column_config.NumberColumn("Decodes", help=RULE_HELP["decodes"]),
    "clean": st.column_config.NumberColumn("Clean", help=RULE_HELP["clean"]),
    "usable": st.column_config.NumberColumn("Usable", help="Clean, stereo right, geometry right"),
    "stereo_right": st.column_config.NumberColumn("Stereo right", help="All that the SMILES specifies, in space"),
    "geometry_right": st.column_config.NumberColumn("Geometry right", help="No check of PoseBusters failed"),
    "strain_kcal": st.column_config.NumberColumn(
        "Strain", format="%.1f kcal/mol", help="Above the relaxed conformer; mean where geometry is right"
    ),
    "bad_blocks": st.column_config.NumberColumn("Damaged blocks", help="Neither exact nor unverified"),
    "cut_blocks": st.column_config.NumberColumn("Cut blocks"),
    "rmsd_ang": st.column_config.NumberColumn(
        "RMSD",
        format="%.2f Å",
        help="To the nearest reference conformer (ETKDGv3); mean over samples that the strict reader takes",
    ),
    "rmsd_samples": st.column_config.NumberColumn("RMSD samples", help="Samples that the strict reader takes"),
}


def show_results(shown: int) -> None:
    lanes = session.lanes()
    run_ids = {lane.run_id for lane in lanes}
    entries = {entry.id: entry for entry in open_store().found().entries if entry.id in run_ids}
    if entries:
        choose_reference()
    for column, lane in zip(lane_columns(lanes), lanes, strict=False):
        with column, st.container(border=True):
            heading(lane)
            _outcome(lane, entries.get(lane.run_id or ""), shown)
    if any(lane.run_id for lane in lanes):
        _divergences(lanes, shown)
        _table(lanes, entries)


# --- one lane -----------------------------------------------------------------------------------------------------


def _outcome(lane: Running, entry: Entry | None, shown: int) -> None:
    """The shown sample: the check, the conformer, the text."""
    wrong: set[int] = set()
    if lane.run_id is not None and entry is None:
        st.caption("This run was removed. Generate it again.")
    if entry is not None:
        store = open_store()
        seen = inspected(store, run_facts(store, entry.id), shown)
        _verdict(seen)
        _conformer(lane, seen)
        wrong = wrong_atoms(seen.sample)
    _unmended(lane, shown)
    counters(lane, shown)
    if lane.watch.counted.tokens or lane.seen.state != "failed":
        strip(lane, shown, wrong)
    if lane.watch.texts.get(shown) is not None:
        thrown_tries(lane.watch.thrown(shown), lane.watch.molecule_of(shown).descriptors, key=f"tries_{lane.number}")
    if entry is not None:
        lane_files(lane, entry, shown)
    for note in lane.watch.finished.notes if lane.watch.finished else ():
        st.caption(escape_markdown(note))


def _verdict(seen: Inspected) -> None:
    """Text, stereo, geometry, RMSD and strain, each with its mark; then what is wrong in words."""
    sample = seen.sample
    with st.container(horizontal=True, gap="small"):
        text_badge(sample)
        molecule_badges(sample)
    st.markdown(escape_markdown(verdict(sample, seen.blocks)))
    # Why a text has no conformer stands where the conformer would be.
    failed_checks([failed for failed in sample["failed"] or () if failed["check"] != LOADED], MOST_FAILED)


def _unmended(lane: Running, shown: int) -> None:
    """What the guard left wrong in the sample."""
    text = lane.watch.texts.get(shown)
    guarding = None if text is None or text.answer is None else text.answer.guarding
    if guarding is not None:
        still_wrong([(place.check, place.atoms) for place in guarding.unmended])


def choose_reference() -> None:
    about = "Grey, from ETKDGv3: the nearest of several, superposed on the generated conformer and seen from one side."
    one_of("Reference conformer", PLACES, "reference", help=about)


def _conformer(lane: Running, seen: Inspected) -> None:
    """In three dimensions with the nearest reference; damaged blocks are marked."""
    if seen.conformer is None:
        st.info(escape_markdown(seen.why_no_conformer), icon=":material/view_in_ar:")
        return
    reference, words = _nearest(seen)
    place = st.session_state.get("reference") or PLACES[0]
    found = atom_faults(seen.sample, seen.blocks)
    is_beside = reference is not None and place == "beside"
    show_overlay(
        seen.conformer,
        reference if place == "on top" else None,
        marks={place: found[atom] for place, atom in enumerate(seen.conformer_atoms) if atom in found},
        height=HALF_PX if is_beside else HEIGHT_PX,
        alt=f"Conformer of lane {lane.number} in three dimensions",
    )
    if reference is not None and is_beside:
        show_conformer(reference, like=seen.conformer, height=HALF_PX, alt="The nearest reference conformer")
    if seen.why_no_conformer:
        st.caption(escape_markdown(seen.why_no_conformer))
    st.caption(words)


def _nearest(seen: Inspected) -> tuple[Chem.Mol | None, str]:
    """The nearest reference conformer, superposed, and its distance in words."""
    assert seen.conformer is not None
    references = _references(seen.molecule.smiles)
    if isinstance(references, str):
        return None, references
    try:
        conformer, distance_ang = nearest(seen.conformer, references)
        moved, _ = superpose(references, seen.conformer, probe_conf=conformer)
    except DriftscopeError:
        return None, "No reference: only part of the molecule can be read."
    which = "of the readable part " if seen.why_no_conformer else ""
    count = references.GetNumConformers()
    return (
        moved,
        f"RMSD {which}**{distance_ang:.2f} Å** to the nearest of {count} reference conformers (ETKDGv3, seed 0).",
    )


@st.cache_resource(max_entries=64, show_spinner="Embedding reference conformers …")
def _references(smiles: str) -> Chem.Mol | str:
    try:
        return reference_conformers(parse_smiles(smiles), REFERENCES, max_seconds=REFERENCE_S)
    except DriftscopeError as error:
        return escape_markdown(str(error))


# --- all lanes ----------------------------------------------------------------------------------------------------


def _table(lanes: list[Running], entries: Mapping[str, Entry]) -> None:
    st.subheader("Lanes side by side", anchor=False)
    figures = []
    for lane in lanes:
        entry = entries.get(lane.run_id or "")
        row = None if entry is None else entry.row
        figures.append(figures_of(lane.watch, row) | {"rmsd_samples": None if row is None else row.get("rmsd_samples")})
    left_out = {"lane"} if any(lane.watch.is_guarded for lane in lanes) else {"lane", "redrawn_blocks", "thrown_tokens"}
    st.dataframe(
        [
            {"lane": lane.title} | {name: row[name] for name in COLUMNS if name not in left_out}
            for lane, row in zip(lanes, with_ratios(figures), strict=True)
        ],
        hide_index=True,
        column_config=COLUMNS,
        placeholder="–",
        alt="Figures of the lanes, and ratios to the first",
    )
    plan, opened = lanes[0].watch.lane.plan, lanes[0].watch.opened
    device = f" on {opened.device}" if opened is not None else ""
    st.caption(
        f"Measured here{escape_markdown(device)}, one lane after the other, with "
        f"{escape_markdown(sized(f'{plan.model.alias}:{plan.model.step}'))}, seed {plan.plan.seed}. "
        "The page slows small models down a little; `.venv/bin/python -m bench.decode` measures without it."
    )
    if words := speed_words(lanes):
        st.caption(words)


def _divergences(lanes: list[Running], shown: int) -> None:
    """The first position where each lane's text differs from the first lane's."""
    first = lanes[0]
    for lane in lanes[1:]:
        if lane.run_id is None or first.run_id is None:
            continue
        difference = first_divergence(first.watch, lane.watch, shown)
        title = f"- **{escape_markdown(lane.title)}**"
        if difference is None:
            st.markdown(f"{title}: same tokens as lane {first.number}.")
            continue
        atom, descriptors = difference.atom, lane.watch.molecule_of(shown).descriptors
        where = "" if atom is None else f", in the block of atom {atom} {descriptors[atom]}"
        st.markdown(
            f"{title} first differs from lane {first.number} at token {difference.pos}{escape_markdown(where)}: "
            f"{_quoted(difference.piece)} instead of {_quoted(difference.first_piece)}."
        )


def _quoted(piece: str) -> str:
    return f"“{escape_markdown(visible(piece))}”" if piece else "the end"
