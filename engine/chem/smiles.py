"""SMILES in: parse, canonicalise, name what is wrong with a bad one, and compare molecules as graphs.

The canonical form is RDKit's isomeric SMILES of the hydrogen-suppressed molecule. This module knows
nothing of coordinates; whether a molecule embeds is found out by ``conformers``.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass

from rdkit import Chem

from engine.chem.rdkit_log import captured_log, matching
from engine.errors import MoleculeSizeError, NoEnrichedFormError, SmilesError, UnsupportedMoleculeError, shown
from engine.records import Molecule

MOST_CHARACTERS = 4_000
MOST_HEAVY_ATOMS = 200
MOST_RINGS, MOST_SMALLEST_RINGS = 100, 300
"""By bonds and atoms, and as RDKit finds them, choices of equal size included. A fullerene of 180 atoms has 91 and 92;
denser graphs take RDKit seconds to minutes to read and to draw, in which no other thread runs."""
MOST_CHARGE = 20
MOST_ISOTOPE = 999

BARE_ATOMS = frozenset("B C N O P S F Cl Br I b c n o p s".split())
"""Atoms that SMILES may write without brackets; inside brackets they would be atoms without hydrogens."""

_TWO_LETTERS = frozenset(
    "He Li Be Ne Na Mg Al Si Cl Ar Ca Sc Ti Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb Sr Zr Nb Mo Tc Ru Rh Pd Ag Cd "
    "In Sn Sb Te Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf Ta Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr "
    "Ra Ac Th Pa Np Pu Am Cm Bk Cf Es Fm Md No Lr Rf Db Sg Bh Hs Mt Ds Rg Cn Nh Fl Mc Lv Ts Og as se te si".split()
)

_ATOM = r"\[[^\[\]]*\]|Br|Cl|[BCNOPSFI]|[bcnops]|\*"
_LINK = r"->|<-|%\(\d+\)|%\d\d|[0-9]|[-=#$:~/\\.()]"
_PIECE = re.compile(rf"(?P<atom>{_ATOM})|(?P<link>{_LINK})")
_POSITION = re.compile(r"around position (\d+)")
_ATOM_NUMBER = re.compile(r"\batoms?:? (?:# )?(\d+)")
_NO_REASON = re.compile(r"[*\s]*|Violation occurred.*|\[?Pre-condition Violation\]?|.*Failed parsing.*", re.DOTALL)
_ISOTOPE = re.compile(r"\[(\d+)", re.ASCII)
_CHARGE = re.compile(r"[+-](\d+)", re.ASCII)
_MOST_REASON = 200
_MOST_MATCHES = 2_000
_OTHER_ORDERS = 24
_UNMATCHED_STEREO = (
    Chem.ChiralType.CHI_SQUAREPLANAR,
    Chem.ChiralType.CHI_TRIGONALBIPYRAMIDAL,
    Chem.ChiralType.CHI_OCTAHEDRAL,
    Chem.ChiralType.CHI_ALLENE,
)


@dataclass(frozen=True, slots=True)
class SmilesPiece:
    """One atom, or what stands between two atoms (a bond, a ring digit, a branch), of a SMILES text."""

    text: str
    start: int
    is_atom: bool


def split_smiles(smiles: str) -> list[SmilesPiece]:
    """Cut a SMILES into atoms and links; together the pieces are the text."""
    pieces = []
    position = 0
    while position < len(smiles):
        match = _PIECE.match(smiles, position)
        if match is None:
            raise SmilesError(
                smiles, f"character {shown(smiles[position])} starts no atom, bond or ring digit", position
            )
        pieces.append(SmilesPiece(match.group(), position, match.lastgroup == "atom"))
        position = match.end()
    return pieces


def descriptor(atom: str) -> str:
    """The bracketed form of an atom token: a bracket atom as it stands, a bare one wrapped."""
    return atom if atom.startswith("[") else f"[{atom}]"


def bare_form(bracketed: str) -> str:
    """The atom token that a descriptor stands for: a wrapped bare atom loses its brackets again."""
    return bracketed[1:-1] if bracketed[1:-1] in BARE_ATOMS else bracketed


def element_of(descriptor: str) -> str:
    """The element symbol in a bracketed descriptor; empty where there is none."""
    letters = descriptor.strip("[]").lstrip("0123456789")
    symbol = letters[:2] if letters[1:2].islower() and letters[:2] in _TWO_LETTERS else letters[:1]
    return symbol[:1].upper() + symbol[1:] if symbol[:1].isalpha() else ""


def parse_smiles(text: str, *, most_heavy_atoms: int = MOST_HEAVY_ATOMS) -> Molecule:
    """A ``Molecule`` of any SMILES that has an enriched form, or the named error that says why not."""
    smiles = text.strip(" \t\r\n")
    if not smiles:
        raise SmilesError(text, "there is nothing in it", fix="Give a SMILES such as CC=O")
    if len(smiles) > MOST_CHARACTERS:
        raise MoleculeSizeError(
            f"the SMILES has {len(smiles):,} characters, the limit is {MOST_CHARACTERS:,}", "Give a smaller molecule"
        )
    _check_characters(smiles)
    parsed = _sanitised(smiles)
    _check_usable(smiles, parsed, most_heavy_atoms)
    return molecule_of(parsed, source=smiles)


def molecule_of(mol: Chem.Mol, *, source: str = "") -> Molecule:
    """A ``Molecule`` of a sanitised RDKit molecule; its conformers, if any, are left behind."""
    smiles, _ = canonical_order(mol)
    descriptors = enriched_descriptors(smiles)
    try:
        reparsed = read_text_order(smiles)
    except SmilesError as error:
        raise _unwritable(smiles) from error
    if reparsed.GetNumAtoms() != len(descriptors):
        raise _unwritable(smiles)
    elements = tuple(atom.GetSymbol() for atom in reparsed.GetAtoms())
    heavy = sum(element != "H" for element in elements)
    return Molecule(smiles, source or smiles, descriptors, elements, heavy, reparsed)


def in_text_order(molecule: Molecule, text: str) -> Molecule:
    """The molecule with its atoms in the order of this SMILES of it, which need not be canonical."""
    smiles = text.strip()
    if smiles == molecule.smiles:
        return molecule
    mol = read_text_order(smiles)
    elements = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    return Molecule(smiles, smiles, enriched_descriptors(smiles), elements, molecule.heavy_atoms, mol)


def parse_written(text: str) -> Molecule:
    """The molecule with its atoms as this SMILES of it writes them; ``parse_smiles`` gives the canonical order."""
    return in_text_order(parse_smiles(text), text)


def _unwritable(smiles: str) -> UnsupportedMoleculeError:
    return UnsupportedMoleculeError(
        f"the canonical SMILES {shown(smiles)} does not read back",
        "RDKit cannot write this molecule as a SMILES that it reads again; use another form of it",
    )


def canonical_order(mol: Chem.Mol) -> tuple[str, list[int]]:
    """Canonical SMILES of a hydrogen-suppressed molecule, and for each atom of the text its index in ``mol``."""
    smiles = Chem.MolToSmiles(mol)
    # Not GetPropsAsDict: it reads every property, and those of a file may hold anything.
    return smiles, [int(index) for index in re.findall(r"\d+", mol.GetProp("_smilesAtomOutputOrder"))]


def enriched_descriptors(smiles: str) -> tuple[str, ...]:
    """The descriptor of each atom of a SMILES, in text order; refuses what would not read back."""
    atoms = [piece for piece in split_smiles(smiles) if piece.is_atom]
    for index, piece in enumerate(atoms):
        if piece.text.startswith("[") and bare_form(piece.text) != piece.text:
            raise NoEnrichedFormError(
                f"atom {index} of {shown(smiles)} is {shown(piece.text)}, a bracket atom without hydrogens, which "
                f"enriched text could not tell from the bare atom {shown(bare_form(piece.text))}",
                "Radicals, carbenes, and ligands that SMILES brackets for being bound to a metal have no enriched form",
            )
    return tuple(descriptor(piece.text) for piece in atoms)


def read_text_order(smiles: str) -> Chem.Mol:
    """The sanitised molecule of a SMILES with its atoms in text order, explicit hydrogens kept."""
    _check_characters(smiles)
    _raw(smiles)
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    parameters.allowCXSMILES = False
    parameters.parseName = False
    with captured_log() as lines:
        try:
            mol = Chem.MolFromSmiles(smiles, parameters)
        except (RuntimeError, ValueError) as error:
            raise SmilesError(smiles, _first_line(error)) from error
    if mol is None:
        raise _syntax_error(smiles, lines)
    _check_rings(smiles, mol.GetRingInfo().NumRings(), MOST_SMALLEST_RINGS)
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
    if left.GetNumAtoms() != right.GetNumAtoms() or left.GetNumBonds() != right.GetNumBonds():
        return False
    if Chem.MolToSmiles(left, isomericSmiles=False) != Chem.MolToSmiles(right, isomericSmiles=False):
        return False
    isotopes, other_isotopes = (
        sorted((atom.GetAtomicNum(), atom.GetIsotope()) for atom in mol.GetAtoms()) for mol in (left, right)
    )
    if isotopes != other_isotopes:
        return False
    if _can_be_matched(left, right):
        with matching():
            return all(mol.HasSubstructMatch(other, useChirality=True) for mol, other in ((left, right), (right, left)))
    return not _keys_by_other_orders(left).isdisjoint(_keys_by_other_orders(right))


def _can_be_matched(left: Chem.Mol, right: Chem.Mol) -> bool:
    """Whether RDKit's matching answers in time, and sees all stereo that there is."""
    if any(atom.GetChiralTag() in _UNMATCHED_STEREO for mol in (left, right) for atom in mol.GetAtoms()):
        return False  # cisplatin would match transplatin
    # RDKit looks at stereo only in whole matches and tries all of them: billions, with eight tert-butyl groups.
    with matching():
        return len(left.GetSubstructMatches(right, uniquify=False, maxMatches=_MOST_MATCHES)) < _MOST_MATCHES


