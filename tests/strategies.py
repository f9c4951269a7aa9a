"""Random molecules, coordinates, enriched texts and damage for property tests.

Coordinates and damage follow from one drawn seed each: drawing every digit on its own would take hypothesis longer
than what is tested. A failing example therefore shrinks in its molecule and its seed, not in its digits.
"""

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass

from hypothesis import strategies as st
from rdkit import Chem
from rdkit.Geometry import Point3D

from engine.chem.enriched import enriched_text, format_number
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles
from engine.records import FIXED4, SHORTEST4, TRIMMED4, Molecule, NumberFormat

# One of each kind that the codec has to carry: stereo, charges, isotopes, hydrogens that stay, aromatic and two-letter
# atoms, ring numbers over nine, fragments, dative bonds both ways, and what is highly symmetric.
MOLECULES = (
    "C", "CC=O", "C#N", "O", "[H][H]", "[2H]O[2H]", "[13CH4]", "[Na+].[Cl-]", "C[N+](C)(C)CC(=O)[O-]",
    "O=[N+]([O-])c1ccccc1", "C[C@H](N)C(=O)O", "C[C@@H](O)[C@H](N)C", "F/C=C/F", "F/C=C\\F", "C/C=C/C=C\\C",
    "C[S@](=O)CC", "c1ccc2[nH]ccc2c1", "c1ccsc1", "C[Si](C)(C)C", "ClC(Cl)(Br)I", "B(O)(O)c1ccccc1", "C[Se]C",
    "[OH2]->[Na+]<-[OH2]", "[Fe]<-N(C)C", "N->[Fe+2]<-N", "CC(C)(C)c1cc(C(C)(C)C)cc(C(C)(C)C)c1", "C1CCCCC1",
    "C12C3C4C1C5C2C3C45", "C1CC2CCC1CC2", "CC=[NH+]C", "[O-]S(=O)(=O)C", "C%10CCCC%10", "OCC1OC(O)C(O)C(O)C1O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C", "C=C=C", "[Ca+2].[O-]C(=O)C([O-])=O", "P(C)(C)C",
    "[NH3]->[Pt@SP1+2](<-[NH3])(<-[Cl-])<-[Cl-]", "c1ccc2c(c1)c1ccccc1c1ccccc21", "[18FH]", "[NH4+]",
    "C[C@]12CCC(=O)C=C1CC[C@@H]1[C@@H]2CC[C@]2(C)[C@@H](O)CC[C@@H]12",
)  # fmt: skip

JUNK = ("amen", "C", "c", " （C", "}", '"', "icine", "的", "é", "\u202e", "[c", " ", "\n", "abra", "🙂", "e\u0301")
"""What models write behind a finished number: letters, punctuation, other scripts. None of it begins with a digit."""

ALPHABET = "0123456789.,-<>[]()=#/\\@+%:~CNOSclnr \t\n\0\x1b\"'{}（的é\u202e🙂"


@functools.cache
def molecule(smiles: str) -> Molecule:
    return parse_smiles(smiles)


@functools.cache
def shipped_smiles() -> tuple[str, ...]:
    """The 2,000 molecules of ``data/``, whose order is random already."""
    return tuple(entry.smiles for entry in load_molecule_set())


def molecules(*, shipped: int = 300) -> st.SearchStrategy[Molecule]:
    """A molecule of the table above, or one of the first ``shipped`` in ``data/``."""
    # By number: a failing example would print everything that it was chosen from.
    return st.one_of(
        small_molecules(), st.integers(0, shipped - 1).map(lambda index: molecule(shipped_smiles()[index]))
    )


def small_molecules() -> st.SearchStrategy[Molecule]:
    """Molecules of the table above: tens of tokens, not hundreds, which leaves time for many."""
    return st.integers(0, len(MOLECULES) - 1).map(lambda index: molecule(MOLECULES[index]))


