"""The molecules that ship in ``data/``: the 2,000 of ``molecules.tsv``, the named ones, and those that measure models.

All are plain text, read without RDKit. A SMILES here is RDKit's canonical isomeric SMILES of the pinned version
(``molecules.tsv``, ``held_out.tsv``) or as a chemist writes it (``named.tsv``): the tests look whether it is.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from engine.errors import DriftscopeError, shown
from engine.paths import DATA

USUAL_COUNT = 40
"""Of the shipped set, where nobody asks for another number."""

TAGS: dict[str, str] = {
    "moses": "drug-like, as the MOSES test split has it",
    "fragment": "cut out of a MOSES molecule",
    "variant": "a MOSES molecule with stereo, charges, isotopes, double bonds or counter-ions added",
    "written": "from a written list of common molecules, cages and complexes",
    "held-out": "no embedded model is trained on its skeleton",
    "small": "at most 12 heavy atoms",
    "stereo": "a stereocentre (@) or a stereo double bond (slashes)",
    "ez": "a stereo double bond (slashes)",
    "ps-stereo": "a stereocentre at phosphorus or sulfur",
    "charged": "an atom with a formal charge",
    "parts": "several fragments (.)",
    "isotope": "an atom with a stated isotope",
    "hydrogen": "a hydrogen atom that stays when hydrogens are removed",
    "nh": "an aromatic [nH] or [nH+]",
    "two-letter": "an element of two letters",
    "percent": "a ring closure over nine (%10)",
    "macrocycle": "a ring of more than nine atoms",
    "spiro": "a spiro atom",
    "dative": "a dative bond (-> or <-)",
    "cumulene": "a carbon between two double bonds",
    "triple": "a triple bond",
    "nitro": "a nitro group",
    "n-oxide": "an N-oxide, nitrone or nitrile oxide",
    "boron": "a boron atom",
    "iodine": "an iodine atom",
    "wide": "a reference conformer reaches 10 angstrom from its centre along x",
}
"""What each tag of ``molecules.tsv`` says of a molecule."""


class MoleculeEntry(NamedTuple):
    smiles: str
    tags: tuple[str, ...]
    name: str  # empty where there is no common one


class NamedMolecule(NamedTuple):
    """For a chooser. ``note`` says in a few words what the molecule shows."""

    name: str
    smiles: str
    note: str


class HeldOutMolecule(NamedTuple):
    smiles: str
    atoms: int  # heavy ones


def load_molecule_set(limit: int | None = None, tag: str | None = None) -> list[MoleculeEntry]:
    """The first ``limit`` molecules that have ``tag``. The file is shuffled: its start is a sample of the whole."""
    if tag is not None and tag not in TAGS:
        raise DriftscopeError(f"no molecule has the tag {shown(tag)}", f"The tags are {', '.join(TAGS)}")
    entries = (MoleculeEntry(smiles, tuple(tags.split(",")), name) for smiles, tags, name in _rows("molecules.tsv"))
    return list(islice((entry for entry in entries if tag is None or tag in entry.tags), limit))


def load_named() -> list[NamedMolecule]:
    return [NamedMolecule(*cells) for cells in _rows("named.tsv")]


def load_held_out() -> list[HeldOutMolecule]:
    """The molecules on which embedded models are measured. The file is shuffled too."""
    return [HeldOutMolecule(smiles, int(atoms)) for smiles, atoms in _rows("held_out.tsv")]


def load_run_set(limit: int | None = None) -> list[str]:
    """The first SMILES of ``heldout.smi``: those of ``held_out.tsv``, and more of the same kind."""
    smiles = (DATA / "heldout.smi").read_text(encoding="utf-8").splitlines()
    if limit is not None and not 0 < limit <= len(smiles):
        what = f"{limit:,} molecules are asked for, and {len(smiles):,} held-out ones ship"
        raise DriftscopeError(what, "Give a file of your own")
    return smiles[:limit]


def _rows(name: str) -> list[list[str]]:
    """The cells of each line below the header."""
    return [line.split("\t") for line in (DATA / name).read_text(encoding="utf-8").splitlines()[1:]]