def _keys_by_other_orders(mol: Chem.Mol) -> set[str]:
    """Keys of the same graph with its atoms in other orders, which break other ties."""
    rng = random.Random(0)
    order = list(range(mol.GetNumAtoms()))
    keys = set()
    for _ in range(_OTHER_ORDERS):
        rng.shuffle(order)
        keys.add(graph_key(Chem.RenumberAtoms(mol, order)))
    return keys


def _check_bracket_numbers(smiles: str) -> None:
    """RDKit wraps charges and isotopes that do not fit its small integers; refuse them instead."""
    for piece in split_smiles(smiles):
        if piece.is_atom and piece.text.startswith("["):
            isotope, charge = _ISOTOPE.match(piece.text), _CHARGE.search(piece.text)
            if isotope and _exceeds(isotope.group(1), MOST_ISOTOPE):
                raise SmilesError(smiles, f"isotope {shown(isotope.group(1), 12)} is out of range", piece.start)
            if charge and _exceeds(charge.group(1), MOST_CHARGE):
                raise SmilesError(smiles, f"charge {shown(charge.group(), 12)} is out of range", piece.start)


def _exceeds(digits: str, most: int) -> bool:
    return len(digits) > 9 or int(digits) > most  # int() refuses thousands of digits


def _check_characters(smiles: str) -> None:
    # RDKit stops at a NUL, takes a space for the start of a name, and cannot be given a lone surrogate.
    for position, char in enumerate(smiles):
        if not "!" <= char <= "~":
            fix = "Give one SMILES at a time, without a name" if char.isspace() else "SMILES are plain ASCII"
            raise SmilesError(smiles, f"character {shown(char)} is not allowed", position, fix)


