"""The Python side of both 3D views: models, what reaches a script, what travels, how a pick is handed on."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
import streamlit
from rdkit import Chem
from rdkit.Chem import rdDistGeom
from streamlit.testing.v1 import AppTest

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.errors import AssetError
from pages._shared.components import view3d, viewer3d
from pages._shared.components.mol_blocks import mol_block, without_hydrogens, without_last_hydrogens
from pages._shared.components.viewer3d import model_of, picked_atom
from pages._shared.theme import LIGHT
from tests.pages.component_tests import messages_of, run

HOSTILE = "</script><script>alert(1)</script>"


def conformer(smiles: str) -> Chem.Mol:
    return Chem.AddHs(reference_conformers(parse_smiles(smiles), 1, seed=0), addCoords=True)


def atoms_of(block: str) -> list[str]:
    read = Chem.MolFromMolBlock(block, removeHs=False, sanitize=False)
    return [atom.GetSymbol() for atom in read.GetAtoms()]


def test_a_model_is_the_heavy_atoms_in_their_order_and_has_no_title() -> None:
    mol = conformer("CC(=O)Nc1cc[nH]c1")
    mol.SetProp("_Name", HOSTILE)
    model = model_of(mol, "label")
    heavy = [atom.GetSymbol() for atom in mol.GetAtoms() if atom.GetAtomicNum() > 1]
    assert atoms_of(model.mol_block) == heavy
    assert "script" not in model.mol_block
    assert model.mol_block.startswith("\n")
    read = Chem.MolFromMolBlock(model.mol_block)
    assert Chem.MolToSmiles(read) == Chem.MolToSmiles(Chem.RemoveHs(mol))
    assert read.GetConformer().GetPositions() == pytest.approx(
        np.asarray(mol.GetConformer().GetPositions())[: len(heavy)], abs=1e-4
    )


def test_a_hydrogen_between_heavy_atoms_keeps_its_index_and_a_ghost_has_none() -> None:
    mol = Chem.MolFromSmiles("[2H]OC([2H])C", sanitize=True)
    rdDistGeom.EmbedMolecule(mol, randomSeed=1)
    assert atoms_of(mol_block(without_last_hydrogens(mol))) == ["H", "O", "C", "H", "C"]
    assert atoms_of(model_of(mol, "reference", ghost=True).mol_block) == ["O", "C", "C"]


def test_hydrogen_alone_is_kept() -> None:
    mol = conformer("[H][H]")
    assert atoms_of(mol_block(without_hydrogens(mol))) == ["H", "H"]
    assert atoms_of(model_of(mol, "").mol_block) == ["H", "H"]


@pytest.mark.parametrize("smiles", ["C", "C" * 120, "C" * 1100], ids=["one", "120", "beyond V2000"])
def test_atoms_are_counted_in_either_form(smiles: str) -> None:
    mol = Chem.MolFromSmiles(smiles)
    mol.AddConformer(Chem.Conformer(mol.GetNumAtoms()))
    assert viewer3d._atoms(model_of(mol, "").mol_block) == mol.GetNumAtoms()


def view_page() -> None:
    import streamlit as st

    from pages._shared.components.viewer3d import viewer3d

    def pick(atom: int | None) -> None:
        st.session_state["told"] = [*st.session_state.get("told", []), atom]
        st.session_state["atom"] = atom

    viewer3d(
        st.session_state.get("models", []),
        key="solid",
        label="Molecule",
        names=["\ud800"],
        selected=st.session_state.get("atom"),
        marks={0: "junk", 99: "cut"},
        on_pick=pick,
    )
    st.text(f"told {st.session_state.get('told', [])}")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The data of every message."""
    return messages_of(viewer3d._component, monkeypatch)


def test_models_travel_once_and_a_pick_is_handed_on(sent: list[dict[str, Any]]) -> None:
    models = [model_of(conformer("CCO"), "reference", ghost=True), model_of(conformer("CCO"), HOSTILE)]
    page = AppTest.from_function(view_page)
    assert run(page, models=models) == "told []"
    assert run(page, solid=picked_atom(2)) == "told [2]"
    assert run(page, solid=picked_atom(3)) == "told [2]"  # of the hydrogens there is none
    assert ["large" in message for message in sent] == [True] + [False] * (len(sent) - 1)
    assert [sent[0]["marks"], sent[0]["selected"], sent[-1]["selected"]] == [[[0, "junk"]], None, 2]
    assert sent[0]["large"]["names"] == ["\\ud800", "atom 1", "atom 2"]
    assert [model["ghost"] for model in sent[0]["large"]["models"]] == [True, False]


def test_no_model_is_no_error(sent: list[dict[str, Any]]) -> None:
    assert run(AppTest.from_function(view_page)) == "told []"
    assert (sent[0]["large"]["models"], sent[0]["marks"]) == ([], [])


def missing() -> None:
    raise AssetError("3Dmol.js is missing", "Run `make prepare`")


def test_without_the_script_both_views_say_so(monkeypatch: pytest.MonkeyPatch, sent: list[dict[str, Any]]) -> None:
    monkeypatch.setattr(viewer3d, "three_d_mol", missing)
    monkeypatch.setattr(view3d, "three_d_mol", missing)
    run(AppTest.from_function(view_page))
    assert "make prepare" in sent[0]["missing"]
    page = AppTest.from_function(frame_page).run()
    assert "3Dmol\\.js is missing" in page.info[0].value


def frame_page() -> None:
    from engine.chem.conformers import reference_conformers
    from engine.chem.smiles import parse_smiles
    from pages._shared.components.view3d import show_conformer

    mol = reference_conformers(parse_smiles("CC(=O)N"), 1, seed=0)
    mol.SetProp("_Name", "</script><script>alert(1)</script>")
    show_conformer(mol, alt="a conformer")


def test_a_frame_has_a_model_and_nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(streamlit, "iframe", lambda source, **look: frames.append((source, look)))
    assert not AppTest.from_function(frame_page).run().exception
    [(source, look)] = frames
    assert look["alt"] == "a conformer"
    assert source.count(".addModel(") == 1
    assert LIGHT.surface in source
    assert "alert" not in source
    assert set(re.findall(r"https?://[^\"' ]+", source)) <= {"https://medium.com/@vschroeder/javascript-how-to"}


def test_parallel_sessions_keep_their_own_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """stmol's module is one for all; who draws at the same time gets his own description all the same."""
    seen: dict[int, list[str]] = {}
    both = threading.Barrier(2)

    def iframe(source: str, *, height: int, alt: str) -> None:
        seen.setdefault(threading.get_ident(), []).append(alt)

    class View:
        def _make_html(self) -> str:
            both.wait(timeout=30)  # both are inside stmol now
            return "<p>"

    monkeypatch.setattr(streamlit, "iframe", iframe)
    threads = [threading.Thread(target=view3d._showmol, args=(View(), 300, f"view {i}")) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert sorted(seen.values()) == [["view 0"], ["view 1"]]
