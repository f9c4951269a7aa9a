"""The enriched text codec: a molecule with a conformer to text and back, lossless to the last written digit.

``[C]<1.2034,-0.5100,0.0000>=[O]<...>``: each atom of the canonical SMILES becomes its bracketed descriptor and a
block of three numbers; all else is copied. Numbers are truncated in floats, as by the group's encoder, never rounded,
and never ``-0.0000``. Decoding is strict: a block is three numbers or an error that names it. Junk is the business of
``engine.text``.

At the end is the group's decoder, as its runner (from v3.9 on) and its inference use it. It reads a descriptor and all
behind it from ``<`` to the next ``>``, or a bond, branch, ring digit or point, and stops at anything else. It splits a
block at commas, wants three parts, and takes of each part the *last* thing that reads as a number. So it takes blocks
that hold junk, and ``-0.2623(cc6`` becomes 6.0: a position that the text does not state, and that nobody is told of.
Unlike the group's, it takes dative bonds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, Decimal
from functools import lru_cache, partial
from itertools import count
from typing import NamedTuple

from rdkit import Chem

from engine.chem.codes import DAMAGED, NO_PLACES, WITHOUT_DECODER, places_text
from engine.chem.frame import AS_WRITTEN, add_conformer
from engine.chem.other_forms import BARE_ATOM, NO_ATOM, OTHER_WORDS, bin_digits, other_form
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import bare_form, canonical_order, enriched_descriptors, read_text_order, split_smiles
from engine.errors import ConformerError, EnrichedError, MoleculeSizeError, SmilesError, UnsupportedMoleculeError, shown
from engine.records import FIXED4, WIDEST, BinFormat, CodeFormat, Descriptors, Molecule, NumberFormat, ReaderName

OPEN_TAG, CLOSE_TAG = "[CONFORMER]", "[/CONFORMER]"
NEXT_CONFORMER = CLOSE_TAG + OPEN_TAG
"""Between two conformers of one answer."""
SMILES_TAGS = ("[SMILES]", "[/SMILES]")

MOST_ATOMS, MOST_CHARACTERS = 5_000, 200_000
"""Explicit atoms of one text; RDKit's canonical ordering recurses along the molecule and ends the process at 50,000."""

_NUMBER = rf"-?(?:0|[1-9][0-9]{{0,{WIDEST.most_integer_digits - 1}}})(?:\.[0-9]{{1,{WIDEST.most_decimals}}})?"
_DESCRIPTOR = re.compile(r"\[[!-;=?-Z\\^-~]+\]")  # ASCII that is seen, but for angle and square brackets
_ATOM = re.compile(rf"({_DESCRIPTOR.pattern})<({_NUMBER}),({_NUMBER}),({_NUMBER})>")
_LINK = re.compile(r"->|<-(?=\[|%|[0-9(])|%\(\d+\)|%\d\d|[0-9]|[-=#$:~/\\.()]", re.ASCII)
_CARBON_WITH_HYDROGENS = re.compile(r"\[([Cc])H\d*\]", re.ASCII)

Triple = tuple[str, str, str]
Numbers = tuple[Triple, ...]
"""Each atom's x, y and z as written."""


class Enriched(NamedTuple):
    """Enriched text, and the canonical SMILES that it spells."""

    text: str
    smiles: str
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Decoded:
    """What enriched text says: the rebuilt SMILES, the molecule (atoms in text order) and its coordinates."""

    smiles: str
    mol: Chem.Mol
    numbers: Numbers

    @property
    def coordinates(self) -> list[list[float]]:
        return [[float(number) for number in triple] for triple in self.numbers]


def format_number(value: float, form: NumberFormat = FIXED4) -> str:
    """``value`` cut off at the format's decimals in its shortest decimal form: a number that was read from a text is
    written back as it stands."""
    if not abs(value) < form.most_ang:
        fix = "Centre the molecule, or allow more digits or a wider range in the number format"
        raise ConformerError(f"a coordinate is {value:g}, and the number format ends at {form.most_ang:g}", fix)
    if isinstance(form, BinFormat):
        return form.number_of(value)
    if isinstance(form, CodeFormat):
        raise ConformerError("codes are written by an encoder, which is no part of this", "Give decimals, or bins")
    cut = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-form.most_decimals), rounding=ROUND_DOWN)
    text = f"{abs(cut) if cut == 0 else cut:f}"
    whole, decimals = text.split(".")
    kept = decimals[: form.least_decimals] + decimals[form.least_decimals :].rstrip("0")
    return f"{whole}.{kept}" if kept else whole


