"""An answer: its check, the molecule that either reader makes of it, and its cleanup.

The reports strip the blocks, read the SMILES that is left and compare it with the prompt's; a block full of junk
passes. Their runner, from v3.9 on, also wants its decoder to take every block (``engine.chem.enriched``): that stops at
what holds no number, and takes most junk. It does not ask for coordinates that are not all zero, which is ours, so that
an answer may decode and not pass. ``clean`` looks into the blocks.

There are two readers: ours, which is strict, and the group's. Of text without damage both make the same molecule. Of
damaged text ours makes none, and the group's often makes one with atoms where the text does not put them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice

import numpy as np
from rdkit import Chem

from engine.chem import enriched
from engine.chem.enriched import (
    CLOSE_TAG,
    NEXT_CONFORMER,
    OPEN_TAG,
    Decoded,
    as_decimals,
    decode,
    decode_parts,
    described,
    skeleton_of,
    split_as_group,
    why_not_taken,
)
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_CHARACTERS as MOST_SMILES
from engine.chem.smiles import bare_form, read_text_order, same_graph
from engine.errors import DriftscopeError, EnrichedError, MoleculeSizeError, SmilesError, shown
from engine.figures.words import counted
from engine.records import DESCRIPTORS, BinFormat, Check, CodeFormat, Descriptors, Molecule, NumberFormat, ReaderName
from engine.text.blocks import (
    MOST_CONFORMERS,
    PROMPT,
    READ_FORMAT,
    SOUND,
    SPECIAL_TOKEN,
    BlockReading,
    FoundBlock,
    find_blocks,
    read_block,
    read_blocks,
)

NO_CONFORMER = "no conformer in the answer"
NO_BINS = "decimals in brackets (<x,y,z>), where the numbers are those of bins"
NOT_CLOSED = "conformer not closed"
NOT_PARSED = "generated conformer cannot be parsed"
MISMATCH = "generated conformer <> prompt SMILES mismatch"
NO_COORDINATES = "no real coordinates"

_DESCRIPTOR = re.compile(r"\[[^\[\]]*\]")
_UNKNOWN_TOKEN = re.compile(r"<\|?unk\|?>|\[UNK\]", re.IGNORECASE)
_OPENING = re.compile(re.escape(OPEN_TAG))
_BETWEEN = re.compile(rf"{re.escape(CLOSE_TAG)}\s*{re.escape(OPEN_TAG)}")  # two conformers
_SERIALIZATION = re.compile(r"\[SERIALIZATION\].*?\[/SERIALIZATION\]", re.DOTALL)
_PADDING = re.compile(rf"\A(?:\s*{SPECIAL_TOKEN.pattern})+")


@dataclass(frozen=True, slots=True)
class Answer:
    """Where a decoded text has its answer: behind its prompt and the examples before that, up to a further prompt or an
    end token, behind which there is only padding."""

    text: str  # all of it
    start: int
    end: int
    bodies: tuple[tuple[int, int], ...]  # of each conformer: what its tags enclose; without tags there is one
    unclosed: frozenset[int]  # of these by index: opened, and not closed
    further: str | None  # the SMILES of a prompt that comes in the answer

    @property
    def conformers(self) -> list[str]:
        return [self.text[start:end].strip() for start, end in self.bodies]

    @property
    def judged(self) -> str:
        """All conformers one behind the other, without the first and the last tag: what `judge_answer` takes."""
        return NEXT_CONFORMER.join(self.conformers)

    @property
    def prompted(self) -> str:
        """The SMILES of the prompt right before it; empty where there is none."""
        prompts = list(PROMPT.finditer(self.text, 0, self.start))
        return prompts[-1][1].strip() if prompts else ""


def find_answer(text: str, asked: Molecule | None = None) -> Answer:
    """The answer to the prompt of ``asked``; where that is not known, to the last prompt that a conformer follows."""
    start = answer_start(text, asked)
    further = PROMPT.search(text, start)
    end = further.start() if further else len(text)
    openings = [match.span() for match in islice(_OPENING.finditer(text, start, end), MOST_CONFORMERS)]
    if not openings:
        padding = _PADDING.match(text[start:end])
        openings = [(start, start + (padding.end() if padding else 0))]
    special = SPECIAL_TOKEN.search(text, openings[0][1], end)
    stop = special.start() if special else end
    bodies, unclosed = list[tuple[int, int]](), set[int]()
    for index, (opening, begin) in enumerate(openings):
        if begin <= stop:
            is_last = index + 1 == len(openings)
            close = text.find(CLOSE_TAG, begin, end if is_last else openings[index + 1][0])
            behind = stop if is_last else min(stop, openings[index + 1][0])
            bodies.append((begin, min(close, behind) if close >= 0 else behind))
            if close < 0 and text.startswith(OPEN_TAG, opening):
                unclosed.add(index)
    return Answer(text, start, stop, tuple(bodies), frozenset(unclosed), further and further[1].strip())


def answer_start(text: str, asked: Molecule | None) -> int:
    """Behind its prompt; 0 where it has none, or begins with its answer."""
    prompts = list(PROMPT.finditer(text))
    if not prompts or find_blocks(before := text[: prompts[0].start()]) or OPEN_TAG in before:
        return 0
    if asked is None:
        last = text.rfind(OPEN_TAG)
        return next((prompt.end() for prompt in reversed(prompts) if prompt.end() <= last), prompts[0].end())
    smiles = [prompt[1].strip() for prompt in prompts]
    is_asked = {written: _is_of(written, asked) for written in set(smiles)}
    at = max((index for index, written in enumerate(smiles) if is_asked[written]), default=0)
    while at and is_asked[smiles[at - 1]]:  # a model may repeat its prompt behind its answer
        at -= 1
    return prompts[at].end()


def answer_of(text: str) -> str:
    """The first conformer of the answer: what is left of a decoded text without prompt, tags and padding."""
    return find_answer(text).conformers[0]


def shown_descriptors(molecule: Molecule, text: str, form: NumberFormat = READ_FORMAT) -> Descriptors | None:
    """How an answer of this molecule, given with plain descriptors, writes bare heteroatoms that have hydrogens; None
    where it does not tell: the molecule has none, or the answer is not atom by atom the molecule."""
    written = without_blocks(answer_of(text), form)
    matching = [kind for kind, skeleton in _skeletons(molecule).items() if written == skeleton] if written else []
    return matching[0] if len(matching) == 1 else None


@lru_cache(64)
def _skeletons(molecule: Molecule) -> dict[Descriptors, str]:
    """By descriptors, its answer without blocks; of one that does not read none. Its answers come one after another."""
    kinds = DESCRIPTORS if molecule.atoms else ()
    return {kind: without_blocks(skeleton_of(described(molecule, kind))) for kind in kinds}


def without_blocks(answer: str, form: NumberFormat = READ_FORMAT) -> str:
    blocks = find_blocks(answer, form)
    starts, ends = [0, *(block.end for block in blocks)], [*(block.start for block in blocks), len(answer)]
    return "".join(answer[start:end] for start, end in zip(starts, ends, strict=True))


def extract_smiles(answer: str, form: NumberFormat = READ_FORMAT) -> str:
    """The SMILES that an answer spells: its blocks removed, wrapped atoms bare again. Where the group's reader reads
    the answer to its end, it says what a block is: a ``<`` may be within one."""
    with suppress(EnrichedError):
        if not isinstance(form, CodeFormat):
            return split_as_group(answer, form)[0]
    return _DESCRIPTOR.sub(lambda match: bare_form(match.group()), _SERIALIZATION.sub("", without_blocks(answer, form)))


def check_sample(
    text: str,
    prompt: Molecule,
    *,
    lp: str = "none",
    readings: Sequence[BlockReading] | None = None,
    form: NumberFormat = READ_FORMAT,
) -> Check:
    """Check one answer (with or without its prompt and tags) against the molecule that was asked for. Of several
    conformers each is checked, and the worst counts.

    ``readings`` are the blocks' readings where an alignment has made better ones than the text alone gives. Those by an
    LP's positions need not be as many as the text's blocks; then there is one conformer.
    """
    answer, found = find_answer(text, prompt), find_blocks(text, form)
    starts = [block.start for block in found]  # a missing block may start where its conformer ends
    inside = [slice(bisect_left(starts, start), bisect_right(starts, end)) for start, end in answer.bodies]
    if readings is None or (len(readings) != len(found) and len(inside) > 1):
        readings = read_blocks(found, form=form, lp=lp)
    of_each = [readings[part] for part in inside] if len(readings) == len(found) else [readings]
    name = "conformer {}: " if len(inside) > 1 else ""
    parts = [
        _check_conformer(text, name.format(number + 1), found[part], readings, prompt, form, number in answer.unclosed)
        for number, (text, part, readings) in enumerate(zip(answer.conformers, inside, of_each, strict=True))
    ]
    whole = _worst(parts)
    rest = tuple(_around(answer, starts, sum(part.stop - part.start for part in inside)))
    whole = replace(whole, why_not_clean=(*whole.why_not_clean, *rest))
    is_other = asks_for_another(answer, prompt) or _UNKNOWN_TOKEN.search(text, answer.start) is not None
    if is_other or rest:  # then no conformer of it is clean
        whole = replace(whole, decodes=whole.decodes and not is_other, clean=False, clean_each=(False,) * len(parts))
    return whole


def _around(answer: Answer, starts: Sequence[int], inside: int) -> Iterator[str]:
    """What the answer has besides its conformers, of which the blocks are ``inside``."""
    outside = bisect_right(starts, answer.end) - bisect_left(starts, answer.start) - inside
    if answer.further is not None:
        yield f"another prompt in the answer: {shown(answer.further)}"
    elif outside:
        yield f"{counted(outside, 'block')} outside of the conformer's tags"


def _worst(parts: Sequence[Check]) -> Check:
    """Of several conformers what is true of all; their molecule is that of the one that is farthest from a SMILES."""
    farthest = min(parts, key=lambda part: (part.parsed, part.same_graph, part.exact_match))
    return replace(
        farthest,
        passed=all(part.passed for part in parts),
        decodes=all(part.decodes for part in parts),
        clean=all(part.clean for part in parts),
        issues=tuple(issue for part in parts for issue in part.issues),
        has_real_coordinates=all(part.has_real_coordinates for part in parts),
        blocks=sum(part.blocks for part in parts),
        unverified_blocks=sum(part.unverified_blocks for part in parts),
        conformers=len(parts),
        passed_each=tuple(part.passed for part in parts),
        clean_each=tuple(part.clean for part in parts),
        why_not_clean=tuple(damage for part in parts for damage in part.why_not_clean),
    )


def _check_conformer(
    text: str,
    name: str,
    blocks: Sequence[FoundBlock],
    readings: Sequence[BlockReading],
    prompt: Molecule,
    form: NumberFormat,
    is_unclosed: bool,
) -> Check:
    """One of the answer's conformers; what is wrong with it begins with its ``name``."""
    extracted = extract_smiles(text, form)
    mol, parse_error = _parse(extracted)
    is_same = mol is not None and same_graph(mol, prompt.mol)
    has_real = _has_real_coordinates(readings, form)
    nothing = _without_blocks(text, form)
    issues = _issues(nothing, blocks, mol, is_same, has_real, is_unclosed)
    takes_it = set(issues) <= {NO_COORDINATES} and _group_takes(text, mol, form, readings)
    other = None if isinstance(form, BinFormat | CodeFormat) else other_form(text)
    if other is not None:
        of_form = {NO_COORDINATES} if other in ("legacy", "binned") else set(issues)  # of the others nothing is read
        issues = [OTHER_WORDS[other], *(issue for issue in issues if issue not in of_form)]
    damages = [] if other is not None else list(_damages(text, blocks, readings, prompt.atoms, form))
    return Check(
        passed=not issues,
        decodes=takes_it,
        clean=takes_it and not issues and not damages,
        issues=tuple(f"{name}{issue}" for issue in issues),
        parsed=mol is not None,
        parse_error=parse_error,
        same_graph=is_same,
        exact_match=extracted == prompt.smiles,
        extracted_smiles=extracted,
        generated_smiles=None if mol is None else Chem.MolToSmiles(Chem.RemoveHs(mol)),
        has_real_coordinates=has_real,
        blocks=len(readings),
        unverified_blocks=sum("unverified" in reading.kinds for reading in readings),
        why_not_clean=tuple(f"{name}{damage}" for damage in damages),
    )


