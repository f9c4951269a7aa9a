"""Builds ``data/molecules.tsv``, the 2,000 molecules on which codec, templates and drift are tested.

    python -m tools.training.molecule_sets --out data/molecules.tsv

Composition, in the order of filling. MOSES molecules come from its test split, and only those whose skeleton
``held_out.is_held_out`` keeps from training; a variant or fragment must itself be held out.

- ``written``: all of ``written_molecules.tsv`` beside this module, small molecules and what a codec can get wrong
- ``moses``: 396 molecules as they are, first of all, so that they are a fair sample
- ``variant``: 32 isomers of molecules with stereo double bonds, 105 of molecules made unsaturated in a chain, 390 other
  stereoisomers, 190 ions, 45 labelled molecules, 50 salts and solvates
- ``fragment``: pieces of 3 to 12 heavy atoms, up to the 2,000

Each is the canonical form of itself, has an enriched form, and embeds with two seeds. Chance is a hash of the SMILES:
the same source gives the same file, in whatever order it is read. Counts per tag are in ``data/README.md``. What this
module does not know: whether an ion, salt or unsaturated variant was ever made; they exercise text, not pharmacology.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from engine.array_files import write_table
from engine.chem.conformers import reference_conformers
from engine.chem.frame import principal_axis_frame
from engine.chem.molecule_sets import MOLECULES_COLUMNS, MOLECULES_FILE, TAGS, MoleculeEntry
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import parse_smiles
from engine.errors import DriftscopeError, FileFormatError, shown
from engine.records import Molecule
from tools.training import variants
from tools.training.held_out import skeleton, skeleton_is_held_out
from tools.training.moses import read_moses

log = logging.getLogger(__name__)

TOTAL = 2_000
POOL = 8_000
EMBED_SEEDS = (0, 1)
EMBED_SECONDS = 60.0
"""Never met by molecules of these sizes; a limit that is met would make the result depend on the machine."""
CHANGES = {"stereo", "charged", "isotope", "parts"}
SMALL_HEAVY_ATOMS = 12
LARGEST_COMMON_RING = 9
WIDE_ANG = 10.0

_PATTERNS = {
    "cumulene": "*=[#6X2]=*",
    "triple": "*#*",
    "nitro": "[$([NX3+](=O)[O-])]",
    "n-oxide": "[#7+;!$([#7]=O);$([nX3,NX4]),$([NX3]=[#6]),$([NX2]#[#6])]-[OX1-]",
    "dative": "*->*",
    "boron": "[#5]",
    "iodine": "[#53]",
}
WRITTEN_FILE = Path(__file__).with_name("written_molecules.tsv")


@dataclass(frozen=True, slots=True)
class Section:
    """So many molecules, each made of one molecule of the source."""

    name: str
    origin: str
    wanted: int
    make: variants.Make


SECTIONS = (
    Section("unchanged", "moses", 396, variants.unchanged),
    Section("double bonds", "variant", 32, variants.double_bond_isomers),
    Section("unsaturated", "variant", 105, variants.dehydrogenated),
    Section("stereoisomers", "variant", 390, variants.stereoisomers),
    Section("ions", "variant", 190, variants.charged),
    Section("labelled", "variant", 45, variants.labelled),
    Section("salts", "variant", 50, variants.salts),
    Section("fragments", "fragment", TOTAL, variants.fragments),
)


def build(
    source: Iterable[str],
    written: Iterable[tuple[str, str]],
    sections: Sequence[Section] = SECTIONS,
    total: int = TOTAL,
) -> list[MoleculeEntry]:
    """At most ``total`` entries, unique and shuffled: those written down, then section by section."""
    entries = {}
    for smiles, name in written:
        entry = entry_of(parse_smiles(smiles).mol, "written", name)
        entries[entry.smiles] = entry
    drawn = sorted(set(source), key=lambda smiles: draw("pool", smiles))
    held_out = (smiles for smiles in drawn if skeleton_is_held_out(skeleton(Chem.MolFromSmiles(smiles))))
    pool = list(islice(held_out, POOL))
    for section in sections:
        wanted = min(section.wanted, total - len(entries))
        made = _fill(section, wanted, pool, entries)
        log.info("%s: %d of %d", section.name, made, wanted)
    return sorted(entries.values(), key=lambda entry: draw("order", entry.smiles))


def entry_of(mol: Chem.Mol, origin: str, name: str = "") -> MoleculeEntry:
    """The entry of a molecule, or the error that says why it has none."""
    molecule = settled(Chem.MolToSmiles(Chem.RemoveHs(mol)))
    tags = {origin} | structure_tags(molecule)
    if origin != "written" and "held-out" not in tags:
        raise DriftscopeError(f"{shown(molecule.smiles)} is not held out")
    if origin == "variant" and not tags & CHANGES:
        raise DriftscopeError(f"the canonical form of {shown(molecule.smiles)} lost what was changed")
    for seed in EMBED_SEEDS:
        embedded = reference_conformers(molecule, seed=seed, max_seconds=EMBED_SECONDS)
        xyz = principal_axis_frame(embedded.GetConformer().GetPositions())
        if seed == EMBED_SEEDS[0] and np.abs(xyz).max() >= WIDE_ANG:
            tags.add("wide")
    return MoleculeEntry(molecule.smiles, tuple(tag for tag in TAGS if tag in tags), name)


def structure_tags(molecule: Molecule) -> set[str]:
    """The tags that follow from the structure alone, as ``TAGS`` explains them."""
    mol, smiles = molecule.mol, molecule.smiles
    atoms = list(mol.GetAtoms())
    centres = [atom for atom in atoms if atom.GetChiralTag() != Chem.ChiralType.CHI_UNSPECIFIED]
    ez = any(bond.GetStereo() > Chem.BondStereo.STEREOANY for bond in mol.GetBonds())
    properties = {
        "held-out": skeleton_is_held_out(skeleton(molecule)),
        "small": molecule.heavy_atoms <= SMALL_HEAVY_ATOMS,
        "stereo": bool(centres) or ez,
        "ez": ez,
        "ps-stereo": any(atom.GetSymbol() in ("P", "S") for atom in centres),
        "charged": any(atom.GetFormalCharge() for atom in atoms),
        "parts": "." in smiles,
        "isotope": any(atom.GetIsotope() for atom in atoms),
        "hydrogen": "H" in molecule.elements,
        "nh": any(atom.GetSymbol() == "N" and atom.GetIsAromatic() and atom.GetTotalNumHs() for atom in atoms),
        "two-letter": any(len(element) == 2 for element in molecule.elements),
        "percent": "%" in smiles,
        "macrocycle": any(len(ring) > LARGEST_COMMON_RING for ring in mol.GetRingInfo().AtomRings()),
        "spiro": rdMolDescriptors.CalcNumSpiroAtoms(mol) > 0,
    }
    patterns = {tag: mol.HasSubstructMatch(Chem.MolFromSmarts(pattern)) for tag, pattern in _PATTERNS.items()}
    return {tag for tag, holds in (properties | patterns).items() if holds}


def settled(smiles: str) -> Molecule:
    """The molecule whose SMILES is its own canonical form. Few need more than one reading."""
    for _ in range(4):
        molecule = parse_smiles(smiles)
        if molecule.smiles == smiles:
            return molecule
        smiles = molecule.smiles
    raise DriftscopeError(f"the canonical form of {shown(smiles)} does not settle")


def draw(*parts: str) -> int:
    """A large integer that stands for chance."""
    return int.from_bytes(hashlib.sha256("\0".join(("driftscope", *parts)).encode()).digest()[:8])


def read_written(path: Path = WRITTEN_FILE) -> Iterator[tuple[str, str]]:
    """SMILES and name of each molecule that was written down; lines that start with '# ' are comments."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("# ")]
    if not lines or lines[0] != "smiles\tname":
        raise FileFormatError(f"{path} does not start with the columns smiles, name", "Restore it from the repository")
    for line in lines[1:]:
        smiles, _, name = line.partition("\t")
        yield smiles, name


