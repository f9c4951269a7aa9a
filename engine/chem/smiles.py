"""SMILES in: parse, canonicalise, name what is wrong with a bad one, and compare molecules as graphs.

The canonical form is RDKit's isomeric SMILES of the hydrogen-suppressed molecule.
"""

from __future__ import annotations

import random
import re
from typing import NamedTuple

from rdkit import Chem

from engine.chem.rdkit_log import captured_log, matching
from engine.errors import MoleculeSizeError, NoEnrichedFormError, SmilesError, UnsupportedMoleculeError, shown
from engine.records import Molecule

MOST_CHARACTERS, MOST_HEAVY_ATOMS = 4_000, 200
MOST_RINGS, MOST_SMALLEST_RINGS = 100, 300
"""By bonds and atoms, and as RDKit finds them, choices of equal size included. A fullerene of 180 atoms has 91 and 92;
denser graphs take RDKit seconds to minutes to read and to draw, in which no other thread runs."""

BARE_ATOMS = frozenset("B C N O P S F Cl Br I b c n o p s".split())
"""Atoms that SMILES may write without brackets; inside brackets they would be atoms without hydrogens."""

_ATOM = r"\[[^\[\]]*\]|Br|Cl|[BCNOPSFI]|[bcnops]|\*"
_LINK = r"->|<-|%\(\d+\)|%\d\d|[0-9]|[-=#$:~/\\.()]"
_PIECE = re.compile(rf"(?P<atom>{_ATOM})|(?P<link>{_LINK})")
_POSITION = re.compile(r"around position (\d+)")
_ATOM_NUMBER = re.compile(r"\batoms?:? (?:# )?(\d+)")
_NO_REASON = re.compile(r"[*\s]*|Violation occurred.*|\[?Pre-condition Violation\]?|.*Failed parsing.*", re.DOTALL)
_SYMBOLS = {Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119)}
# Isotopes over 999 and charges over 20.
_WRAPPED = re.compile(r"\[\d{4,}[A-Za-z*]|\[[^][]*[+-](?:2[1-9]|[3-9]\d|\d{3,})[]:]", re.ASCII)
_MATCHED_STEREO = {Chem.ChiralType.values[number] for number in range(3)}  # none, clockwise, counter-clockwise


class SmilesPiece(NamedTuple):
    """One atom, or what is between two atoms (a bond, a ring digit, a branch), of a SMILES text."""

    text: str
    start: int
    is_atom: bool


def split_smiles(smiles: str) -> list[SmilesPiece]:
    """Cut a SMILES into atoms and links; together the pieces are the text."""
    pieces, position = [], 0
    while position < len(smiles):
        match = _PIECE.match(smiles, position)
        if match is None:
            problem = f"character {shown(smiles[position])} starts no atom, bond or ring digit"
            raise SmilesError(smiles, problem, position)
        pieces.append(SmilesPiece(match.group(), position, match.lastgroup == "atom"))
        position = match.end()
    return pieces


def descriptor(atom: str) -> str:
    """The bracketed form of an atom token: a bracket atom as it is, a bare one wrapped."""
    return atom if atom.startswith("[") else f"[{atom}]"


def bare_form(bracketed: str) -> str:
    """The atom token that a descriptor means: a wrapped bare atom loses its brackets again."""
    return bracketed[1:-1] if bracketed[1:-1] in BARE_ATOMS else bracketed


def element_of(descriptor: str) -> str:
    """The element symbol in a bracketed descriptor; empty where there is none."""
    match = re.match(r"\[?\d*([A-Z][a-z]?|se|as|te|si|[a-z])", descriptor, re.ASCII)
    symbol = match.group(1).capitalize() if match else ""
    return symbol if symbol in _SYMBOLS else symbol[:1]