def _without_blocks(text: str, form: NumberFormat) -> str:
    return NO_BINS if isinstance(form, BinFormat) and find_blocks(text) else NO_CONFORMER


def _issues(
    nothing: str, blocks: Sequence[FoundBlock], mol: Chem.Mol | None, is_same: bool, has_real: bool, is_unclosed: bool
) -> list[str]:
    """``nothing`` is that of a text without blocks."""
    if not blocks:
        return [nothing]
    applies = {
        NOT_CLOSED: is_unclosed,
        NOT_PARSED: mol is None,
        MISMATCH: mol is not None and not is_same,
        NO_COORDINATES: not has_real,
    }
    return [issue for issue, is_so in applies.items() if is_so]


def _group_takes(answer: str, mol: Chem.Mol | None, form: NumberFormat, readings: Sequence[BlockReading]) -> bool:
    """Whether the group's decoder takes all of it; ``mol`` is what its SMILES gives. A decoder of codes needs all."""
    if isinstance(form, CodeFormat):
        return mol is not None and all(reading.is_clean_triple for reading in readings)
    try:
        _, contents = split_as_group(answer, form)
    except EnrichedError:
        return False
    has_all = mol is not None and mol.GetNumAtoms() == len(contents)
    return has_all and all(why_not_taken(content) is None for content in contents)


