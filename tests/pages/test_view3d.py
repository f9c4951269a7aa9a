"""The Python side of the 3D view: what reaches the frame's script, from where it is seen, and when it changes."""

from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
import stmol
import streamlit.components.v1
from rdkit import Chem
from streamlit.testing.v1 import AppTest

from engine.chem.frame import principal_axes
from engine.errors import AssetError
from pages._kit.components import view3d
from pages._kit.theme import LIGHT
from tests.pages.component_tests import Frame, frames_of

HOSTILE = "</script><script>alert(1)</script>"


def view_page() -> None:
    from typing import Any

    import streamlit as st

    from engine.chem.conformers import reference_conformers
    from engine.chem.smiles import parse_smiles
    from pages._kit.components.view3d import view3d

    state = st.session_state
    mol = reference_conformers(parse_smiles(state["smiles"]), 1, seed=0)
    mol.SetProp("_Name", state["name"])
    ghost = mol if state["ghost"] else None
    names = [state["name"], "\ud800"]
    marked: Any = {"atoms": [1, 0, -1], "names": names, "marks": {1: "junk", 7: "cut"}}
    view3d(mol, key="v", label=state["name"], ghost=ghost, **marked)


def page(smiles: str = "CC(=O)N", name: str = "a", *, ghost: bool = False) -> AppTest:
    app = AppTest.from_function(view_page, default_timeout=60)
    for key, value in (("smiles", smiles), ("name", name), ("ghost", ghost)):
        app.session_state[key] = value
    app.run()
    assert not app.exception
    return app


def frame(smiles: str = "CC(=O)N", name: str = "a", *, ghost: bool = False) -> Frame:
    (frame,) = frames_of(page(smiles, name, ghost=ghost))
    return frame


def test_nothing_untrusted_is_in_a_script_and_nothing_from_outside_is_named() -> None:
    shown = frame(name=HOSTILE)
    assert shown.title == HOSTILE and shown.scene["names"][1] == HOSTILE
    assert shown.source.count("<script") == 4 and "<script>alert" not in shown.source
    assert set(re.findall(r"https?://[^\"' ]+", shown.source)) <= {"https://medium.com/@vschroeder/javascript-how-to"}
    assert f'.setBackgroundColor("{LIGHT.surface}")' in shown.source


def test_names_marks_and_places_are_of_the_molecules_atoms() -> None:
    scene = frame().scene
    assert scene["atoms"] == [1, 0, -1, -1]
    assert scene["names"] == ["\ud800, junk", "a", "atom 2, N", "atom 3, O"]
    assert scene["elements"] == "C C N O"


@pytest.mark.parametrize("smiles", ["CC(=O)Nc1cc[nH]c1", "[H][H]", "C" * 30])
def test_a_model_is_the_heavy_atoms_seen_with_the_widest_axis_across(smiles: str) -> None:
    (model,) = frame(smiles).models
    read = Chem.MolFromMolBlock(model, removeHs=False)
    heavy = Chem.RemoveHs(Chem.MolFromSmiles(smiles))
    assert [atom.GetSymbol() for atom in read.GetAtoms()] == [atom.GetSymbol() for atom in heavy.GetAtoms()]
    spread = np.ptp(read.GetConformer().GetPositions(), axis=0)
    assert spread[0] >= spread[2] and read.GetConformer().GetPositions().mean(axis=0) == pytest.approx(0, abs=1e-3)
    assert model.startswith("\n")  # no title


def test_a_frame_is_the_same_at_each_run_so_that_no_pick_loads_it_again() -> None:
    app = page(ghost=True)
    first, again = frames_of(app), frames_of(app.run())
    assert first == again and len(first[0].models) == 2


def test_without_the_script_it_is_said_how_to_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise AssetError("3Dmol.js is missing", "Run `make prepare`")

    monkeypatch.setattr(view3d, "three_d_mol", missing)
    app = page()
    assert "make prepare" in app.info[0].value and not frames_of(app)


def test_stmol_is_used_as_it_is_and_without_it_one_line_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (shown,) = frames_of(page())
    assert len(shown.models) == 1 and stmol.components is streamlit.components.v1
    assert not [record for record in caplog.records if "deprecated" in record.getMessage()]
    monkeypatch.setitem(sys.modules, "stmol", None)
    app = page()
    assert "requirements-stmol.txt" in app.info[0].value and not frames_of(app)


def test_an_ellipsoid_lies_about_its_centre_along_the_axes_of_the_text() -> None:
    mol = Chem.MolFromSmiles("CCO")
    conformer = Chem.Conformer(3)
    positions = np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0], [2.0, 1.3, 0.0]])
    conformer.SetPositions(positions)
    mol.AddConformer(conformer)
    shown = view3d._Frame("a", {}, 100)
    shown.draw_ellipsoids(mol, [view3d.Ellipsoid([1.4, 0.1, 0.0], [0.5, 0.2, 0.1])])
    (spec,) = re.findall(r"\.addCustom\((\{.*?\})\);", shown.startjs)
    drawn = json.loads(spec)
    points = np.array([[vertex[axis] for axis in "xyz"] for vertex in drawn["vertexArr"]])
    axes = principal_axes(positions)
    back = points @ axes + positions.mean(axis=0) - [1.4, 0.1, 0.0]  # in the frame of the text
    np.testing.assert_allclose(((back / [0.5, 0.2, 0.1]) ** 2).sum(axis=1), 1, atol=0.03)
    faces = np.array(drawn["faceArr"]).reshape(-1, 3)
    assert faces.max() < len(points) and set(faces.flatten()) == set(range(len(points)))