def truncated_number(value: float, form: NumberFormat = FIXED4) -> str:
    """A coordinate as the group's encoder writes it: truncated in floats, so 8.54 is 8.5399 (85,399.99... units)."""
    if not isinstance(form, BinFormat) and abs(value) < form.most_ang:
        units = 10**form.most_decimals
        value = math.trunc(value * units) / units
    return format_number(value, form)


def encode(mol: Chem.Mol, form: NumberFormat = FIXED4, *, conformer: int = -1) -> Enriched:
    """Enriched text of a sanitised molecule with a conformer. Hydrogens that SMILES leaves implicit are dropped. What
    was decoded from a text is not truncated again."""
    if mol.GetNumAtoms() == 0 or any(atom.GetAtomicNum() == 0 for atom in mol.GetAtoms()):
        raise UnsupportedMoleculeError("the molecule has no atoms or wildcard atoms", "Replace them by real ones")
    with captured_log():
        heavy = Chem.RemoveHs(mol)
    smiles, order = canonical_order(heavy)
    descriptors = enriched_descriptors(smiles)
    chosen = heavy.GetConformer(conformer)
    if not chosen.Is3D():
        raise ConformerError("the coordinates are a flat drawing (2D)", "Embed the molecule, or read it from a 3D file")
    write = partial(format_number if mol.HasProp(AS_WRITTEN) else truncated_number, form=form)
    rows = chosen.GetPositions()[order].tolist()
    numbers = tuple((write(x), write(y), write(z)) for x, y, z in rows)
    return Enriched(enriched_text(smiles, descriptors, numbers, form), smiles, numbers)


def enriched_text(smiles: str, descriptors: tuple[str, ...], numbers: Numbers, form: NumberFormat = FIXED4) -> str:
    """The SMILES with each atom replaced by its descriptor and its block."""
    return fill_blocks(smiles, descriptors, [form.comma.join(triple) for triple in numbers], form)


def fill_blocks(smiles: str, descriptors: tuple[str, ...], contents: Sequence[str], form: NumberFormat = FIXED4) -> str:
    """The SMILES with each atom replaced by its descriptor and ``<content>``, or ``content;`` of bare bins. Of codes
    each token of it has one, and the contents are as many."""
    blocks = [f"{form.opening}{content}{form.closing}" for content in contents]
    if isinstance(form, CodeFormat):
        return "".join(map("".join, zip(tokens_of(smiles, descriptors), blocks, strict=True)))
    atoms = iter(zip(descriptors, blocks, strict=True))
    return "".join("".join(next(atoms)) if piece.is_atom else piece.text for piece in split_smiles(smiles))


def tokens_of(smiles: str, descriptors: Sequence[str] | None = None) -> list[str]:
    """What the codes of an answer stand behind: descriptors, bonds, branches and ring digits."""
    atoms = iter(enriched_descriptors(smiles) if descriptors is None else descriptors)
    return [next(atoms) if piece.is_atom else piece.text for piece in split_smiles(smiles)]


def prompt_of(smiles: str) -> str:
    """What a model is shown; its answer follows at once."""
    return f"{SMILES_TAGS[0]}{smiles}{SMILES_TAGS[1]}"


def skeleton_of(molecule: Molecule, content: str = "", form: NumberFormat = FIXED4) -> str:
    """The molecule's enriched text with the same content in every block: what templates are made of."""
    blocks = len(split_smiles(molecule.smiles)) if isinstance(form, CodeFormat) else molecule.atoms
    return fill_blocks(molecule.smiles, molecule.descriptors, [content] * blocks, form)