def parse_smiles(text: str) -> Molecule:
    """A ``Molecule`` of any SMILES that has an enriched form, or the named error that says why not."""
    smiles = text.strip(" \t\r\n")
    if not smiles:
        raise SmilesError(text, "there is nothing in it", fix="Give a SMILES such as CC=O")
    if len(smiles) > MOST_CHARACTERS:
        problem = f"the SMILES has {len(smiles):,} characters, the limit is {MOST_CHARACTERS:,}"
        raise MoleculeSizeError(problem, "Give a smaller molecule")
    mol = _read(smiles, keeps_hydrogens=False)
    for atom in mol.GetAtoms():
        if atom.GetAtomicNum() == 0 or atom.HasQuery():
            problem = f"atom {atom.GetIdx()} of {shown(smiles)} is a wildcard, which has no 3D structure"
            raise UnsupportedMoleculeError(problem, "Replace '*' by a real atom")
    if (heavy := mol.GetNumHeavyAtoms()) > MOST_HEAVY_ATOMS:
        problem = f"{shown(smiles)} has {heavy} heavy atoms, the limit is {MOST_HEAVY_ATOMS}"
        raise MoleculeSizeError(problem, "Give a smaller molecule")
    return molecule_of(mol, source=smiles)


def molecule_of(mol: Chem.Mol, *, source: str = "") -> Molecule:
    """A ``Molecule`` of a sanitised RDKit molecule; its conformers, if any, are left behind."""
    return _molecule(canonical_order(mol)[0], source)


def parse_written(text: str) -> Molecule:
    """The molecule with its atoms as this SMILES of it writes them; ``parse_smiles`` gives the canonical order."""
    return in_text_order(parse_smiles(text), text)


def unread(smiles: str) -> Molecule:
    """What stands for a SMILES that does not read: a molecule without atoms."""
    return Molecule(smiles, smiles, (), (), 0, Chem.Mol())


def in_text_order(molecule: Molecule, text: str) -> Molecule:
    """The molecule with its atoms in the order of this SMILES of it, which need not be canonical."""
    smiles = text.strip()
    return molecule if smiles == molecule.smiles else _molecule(smiles)


def _molecule(smiles: str, source: str = "") -> Molecule:
    descriptors, mol = enriched_descriptors(smiles), read_text_order(smiles)
    elements = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    return Molecule(smiles, source or smiles, descriptors, elements, sum(element != "H" for element in elements), mol)


def canonical_order(mol: Chem.Mol) -> tuple[str, list[int]]:
    """Canonical SMILES of a hydrogen-suppressed molecule, and for each atom of the text its index in ``mol``."""
    smiles = Chem.MolToSmiles(mol)
    # Not GetPropsAsDict: it reads every property, and those of a file may hold anything.
    return smiles, [int(index) for index in re.findall(r"\d+", mol.GetProp("_smilesAtomOutputOrder"))]


def enriched_descriptors(smiles: str) -> tuple[str, ...]:
    """The descriptor of each atom of a SMILES, in text order; refuses what would not read back."""
    atoms = [piece.text for piece in split_smiles(smiles) if piece.is_atom]
    for index, atom in enumerate(atoms):
        if atom.startswith("[") and bare_form(atom) != atom:
            raise NoEnrichedFormError(
                f"atom {index} of {shown(smiles)} is {shown(atom)}, a bracket atom without hydrogens, which "
                f"enriched text could not tell from the bare atom {shown(bare_form(atom))}",
                "Radicals, carbenes, and ligands that SMILES brackets for being bound to a metal have no enriched form",
            )
    return tuple(map(descriptor, atoms))


def read_text_order(smiles: str) -> Chem.Mol:
    """The sanitised molecule of a SMILES with its atoms in text order, explicit hydrogens kept."""
    return _read(smiles, keeps_hydrogens=True)


