"""Drawings are well-formed SVG that Streamlit takes, name every atom, and let nothing from outside through."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.conformers import reference_conformers
from engine.chem.drawing import NOTE_CHARS, draw_svg
from engine.chem.smiles import molecule_of, parse_smiles
from engine.records import Molecule

SVG = "{http://www.w3.org/2000/svg}"
SMILES = [
    "C", "[H][H]", "[Na+].[Cl-]", "C[C@H](N)C(=O)Oc1ccc(Cl)cc1", "[H]/N=C/C", "[Cu+2]<-N", "C12C3C4C1C1C2C3C41",
    "CCCCCCCCCCCCCCCCCCCC" * 8,
]  # fmt: skip
ACID = parse_smiles("CC(=O)O")
DRUG = parse_smiles("C[C@H](N)C(=O)Oc1ccc(Cl)cc1")


def parsed(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def notes_of(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text") if "note" in element.get("class", "")]


@pytest.mark.parametrize("smiles", SMILES)
def test_every_atom_can_be_clicked_and_no_other(smiles: str) -> None:
    molecule = parse_smiles(smiles)
    root = parsed(draw_svg(molecule))
    selectors = [element for element in root.iter(f"{SVG}circle") if "atom-selector" in element.get("class", "")]
    assert [element.get("data-atom") for element in selectors] == [str(atom) for atom in range(molecule.atoms)]
    classes = " ".join(element.get("class", "") for element in root.iter())
    assert {int(number) for number in re.findall(r"\batom-(\d+)", classes)} == set(range(molecule.atoms))
    assert root.get("aria-label") == molecule.smiles
    for element in selectors:
        assert 0 <= float(element.get("cx", "-1")) <= 360
        assert 0 <= float(element.get("cy", "-1")) <= 260


def test_highlights_colour_their_atoms_only() -> None:
    svg = draw_svg(DRUG, highlights={1: "#ff0000", 3: "#00AA88"})
    drawn = {element.get("class"): element.get("style", "") for element in parsed(svg).iter(f"{SVG}ellipse")}
    assert set(drawn) == {"atom-1", "atom-3"}
    assert "#FF0000" in drawn["atom-1"]
    assert "#00AA88" in drawn["atom-3"]
    assert not list(parsed(draw_svg(DRUG)).iter(f"{SVG}ellipse"))


HOSTILE = (
    "</text><script>alert(1)</script>",
    "' onload='alert(1)",
    '"><!--',
    "]]>",
    "&#0;",
    "\x00\x1b[31m",
    "\u202egnp",
)


@given(text=st.text(max_size=60) | st.sampled_from(HOSTILE), atom=st.integers(0, ACID.atoms - 1))
def test_notes_and_names_are_text_and_nothing_else(text: str, atom: int) -> None:
    noted = draw_svg(ACID, notes={atom: text})
    elements = list(parsed(noted).iter())
    assert {element.tag for element in elements} <= {f"{SVG}{tag}" for tag in ("svg", "path", "circle", "text")}
    assert not [name for element in elements for name in element.attrib if name.startswith("on")]
    shown = "".join(notes_of(noted))
    assert len(shown) <= NOTE_CHARS and set(shown) <= set(text) | {" ", "…"}
    assert shown.isprintable()


def test_a_note_says_what_it_was_given() -> None:
    assert notes_of(draw_svg(DRUG, notes={4: "cut <-2> & 'x'", 0: "a\nb"})) == ["a b", "cut <-2> & 'x'"]
    assert notes_of(draw_svg(DRUG, notes={4: ""})) == []
    long = notes_of(draw_svg(DRUG, notes={4: "x" * 100}))[0]
    assert long == "x" * (NOTE_CHARS - 1) + "…"


def test_a_conformer_is_not_projected() -> None:
    mol = reference_conformers(DRUG)
    placed = Molecule(DRUG.smiles, "", DRUG.descriptors, DRUG.elements, DRUG.heavy_atoms, mol)
    assert draw_svg(placed) == draw_svg(DRUG) == draw_svg(molecule_of(mol))
    assert mol.GetConformer().Is3D()