def _raw(smiles: str) -> Chem.Mol:
    """The molecule as written, not sanitised; raises where not even that can be read, or would take RDKit minutes."""
    with captured_log() as lines:
        raw = Chem.MolFromSmiles(smiles, sanitize=False)
    if raw is None:
        raise _syntax_error(smiles, lines)
    _check_bracket_numbers(smiles)
    _check_rings(smiles, rings_in(raw), MOST_RINGS)
    return raw


def rings_in(mol: Chem.Mol) -> int:
    """By bonds, atoms and parts, before RDKit searches for any."""
    return int(mol.GetNumBonds() - mol.GetNumAtoms() + len(Chem.GetMolFrags(mol)))


def _check_rings(smiles: str, rings: int, most: int) -> None:
    if rings > most:
        raise MoleculeSizeError(
            f"{shown(smiles)} has at least {rings:,} rings, the limit is {most}", "Give a smaller molecule"
        )


def _sanitised(smiles: str) -> Chem.Mol:
    # Read without sanitising first: only then do RDKit's chemistry problems name their atoms.
    raw = _raw(smiles)
    with captured_log() as lines:
        try:
            problems = Chem.DetectChemistryProblems(raw)
            mol = None if problems else Chem.MolFromSmiles(smiles)
        except (RuntimeError, ValueError) as error:  # such as an atomic number that no element has
            raise SmilesError(smiles, _first_line(error)) from error
    if problems:
        problem = problems[0]
        atoms = [problem.GetAtomIdx()] if hasattr(problem, "GetAtomIdx") else []
        atoms += list(problem.GetAtomIndices()) if hasattr(problem, "GetAtomIndices") else []
        position = _atom_start(smiles, min(int(index) for index in atoms)) if atoms else None
        raise SmilesError(smiles, problem.Message().strip(), position)
    if mol is None:
        raise _syntax_error(smiles, lines)
    _check_rings(smiles, mol.GetRingInfo().NumRings(), MOST_SMALLEST_RINGS)
    return mol


