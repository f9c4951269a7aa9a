"""A stored answer realigned with its template, so that its marks agree with the stored kinds of its blocks.

Whether a clean triple was cut depends on the model's masses. They are not stored; the kinds that they led to are.
What a block needed, and its drift, is in its stored row, not in the alignment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.decode.samples import Reader
from engine.errors import DriftscopeError
from engine.inspection.runs import RunFacts, number_format
from engine.lp_records import UNKNOWN_LP
from engine.records import Kind, Molecule
from engine.text.align import Alignment
from engine.text.tokenizers import TextTokenizer

Row = Mapping[str, Any]


def aligned_as_stored(
    run: RunFacts, sample: Row, blocks: Sequence[Row], molecule: Molecule, tokenizer: TextTokenizer
) -> tuple[Alignment | None, str]:
    """The alignment with the stored kinds, or None and why.

    Text without ids is split by the tokenizer. Its positions are not those of the sampled tokens, so a text of a
    position LP is then aligned by structure, as that of an unknown LP.
    """
    written, forced = sample["token_ids"], sample["forced"]
    try:
        if written:
            if None in written:
                raise ValueError("one of them has no id")
            ids = list(written[: tokenizer.text_length(written)])
            flags = (forced or [False] * len(ids))[: len(ids)]
            lp = run.lp_record
        else:
            ids = tokenizer.encode(sample["text"] or "")
            flags = [False] * len(ids)
            lp = UNKNOWN_LP if run.lp_record.closed_by == "lp" else run.lp_record
        reader = Reader(tokenizer, lp.name, run.placeholder, number_format(run))
        alignment = reader.aligned(molecule, ids, flags, {})
    except (DriftscopeError, ValueError) as error:
        return None, f"Its tokens cannot be aligned with the template: {getattr(error, 'what', error)}."
    alignment = with_kinds(alignment, [tuple(row["kinds"] or ()) for row in blocks])
    if not (written and forced):  # the run does not say which tokens were forced
        alignment = replace(alignment, rows=tuple(replace(row, forced=None) for row in alignment.rows))
    return alignment, ""


def with_kinds(alignment: Alignment, kinds: Sequence[tuple[Kind, ...]]) -> Alignment:
    """The alignment with these kinds in place of its own, by block, and the marks of cuts that follow from them: a cut
    is marked at the last FREE token of its block, unless that has another mark."""
    differing = {
        number: stored
        for number, (block, stored) in enumerate(zip(alignment.blocks, kinds, strict=False))
        if stored and stored != block.kinds
    }
    if not differing:
        return alignment
    blocks = (replace(block, kinds=differing.get(n, block.kinds)) for n, block in enumerate(alignment.blocks))
    rows = list(alignment.rows)
    last = {row.text_block: n for n, row in enumerate(rows) if row.pos is not None and row.text_role == "FREE"}
    for n, row in enumerate(rows):
        if row.mark in ("", "cut") and (stored := differing.get(row.text_block)):
            rows[n] = replace(row, mark="cut" if "cut" in stored and n == last.get(row.text_block) else "")
    return replace(alignment, rows=tuple(rows), blocks=tuple(blocks))