def described(molecule: Molecule, descriptors: Descriptors) -> Molecule:
    """The molecule with its descriptors written so: ``CO`` has ``[C]`` ``[O]``, or ``[C]`` ``[OH]``.

    With hydrogens, ``[CH2]`` and ``[cH]`` without isotope, charge or ``@`` are ``[C]`` and ``[c]``: that is how the
    reports' LPs wrote their templates, and the text is then of another molecule.
    """
    if descriptors == "plain":
        return molecule
    written = []
    for descriptor, atom in zip(molecule.descriptors, molecule.mol.GetAtoms(), strict=True):
        hydrogens = atom.GetTotalNumHs()
        bare = bare_form(descriptor)
        if bare == descriptor:
            written.append(_CARBON_WITH_HYDROGENS.sub(r"[\1]", descriptor))
        elif hydrogens == 0 or bare in "Cc":
            written.append(f"[{bare}]")
        else:
            written.append(f"[{bare}H]" if hydrogens == 1 else f"[{bare}H{hydrogens}]")
    return replace(molecule, descriptors=tuple(written))


def changed_carbon(molecule: Molecule) -> bool:
    """Whether its descriptors with hydrogens are of another molecule: a ``[CH2]`` became ``[C]``."""
    plain = molecule.descriptors == enriched_descriptors(molecule.smiles)
    return not plain and _CARBON_WITH_HYDROGENS.search(molecule.smiles) is not None


def segments_of(smiles: str, descriptors: Sequence[str] | None = None, form: NumberFormat = FIXED4) -> Iterator[str]:
    """What is before the first number, between the blocks and after the last number, with the answer's tags. Of codes,
    which have their brackets themselves, what each stands behind."""
    if isinstance(form, CodeFormat):
        first, *rest = tokens_of(smiles, descriptors)
        yield from (OPEN_TAG + first, *rest, CLOSE_TAG)
        return
    text, given = OPEN_TAG, iter(enriched_descriptors(smiles) if descriptors is None else descriptors)
    for piece in split_smiles(smiles):
        if piece.is_atom:
            yield text + next(given) + form.opening
            text = form.closing
        else:
            text += piece.text
    yield text + CLOSE_TAG


def decode(text: str) -> Decoded:
    """The molecule and conformer of enriched text, tags and surrounding white space allowed."""
    if len(text) > MOST_CHARACTERS:
        raise EnrichedError(f"{len(text):,} characters, the limit is {MOST_CHARACTERS:,}")
    body = text.strip().removesuffix(CLOSE_TAG).rstrip()
    end = len(text) - len(text.lstrip()) + len(body)
    position = end - len(body.removeprefix(OPEN_TAG).lstrip())
    if position == end:
        raise EnrichedError("there is nothing in it")
    if bin_digits(text):
        raise EnrichedError(OTHER_WORDS["binned"])
    if body == WITHOUT_DECODER:
        raise EnrichedError(NO_PLACES)
    smiles, starts = "", list[int]()  # of the atoms in it
    numbers: list[Triple] = []
    while position < end:
        if match := _ATOM.match(text, position, end):
            atom, x, y, z = match.groups()
            starts.append(len(smiles))
            smiles += bare_form(atom)
            numbers.append((x, y, z))
        elif match := _LINK.match(text, position, end):
            smiles += match.group()
        else:
            raise _damage(text[:end], position, len(numbers))
        position = match.end()
    if len(numbers) > MOST_ATOMS:
        raise MoleculeSizeError(f"the text has {len(numbers):,} atoms, the limit is {MOST_ATOMS:,}")
    try:
        mol = Chem.Mol(_read_once(smiles))
    except SmilesError as error:
        block = starts.index(error.position) if error.position in starts else None
        raise EnrichedError(f"its SMILES is not a molecule: {error.reason}", block=block, text=smiles) from error
    for atom in mol.GetAtoms():
        if atom.GetAtomicNum() == 0:
            raise EnrichedError("the atom is a wildcard, which has no 3D structure", block=atom.GetIdx())
    return _placed(smiles, mol, numbers)


def _placed(smiles: str, mol: Chem.Mol, numbers: Sequence[Triple]) -> Decoded:
    add_conformer(mol, [[float(number) for number in triple] for triple in numbers])
    mol.SetProp(AS_WRITTEN, "1")
    return Decoded(smiles, mol, tuple(numbers))


_read_once = lru_cache(maxsize=256)(read_text_order)
"""Many texts are of one molecule; give copies away."""


