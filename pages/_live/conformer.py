"""A finished lane's conformer with the nearest reference: the one that was picked in any view is lit here too."""

from __future__ import annotations

import numpy as np
import streamlit as st
from rdkit import Chem

from engine.chem.rmsd import nearest, superpose
from engine.errors import DriftscopeError
from engine.figures.words import angstrom
from engine.inspection.conformers import references_of
from engine.inspection.faults import atom_faults
from engine.inspection.sample import Inspected
from engine.jobs.lane import REFERENCE_S
from pages._kit.choices import one_of
from pages._kit.components.view3d import APART, SNUG, view3d
from pages._kit.errors import escaped
from pages._kit.words import unbroken
from pages._live.inputs import REFERENCES

HEIGHT_PX, BESIDE_PX = 190, 300
PLACEMENTS = ("on top", "beside", "hidden")
GAP_ANG = 2.5  # between two conformers


def choose_reference() -> None:
    about = (
        f"Grey: the nearest of {REFERENCES} conformers of ETKDGv3 (seed 0), superposed on the generated one. "
        "The RMSD is between these two. Beside, it turns along."
    )
    one_of("Reference conformer", PLACEMENTS, "reference", help=about)


def conformer(lane: str, seen: Inspected, branch: Chem.Mol | None = None) -> None:
    """With its faults marked. ``lane`` names the view. Of several in the answer the reader chooses one. A ``branch`` is
    drawn in place of the reference, in the frame of what both share."""
    seen = chosen_conformer(lane, seen)
    if seen.conformer is None:
        st.info(escaped(seen.why_no_conformer), icon=":material/view_in_ar:")
        return
    reference, _ = _nearest(seen)
    placement = st.session_state.get("reference") or PLACEMENTS[0]
    if placement == "hidden":
        reference = None
    is_beside = branch is None and reference is not None and placement == "beside"
    caption = "Generated" if reference is None else "Generated; grey: reference"
    view3d(
        seen.conformer,
        key=f"shape_{lane}_{placement}_{seen.number}",  # each with a camera of its own
        label=f"Conformer of lane {lane} in three dimensions",
        ghost=branch or (_next_to(reference, seen.conformer) if reference and is_beside else reference),
        atoms=seen.conformer_atoms,
        names=[f"atom {atom}, {descriptor}" for atom, descriptor in enumerate(seen.molecule.descriptors)],
        marks=atom_faults(seen.sample, seen.blocks, only=seen.number),
        caption=caption if branch is None else "Generated; grey: branch",
        zoom=APART if is_beside else SNUG,
        height=BESIDE_PX if is_beside else HEIGHT_PX,
    )


def chosen_conformer(lane: str, seen: Inspected) -> Inspected:
    """The one that this lane's buttons name; there are none where the answer has one conformer."""
    count = len(seen.shapes)
    if count < 2:
        return seen
    numbers = list(map(str, range(1, count + 1)))
    return seen.of_conformer(int(one_of(f"Conformer (of {count})", numbers, f"conformer{lane}")))


def in_view(lane: str, seen: Inspected) -> Inspected:
    """As the lane's buttons stand."""
    return seen.of_conformer(int(st.session_state.get(f"conformer{lane}") or 1))


def conformer_words(lane: str, seen: Inspected) -> None:
    """What is missing of it, and how far the reference is where the badges do not say so."""
    seen = in_view(lane, seen)
    if seen.conformer is None:
        return
    if seen.why_no_conformer:
        st.caption(escaped(seen.why_no_conformer))
    _, words = _nearest(seen)
    if words:
        st.caption(unbroken(words))


def _next_to(mol: Chem.Mol, other: Chem.Mol) -> Chem.Mol:
    """The molecule, moved from the other along its second axis, which a viewer draws upright: lanes are narrow."""
    fixed, moved = (molecule.GetConformer().GetPositions() for molecule in (other, mol))
    up = np.linalg.svd(fixed - fixed.mean(axis=0))[2][1]
    placed = Chem.Mol(mol)
    placed.GetConformer().SetPositions(moved + up * (np.max(fixed @ up) - np.min(moved @ up) + GAP_ANG))
    return placed


def _nearest(seen: Inspected) -> tuple[Chem.Mol | None, str]:
    """The nearest reference conformer, superposed; and what the badges do not say of it."""
    assert seen.conformer is not None
    with st.spinner("Embedding reference conformers …", show_time=True):
        references = references_of(seen.molecule.smiles, REFERENCES, REFERENCE_S)
    if isinstance(references, str):
        return None, escaped(references)
    try:
        nearest_id, distance_ang = nearest(seen.conformer, references)
        moved, _ = superpose(references, seen.conformer, probe_conf=nearest_id)
    except DriftscopeError:
        return None, "No reference: only part of the molecule can be read."
    if seen.sample["rmsd_ang"] is not None:
        return moved, ""
    distance = f"**{angstrom(distance_ang)}**"
    if seen.why_no_conformer:
        return moved, f"RMSD of the readable part {distance}. The run has none: the strict reader refuses the text."
    return moved, f"RMSD {distance}"
