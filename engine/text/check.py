"""The check of a sample: the reports' issues, ``passed`` by their rule and ``clean`` by ours.

The reports strip the blocks, read the SMILES that is left and compare it with the prompt's; a block full of junk
passes. ``clean`` looks into the blocks too. Whether a conformer is good chemistry is not known here (see
``engine.chem.rmsd``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rdkit import Chem

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG
from engine.chem.smiles import MOST_CHARACTERS, bare_form, read_text_order, same_graph
from engine.errors import MoleculeSizeError, SmilesError
from engine.records import Check, Molecule
from engine.text.blocks import SOUND, SPECIAL_TOKEN, BlockReading, find_blocks, read_block

NO_CONFORMER = "no conformer in the answer"
NOT_CLOSED = "conformer not closed"
NOT_PARSED = "generated conformer cannot be parsed"
MISMATCH = "generated conformer <> prompt SMILES mismatch"
NO_COORDINATES = "no real coordinates"
ISSUES = (NO_CONFORMER, NOT_CLOSED, NOT_PARSED, MISMATCH, NO_COORDINATES)

_DESCRIPTOR = re.compile(r"\[[^\[\]]*\]")
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
    text: str, prompt: Molecule, *, lp: str = "none", readings: Sequence[BlockReading] | None = None
) -> Check:
    """Check one answer (with or without its tags) against the molecule that was asked for.

    ``readings`` are the blocks' readings where an alignment has made better ones than the text alone gives.
    """
    answer = answer_of(text)
    blocks = find_blocks(answer)
    if readings is None:
        readings = [read_block(block.content, lp=lp, closed=block.closed) for block in blocks]
    extracted = extract_smiles(answer)
    mol, parse_error = _parse(extracted)
    is_same = mol is not None and same_graph(mol, prompt.mol)
    has_real = _has_real_coordinates(readings)
    issues = _issues(text, blocks=len(blocks), parsed=mol is not None, is_same=is_same, has_real=has_real)
    is_sound = all(SOUND.issuperset(reading.kinds) for reading in readings)
    return Check(
        passed=not issues,
        clean=not issues and is_sound and len(readings) == prompt.atoms,
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