def _damage(text: str, position: int, block: int) -> EnrichedError:
    """What is at a place where neither an atom with its block nor a link does; the text's form where it is another."""
    if (form := other_form(text)) is not None:
        return EnrichedError(OTHER_WORDS[form])
    if text.startswith(DAMAGED, position):
        return EnrichedError(text[position:].partition("[")[0])
    match = _DESCRIPTOR.match(text, position)
    if match is None:
        reason = f"{shown(text[position])} begins no atom in brackets, bond, branch or ring digit"
        return EnrichedError(reason, position=position, text=text[position : position + 12])
    opening = match.end()
    content, closed, _ = text[opening + 1 :].partition(">")
    reason, excerpt = why_not_a_triple(content) or "", f"<{content}>"
    if not text.startswith("<", opening):
        reason, excerpt = f"atom {shown(match.group())} has no block", text[position:]
    elif not closed or "[" in content.rpartition("<")[0]:  # a "<" that no atom precedes is in the block
        reason, excerpt = "the block is not closed by '>'", content
    return EnrichedError(reason, block=block, position=opening, text=excerpt)


def why_not_a_triple(content: str) -> str | None:
    """Why a block's content is not three numbers; None when it is."""
    numbers = content.split(",")
    if len(numbers) != 3:
        return f"{len(numbers)} numbers instead of three"
    wrong = (
        f"{axis} is {shown(number)}, which is no number"
        for axis, number in zip("xyz", numbers, strict=True)
        if not re.fullmatch(_NUMBER, number)
    )
    return next(wrong, None)


# --- bins -----------------------------------------------------------------------------------------------------------

_SERIALIZATION = "[SERIALIZATION]"
_BARE_BLOCK = re.compile(rf"(?P<none>{NO_ATOM})|({BARE_ATOM})([0-9]*)(;?)", re.DOTALL)
_BLOCK_IN_BRACKETS = re.compile(rf"(?P<none>{NO_ATOM})|({BARE_ATOM})<([^>]*)>", re.DOTALL)


def as_decimals(text: str, form: NumberFormat, reader: ReaderName = "strict", *, keep: bool = False) -> str:
    """Binned text with the middles of its bins in their place, as every reader takes it; any other text as it is.

    Of bare bins the strict reader wants three numbers and ``;`` behind each atom. The group's drops every ``;`` and
    takes so many digits behind a descriptor; what is left of them are ring digits. Without so many it stops. Of bins in
    brackets both want three numbers. ``keep``: what is refused becomes ``<128130>``, which no reader of decimals takes,
    and is no error.
    """
    if isinstance(form, CodeFormat):
        return places_text(text, form, keep=keep)
    if not isinstance(form, BinFormat):
        return text
    atoms = count()

    def in_brackets(match: re.Match[str]) -> str:
        if match["none"] is not None:
            return match["none"]
        _, descriptor, content = match.groups()
        atom = next(atoms)
        if keep and not _are_bins(content.split(","), form):
            return f"{descriptor}<{content.replace(',', '')}>"
        return descriptor + _middles(content.split(","), form, atom)

    def decimals(match: re.Match[str]) -> str:
        if (other := match["none"]) is not None:
            return "" if other.startswith(_SERIALIZATION) else other
        _, descriptor, digits, semicolon = match.groups()
        atom, most = next(atoms), 3 * form.digits
        is_whole = bool(semicolon and len(digits) == most) if reader == "strict" else len(digits) >= most
        if keep and not (is_whole and _are_bins(_cut(digits[:most], form.digits), form)):
            return f"{descriptor}<{digits}>"
        if not is_whole:
            wanted = f"{most} digits{' and a semicolon' if reader == 'strict' else ''}"
            raise EnrichedError(
                f"atom {shown(descriptor)} is not followed by {wanted}", block=atom, text=digits + semicolon
            )
        return descriptor + _middles(_cut(digits[:most], form.digits), form, atom) + digits[most:]

    if not form.is_bare:
        return _BLOCK_IN_BRACKETS.sub(in_brackets, text)
    given = text if reader == "strict" else text.replace(";", "")
    return _BARE_BLOCK.sub(decimals, given)


def _cut(digits: str, width: int) -> list[str]:
    return [digits[start : start + width] for start in range(0, len(digits), width)]


def _are_bins(numbers: Sequence[str], form: BinFormat) -> bool:
    return len(numbers) == 3 and None not in map(form.index_of, numbers)


