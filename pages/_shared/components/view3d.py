"""Conformers in 3D: stmol and py3Dmol fed with the 3Dmol.js that set-up put beside the app.

Only mol blocks that RDKit wrote, and numbers and colours from here, reach the viewer: py3Dmol writes all of it into a
script and escapes nothing.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import streamlit as st
from rdkit import Chem

from engine.assets import FILE_NAME, three_d_mol
from engine.errors import AssetError
from pages._shared.components.mol_blocks import mol_block
from pages._shared.errors import error_markdown
from pages._shared.theme import palette

# Streamlit serves static/ here; relative, so that it also works behind a base path.
SCRIPT = f"app/static/{FILE_NAME}"

_alt: ContextVar[str] = ContextVar("alt")


def show_conformer(mol: Chem.Mol, *, height: int = 300, alt: str = "3D view of the conformer") -> None:
    """Draw the molecule's first conformer. Without 3Dmol.js, say what is missing and how to bring it."""
    if _has_script():
        _showmol(_view(mol_block(mol), height), height, alt)


def _has_script() -> bool:
    try:
        three_d_mol()
    except AssetError as error:
        st.info(error_markdown(error), icon=":material/view_in_ar:")
        return False
    return True


def _view(block: str, height: int) -> Any:
    import py3Dmol

    view = py3Dmol.view(js=SCRIPT, width="100%", height=height)
    view.addModel(block, "mol")
    carbon = {"colorscheme": {"prop": "elem", "map": {"C": palette().muted}}}
    view.setStyle({"model": 0}, {"stick": {"radius": 0.14, **carbon}, "sphere": {"scale": 0.25, **carbon}})
    view.setBackgroundColor(palette().surface)
    view.zoomTo()
    view.zoom(0.9)  # it fits the height, and the view may stand in a narrow column
    return view


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
