"""The token that lost a molecule: of a text with decimals or bins, block by block the first token after which no right
place was left for the atom, by proof alone. No model is needed.

A block has a mark where the verdict finds a check wrong for which its atom is the last one: a bond, an angle, a clash,
a plane, a hand or a side, at PoseBusters' own tolerance and by the symmetry that the verdict chose. So a text whose
verdict is right has none, and one that is wrong by these has one at least. The mark is the first token at which the
loss is *proved* by bounds; the place may have been lost before, which is so noted unless a right place was found in
what the token before it had left. The closing token makes the block a point, of which the verdict is exact, so a proof
is always there in the end. Where no place was left before the block's first token, the atoms before it lost it.

What a token leaves follows from the text: of Qwen's ``1`` are left 1 to 2, 10 to 20 and 100 to 200, since its digits
come one by one, of LLaMA's only 1 to 2. Where no tokenizer is known, characters take the tokens' place. A block that is
not three numbers is no loss of a place: it is passed over, with all checks that need its atom.

What it does not know: whether a place that is right leaves room for the atoms behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from rdkit import Chem

from engine.chem.enriched import as_decimals, decode, skeleton_of, why_not_a_triple
from engine.chem.frame import Array
from engine.chem.geometry import (
    APART,
    AROMATIC,
    BOND_ANGLES,
    BOND_LENGTHS,
    CLASH,
    DOUBLE_BONDS,
    RINGS,
    GeometryChecks,
    PairBounds,
    SettingsName,
)
from engine.chem.heavy import heavy_of
from engine.chem.left_places import AtomChecks, Failed, Left, Plane
from engine.chem.smiles import parse_smiles, read_text_order
from engine.chem.stereo import AskedStereo, StereoGoal
from engine.chem.verdict import CRASH, LOADED, STEREO, TIME
from engine.errors import DriftscopeError, GraphMismatchError, TokenizerError
from engine.figures.words import decimals_apart, fixed, listed
from engine.inspection.bin_places import axis_of, box_of, digits_of, place_of, values_of
from engine.inspection.runs import RunFacts, number_format
from engine.lp_records import usual_placeholder
from engine.records import BinFormat, Molecule, NumberFormat
from engine.text.blocks import READ_FORMAT, FoundBlock, find_blocks
from engine.text.check import find_answer, without_blocks
from engine.text.tokenizers import TextTokenizer, number_ids

WHICH_NUMBERS = "the token that lost a molecule is found in decimals and in bins that are known, not in other texts"
AXES = "xyz"
WHOLE, SIGN, BIN_DIGITS = 99, -1, 100
"""What is written of a number behind a token, besides how many decimals: all of it; nothing but its sign; of a bin so
many more are its digits."""
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
SHAPE_CHECKS = frozenset({BOND_LENGTHS, BOND_ANGLES, CLASH, AROMATIC, RINGS, DOUBLE_BONDS, STEREO})
"""The verdict's checks that a place can fail."""
MOST_ATOMS = 1_000
"""Of a text that is searched: bounds of all pairs take a second there, and the cube of that beyond."""
SplitBy = Literal["written", "retokenised", "characters"]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Splits:
    """How a tokenizer cuts numbers, as far as it tells what may follow a token."""

    width: int = 1  # digits of the widest token: a run of digits that ends in a narrower one is over
    comma_decides: bool = False  # whether a comma and a minus are one token


@dataclass(frozen=True, slots=True, eq=False)
class TextTokens:
    """A text's tokens by their characters; where there is no tokenizer, its characters."""

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    by: SplitBy
    splits: Splits


@dataclass(frozen=True, slots=True)
class LostBlock:
    """A block whose atom is at a wrong place, and the token after which no right one was left."""

    conformer: int  # from 1
    block: int  # of the text's blocks, from 0
    atom: int  # of the conformer's text
    element: str
    token: int  # of the text's tokens
    piece: str
    axis: str  # that the token is of
    place: int  # of the token among those of its axis, from 1
    digit: int  # decimals that are written behind it, WHOLE or SIGN; of bins BIN_DIGITS and so many digits
    check: str
    atoms: tuple[int, ...]  # of the text, by which the check is made
    is_before: bool  # no place was left even before the block's first token
    is_alone: bool  # the check leaves no place by itself; else several together leave none, and it fails as written
    is_certain: bool  # right behind the token before it, a right place was left
    is_ring_closure: bool  # the atom is bonded to two atoms before it, or more
    is_centre: bool  # with it a hand or a side is decided
    by: SplitBy
    why: str

    @property
    def sentence(self) -> str:
        """``lost at the third token of x, `3`: atom 2, to which it is bonded, is then at least 2.9 Å away, at
        most 1.9 is allowed``"""
        unit = "character" if self.by == "characters" else "token"
        if self.is_before:
            where = "no right place was left when its block began"
        elif self.digit == WHOLE:
            where = f"lost at its last {unit}, `{self.piece}`"
        else:
            ordinal = ORDINALS[self.place - 1] if self.place <= len(ORDINALS) else f"{self.place}th"
            where = f"lost at the {ordinal} {unit} of {self.axis}, `{self.piece}`"
        how = "as written, " if self.is_before else "by several checks together; as written, "
        if self.is_alone:
            how = ""
        rest = "" if self.is_certain or self.is_before else ". Not certain: the place may have been lost before"
        return f"{where}: {how}{self.why}{rest}"

    @property
    def words(self) -> str:
        return f"{self.element}, atom {self.atom}: {self.sentence}"