def _damages(
    text: str, found: Sequence[FoundBlock], readings: Sequence[BlockReading], atoms: int, form: NumberFormat
) -> Iterator[str]:
    """Of one conformer, each damaged block, and blocks that are too many or too few."""
    for number, reading in enumerate(readings):
        if not SOUND.issuperset(reading.kinds):
            yield f"block {number} is {', '.join(reading.kinds)}: {shown(reading.content)}"
    of_atoms = len(readings) - sum(not block.is_of_atom for block in found)
    if of_atoms != atoms:
        yield f"{counted(of_atoms, 'block')} for {counted(atoms, 'atom')}"
    if form.closing == ";" and (semicolons := without_blocks(text, form).count(";")):
        yield f"{counted(semicolons, 'semicolon')} too many"


def asks_for_another(answer: Answer, prompt: Molecule) -> bool:
    """Whether the answer's prompt, or one that comes in it, is of another molecule."""
    return any(smiles and not _is_of(smiles, prompt) for smiles in (answer.prompted, answer.further))


def _is_of(smiles: str, prompt: Molecule) -> bool:
    if smiles in (prompt.smiles, prompt.source):
        return True
    mol, _ = _parse(smiles) if prompt.atoms else (None, None)  # what was asked for need not read
    return mol is not None and same_graph(mol, prompt.mol)


