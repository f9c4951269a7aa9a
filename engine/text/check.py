"""The check of a sample: the issues, ``passed`` by the reports' rule, ``decodes`` by their runner's, ``clean`` by ours.

The reports strip the blocks, read the SMILES that is left and compare it with the prompt's; a block full of junk
passes. Their runner, from v3.9 on, also wants its decoder to take every block (``engine.chem.group_reader``): that
stops at what holds no number, and takes most junk. It does not ask for coordinates that are not all zero, which is
ours, so that an answer may decode and not pass. ``clean`` looks into the blocks. Whether a conformer is good chemistry
is not known here (see ``engine.chem.rmsd``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, prompt_smiles
from engine.chem.group_reader import why_not_taken
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.chem.smiles import MOST_CHARACTERS, bare_form, read_text_order, same_graph
from engine.errors import MoleculeSizeError, SmilesError
from engine.records import BinFormat, Check, Molecule, NumberFormat
from engine.text.blocks import READ_FORMAT, SOUND, SPECIAL_TOKEN, BlockReading, find_blocks, read_block

NO_CONFORMER = "no conformer in the answer"
NOT_CLOSED = "conformer not closed"
NOT_PARSED = "generated conformer cannot be parsed"
MISMATCH = "generated conformer <> prompt SMILES mismatch"
NO_COORDINATES = "no real coordinates"

_DESCRIPTOR = re.compile(r"\[[^\[\]]*\]")
_UNKNOWN_TOKEN = re.compile(r"<\|?unk\|?>|\[UNK\]", re.IGNORECASE)
_PADDING = re.compile(rf"\A(?:\s*{SPECIAL_TOKEN.pattern})+")


def answer_of(text: str) -> str:
    """The answer inside the conformer tags: what is left of a decoded text without prompt, tags and padding."""
    before, opened, behind = text.partition(OPEN_TAG)
    body = behind if opened else _PADDING.sub("", before)
    body = SPECIAL_TOKEN.split(body, maxsplit=1)[0]  # behind an end token there is only padding
    return body.partition(CLOSE_TAG)[0].strip()


def extract_smiles(answer: str) -> str:
    """The SMILES that an answer spells: its blocks removed, wrapped atoms bare again."""
    parts = []
    position = 0
    for block in find_blocks(answer):
        parts.append(answer[position : block.start])
        position = block.end
    without_blocks = "".join(parts) + answer[position:]
    return _DESCRIPTOR.sub(lambda match: bare_form(match.group()), without_blocks)


def check_sample(
    text: str,
    prompt: Molecule,
    *,
    lp: str = "none",
    readings: Sequence[BlockReading] | None = None,
    form: NumberFormat = READ_FORMAT,
) -> Check:
    """Check one answer (with or without its tags) against the molecule that was asked for.

    ``readings`` are the blocks' readings where an alignment has made better ones than the text alone gives.
    """
    answer = answer_of(text)
    blocks = find_blocks(answer)
    if readings is None:
        readings = [read_block(block.content, form=form, lp=lp, closed=block.closed) for block in blocks]
    extracted = extract_smiles(answer)
    mol, parse_error = _parse(extracted)
    is_same = mol is not None and same_graph(mol, prompt.mol)
    has_real = _has_real_coordinates(readings)
    issues = _issues(text, blocks=len(blocks), parsed=mol is not None, is_same=is_same, has_real=has_real)
    other = None if isinstance(form, BinFormat) else other_form(answer)
    if other is not None:
        issues = (OTHER_WORDS[other], *(issue for issue in issues if issue != NO_COORDINATES))
    decodes = (
        not {NO_CONFORMER, NOT_CLOSED, NOT_PARSED, MISMATCH}.intersection(issues)
        and mol is not None
        and mol.GetNumAtoms() == len(blocks)
        and all(block.closed and why_not_taken(block.content) is None for block in blocks)
        and _UNKNOWN_TOKEN.search(text) is None
        and not asks_for_another(text, prompt)
    )
    is_sound = all(SOUND.issuperset(reading.kinds) for reading in readings)
    return Check(
        passed=not issues,
        decodes=decodes,
        clean=decodes and not issues and is_sound and len(readings) == prompt.atoms,
        issues=issues,
        parsed=mol is not None,
        parse_error=parse_error,
        same_graph=is_same,
        exact_match=extracted == prompt.smiles,
        extracted_smiles=extracted,
        generated_smiles=None if mol is None else Chem.MolToSmiles(Chem.RemoveHs(mol)),
        has_real_coordinates=has_real,
        blocks=len(readings),
        unverified_blocks=sum("unverified" in reading.kinds for reading in readings),
    )


def asks_for_another(text: str, prompt: Molecule) -> bool:
    """Whether the text holds the prompt of another molecule."""
    smiles = prompt_smiles(text).strip()
    if smiles in ("", prompt.smiles, prompt.source):
        return False
    mol, _ = _parse(smiles)
    return mol is None or not same_graph(mol, prompt.mol)


def _issues(text: str, *, blocks: int, parsed: bool, is_same: bool, has_real: bool) -> tuple[str, ...]:
    if blocks == 0:
        return (NO_CONFORMER,)
    issues = []
    if OPEN_TAG in text and CLOSE_TAG not in text.partition(OPEN_TAG)[2]:
        issues.append(NOT_CLOSED)
    if not parsed:
        issues.append(NOT_PARSED)
    elif not is_same:
        issues.append(MISMATCH)
    if not has_real:
        issues.append(NO_COORDINATES)
    return tuple(issues)


def _parse(smiles: str) -> tuple[Chem.Mol | None, str | None]:
    if not smiles:
        return None, "no SMILES is left without the blocks"
    if len(smiles) > MOST_CHARACTERS:
        return None, f"{len(smiles):,} characters are left without the blocks"
    try:
        return read_text_order(smiles), None
    except SmilesError as error:
        return None, error.reason
    except MoleculeSizeError as error:
        return None, error.what


def _has_real_coordinates(readings: Sequence[BlockReading]) -> bool:
    triples = [reading.numbers for reading in readings if len(reading.numbers) == 3]
    if len(readings) == 1:
        return bool(triples)  # a lone atom belongs at the origin
    return any(float(number) != 0.0 for triple in triples for number in triple)