# --- tokens ---------------------------------------------------------------------------------------------------------


@lru_cache(8)
def splits_of(tokenizer: TextTokenizer) -> Splits:
    """One that follows no known rule is taken for one whose digits come one by one: what is left is then too much."""
    try:
        ids = number_ids(tokenizer)
        return Splits(ids.width, comma_decides=ids.comma_minus is not None)
    except TokenizerError:
        return Splits()


def tokens_of(text: str, tokenizer: TextTokenizer | None = None, ids: Sequence[int | None] | None = None) -> TextTokens:
    """The ids as they were written where they spell the text, end token or not; else the tokenizer's own; without one,
    characters."""
    if tokenizer is None:
        starts = np.arange(len(text))
        return TextTokens(starts, starts + 1, "characters", Splits())
    if ids and None not in ids:
        spelled, starts, ends = tokenizer.spans([id_ for id_ in ids if id_ is not None])
        if spelled.startswith(text):
            return TextTokens(starts, ends, "written", splits_of(tokenizer))
    starts, ends = tokenizer.offsets(text, tokenizer.encode(text))
    return TextTokens(starts, ends, "retokenised", splits_of(tokenizer))


def left_by(
    prefix: str, following: str, splits: Splits, form: NumberFormat
) -> tuple[list[float], list[tuple[float, float]]]:
    """Of the beginning of a block's content, behind a token: the axes that are complete, and the intervals in which the
    next one is. ``following`` is the text behind it: what it goes on with may go on."""
    *done, current = prefix.split(",")
    run = current.removeprefix("-").rpartition(".")[2]
    is_open = len(run) % splits.width == 0 or following[:1].isdigit()
    is_signed = bool(current) or (bool(done) and splits.comma_decides and following[:1] != "-")
    intervals = _sizes(current.removeprefix("-"), form, is_open=is_open)
    if current.startswith("-"):
        intervals = [(-high, -low) for low, high in intervals]  # zero too: a model may write -0.0
    elif not is_signed:
        intervals = [(-intervals[0][1], intervals[0][1])]
    return [float(number) for number in done], intervals


def _sizes(digits: str, form: NumberFormat, *, is_open: bool) -> list[tuple[float, float]]:
    """Of numbers without their sign that begin so; ``is_open``: the run of digits may go on."""
    unit = 10.0**-form.most_decimals
    whole, point, decimals = digits.partition(".")
    if not digits:
        return [(0.0, 10.0**form.most_integer_digits - unit)]
    if point:
        value, goes_on = float(f"{whole}.{decimals}0"), is_open and len(decimals) < form.most_decimals
        return [(value, value + (10.0 ** -len(decimals) - unit if goes_on else 0.0))]
    further = range(form.most_integer_digits - len(whole) + 1 if is_open and whole != "0" else 1)
    return [(int(whole) * 10.0**more, (int(whole) + 1) * 10.0**more - unit) for more in further]


def boxes_of(prefix: str, following: str, splits: Splits, form: NumberFormat) -> tuple[Array, Array]:
    """The boxes [B, 3] that are left of all places."""
    if isinstance(form, BinFormat):
        return box_of(prefix, form)
    known, intervals = left_by(prefix, following, splits, form)
    most = 10.0**form.most_integer_digits
    low, high = np.full((len(intervals), 3), -most), np.full((len(intervals), 3), most)
    low[:, : len(known)] = high[:, : len(known)] = known
    low[:, len(known)], high[:, len(known)] = np.array(intervals).T
    return low, high


# --- what is checked ------------------------------------------------------------------------------------------------