def seeds() -> st.SearchStrategy[int]:
    return st.integers(0, 2**32 - 1)


def formats() -> st.SearchStrategy[NumberFormat]:
    return st.sampled_from((FIXED4, TRIMMED4, SHORTEST4, NumberFormat(2, 3, 2), NumberFormat(1, 6, 4)))


def random_number(rng: random.Random, form: NumberFormat) -> str:
    """A number as the format writes it: small and large, either sign, with and without zeros at its end."""
    largest = 10**form.most_integer_digits
    scale = rng.choice((0.0, 1e-5, 0.01, 1.0, 10.0, largest))
    value = round(rng.uniform(-1, 1) * scale, rng.choice((0, 1, 2, 4, 8)))
    return format_number(math.fmod(value, largest), form)  # rounding may have made it one digit longer


def random_triples(atoms: int, seed: int, form: NumberFormat = FIXED4) -> tuple[tuple[str, str, str], ...]:
    rng = random.Random(seed)
    return tuple((random_number(rng, form), random_number(rng, form), random_number(rng, form)) for _ in range(atoms))


def with_conformer(molecule: Molecule, seed: int, scale: float = 6.0) -> Chem.Mol:
    """A copy of the molecule with random coordinates: what the codec carries need not be chemistry."""
    rng = random.Random(seed)
    mol = Chem.Mol(molecule.mol)
    conformer = Chem.Conformer(mol.GetNumAtoms())
    for atom in range(mol.GetNumAtoms()):
        conformer.SetAtomPosition(atom, Point3D(*(rng.gauss(0.0, scale) for _ in range(3))))
    mol.AddConformer(conformer, assignId=True)
    return mol


@dataclass(frozen=True)
class Written:
    """An enriched text and what it was made of."""

    molecule: Molecule
    numbers: tuple[tuple[str, str, str], ...]
    text: str


def written(molecule: Molecule, seed: int, form: NumberFormat = FIXED4) -> Written:
    numbers = random_triples(molecule.atoms, seed, form)
    return Written(molecule, numbers, enriched_text(molecule.smiles, molecule.descriptors, numbers))


def enriched_texts(
    source: st.SearchStrategy[Molecule] | None = None, form: NumberFormat = FIXED4
) -> st.SearchStrategy[Written]:
    return st.builds(written, molecules() if source is None else source, seeds(), st.just(form))


def damaged(text: str, seed: int, edits: int = 4) -> str:
    """The text after a few random edits: characters gone, added, replaced, repeated, moved, or the end cut off."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, edits)):
        first = rng.randrange(len(text) + 1)
        last = min(len(text), first + rng.choice((1, 1, 2, 5, 30)))
        piece = text[first:last]
        edit = rng.choice(("delete", "insert", "replace", "repeat", "move", "truncate", "junk"))
        if edit == "delete":
            text = text[:first] + text[last:]
        elif edit == "insert":
            text = text[:first] + rng.choice(ALPHABET) + text[first:]
        elif edit == "replace":
            text = text[:first] + "".join(rng.choice(ALPHABET) for _ in piece) + text[last:]
        elif edit == "repeat":
            text = text[:last] + piece + text[last:]
        elif edit == "move":
            rest = text[:first] + text[last:]
            target = rng.randrange(len(rest) + 1)
            text = rest[:target] + piece + rest[target:]
        elif edit == "junk":
            text = text[:first] + rng.choice(JUNK) + text[first:]
        elif rng.random() < 0.3:  # seldom, or hardly anything would be left to damage
            text = text[:first]
    return text


def any_text(most: int = 60) -> st.SearchStrategy[str]:
    """Characters that mean something to the formats, and any other, lone surrogates among them."""
    return st.one_of(
        st.text(st.sampled_from(ALPHABET), max_size=most),
        st.text(st.characters(), max_size=most),
        st.text(st.characters(categories=("Cs", "Cc", "Nd", "Lu")), max_size=most),
    )