def _first_line(error: Exception) -> str:
    return _reason(str(error).splitlines())


def _reason(lines: Iterable[str]) -> str:
    """RDKit's message without the input that it repeats, which may be long and hold any characters."""
    for line in lines:
        message = line.strip().removeprefix("SMILES Parse Error: ")
        reason = re.split(r" while parsing:| for input:", message)[0].strip()
        if reason and not _POSITION.search(reason) and not _NO_REASON.fullmatch(reason):
            return reason[:_MOST_REASON]
    return "RDKit refuses it without a reason"


def _syntax_error(smiles: str, lines: list[str]) -> SmilesError:
    reason = _reason(lines)
    match = next((match for line in lines if (match := _POSITION.search(line))), None)
    if match:
        return SmilesError(smiles, reason, min(int(match.group(1)) - 1, max(len(smiles) - 1, 0)))
    numbers = _ATOM_NUMBER.findall(reason)
    position = _atom_start(smiles, int(numbers[-1])) if numbers else None
    return SmilesError(smiles, reason, _open_ring(smiles) if "unclosed ring" in reason else position)


def _atom_start(smiles: str, index: int) -> int | None:
    atoms = [piece for piece in split_smiles(smiles) if piece.is_atom]
    return atoms[index].start if index < len(atoms) else None


def _open_ring(smiles: str) -> int | None:
    """Where the first ring that is never closed was opened."""
    opened: dict[int, int] = {}
    for piece in split_smiles(smiles):
        if not piece.is_atom and piece.text.strip("%()").isdigit():
            label = int(piece.text.strip("%()"))
            if opened.pop(label, None) is None:
                opened[label] = piece.start
    return min(opened.values(), default=None)


def _check_usable(smiles: str, mol: Chem.Mol, most_heavy_atoms: int) -> None:
    if mol.GetNumAtoms() == 0:
        raise SmilesError(smiles, "it has no atoms")
    for atom in mol.GetAtoms():
        if atom.GetAtomicNum() == 0 or atom.HasQuery():
            raise UnsupportedMoleculeError(
                f"atom {atom.GetIdx()} of {shown(smiles)} is a wildcard, which has no 3D structure",
                "Replace '*' by a real atom",
            )
    heavy = mol.GetNumHeavyAtoms()
    if heavy > most_heavy_atoms:
        raise MoleculeSizeError(
            f"{shown(smiles)} has {heavy} heavy atoms, the limit is {most_heavy_atoms}", "Give a smaller molecule"
        )