class TextMolecule:
    """The molecule that a text spells, in its order, with the checks of the verdict."""

    def __init__(self, smiles: str, settings: SettingsName) -> None:
        self.mol = read_text_order(smiles)
        self.heavy, self.text_atoms = heavy_of(Chem.Mol(self.mol))
        geometry = GeometryChecks(self.heavy, settings)
        none = np.zeros(0, dtype=np.int64)
        self.bounds = geometry.bounds or PairBounds(none, none, none, none, np.zeros(0), np.zeros(0))
        self.planes: list[Plane] = [plane for plane in geometry.planes if plane[0] not in geometry.left_out]
        bonded = self.bounds.only(self.bounds.apart == 0)
        self.bonds_before = np.bincount(np.maximum(bonded.first, bonded.second), minlength=len(self.text_atoms))

    def checks(self, atom: int, positions: Array, is_known: Flags, goals: Sequence[StereoGoal]) -> AtomChecks:
        """Those that this atom is the last one of, of which all atoms have a place."""
        bounds = self.bounds
        last = np.maximum(bounds.first, bounds.second)
        pairs = bounds.only((last == atom) & is_known[bounds.first] & is_known[bounds.second])
        planes = [plane for plane in self.planes if max(plane[1]) == atom and is_known[list(plane[1])].all()]
        wanted = [g for g in goals if max(g.spanned_by) == atom and is_known[list(g.spanned_by)].all()]
        return AtomChecks(atom, pairs, planes, wanted, positions)


molecule_of_text = lru_cache(64)(TextMolecule)


@lru_cache(64)
def _asked(smiles: str, of_text: str, settings: SettingsName) -> AskedStereo | None:
    """None where the text is another molecule: then only geometry is checked, as in the verdict."""
    expected, answer = molecule_of_text(of_text, settings).mol, molecule_of_text(of_text, settings).heavy
    with suppress(DriftscopeError):
        expected = parse_smiles(smiles).mol
    try:
        if len({Chem.MolToSmiles(mol, isomericSmiles=False) for mol in (expected, answer)}) > 1:
            return None
        return AskedStereo.of(expected, answer)
    except GraphMismatchError:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Conformer:
    """One conformer of a text as far as it can be read; ``blocks`` by atom of the text, in whose order they are."""

    molecule: TextMolecule
    stereo: AskedStereo | None
    blocks: Sequence[FoundBlock]  # with places in the whole text
    positions: Array  # [heavy, 3]
    is_known: Flags  # [heavy]


def _read(
    text: str,
    blocks: Sequence[FoundBlock],
    asked: str,
    molecule: Molecule | None,
    settings: SettingsName,
    form: NumberFormat,
) -> _Conformer | None:
    """None where the text is not atom by atom a molecule, or too long. ``text`` is that of one conformer, and has these
    blocks."""
    smiles = _smiles_of(text, blocks, molecule, form)
    if smiles is None or len(blocks) > MOST_ATOMS:
        return None
    of_text = molecule_of_text(smiles, settings)
    positions, is_known = np.zeros((len(of_text.text_atoms), 3)), np.zeros(len(of_text.text_atoms), dtype=np.bool_)
    for heavy, atom in enumerate(of_text.text_atoms):
        if atom < len(blocks) and blocks[atom].closed and (place := place_written(blocks[atom].content, form)):
            positions[heavy], is_known[heavy] = place, True
    return _Conformer(of_text, _asked(asked, smiles, settings), blocks, positions, is_known)


def place_written(content: str, form: NumberFormat) -> list[float] | None:
    """Where a block puts its atom; None where it is not three numbers."""
    if isinstance(form, BinFormat):
        return place_of(content, form)
    return None if why_not_a_triple(content) else [float(number) for number in content.split(",")]


def _smiles_of(text: str, blocks: Sequence[FoundBlock], molecule: Molecule | None, form: NumberFormat) -> str | None:
    """What the text spells, of a damaged one as far as it follows ``molecule``."""
    with suppress(DriftscopeError):
        decoded = decode(as_decimals(text, form))
        return decoded.smiles if decoded.mol.GetNumAtoms() == len(blocks) else None
    if molecule is None or not 0 < len(blocks) <= molecule.atoms:
        return None
    skeleton = without_blocks(skeleton_of(molecule, usual_placeholder(form), form), form)
    is_begun = skeleton.startswith(without_blocks(text, form).strip())
    return molecule.smiles if is_begun else None