def _parse(smiles: str) -> tuple[Chem.Mol | None, str | None]:
    if not smiles:
        return None, "no SMILES is left without the blocks"
    if len(smiles) > MOST_SMILES:
        return None, f"{len(smiles):,} characters are left without the blocks"
    try:
        mol = read_text_order(smiles)
        with captured_log():
            Chem.RemoveHs(mol)  # fails for some with '~' as a bond, which then have no graph to compare
        return mol, None
    except SmilesError as error:
        return None, error.reason
    except Chem.MolSanitizeException as error:
        return None, str(error)
    except MoleculeSizeError as error:
        return None, error.what


def _has_real_coordinates(readings: Sequence[BlockReading], form: NumberFormat) -> bool:
    if isinstance(form, CodeFormat):
        return any(reading.numbers for reading in readings)
    triples = [reading.numbers for reading in readings if len(reading.numbers) == 3]
    if len(readings) == 1 or isinstance(form, BinFormat):  # no bin is more real than another
        return bool(triples)  # a lone atom belongs at the origin
    return any(float(number) != 0.0 for triple in triples for number in triple)


# --- the two readers ----------------------------------------------------------------------------------------------


def decode_with(reader: ReaderName, text: str, form: NumberFormat = READ_FORMAT) -> Decoded:
    """The molecule and conformer that a reader makes of an answer, of several conformers the first; EnrichedError where
    it is none, or not finite. Of bins it has the middles."""
    text = as_decimals(text, form, reader)
    if reader == "strict":
        return decode(_BETWEEN.split(text, maxsplit=1)[0])
    if (other := other_form(answer_of(text))) is not None:
        raise EnrichedError(OTHER_WORDS[other])
    decoded = decode_as_group(text)
    block = next((index for index, xyz in enumerate(decoded.coordinates) if not np.isfinite(xyz).all()), None)
    if block is not None:
        raise EnrichedError(
            "the group's reader takes it, but a coordinate is not finite",
            block=block,
            text=",".join(decoded.numbers[block]),
        )
    return decoded


