"""The molecules that ship in ``data/``: the 2,000 of ``molecules.tsv``, the named ones, and those that measure models.

All are plain text, read without RDKit. A SMILES here is RDKit's canonical isomeric SMILES of the pinned version
(``molecules.tsv``, ``held_out.tsv``) or as a chemist writes it (``named.tsv``); whether it is, is for the tests, not
for the reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.errors import AssetError, DriftscopeError, shown
from engine.paths import DATA

MOLECULES_FILE = DATA / "molecules.tsv"
NAMED_FILE = DATA / "named.tsv"
HELD_OUT_FILE = DATA / "held_out.tsv"
RUN_FILE = DATA / "heldout.smi"
MOLECULES_COLUMNS = ("smiles", "tags", "name")
NAMED_COLUMNS = ("name", "smiles", "note")
HELD_OUT_COLUMNS = ("smiles", "atoms")
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


@dataclass(frozen=True, slots=True)
class MoleculeEntry:
    """One line of ``molecules.tsv``. ``name`` is empty where there is no common one."""

    smiles: str
    tags: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True, slots=True)
class NamedMolecule:
    """One line of ``named.tsv``, for a chooser. ``note`` says in a few words what the molecule shows."""

    name: str
    smiles: str
    note: str


@dataclass(frozen=True, slots=True)
class HeldOutMolecule:
    """One line of ``held_out.tsv``. ``atoms`` counts heavy atoms."""

    smiles: str
    atoms: int


def load_molecule_set(
    limit: int | None = None, tag: str | None = None, *, path: Path = MOLECULES_FILE
) -> list[MoleculeEntry]:
    """The first ``limit`` molecules that have ``tag``. The file is shuffled: its start is a sample of the whole."""
    if tag is not None and tag not in TAGS:
        raise DriftscopeError(f"no molecule has the tag {shown(tag)}", f"The tags are {', '.join(TAGS)}")
    rows = ((smiles, tuple(tags.split(",")), name) for smiles, tags, name in _rows(path, MOLECULES_COLUMNS))
    return list(islice((MoleculeEntry(*row) for row in rows if tag is None or tag in row[1]), limit))


def load_named(*, path: Path = NAMED_FILE) -> list[NamedMolecule]:
    return [NamedMolecule(*cells) for cells in _rows(path, NAMED_COLUMNS)]


def load_held_out() -> list[HeldOutMolecule]:
    """The molecules on which embedded models are measured. The file is shuffled too."""
    return [HeldOutMolecule(smiles, int(atoms)) for smiles, atoms in _rows(HELD_OUT_FILE, HELD_OUT_COLUMNS)]


def load_run_set(limit: int | None = None) -> list[str]:
    """The first SMILES of ``heldout.smi``: those of ``held_out.tsv``, and more of the same kind."""
    smiles = _text_lines(RUN_FILE)
    if limit is not None and not 0 < limit <= len(smiles):
        raise DriftscopeError(
            f"{limit:,} molecules are asked for, and {len(smiles):,} held-out ones ship", "Give a file of your own"
        )
    return smiles[:limit]


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[list[str]]:
    """The cells of each line below the header."""
    rows = [line.split("\t") for line in _text_lines(path)]
    if any(len(cells) != len(columns) for cells in rows) or rows[:1] != [list(columns)]:
        raise AssetError(f"{path} is not a whole table of {', '.join(columns)}", _RESTORE)
    return iter(rows[1:])


_RESTORE = "The file ships with the project: restore it from the repository"


def _text_lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else "") or error
        raise AssetError(f"{path} cannot be read: {reason}", _RESTORE) from error