# --- the token ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _State:
    """What a token leaves of its block."""

    token: int
    prefix: str  # of the content
    following: str
    is_closed: bool
    form: NumberFormat

    @property
    def axis(self) -> int:
        if isinstance(self.form, BinFormat):
            return axis_of(self.prefix, self.form)
        return min(self.prefix.count(","), 2)

    @property
    def digit(self) -> int:
        if isinstance(self.form, BinFormat):
            return BIN_DIGITS + digits_of(self.prefix, self.form)
        number = self.prefix.rpartition(",")[2].removeprefix("-")
        if self.is_closed:
            return WHOLE
        return SIGN if not number else len(number.partition(".")[2])


def lost_blocks(
    text: str,
    smiles: str,
    tokens: TextTokens,
    form: NumberFormat = READ_FORMAT,
    *,
    molecule: Molecule | None = None,
    settings: SettingsName = "mol_fast",
    most: int | None = None,
) -> list[LostBlock]:
    """The marks of an answer, conformer by conformer, in the order of the text, or only so many of each. ``smiles`` is
    the molecule that it should be; ``molecule`` the same as the text spells it, for texts that are damaged."""
    answer, found = find_answer(text, molecule), find_blocks(text, form)
    lost: list[LostBlock] = []
    for number, (start, end) in enumerate(answer.bodies, 1):
        inside = [index for index, block in enumerate(found) if start <= block.start < end]
        conformer = _read(text[start:end], [found[index] for index in inside], smiles, molecule, settings, form)
        if conformer is not None:
            marks = islice(_of_conformer(text, conformer, tokens, form), most)
            lost += [replace(mark, conformer=number, block=inside[mark.block]) for mark in marks]
    return lost


def _of_conformer(text: str, conformer: _Conformer, tokens: TextTokens, form: NumberFormat) -> Iterator[LostBlock]:
    positions, is_known = conformer.positions, conformer.is_known
    goals = [] if conformer.stereo is None else conformer.stereo.chosen(positions, is_known)
    for atom in np.flatnonzero(is_known).tolist():
        checks = conformer.molecule.checks(atom, positions, is_known, goals)
        if failed := checks.failed():
            yield _mark(text, conformer, checks, failed, tokens, form)


def _mark(
    text: str,
    conformer: _Conformer,
    checks: AtomChecks,
    failed: Sequence[Failed],
    tokens: TextTokens,
    form: NumberFormat,
) -> LostBlock:
    molecule = conformer.molecule
    text_atom = molecule.text_atoms[checks.atom]
    block = conformer.blocks[text_atom]
    form = _form_of(block.content, form)
    states = _states(text, block, tokens, form)
    at, is_certain = _first_without(states, checks, tokens.splits, form)
    state = states[max(at, 0)]
    boxes = None
    if at >= 0 and not state.is_closed:
        boxes = boxes_of(state.prefix, state.following, tokens.splits, form)
    check, is_alone, why = _reason(checks, failed, boxes, molecule.text_atoms)
    start, end = tokens.starts[state.token], tokens.ends[state.token]
    return LostBlock(
        conformer=1,
        block=text_atom,
        atom=text_atom,
        element=molecule.heavy.GetAtomWithIdx(checks.atom).GetSymbol(),
        token=state.token,
        piece=text[start:end],
        axis=AXES[state.axis],
        place=sum(other.axis == state.axis for other in states[: max(at, 0) + 1]),
        digit=state.digit,
        check=check.check,
        atoms=tuple(molecule.text_atoms[atom] for atom in check.atoms),
        is_before=at < 0,
        is_alone=is_alone or state.is_closed,
        is_certain=is_certain,
        is_ring_closure=bool(molecule.bonds_before[checks.atom] > 1),
        is_centre=bool(checks.goals),
        by=tokens.by,
        why=why,
    )


def _form_of(content: str, form: NumberFormat) -> NumberFormat:
    """The format, wide enough for the numbers of this block."""
    if isinstance(form, BinFormat):
        return form
    numbers = [number.removeprefix("-").partition(".") for number in content.split(",")]
    decimals = max(form.most_decimals, *(len(number[2]) for number in numbers))
    integers = max(form.most_integer_digits, *(len(number[0]) for number in numbers))
    return NumberFormat(min(form.least_decimals, decimals), decimals, integers)


def _states(text: str, block: FoundBlock, tokens: TextTokens, form: NumberFormat) -> list[_State]:
    """Behind each token that has a character of the block's content or closes it."""
    start, close = block.content_start, block.content_start + len(block.content)
    first = int(np.searchsorted(tokens.ends, start, side="right"))
    states = []
    for token in range(first, len(tokens.ends)):
        end = int(tokens.ends[token])
        states.append(_State(token, text[start : min(end, close)], text[end : close + 1], end > close, form))
        if end > close:
            break
    return states


