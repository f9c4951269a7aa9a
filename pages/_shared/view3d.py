"""A conformer in 3D: stmol and py3Dmol fed with the 3Dmol.js that set-up put beside the app.

Only mol blocks that RDKit wrote reach the viewer: py3Dmol writes them into a script and escapes nothing.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import streamlit as st
from rdkit import Chem

from engine.assets import FILE_NAME, three_d_mol
from engine.errors import AssetError
from pages._shared.errors import escape_markdown
from pages._shared.theme import palette

# Streamlit serves static/ here; relative, so that it also works behind a base path.
SCRIPT = f"app/static/{FILE_NAME}"


def show_conformer(mol: Chem.Mol, *, height: int = 300, alt: str = "3D view of the conformer") -> None:
    """Draw the molecule's first conformer; without 3Dmol.js, say what is missing and how to bring it."""
    try:
        three_d_mol()
    except AssetError as error:
        st.info(escape_markdown(str(error)), icon=":material/view_in_ar:")
        return
    _showmol(_view(_mol_block(mol), height), height, alt)


def _mol_block(mol: Chem.Mol) -> str:
    bare = Chem.Mol(mol)
    bare.SetProp("_Name", "")  # the one line of a mol block that could hold anybody's text
    return str(Chem.MolToMolBlock(bare, confId=bare.GetConformer().GetId()))


def _view(mol_block: str, height: int) -> Any:
    import py3Dmol

    view = py3Dmol.view(js=SCRIPT, width="100%", height=height)
    view.addModel(mol_block, "mol")
    view.setStyle({}, {"stick": {"radius": 0.14}, "sphere": {"scale": 0.25}})
    view.setBackgroundColor(palette().surface)
    view.zoomTo()
    return view


def _showmol(view: Any, height: int, alt: str) -> None:
    """``stmol.showmol`` through ``st.iframe``: the call that stmol makes itself is deprecated."""
    import stmol

    def html(source: str, height: int, width: object) -> None:
        st.iframe(source, height=height, alt=alt)

    stmol.components = SimpleNamespace(html=html)
    stmol.showmol(view, height=height + 8, width=None)
