"""Conformers in 3D: stmol and py3Dmol fed with the 3Dmol.js that set-up put beside the app.

Only mol blocks that RDKit wrote, and numbers and colours from here, reach the viewer: py3Dmol writes all of it into a
script and escapes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray
from rdkit import Chem

from engine.assets import FILE_NAME, three_d_mol
from engine.errors import AssetError
from pages._shared.components.atom_picks import NO_MARKS
from pages._shared.components.mol_blocks import mol_block, without_hydrogens, without_last_hydrogens
from pages._shared.errors import escape_markdown
from pages._shared.theme import Palette, palette
from pages._shared.words import Fault

# Streamlit serves static/ here; relative, so that it also works behind a base path.
SCRIPT = f"app/static/{FILE_NAME}"
GHOST_OPACITY = 0.6
MARK_RADIUS_ANG = 0.6
MARKS: dict[Fault, str] = {"junk": "!", "cut": "\u2702\ufe0e", "wrong": "\u26a0\ufe0e"}  # the token strip's characters

Array = NDArray[np.float64]

_alt: ContextVar[str] = ContextVar("alt")


def show_conformer(
    mol: Chem.Mol, *, like: Chem.Mol | None = None, height: int = 300, alt: str = "3D view of the conformer"
) -> None:
    """Draw the molecule's first conformer, from where ``show_overlay`` shows ``like`` if that is given.

    Without 3Dmol.js, say what is missing and how to bring it.
    """
    if _has_script():
        shown = mol if like is None else _turned(mol, _facing(like))
        _showmol(_finished(_view(mol_block(shown), height)), height, alt)


def show_overlay(
    conformer: Chem.Mol,
    reference: Chem.Mol | None,
    *,
    marks: Mapping[int, Fault] = NO_MARKS,
    height: int = 320,
    alt: str = "3D view of the conformer on top of the reference",
) -> None:
    """Draw the conformer in its own colours, with the reference in translucent grey where it lies, heavy atoms alone.

    Both are drawn where they are: ``engine.chem.rmsd.superpose`` lays one on the other. ``marks`` are by
    atom of the conformer: each has a sphere and a character, ``!`` for junk, scissors for cut, a warning for wrong.
    """
    if not _has_script():
        return
    turn = _facing(conformer)
    shown = _turned(without_last_hydrogens(conformer), turn)
    view = _view(mol_block(shown), height)
    colours = palette()
    if reference is not None:
        view.addModel(mol_block(_turned(without_hydrogens(reference), turn)), "mol")
        grey = {"color": colours.neutral, "opacity": GHOST_OPACITY}
        view.setStyle({"model": 1}, {"stick": {"radius": 0.11, **grey}})
    for atom, mark in sorted(marks.items()):
        if 0 <= atom < shown.GetNumAtoms():
            _add_mark(view, shown, atom, mark, colours)
    _showmol(_finished(view), height, alt)


def _has_script() -> bool:
    try:
        three_d_mol()
    except AssetError as error:
        st.info(escape_markdown(str(error)), icon=":material/view_in_ar:")
        return False
    return True


def _view(block: str, height: int) -> Any:
    import py3Dmol

    view = py3Dmol.view(js=SCRIPT, width="100%", height=height)
    view.addModel(block, "mol")
    carbon = {"colorscheme": {"prop": "elem", "map": {"C": palette().muted}}}
    view.setStyle({"model": 0}, {"stick": {"radius": 0.14, **carbon}, "sphere": {"scale": 0.25, **carbon}})
    return view


def _facing(mol: Chem.Mol) -> Array:
    """The rotation that shows the molecule from where it spreads most: its widest axis across, the next one up."""
    xyz = mol.GetConformer().GetPositions()
    axes = np.linalg.svd(xyz - xyz.mean(axis=0))[2]
    axes[2] *= np.sign(np.linalg.det(axes))
    return np.asarray(axes)


def _turned(mol: Chem.Mol, turn: Array) -> Chem.Mol:
    placed = Chem.Mol(mol)
    placed.GetConformer().SetPositions(np.ascontiguousarray(mol.GetConformer().GetPositions() @ turn.T))
    return placed


def _finished(view: Any) -> Any:
    view.setBackgroundColor(palette().surface)
    view.zoomTo()
    view.zoom(0.9)  # it fits the height, and the view may stand in a narrow column
    return view


def _add_mark(view: Any, mol: Chem.Mol, atom: int, mark: Fault, colours: Palette) -> None:
    spot = mol.GetConformer().GetAtomPosition(atom)
    centre = {"x": round(spot.x, 4), "y": round(spot.y, 4), "z": round(spot.z, 4)}
    sphere = {"center": centre, "radius": MARK_RADIUS_ANG, "color": getattr(colours, mark), "opacity": 0.6}
    view.addSphere(sphere)
    label = {"position": centre, "fontColor": colours.text, "fontSize": 14, "alignment": "center", "inFront": True}
    label["screenOffset"] = {"x": 18, "y": 18}
    view.addLabel(MARKS[mark], {**label, "backgroundColor": colours.surface, "backgroundOpacity": 0.8})


def _showmol(view: Any, height: int, alt: str) -> None:
    """``stmol.showmol`` through ``st.iframe``: the call that stmol makes itself is deprecated.

    All sessions put the same object into stmol, so that none can take another's; what differs is in the context.
    """
    import stmol

    stmol.components = _COMPONENTS
    token = _alt.set(alt)
    try:
        stmol.showmol(view, height=height + 8, width=None)
    finally:
        _alt.reset(token)


def _html(source: str, height: int, width: object) -> None:
    st.iframe(source, height=height, alt=_alt.get())


_COMPONENTS = SimpleNamespace(html=_html)