def _first_without(
    states: Sequence[_State], checks: AtomChecks, splits: Splits, form: NumberFormat
) -> tuple[int, bool]:
    """The first state that is proved to have no right place, -1 for before all of them; and whether the one before it
    was shown to have one. What a token leaves is part of what was left before, so proofs are found by halving."""
    unit = 10.0**-form.most_decimals
    grid = values_of(form)[1] if isinstance(form, BinFormat) else None

    def left(index: int) -> Left:
        state = states[index] if index >= 0 else _State(0, "", "", False, form)
        return checks.left(*boxes_of(state.prefix, state.following, splits, form), unit, grid)

    known, proved = left(-1), len(states) - 1
    if known is Left.NONE:
        return -1, False
    before = -1
    while proved - before > 1:
        middle = (before + proved) // 2
        if (found := left(middle)) is Left.NONE:
            proved = middle
        else:
            before, known = middle, found
    return proved, known is Left.SOME


# --- the reason -----------------------------------------------------------------------------------------------------


def _reason(
    checks: AtomChecks, failed: Sequence[Failed], boxes: tuple[Array, Array] | None, names: Sequence[int]
) -> tuple[Failed, bool, str]:
    """The first of the failed checks that fails everywhere in the boxes, else the worst of all; whether it does; and
    why. Without boxes it is told of the place as it is written. ``names``: the text's atoms."""
    if boxes is not None:
        for check in failed:
            if (distance := checks.alone(check, *boxes)) is not None:
                return check, True, _words(checks, check, names, distance, is_proof=True)
    check, place = failed[0], checks.positions[None, checks.atom]
    distance = checks.alone(check, place, place) or 0.0
    return check, False, _words(checks, check, names, distance, is_proof=False)


def why_none(checks: AtomChecks, boxes: tuple[Array, Array], names: Sequence[int]) -> str | None:
    """The first check that by itself leaves no place in the boxes, in words; None where none does."""
    for check in checks.all():
        if (distance := checks.alone(check, *boxes)) is not None:
            return _words(checks, check, names, distance, is_proof=True)
    return None


def _words(checks: AtomChecks, failed: Failed, names: Sequence[int], distance: float, *, is_proof: bool) -> str:
    """``is_proof``: of all places that are left; else of the one that is written."""
    others = [names[atom] for atom in failed.atoms if atom != checks.atom]
    cannot = "can then no longer" if is_proof else "does not"
    if failed.kind in APART:
        role = {"bond": ", to which it is bonded,", "angle": f", with an angle at atom {others[-1]},"}
        here, limit = ("at most", "at least") if failed.is_near else ("at least", "at most")
        allowed = checks.allowed(failed)
        digits = decimals_apart(distance, allowed)
        away = f"{f'then {here} ' if is_proof else ''}{fixed(distance, digits)} Å away"
        return f"atom {others[0]}{role.get(failed.kind, '')} is {away}, {limit} {fixed(allowed, digits)} is allowed"
    if failed.kind == "centre":
        return f"atom {names[failed.atoms[0]]} {cannot} have the hand that the SMILES asks for"
    if failed.kind == "double bond":
        ends = listed([str(names[atom]) for atom in failed.atoms])
        return f"the double bond of atoms {ends} {cannot} have the sides that the SMILES asks for"
    shape = ("can then no longer be " if is_proof else "is not ") + ("puckered" if failed.kind == "ring" else "flat")
    return f"what it makes with atoms {listed(list(map(str, others)))} {shape}"


# --- of a stored sample ---------------------------------------------------------------------------------------------


def may_be_lost(sample: Mapping[str, Any]) -> bool:
    """A row of ``samples``: whether its verdict leaves that open, or there is none."""
    checks = {failed["check"] for failed in sample["failed"] or ()}
    if not sample["text"] or checks & {TIME, CRASH}:
        return False
    return sample["stereo_sites"] is None or bool(checks & {*SHAPE_CHECKS, LOADED})


def lost_of_sample(
    run: RunFacts,
    sample: Mapping[str, Any],
    molecule: Molecule,
    tokenizer: TextTokenizer | None,
    most: int | None = None,
) -> list[LostBlock]:
    """``molecule`` is written as the text writes it. By the checks that the run was judged with."""
    if not may_be_lost(sample):
        return []
    text, words = sample["text"], run.judged_with.split(", ")
    settings: SettingsName = next((name for name in get_args(SettingsName) if name in words), "mol_fast")
    tokens = tokens_of(text, tokenizer, sample["token_ids"])
    form = number_format(run)
    return lost_blocks(text, sample["smiles"], tokens, form, molecule=molecule, settings=settings, most=most)
