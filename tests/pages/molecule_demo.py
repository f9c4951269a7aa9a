"""The 2D and 3D views on a page of their own: what the browser tests look at. Not a page of the app."""

from __future__ import annotations

import streamlit as st
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.drawing import draw_svg
from engine.chem.rmsd import superpose
from engine.chem.smiles import parse_smiles
from engine.inspection.atoms import Token
from pages._kit.components.atom_view import ViewRow, atom_view
from pages._kit.components.molecule2d import molecule2d
from pages._kit.components.view3d import view3d
from pages._kit.frame import page
from pages._kit.theme import palette

HOSTILE = "<img src=x onerror=\"alert('name')\">\u202e</script><script>alert(1)</script>"
FOREIGN = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="200" height="100"
  onload="alert('svg')" style="background:url(http://outside.invalid/a.png)">
  <script>alert('script')</script><style>@import url(http://outside.invalid/b.css);</style>
  <image href="http://outside.invalid/c.png" width="10" height="10"/><use xlink:href="http://outside.invalid/d.svg#e"/>
  <a href="javascript:alert('link')"><text x="5" y="20">link</text></a>
  <foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="alert('foreign')"/></foreignObject>
  <g fill="url(http://outside.invalid/f)"><text x="5" y="50">kept</text></g>
  <circle cx="50" cy="50" r="12" class="atom-selector" data-atom="0" onclick="alert('click')" style="fill-opacity:0"/>
</svg>"""
MOLECULES = {"aspirin": "CC(=O)Oc1ccccc1C(=O)O", "acetaldehyde": "CC=O", "flexible": "CCCC(CO)OC(=O)CCN"}

page("Molecule views", "Atoms that can be pointed at, lit and picked.")
state = st.session_state
START = {"choice": "aspirin", "lit": -1, "in sight": True, "other": False, "in 3D": True}


def clear() -> None:
    state.update(START, atom=None, told=[])


for name, value in START.items():
    state.setdefault(name, value)
choice = st.radio("Molecule", [*MOLECULES, "hostile", "no drawing"], horizontal=True, key="choice")
with st.container(horizontal=True, vertical_alignment="bottom"):
    lit = st.number_input("In work", -1, 12, width=160, key="lit")
    st.button("Clear", on_click=clear)
    shown = st.toggle("Shown", key="in sight")
    in_3d = st.toggle("In 3D", key="in 3D")
    other = st.toggle("Other conformer", key="other")


def pick(atom: int | None) -> None:
    state["told"] = [*state.get("told", []), atom]
    state["atom"] = atom


def drawing() -> tuple[str, list[str]]:
    if choice == "hostile":
        return FOREIGN, [HOSTILE]
    if choice == "no drawing":
        return "<svg", []
    molecule = parse_smiles(MOLECULES[choice])
    marked = {1: palette().junk, 2: palette().cut}
    svg = draw_svg(molecule, highlights=marked, dark=st.context.theme.type == "dark")
    return svg, [f"atom {atom}, {molecule.mol.GetAtomWithIdx(atom).GetSymbol()}" for atom in range(molecule.atoms)]


@st.cache_resource
def conformers(smiles: str) -> tuple[Chem.Mol, Chem.Mol, Chem.Mol]:
    """Two conformers, both on the third."""
    ensemble = reference_conformers(parse_smiles(smiles), 3, seed=2)
    first, second, third = (
        Chem.Mol(ensemble, confId=conformer.GetId()) for conformer in list(ensemble.GetConformers())[:3]
    )
    return superpose(first, third)[0], superpose(second, third)[0], third


svg, names = drawing()
left, right = st.columns([2, 3])
if shown:
    with left:
        molecule2d(
            svg,
            key="flat",
            label=f"Drawing of {choice}",
            atoms=names,
            selected=state.get("atom"),
            lit=None if lit < 0 else int(lit),
            on_pick=pick,
            height=300,
        )
if shown and in_3d:
    first, second, third = conformers(MOLECULES.get(choice, "CCO"))
    with right:  # the rows pass on what the 3D view says
        rows = [ViewRow((Token(atom, "0"),), atom, f"row {atom}") for atom in range(len(names))]
        atom_view(
            rows, key="rows", label="Rows", atom=state.get("atom"), on_pick=lambda atom, _: pick(atom), max_height=90
        )
        view3d(
            second if other else first,
            key="solid",
            label=f"Conformers of {choice}",
            ghost=third,
            atoms=range(first.GetNumAtoms()),
            names=names,
            marks={1: "junk", 2: "cut", 3: "wrong"},
        )
st.text(f"told: {state.get('told', [])}")
