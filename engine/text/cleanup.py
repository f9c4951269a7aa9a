"""The reports' third solution: strip what follows the numbers of a block, after generation.

It never invents a number. A block is mended only where three complete numbers stand before the junk; digits on both
sides of junk are not joined, and a missing number stays missing. What a cut took away does not come back.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.records import NumberFormat
from engine.text.blocks import READ_FORMAT, find_blocks, read_block


@dataclass(frozen=True, slots=True)
class CleanedText:
    """The text after cleanup, the blocks that were mended, and those that could not be."""

    text: str
    mended: tuple[int, ...]
    left: tuple[int, ...]


def clean_up(text: str, form: NumberFormat = READ_FORMAT) -> CleanedText:
    """The text with trailing junk stripped from every block that has three complete numbers before it."""
    parts: list[str] = []
    mended: list[int] = []
    left: list[int] = []
    position = 0
    for index, block in enumerate(find_blocks(text)):
        reading = read_block(block.content, form=form)
        if reading.is_clean_triple:
            continue
        before_junk = reading.content[: reading.junk_start]
        follows_triple = read_block(before_junk, form=form).is_clean_triple
        if not (follows_triple and block.closed):
            left.append(index)
            continue
        parts.append(text[position : block.start] + f"<{before_junk}>")
        position = block.end
        mended.append(index)
    return CleanedText("".join(parts) + text[position:], tuple(mended), tuple(left))
