"""The group's decoder of enriched text, as its runner (from v3.9 on) and its inference use it.

It splits a block at commas, wants three parts, and takes of each part the *last* thing that reads as a number. So it
takes blocks that hold junk, and ``-0.2623(cc6`` becomes 6.0: a position that the text does not state, and that nobody
is told of. ``engine.chem.enriched`` takes nothing for a number that is none. What this module does not know: where the
blocks of a text stand (``engine.text.blocks``), and what a sample needs besides to decode (``engine.text.check``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from engine.chem.enriched import Decoded
from engine.chem.frame import add_conformer
from engine.chem.smiles import read_text_order
from engine.errors import EnrichedError, SmilesError

BAD_TRIPLET, BAD_FLOAT = "Bad coord triplet", "Bad float token"
MISREAD_ANG = 0.01
"""A position that is farther than this from what the text states is misread."""
_ROUNDING = 1e-9

_FLOAT = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?")  # not ASCII alone: other scripts' digits count
_PLAIN = re.compile(r"-?\d+(?:\.\d*)?", re.ASCII)  # a cut number too, which ends in its point

Numbers = tuple[str, str, str]


def why_not_taken(content: str) -> str | None:
    """The error with which the group's decoder refuses a block's content; None where it takes it."""
    parts = content.split(",")
    if len(parts) != 3:
        return BAD_TRIPLET
    return None if all(_FLOAT.search(part) for part in parts) else BAD_FLOAT


def numbers_taken(content: str, block: int | None = None) -> Numbers:
    """What the decoder takes for x, y and z: of each part the last number."""
    if problem := why_not_taken(content):
        raise EnrichedError(problem, block=block, text=f"<{content}>")
    x, y, z = (_FLOAT.findall(part)[-1] for part in content.split(","))
    return x, y, z


def misread_ang(content: str, stated: Sequence[float | None]) -> float | None:
    """How far the decoder puts the atom of this block from ``stated``, the numbers that it states; None if it does not.

    Where not all three can be told: NaN if the decoder took a part for a number that is none.
    """
    if why_not_taken(content) is not None:
        return None
    known = [number for number in stated if number is not None]
    if len(known) < len(stated):
        return None if all(_PLAIN.fullmatch(part) for part in content.split(",")) else math.nan
    ang = math.dist(tuple(map(float, numbers_taken(content))), known)
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
    add_conformer(mol, [list(map(float, triple)) for triple in numbers])
    return Decoded(smiles, mol, tuple(numbers))