def split_conformers(text: str) -> list[str]:
    """The conformers of an answer, each as a text of its own with its tags; the text as it is where there is one."""
    if text.count(OPEN_TAG) < 2:
        return [text]
    conformers = find_answer(text).conformers
    return [text] if len(conformers) < 2 else [f"{OPEN_TAG}{conformer}{CLOSE_TAG}" for conformer in conformers]


def decode_each(reader: ReaderName, text: str, form: NumberFormat = READ_FORMAT) -> list[Decoded | DriftscopeError]:
    """What a reader makes of each conformer of an answer, or why it refuses it."""
    results: list[Decoded | DriftscopeError] = []
    for conformer in split_conformers(text):
        try:
            results.append(decode_with(reader, conformer, form))
        except DriftscopeError as error:
            results.append(error)
    return results


def conformers_of_graph(text: str, mol: Chem.Mol, form: NumberFormat = READ_FORMAT) -> list[Chem.Mol | None]:
    """The conformers of an answer; None for one that does not read strictly, or is of another molecule."""
    mols: list[Chem.Mol | None] = []
    for decoded in decode_each("strict", text, form):
        if isinstance(decoded, DriftscopeError) or not same_graph(decoded.mol, mol):
            mols.append(None)
        else:
            mols.append(decoded.mol)
    return mols


def decode_as_group(text: str) -> Decoded:
    """The molecule and conformer that the group's decoder makes of an answer, with or without its tags; EnrichedError
    also where it is longer than the strict reader takes: RDKit would need gigabytes."""
    answer = answer_of(text)
    if len(answer) > enriched.MOST_CHARACTERS:
        raise EnrichedError(f"{len(answer):,} characters, the limit is {enriched.MOST_CHARACTERS:,}")
    smiles, contents = split_as_group(answer)
    if len(contents) > enriched.MOST_ATOMS:
        raise EnrichedError(f"{len(contents):,} blocks, the limit is {enriched.MOST_ATOMS:,}")
    if not contents:
        raise EnrichedError("there is no block in it", text=answer)
    return decode_parts(smiles, contents)


# --- the reports' third solution ----------------------------------------------------------------------------------


def clean_up(text: str, form: NumberFormat = READ_FORMAT) -> str:
    """The text with trailing junk stripped from every block that has three complete numbers before it.

    It never invents a number: digits on both sides of junk are not joined, and a missing number stays missing. What a
    cut took away does not come back.
    """
    cleaned, position = "", 0
    for block in find_blocks(text, form):
        reading = read_block(block.content, form=form)
        before_junk = block.content[: reading.junk_start]
        if block.closed and not reading.is_clean_triple and read_block(before_junk, form=form).is_clean_triple:
            cleaned += text[position : block.start] + f"{form.opening}{before_junk}{form.closing}"
            position = block.end
    return cleaned + text[position:]
