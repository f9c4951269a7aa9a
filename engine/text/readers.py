"""The two readers of a generated answer: ours, which is strict, and the group's, which takes the last number of a part.

Of text without damage both make the same molecule. Of damaged text ours makes none, and the group's often makes one
with atoms where the text does not put them.
"""

from __future__ import annotations

import numpy as np

from engine.chem.enriched import MOST_ATOMS, MOST_CHARACTERS, Decoded, decode
from engine.chem.group_reader import decode_parts
from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.errors import EnrichedError
from engine.records import ReaderName
from engine.text.blocks import find_blocks
from engine.text.check import answer_of, extract_smiles


def decode_with(reader: ReaderName, text: str) -> Decoded:
    """The molecule and conformer that a reader makes of an answer; EnrichedError where it is none, or not finite."""
    if reader == "strict":
        return decode(text)
    if (form := other_form(answer_of(text))) is not None:
        raise EnrichedError(OTHER_WORDS[form])
    decoded = decode_as_group(text)
    block = next((index for index, xyz in enumerate(decoded.coordinates) if not np.isfinite(xyz).all()), None)
    if block is not None:
        raise EnrichedError("a coordinate is not finite", block=block, text=",".join(decoded.numbers[block]))
    return decoded


def decode_as_group(text: str) -> Decoded:
    """The molecule and conformer that the group's decoder makes of an answer, with or without its tags; EnrichedError
    also where it is longer than the strict reader takes: RDKit would need gigabytes."""
    answer = answer_of(text)
    if len(answer) > MOST_CHARACTERS:
        raise EnrichedError(f"{len(answer):,} characters, the limit is {MOST_CHARACTERS:,}")
    blocks = find_blocks(answer)
    if len(blocks) > MOST_ATOMS:
        raise EnrichedError(f"{len(blocks):,} blocks, the limit is {MOST_ATOMS:,}")
    never_closed = next((index for index, block in enumerate(blocks) if not block.closed), None)
    if never_closed is not None:
        raise EnrichedError("the block is not closed by '>'", block=never_closed, text=blocks[never_closed].content)
    if not blocks:
        raise EnrichedError("there is no block in it", text=answer)
    return decode_parts(extract_smiles(answer), [block.content for block in blocks])