def _middles(numbers: Sequence[str], form: BinFormat, atom: int | None = None) -> str:
    values = [form.value_ang(number) for number in numbers]
    if not _are_bins(numbers, form):
        raise EnrichedError(f"a number is not one of {form.words}", block=atom, text=form.write(numbers))
    return f"<{','.join(format_number(round(value or 0.0, 9), WIDEST) for value in values)}>"


# --- the group's decoder ------------------------------------------------------------------------------------------

BAD_TRIPLET, BAD_FLOAT = "Bad coord triplet", "Bad float token"
MISREAD_ANG = 0.01
"""A position that is farther than this from what the text states is misread."""
_ROUNDING = 1e-9

_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")  # not ASCII alone: other scripts' digits count
_PLAIN = re.compile(r"-?\d+(?:\.\d*)?", re.ASCII)  # a cut number too, which ends in its point
_NO_PIECE = "the group's reader finds no atom with its block, bond, branch or ring digit"
_OPEN = re.compile(r"\[[^\]]+\]<")
_PIECE = re.compile(r"(\[[^\]]+\])<([^>]*)>|%\d{2,}|->|<-|[-=#:/\\().]|\d")


def split_as_group(answer: str, form: NumberFormat = FIXED4) -> tuple[str, list[str]]:
    """The SMILES and the contents of the blocks that the decoder finds in an answer without its tags; of bins in
    decimals."""
    answer = as_decimals(answer, form, "group")
    smiles = ""
    contents = list[str]()
    position = 0
    while position < len(answer):
        match = _PIECE.match(answer, position)
        if match is None:
            is_open = _OPEN.match(answer, position) is not None
            reason = "the block is not closed by '>'" if is_open else _NO_PIECE
            raise EnrichedError(reason, block=len(contents), position=position, text=answer[position : position + 12])
        if (descriptor := match.group(1)) is None:
            smiles += match.group()
        else:
            smiles += bare_form(descriptor)
            contents.append(match.group(2))
        position = match.end()
    return smiles, contents


def why_not_taken(content: str, form: NumberFormat = FIXED4) -> str | None:
    """The error with which the group's decoder refuses a block's content; None where it takes it. Of bins in brackets
    only three numbers of bins are taken: how it reads others is not known."""
    parts = content.split(",")
    if len(parts) != 3:
        return BAD_TRIPLET
    if isinstance(form, BinFormat):
        return None if _are_bins(parts, form) else BAD_FLOAT
    return None if all(_FLOAT.search(part) for part in parts) else BAD_FLOAT


def numbers_taken(content: str, block: int | None = None) -> Triple:
    """What the decoder takes for x, y and z: of each part the last number."""
    if problem := why_not_taken(content):
        raise EnrichedError(problem, block=block, text=f"<{content}>")
    x, y, z = (_FLOAT.findall(part)[-1] for part in content.split(","))
    return x, y, z


def misread_ang(content: str, stated: Sequence[float | None], form: NumberFormat = FIXED4) -> float | None:
    """How far the decoder puts the atom of this block from ``stated``, the numbers that it states; None if it does not,
    or if the numbers are those of bins.

    Where not all three can be told: NaN if the decoder took a part for a number that is none.
    """
    if isinstance(form, BinFormat) or why_not_taken(content) is not None:
        return None
    numbers = [number for number in stated if number is not None]
    if len(numbers) < len(stated):
        return None if all(_PLAIN.fullmatch(part) for part in content.split(",")) else math.nan
    ang = math.dist(tuple(map(float, numbers_taken(content))), numbers)
    return ang if ang > MISREAD_ANG + _ROUNDING else None


def decode_parts(smiles: str, contents: Sequence[str]) -> Decoded:
    """The molecule and conformer that the decoder makes of a SMILES and its blocks' contents."""
    numbers = [numbers_taken(content, block) for block, content in enumerate(contents)]
    try:
        mol = read_text_order(smiles)
    except SmilesError as error:
        raise EnrichedError(f"its SMILES is not a molecule: {error.reason}", text=smiles) from error
    if mol.GetNumAtoms() != len(numbers):
        raise EnrichedError(f"{mol.GetNumAtoms()} atoms but {len(numbers)} blocks", text=smiles)
    return _placed(smiles, mol, numbers)
