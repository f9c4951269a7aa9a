"""A sample as a block of a report: its text, its atoms, its drawing and its conformer, as `drift_atoms` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.chem.drawing import NOTE_COLOURS, PALETTES, draw_svg
from engine.chem.frame import turned
from engine.chem.structure_files import bare_block
from engine.errors import DriftscopeError
from engine.figures.text_tables import cell
from engine.handover.tables import table_view
from engine.handover.writing import Block, typed
from engine.inspection.faults import Fault, atom_faults, wrong_places
from engine.inspection.sample import Inspected, inspect_sample
from engine.questions import drift_atoms, options_of, question_of
from engine.questions.question import Column, Tables
from engine.records import Molecule
from engine.store.columns import rows_of
from engine.store.store import Store

NOTES: dict[Fault, str] = {"junk": "!", "cut": "cut", "wrong": "✗"}
COLOURS: dict[Fault, str] = {"junk": "#c9243f", "cut": "#e69f00", "wrong": "#f0e442"}
COLUMNS = {**drift_atoms.COLUMNS, **dict.fromkeys("xyz", Column(unit="Å"))}
SHOWN = "name damage words off_ang needed given text x y z".split()
LEGEND = (
    "Grey: forced by the LP. Red: junk. Orange: the last before a cut. Underlined: it lost its place; dotted: rare."
)


def molecule_block(store: Store, run_id: str, sample_id: int) -> Block:
    options = options_of(question_of("drift_atoms"), store, [], {})
    seen = inspect_sample(store, run_id, sample_id)
    name = f"{seen.run.name}, sample {sample_id}"
    if len(seen.shapes) > 1:
        seen = seen.of_conformer(seen.first_faulty)
        name += f", conformer {seen.number} of {len(seen.shapes)}"
    tables = drift_atoms.atom_tables(seen, options["rows"], seen.steps, seen.estimates)
    rows = list(rows_of(tables["main"])) or list(places(seen))
    tokens = list(tokens_of(seen, tables, rows))
    columns = [column for column in SHOWN if rows and column in rows[0]]
    atoms = {"rows": [(row["atom"], row["damage"]) for row in rows]}
    by_atom = atom_faults(seen.sample, seen.blocks, only=seen.number)
    faults = {atom: fault for atom, fault in by_atom.items() if 0 <= atom < seen.molecule.atoms}
    return "molecule", {
        "name": name,
        "smiles": seen.sample["smiles"],
        "drawing": drawing_of(seen.molecule, faults),
        "conformer": conformer_of(seen, faults),
        "left_out": [seen.why_no_conformer] if seen.why_no_conformer else [],
        "parts": [
            ("text", drift_atoms.answer(tables, options)),
            *([("tokens", tokens), ("note", LEGEND)] if tokens else []),
            ("table", table_view("", columns, rows, COLUMNS) | atoms),
            ("code", typed("ask", "drift_atoms", f"{seen.run.run_id}/{sample_id}")),
        ],
    }


def places(seen: Inspected) -> Iterator[dict[str, Any]]:
    """Rows of the atoms of a conformer that no text wrote."""
    wrong, mol = wrong_places(seen.sample), seen.conformer
    if mol is None:
        return
    for number, atom in enumerate(mol.GetAtoms()):
        words = wrong.get((seen.number, number), "")
        x, y, z = mol.GetConformer().GetAtomPosition(number)
        about = {"name": f"{atom.GetSymbol()}, atom {number}", "damage": "wrong" if words else "", "words": words}
        yield {"atom": number, "columns": (), "x": x, "y": y, "z": z, **about}


def tokens_of(
    seen: Inspected, tables: Tables, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, int | None, str]]:
    """Of each that was written for the conformer in view: its piece, its marks, the atom whose row it is in, and what
    it says on hover."""
    atom_of = {column: row["atom"] for row in rows for column in row["columns"] or ()}
    aligned = seen.alignment.rows if seen.alignment is not None else ()
    for token, place in zip(tables["tokens"].to_pylist(), aligned, strict=True):
        if "n" in token["marks"] or (len(seen.shapes) > 1 and place.conformer != seen.number):
            continue
        facts = {"template": token["template"], "p raw": token["p_raw"], "p LP": token["p_lp"]}
        about = ["forced"] if "f" in token["marks"] else []
        about += [f"{name} {cell(value)}" for name, value in facts.items() if value is not None]
        about += filter(None, (token["note"], token["lost"], token["struck"]))
        yield token["piece"], token["marks"], atom_of.get(token["column"]), "; ".join(about)


def drawing_of(molecule: Molecule, faults: Mapping[int, Fault]) -> str:
    """An SVG for light and dark; empty where the molecule cannot be drawn."""
    try:
        svg = draw_svg(
            molecule,
            highlights={atom: COLOURS[fault] for atom, fault in faults.items()},
            notes={atom: NOTES[fault] for atom, fault in faults.items()},
            width=360,
            height=230,
        )
    except DriftscopeError:
        return ""
    pairs = [(PALETTES[False][number], PALETTES[True][number]) for number in PALETTES[False]]
    for light, dark in [*pairs, (NOTE_COLOURS[False], NOTE_COLOURS[True])]:
        svg = re.sub(light, f"light-dark({light},{dark})", svg, flags=re.IGNORECASE)
    return svg.replace(" style=", " data-style=")


def conformer_of(seen: Inspected, faults: Mapping[int, Fault]) -> dict[str, Any] | None:
    """``atoms`` has the molecule's atom for each of the block's, -1 for none; ``marks`` what is wrong, by atom of the
    molecule. ``by_group``: what the group's reader makes of the same text, where it differs."""
    mol, group = seen.conformer, seen.by_group
    if mol is None:
        return None
    positions = mol.GetConformer().GetPositions()
    ghost = ""
    if group is not None and group.mol is not None and group.farthest is not None:
        ghost = bare_block(group.mol, turned(group.mol.GetConformer().GetPositions(), positions))
    return {
        "block": bare_block(mol, turned(positions, positions)),
        "atoms": [*seen.conformer_atoms, *[-1] * mol.GetNumAtoms()][: mol.GetNumAtoms()],
        "marks": {str(atom): fault for atom, fault in faults.items()},
        "by_group": ghost,
    }
