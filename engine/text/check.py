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
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from rdkit import Chem

from engine.chem import enriched
from engine.chem.enriched import (
    CLOSE_TAG,
    OPEN_TAG,
    Decoded,
    decode,
    decode_parts,
    prompt_smiles,
    split_as_group,
    why_not_taken,
)
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.chem.rdkit_log import captured_log
from engine.chem.smiles import MOST_CHARACTERS as MOST_SMILES
from engine.chem.smiles import bare_form, read_text_order, same_graph
from engine.errors import EnrichedError, MoleculeSizeError, SmilesError
from engine.records import BinFormat, Check, Molecule, NumberFormat, ReaderName
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
    """The SMILES that an answer spells: its blocks removed, wrapped atoms bare again. Where the group's reader reads
    the answer to its end, it says what a block is: a ``<`` may be within one."""
    with suppress(EnrichedError):
        return split_as_group(answer)[0]
    blocks = find_blocks(answer)
    starts, ends = [0, *(block.end for block in blocks)], [*(block.start for block in blocks), len(answer)]
    without_blocks = "".join(answer[start:end] for start, end in zip(starts, ends, strict=True))
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
    issues: tuple[str, ...] = (NO_CONFORMER,)
    if blocks:
        applies = {
            NOT_CLOSED: OPEN_TAG in text and CLOSE_TAG not in text.partition(OPEN_TAG)[2],
            NOT_PARSED: mol is None,
            MISMATCH: mol is not None and not is_same,
            NO_COORDINATES: not has_real,
        }
        issues = tuple(issue for issue, is_so in applies.items() if is_so)
    other = None if isinstance(form, BinFormat) else other_form(answer)
    if other is not None:
        of_form = {NO_COORDINATES} if other in ("legacy", "binned") else set(issues)  # of the others nothing is read
        issues = (OTHER_WORDS[other], *(issue for issue in issues if issue not in of_form))
    decodes = (
        not {NO_CONFORMER, NOT_CLOSED, NOT_PARSED, MISMATCH}.intersection(issues)
        and _group_takes(answer, mol)
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


def _group_takes(answer: str, mol: Chem.Mol | None) -> bool:
    """Whether the group's decoder takes all of it; ``mol`` is what its SMILES gives."""
    try:
        _, contents = split_as_group(answer)
    except EnrichedError:
        return False
    has_all = mol is not None and mol.GetNumAtoms() == len(contents)
    return has_all and all(why_not_taken(content) is None for content in contents)


def asks_for_another(text: str, prompt: Molecule) -> bool:
    """Whether the text holds the prompt of another molecule."""
    smiles = prompt_smiles(text).strip()
    if smiles in ("", prompt.smiles, prompt.source):
        return False
    mol, _ = _parse(smiles)
    return mol is None or not same_graph(mol, prompt.mol)


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


def _has_real_coordinates(readings: Sequence[BlockReading]) -> bool:
    triples = [reading.numbers for reading in readings if len(reading.numbers) == 3]
    if len(readings) == 1:
        return bool(triples)  # a lone atom belongs at the origin
    return any(float(number) != 0.0 for triple in triples for number in triple)


# --- the two readers ----------------------------------------------------------------------------------------------


def decode_with(reader: ReaderName, text: str) -> Decoded:
    """The molecule and conformer that a reader makes of an answer; EnrichedError where it is none, or not finite."""
    if reader == "strict":
        return decode(text)
    if (form := other_form(answer_of(text))) is not None:
        raise EnrichedError(OTHER_WORDS[form])
    decoded = decode_as_group(text)
    block = next((index for index, xyz in enumerate(decoded.coordinates) if not np.isfinite(xyz).all()), None)
    if block is not None:
        raise EnrichedError(
            "the group's reader takes it, but a coordinate is not finite",
            block=block,
            text=",".join(decoded.numbers[block]),
        )
    return decoded


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
    for block in find_blocks(text):
        reading = read_block(block.content, form=form)
        before_junk = block.content[: reading.junk_start]
        if block.closed and not reading.is_clean_triple and read_block(before_junk, form=form).is_clean_triple:
            cleaned += text[position : block.start] + f"<{before_junk}>"
            position = block.end
    return cleaned + text[position:]
