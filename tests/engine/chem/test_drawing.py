"""Drawings are well-formed SVG that Streamlit takes, name every atom, and let nothing from outside through."""

from __future__ import annotations

import base64
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.elements.lib import image_utils
from streamlit.elements.lib.layout_utils import LayoutConfig

from engine.chem.conformers import reference_conformers
from engine.chem.drawing import NOTE_CHARS, NOTE_COLOURS, PALETTES, draw_svg
from engine.chem.smiles import molecule_of, parse_smiles
from engine.records import Molecule

SVG = "{http://www.w3.org/2000/svg}"
SMILES = [
    "C", "[H][H]", "[2H]O", "[Na+].[Cl-]", "C[C@H](N)C(=O)Oc1ccc(Cl)cc1", "[H]/N=C/C", "N->[Cu+2]", "F/C=C\\F",
    "C%10CCCCCC%10", "C12C3C4C1C1C2C3C41", "C1CC[C@H]2CCCC[C@@H]2C1", "CCCCCCCCCCCCCCCCCCCC" * 8,
]  # fmt: skip
ACID = parse_smiles("CC(=O)O")
DRUG = parse_smiles("C[C@H](N)C(=O)Oc1ccc(Cl)cc1")


def parsed(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    assert root.tag == f"{SVG}svg"
    return root


def classes(root: ElementTree.Element) -> list[list[str]]:
    return [element.get("class", "").split() for element in root.iter()]


def notes_of(svg: str) -> list[str]:
    return [element.text or "" for element in parsed(svg).iter(f"{SVG}text") if "note" in element.get("class", "")]


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("smiles", SMILES)
def test_every_atom_can_be_clicked_and_no_other(smiles: str, dark: bool) -> None:
    molecule = parse_smiles(smiles)
    root = parsed(draw_svg(molecule, dark=dark))
    selectors = [element for element in root.iter(f"{SVG}circle") if "atom-selector" in element.get("class", "")]
    assert [element.get("data-atom") for element in selectors] == [str(atom) for atom in range(molecule.atoms)]
    named = {int(name[5:]) for group in classes(root) for name in group if re.fullmatch(r"atom-\d+", name)}
    assert named == set(range(molecule.atoms))
    for element in selectors:
        assert 0 <= float(element.get("cx", "-1")) <= 360
        assert 0 <= float(element.get("cy", "-1")) <= 260


def test_the_size_is_the_one_asked_for_and_the_background_is_transparent() -> None:
    svg = draw_svg(DRUG, width=500, height=120)
    root = parsed(svg)
    assert (root.get("width"), root.get("height")) == ("500px", "120px")
    assert not list(root.iter(f"{SVG}rect"))


def test_streamlit_takes_it_as_an_image() -> None:
    svg = draw_svg(DRUG, notes={0: "café → 名"})
    assert svg.startswith("<svg ")
    url = image_utils.image_to_url(svg, LayoutConfig(), False, "RGB", "auto", "test")
    kind, data = url.split(",", 1)
    assert kind == "data:image/svg+xml;base64"
    assert notes_of(base64.b64decode(data).decode("utf-8")) == ["café → 名"]


def test_highlights_colour_their_atoms_only() -> None:
    svg = draw_svg(DRUG, highlights={1: "#ff0000", 3: "#00AA88"})
    drawn = {element.get("class"): element.get("style", "") for element in parsed(svg).iter(f"{SVG}ellipse")}
    assert set(drawn) == {"atom-1", "atom-3"}
    assert "#FF0000" in drawn["atom-1"]
    assert "#00AA88" in drawn["atom-3"]
    assert not list(parsed(draw_svg(DRUG)).iter(f"{SVG}ellipse"))


def test_dark_and_light_differ_and_both_can_be_read() -> None:
    light, dark = draw_svg(DRUG), draw_svg(DRUG, dark=True)
    assert PALETTES[False][-1].upper() in light
    assert PALETTES[False][-1].upper() not in dark
    assert PALETTES[True][-1].upper() in dark
    for background, shade in (("#ffffff", False), ("#0e1117", True)):
        for colour in (*PALETTES[shade].values(), NOTE_COLOURS[shade]):
            assert contrast(colour, background) > 4.5, colour


@pytest.mark.parametrize("dark", [False, True])
def test_only_palette_colours_are_drawn(dark: bool) -> None:
    molecule = parse_smiles("FC(Cl)(Br)C(I)(S)OP(=O)(O)Nc1ccccc1[SiH3]")
    drawn = set(re.findall(r"#[0-9A-F]{6}(?![0-9A-F])", draw_svg(molecule, dark=dark)))
    assert drawn == {colour.upper() for colour in PALETTES[dark].values()}


HOSTILE = st.text(max_size=60) | st.sampled_from(
    [
        "</text><script>alert(1)</script>",
        "' onload='alert(1)",
        '"><!--',
        "]]>",
        "&lt;",
        "&#0;",
        "\x00\x1b[31m",
        "\u202egnp",
    ]
)


@given(note=HOSTILE, atom=st.integers(0, ACID.atoms - 1))
def test_notes_are_text_and_nothing_else(note: str, atom: int) -> None:
    noted = draw_svg(ACID, notes={atom: note})
    root = parsed(noted)
    assert {element.tag for element in root.iter()} <= {f"{SVG}{tag}" for tag in ("svg", "path", "circle", "text")}
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    shown = notes_of(noted)
    assert len(shown) <= 1
    if shown:
        assert len(shown[0]) <= NOTE_CHARS
        assert set(shown[0]) <= set(note) | {" ", "…"}
        assert shown[0].isprintable()


def test_a_note_says_what_it_was_given() -> None:
    assert notes_of(draw_svg(DRUG, notes={4: "cut <-2> & 'x'", 0: "a\nb"})) == ["a b", "cut <-2> & 'x'"]
    assert notes_of(draw_svg(DRUG, notes={4: ""})) == []
    long = notes_of(draw_svg(DRUG, notes={4: "x" * 100}))[0]
    assert long == "x" * (NOTE_CHARS - 1) + "…"


def test_notes_stay_inside_the_frame_and_off_each_other() -> None:
    texts = {atom: f"note {atom}" for atom in range(DRUG.atoms)}
    root = parsed(draw_svg(DRUG, notes=texts))
    spots = [(float(e.get("x", "nan")), float(e.get("y", "nan"))) for e in root.iter(f"{SVG}text")]
    assert len(set(spots)) == DRUG.atoms
    assert all(0 < x < 360 and 0 < y < 260 for x, y in spots)


def test_the_spoken_name_is_escaped() -> None:
    molecule = parse_smiles("[Cu+2]<-N")
    assert parsed(draw_svg(molecule)).get("aria-label") == molecule.smiles
    forged = Molecule("'><script>", "x", DRUG.descriptors, DRUG.elements, DRUG.heavy_atoms, DRUG.mol)
    assert parsed(draw_svg(forged)).get("aria-label") == "'><script>"


def test_a_conformer_is_not_projected() -> None:
    mol = reference_conformers(DRUG)
    placed = Molecule(DRUG.smiles, "", DRUG.descriptors, DRUG.elements, DRUG.heavy_atoms, mol)
    assert draw_svg(placed) == draw_svg(DRUG) == draw_svg(molecule_of(mol))
    assert mol.GetConformer().Is3D()
