"""SMILES in: parse, canonicalise, name what is wrong with a bad one, and compare molecules as graphs.

The canonical form is RDKit's isomeric SMILES of the hydrogen-suppressed molecule. This module knows
nothing of coordinates; whether a molecule embeds is found out by ``conformers``.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rdkit import Chem, rdBase

from engine.errors import MoleculeSizeError, NoEnrichedFormError, SmilesError, UnsupportedMoleculeError, shown
from engine.records import Molecule

MOST_CHARACTERS = 4_000
MOST_HEAVY_ATOMS = 200
MOST_CHARGE = 20

BARE_ATOMS = frozenset("B C N O P S F Cl Br I b c n o p s".split())
"""Atoms that SMILES may write without brackets; inside brackets they would be atoms without hydrogens."""

_ATOM = r"\[[^\[\]]*\]|Br|Cl|[BCNOPSFI]|[bcnops]|\*"
_LINK = r"->|<-|%\(\d+\)|%\d\d|[0-9]|[-=#$:~/\\.()]"
_PIECE = re.compile(rf"(?P<atom>{_ATOM})|(?P<link>{_LINK})")
_POSITION = re.compile(r"around position (\d+)")
_ISOTOPE = re.compile(r"\[(\d+)", re.ASCII)
_CHARGE = re.compile(r"[+-](\d+)", re.ASCII)
_TIMESTAMP = re.compile(r"^\[\d\d:\d\d:\d\d\]\s*")


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


def parse_smiles(text: str, *, most_heavy_atoms: int = MOST_HEAVY_ATOMS) -> Molecule:
    """A ``Molecule`` of any SMILES that has an enriched form, or the named error that says why not."""
    smiles = _plain(text)
    parsed = _sanitised(smiles)
    _check_usable(smiles, parsed, most_heavy_atoms)
    return molecule_of(parsed, source=smiles)


def molecule_of(mol: Chem.Mol, *, source: str = "") -> Molecule:
    """A ``Molecule`` of a sanitised RDKit molecule; its conformers, if any, are left behind."""
    smiles, _ = canonical_order(mol)
    descriptors = enriched_descriptors(smiles)
    reparsed = read_text_order(smiles)
    if reparsed is None or reparsed.GetNumAtoms() != len(descriptors):
        raise UnsupportedMoleculeError(
            f"the canonical SMILES {shown(smiles)} does not read back",
            "RDKit cannot write this molecule as a SMILES that it reads again; use another form of it",
        )
    elements = tuple(atom.GetSymbol() for atom in reparsed.GetAtoms())
    heavy = sum(element != "H" for element in elements)
    return Molecule(smiles, source or smiles, descriptors, elements, heavy, reparsed)


def canonical_order(mol: Chem.Mol) -> tuple[str, list[int]]:
    """Canonical SMILES of a hydrogen-suppressed molecule, and for each atom of the text its index in ``mol``."""
    smiles = Chem.MolToSmiles(mol)
    properties = mol.GetPropsAsDict(includePrivate=True, includeComputed=True)
    return smiles, [int(index) for index in properties["_smilesAtomOutputOrder"]]


def enriched_descriptors(smiles: str) -> tuple[str, ...]:
    """The descriptor of each atom of a SMILES, in text order; refuses what would not read back."""
    atoms = [piece for piece in split_smiles(smiles) if piece.is_atom]
    for index, piece in enumerate(atoms):
        if piece.text.startswith("[") and bare_form(piece.text) != piece.text:
            raise NoEnrichedFormError(
                f"atom {index} of {shown(smiles)} is {shown(piece.text)}, a bracket atom without hydrogens, which "
                f"enriched text could not tell from the bare atom {shown(bare_form(piece.text))}",
                "Molecules with such radical or carbene atoms have no enriched form",
            )
    return tuple(descriptor(piece.text) for piece in atoms)


def read_text_order(smiles: str) -> Chem.Mol | None:
    """The sanitised molecule of a SMILES with its atoms in text order, explicit hydrogens kept; None if it has none."""
    parameters = Chem.SmilesParserParams()
    parameters.removeHs = False
    parameters.allowCXSMILES = False
    parameters.parseName = False
    with captured_log():
        return Chem.MolFromSmiles(smiles, parameters)


def graph_key(mol: Chem.Mol) -> str:
    """A text that is equal for equal graphs: canonical isomeric SMILES, written twice to settle its ordering."""
    with captured_log():
        first = Chem.MolToSmiles(Chem.RemoveHs(mol))
        again = Chem.MolFromSmiles(first)
    return str(first if again is None else Chem.MolToSmiles(again))


def same_graph(one: Chem.Mol, other: Chem.Mol) -> bool:
    """Whether two molecules are the same graph, stereo included; how they were written does not matter."""
    if graph_key(one) == graph_key(other):
        return True
    # Canonical ranking breaks some stereo ties by input order, so unequal keys are no proof of inequality.
    with captured_log():
        left, right = Chem.RemoveHs(one), Chem.RemoveHs(other)
    if left.GetNumAtoms() != right.GetNumAtoms() or left.GetNumBonds() != right.GetNumBonds():
        return False
    if Chem.MolToSmiles(left, isomericSmiles=False) != Chem.MolToSmiles(right, isomericSmiles=False):
        return False
    return _isotopes(left) == _isotopes(right) and _matches_both_ways(left, right)


def _isotopes(mol: Chem.Mol) -> list[tuple[int, int]]:
    return sorted((atom.GetAtomicNum(), atom.GetIsotope()) for atom in mol.GetAtoms())


def _matches_both_ways(left: Chem.Mol, right: Chem.Mol) -> bool:
    return bool(left.HasSubstructMatch(right, useChirality=True) and right.HasSubstructMatch(left, useChirality=True))


def _check_bracket_numbers(smiles: str) -> None:
    """RDKit wraps charges and isotopes that do not fit its small integers; refuse them instead."""
    for piece in split_smiles(smiles):
        if piece.is_atom and piece.text.startswith("["):
            isotope, charge = _ISOTOPE.match(piece.text), _CHARGE.search(piece.text)
            if isotope and int(isotope.group(1)) > 999:
                raise SmilesError(smiles, f"isotope {shown(isotope.group(1))} is out of range", piece.start)
            if charge and int(charge.group(1)) > MOST_CHARGE:
                raise SmilesError(smiles, f"charge {shown(charge.group())} is out of range", piece.start)


def _plain(text: str) -> str:
    smiles = text.strip(" \t\r\n")
    if not smiles:
        raise SmilesError(text, "there is nothing in it", fix="Give a SMILES such as CC=O")
    if len(smiles) > MOST_CHARACTERS:
        raise MoleculeSizeError(
            f"the SMILES has {len(smiles):,} characters, the limit is {MOST_CHARACTERS:,}", "Give a smaller molecule"
        )
    for position, char in enumerate(smiles):
        if not "!" <= char <= "~":
            fix = "Give one SMILES at a time, without a name" if char.isspace() else "SMILES are plain ASCII"
            raise SmilesError(smiles, f"character {shown(char)} is not allowed", position, fix)
    return smiles


def _sanitised(smiles: str) -> Chem.Mol:
    # Read without sanitising first: only then do RDKit's chemistry problems name their atoms.
    with captured_log() as lines:
        raw = Chem.MolFromSmiles(smiles, sanitize=False)
    if raw is None:
        raise _syntax_error(smiles, lines)
    _check_bracket_numbers(smiles)
    with captured_log():
        problems = Chem.DetectChemistryProblems(raw)
    if problems:
        raise _chemistry_error(smiles, problems[0])
    with captured_log() as lines:
        mol = Chem.MolFromSmiles(smiles)
    if mol is None:
        raise SmilesError(smiles, "; ".join(lines) or "RDKit refuses it without a reason")
    return mol


def _syntax_error(smiles: str, lines: list[str]) -> SmilesError:
    reason, position = "it is no SMILES", None
    for line in lines:
        found = _POSITION.search(line)
        if found:
            position = min(int(found.group(1)) - 1, max(len(smiles) - 1, 0))
        elif line.startswith("SMILES Parse Error: ") and "Failed parsing" not in line:
            message = line.removeprefix("SMILES Parse Error: ")
            reason = re.split(r" while parsing:| for input:", message)[0].strip()
    if position is None and "unclosed ring" in reason:
        position = _open_ring(smiles)
    return SmilesError(smiles, reason, position)


def _open_ring(smiles: str) -> int | None:
    """Where the first ring that is never closed was opened."""
    opened: dict[int, int] = {}
    for piece in split_smiles(smiles):
        if not piece.is_atom and piece.text.strip("%()").isdigit():
            label = int(piece.text.strip("%()"))
            if opened.pop(label, None) is None:
                opened[label] = piece.start
    return min(opened.values(), default=None)


def _chemistry_error(smiles: str, problem: Chem.MolSanitizeException) -> SmilesError:
    index = _problem_atom(problem)
    atoms = [piece for piece in split_smiles(smiles) if piece.is_atom]
    position = atoms[index].start if index is not None and index < len(atoms) else None
    return SmilesError(smiles, problem.Message().strip(), position)


def _problem_atom(problem: Chem.MolSanitizeException) -> int | None:
    if hasattr(problem, "GetAtomIdx"):
        return int(problem.GetAtomIdx())
    if hasattr(problem, "GetAtomIndices"):
        return min((int(index) for index in problem.GetAtomIndices()), default=None)
    return None


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


class _ThreadLines(logging.Handler):
    """Collects RDKit's log lines per thread, so that concurrent parses do not read each other's errors."""

    def __init__(self) -> None:
        super().__init__()
        self._local = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        lines = getattr(self._local, "lines", None)
        if lines is not None:
            lines.append(_TIMESTAMP.sub("", record.getMessage()).strip())

    @contextmanager
    def collecting(self) -> Iterator[list[str]]:
        outer = getattr(self._local, "lines", None)
        self._local.lines = []
        try:
            yield self._local.lines
        finally:
            if outer is not None:
                outer.extend(self._local.lines)
            self._local.lines = outer


_LINES = _ThreadLines()
_LOG_LOCK = threading.Lock()


def _route_rdkit_log() -> None:
    """RDKit writes its messages to stderr; send them to the ``rdkit`` logger instead, once a process."""
    logger = logging.getLogger("rdkit")
    with _LOG_LOCK:
        if _LINES not in logger.handlers:
            rdBase.LogToPythonLogger()
            logger.handlers[:] = [_LINES]  # RDKit's own handler there writes to stderr
            logger.propagate = False


@contextmanager
def captured_log() -> Iterator[list[str]]:
    """RDKit's messages of this thread as a list of lines, kept off the terminal."""
    _route_rdkit_log()
    with _LINES.collecting() as lines:
        yield lines