def _read(smiles: str, *, keeps_hydrogens: bool) -> Chem.Mol:
    # RDKit stops at a NUL, takes a space for the start of a name, and cannot be given a lone surrogate.
    if wrong := re.search("[^!-~]", smiles):
        fix = "Give one SMILES at a time, without a name, in plain ASCII"
        raise SmilesError(smiles, f"character {shown(wrong.group())} is not allowed", wrong.start(), fix)
    if wrong := _WRAPPED.search(smiles):  # RDKit wraps charges and isotopes that do not fit its small integers
        raise SmilesError(smiles, "an isotope or a charge is out of range", wrong.start())
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = not keeps_hydrogens
    parameters.allowCXSMILES = parameters.parseName = False
    with captured_log() as lines:
        try:
            raw = Chem.MolFromSmiles(smiles, sanitize=False)
            has_rings = raw is not None and rings_in(raw) > MOST_RINGS
            mol = None if raw is None or has_rings else Chem.MolFromSmiles(smiles, parameters)
        except (RuntimeError, ValueError) as error:  # such as an atomic number that no element has
            raise SmilesError(smiles, _reason(str(error).splitlines())) from error
    if has_rings or (mol is not None and mol.GetRingInfo().NumRings() > MOST_SMALLEST_RINGS):
        problem = f"{shown(smiles)} has over {MOST_RINGS} rings, or {MOST_SMALLEST_RINGS} smallest ones"
        raise MoleculeSizeError(problem, "Give a smaller molecule")
    if mol is None:
        raise SmilesError(smiles, _reason(lines), _position(smiles, lines))
    return mol


def graph_key(mol: Chem.Mol) -> str:
    """A text that is equal for equal graphs: canonical isomeric SMILES, written twice to settle its ordering."""
    with captured_log():
        first = Chem.MolToSmiles(Chem.RemoveHs(mol))
        again = Chem.MolFromSmiles(first)
    return str(first if again is None else Chem.MolToSmiles(again))


def same_graph(first: Chem.Mol, second: Chem.Mol) -> bool:
    """Whether two molecules are the same graph, stereo included; how they were written does not matter."""
    with captured_log():
        left, right = Chem.RemoveHs(first), Chem.RemoveHs(second)
    if Chem.MolToSmiles(left) == Chem.MolToSmiles(right) or graph_key(left) == graph_key(right):
        return True
    # Canonical ranking breaks some stereo ties by input order, so unequal keys are no proof of inequality.
    if flat_smiles(left) != flat_smiles(right):
        return False
    if all(atom.GetChiralTag() in _MATCHED_STEREO for mol in (left, right) for atom in mol.GetAtoms()):
        # RDKit looks at stereo only in whole matches and tries all of them: billions, with eight tert-butyl groups.
        with matching():
            if len(left.GetSubstructMatches(right, uniquify=False, maxMatches=2_000)) < 2_000:
                return all(a.HasSubstructMatch(b, useChirality=True) for a, b in ((left, right), (right, left)))
    rng = random.Random(0)  # other orders of the atoms break other ties
    orders = [rng.sample(range(left.GetNumAtoms()), left.GetNumAtoms()) for _ in range(24)]
    keys = [{graph_key(Chem.RenumberAtoms(mol, order)) for order in orders} for mol in (left, right)]
    return not keys[0].isdisjoint(keys[1])


def flat_smiles(mol: Chem.Mol) -> str:
    """Canonical SMILES without stereo, isotopes kept."""
    flat = Chem.Mol(mol)
    Chem.RemoveStereochemistry(flat)
    return str(Chem.MolToSmiles(flat))


def rings_in(mol: Chem.Mol) -> int:
    """By bonds, atoms and parts, before RDKit searches for any."""
    return int(mol.GetNumBonds() - mol.GetNumAtoms() + len(Chem.GetMolFrags(mol)))


def _reason(lines: list[str]) -> str:
    """RDKit's message without the input that it repeats, which may be long and hold any characters."""
    for line in lines:
        message = line.strip().removeprefix("SMILES Parse Error: ")
        reason = re.split(r" while parsing:| for input:", message)[0].strip()
        if reason and not _POSITION.search(reason) and not _NO_REASON.fullmatch(reason):
            return reason[:200]
    return "RDKit refuses it without a reason"


def _position(smiles: str, lines: list[str]) -> int | None:
    """The position that RDKit's messages name, by a character or by an atom."""
    if match := next(filter(None, map(_POSITION.search, lines)), None):
        return min(int(match.group(1)), len(smiles)) - 1
    numbers = _ATOM_NUMBER.findall(_reason(lines))
    starts = [piece.start for piece in split_smiles(smiles) if piece.is_atom] if numbers else []
    return starts[int(numbers[-1])] if numbers and int(numbers[-1]) < len(starts) else None
