"""The tables of reference sets, as ``engine.store.schema`` has those of runs."""

from __future__ import annotations

from engine.store.columns import MOMENT, REAL, REALS, SMALL, TEXT, WHOLE, Kind
from engine.store.columns import table as _table

REFERENCE_SETS = _table(
    "reference_sets",
    ("reference_set", TEXT, "names the set; its folder is reference_set=<reference_set>", True),
    ("created_at", MOMENT, "when it was read in or made"),
    ("origin", TEXT, "imported (files) or made (ETKDG, here)", True),
    ("form", TEXT, "what was read: sdf, parquet or pickle; else etkdg"),
    ("source", TEXT, "the file's or folder's name, or how it was made"),
    ("label", TEXT, "a user's own name for it"),
    ("notes", TEXT, "a user's own"),
    ("molecules", WHOLE, "different molecules", True),
    ("conformers", WHOLE, "conformers of all of them", True),
    ("repeated", WHOLE, "conformers that came again with the same bytes: they are in it once"),
    ("left_out", WHOLE, "conformers that are not in it, for a reason: rows of reference_omissions"),
    ("content", TEXT, "SHA-256 of its molecules and coordinates, in whatever order they came", True),
    ("versions", TEXT, "JSON: of RDKit, which wrote the canonical SMILES"),
)

REFERENCE_CONFORMERS = _table(
    "reference_conformers",
    ("reference_set", TEXT, "the set", True),
    ("molecule", SMALL, "counts the set's molecules from 0", True),
    ("conformer", SMALL, "counts a molecule's conformers from 0", True),
    ("smiles", TEXT, "canonical SMILES of the molecule, hydrogens suppressed", True),
    ("xyz", REALS, "in angstrom: x, y, z of each atom of the SMILES, in its order", True),
    ("weight", REAL, "Boltzmann weight, as the file has it"),
    ("source", TEXT, "the file, and where in it"),
    order=("molecule", "conformer"),
    key=("molecule", "conformer"),
    signed="xyz",
    unbounded="weight",
)

REFERENCE_OMISSIONS = _table(
    "reference_omissions",
    ("reference_set", TEXT, "the set", True),
    ("source", TEXT, "the file, and where in it"),
    ("key", TEXT, "the molecule that the file names for it"),
    ("reason", TEXT, "why it was left out", True),
)

REFERENCES = Kind(
    "references",
    "reference_set",
    "set of references",
    "references.json",
    REFERENCE_SETS,
    (REFERENCE_CONFORMERS, REFERENCE_OMISSIONS),
)