def write(entries: Iterable[MoleculeEntry], path: Path) -> None:
    write_table(path, MOLECULES_COLUMNS, ((entry.smiles, ",".join(entry.tags), entry.name) for entry in entries))


def counts(entries: Iterable[MoleculeEntry]) -> dict[str, int]:
    """How many molecules have each tag, in the order of ``TAGS``."""
    numbers = Counter(tag for entry in entries for tag in entry.tags)
    return {tag: numbers[tag] for tag in TAGS}


def _fill(section: Section, wanted: int, pool: list[str], entries: dict[str, MoleculeEntry]) -> int:
    """Add ``wanted`` entries, each from a molecule of the pool, which then leaves the pool."""
    used: list[str] = []
    for smiles in pool:
        if len(used) == wanted:
            break
        entry = _first_entry(section, smiles, entries)
        if entry is not None:
            entries[entry.smiles] = entry
            used.append(smiles)
    taken = set(used)
    pool[:] = [smiles for smiles in pool if smiles not in taken]
    return len(used)


def _first_entry(section: Section, smiles: str, known: dict[str, MoleculeEntry]) -> MoleculeEntry | None:
    """The first candidate that is new and fits; most sources offer a section none."""
    with captured_log():
        for candidate in section.make(parse_smiles(smiles).mol, draw(section.name, smiles)):
            try:
                if settled(Chem.MolToSmiles(Chem.RemoveHs(candidate))).smiles not in known:
                    return entry_of(candidate, section.origin)
            except DriftscopeError as problem:
                log.debug("%s: %s", section.name, problem)
    return None


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.training.molecule_sets", description="Build molecules.tsv")
    parser.add_argument("--out", type=Path, default=MOLECULES_FILE, help="the file to write")
    chosen = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    entries = build(read_moses("test"), read_written(), SECTIONS, TOTAL)
    write(entries, chosen.out)
    for tag, count in counts(entries).items():
        log.info("%-12s %5d", tag, count)


if __name__ == "__main__":
    main()
