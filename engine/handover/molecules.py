"""A sample's drawing and its conformer, as a page without Python can show them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from rdkit import Chem

from engine.chem.drawing import PALETTES, draw_svg
from engine.chem.frame import principal_axes
from engine.chem.structure_files import bare_block
from engine.errors import DriftscopeError
from engine.handover.records import Conformer
from engine.inspection.faults import Fault, atom_faults
from engine.inspection.sample import Inspected
from engine.records import Molecule

NOTES: dict[Fault, str] = {"junk": "!", "cut": "cut", "wrong": "✗"}
PLACEHOLDERS: dict[Fault, str] = {"junk": "#0000f1", "cut": "#0000f2", "wrong": "#0000f3"}
"""Colours that no drawing has otherwise; each becomes one of the page's."""
KEPT = ("fill", "stroke", "stroke-width", "fill-opacity", "font-size")
"""Of RDKit's styles; the page's own style has the others."""
_STYLE = re.compile(r" style='([^']*)'")
_COLOUR = re.compile(r"#([0-9a-fA-F]{6})(?:[0-9a-fA-F]{2})?")


def faults_of(inspected: Inspected) -> dict[int, Fault]:
    blocks = [block for block in inspected.blocks if block["conformer"] == inspected.number]
    by_atom = atom_faults(inspected.sample, blocks, only=inspected.number)
    return {atom: fault for atom, fault in by_atom.items() if 0 <= atom < inspected.molecule.atoms}


def drawing_of(molecule: Molecule, faults: Mapping[int, Fault]) -> str:
    """An SVG whose colours are the page's variables, so that one drawing is for light and dark; empty where the
    molecule cannot be drawn. Its inline styles, which the page's policy forbids, become attributes."""
    try:
        svg = draw_svg(
            molecule,
            highlights={atom: PLACEHOLDERS[fault] for atom, fault in faults.items()},
            notes={atom: NOTES[fault] for atom, fault in faults.items()},
            width=360,
            height=230,
        )
    except DriftscopeError:
        return ""
    svg = _STYLE.sub(lambda match: attributes_of(match[1]), svg)
    variables = {colour: f"element-{number}" for number, colour in PALETTES[False].items()}
    variables = {colour.lower(): name.replace("--1", "-other") for colour, name in variables.items()}
    variables |= {colour: fault for fault, colour in PLACEHOLDERS.items()}
    return _COLOUR.sub(lambda match: f"var(--{variables.get('#' + match[1].lower(), 'text')})", svg)


def attributes_of(style: str) -> str:
    """``fill:none;stroke:#000`` as `` fill='none' stroke='#000'``"""
    pairs = (part.partition(":")[::2] for part in style.split(";"))
    return "".join(f" {name}='{value}'" for name, value in pairs if name in KEPT)


def conformer_view(
    mol: Chem.Mol, atoms: Sequence[int], faults: Mapping[int, Fault], by_group: Chem.Mol | None = None
) -> Conformer:
    of_block = [*atoms, *[-1] * mol.GetNumAtoms()][: mol.GetNumAtoms()]
    marks = {str(atom): fault for atom, fault in faults.items()}
    return Conformer(turned(mol, mol), of_block, marks, "" if by_group is None else turned(by_group, mol))


def turned(mol: Chem.Mol, frame: Chem.Mol) -> str:
    """A mol block, seen from where the atoms of ``frame`` spread most: the widest axis across, the next one up."""
    positions = frame.GetConformer().GetPositions()
    placed = (mol.GetConformer().GetPositions() - positions.mean(axis=0)) @ principal_axes(positions).T
    return bare_block(mol, np.ascontiguousarray(placed))
