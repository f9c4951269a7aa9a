"""Drift of single coordinates: FREE positions that the placeholder has for an axis minus tokens that its number needs.

A block's tokens are shared out by commas: a token belongs to the axis at whose comma it begins, or in whose number, so
a comma counts with the number behind it and the three axes add up to the block's own drift. A sign that merges with
the ``<`` before it is no FREE token, here as in the block's drift. Runs whose tokenizer cannot be had have no such
drift.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.chem.smiles import enriched_descriptors
from engine.errors import DriftscopeError
from engine.inspection.runs import RunFacts, number_format, placeholder_of, run_tokenizer
from engine.records import FIXED4, BinFormat, NumberFormat
from engine.store.memo import computed_once
from engine.store.store import Store
from engine.text.blocks import read_block
from engine.text.template import FREE, block_spans, token_roles
from engine.text.tokenizers import BUILT_IN, TextTokenizer

AXES = ("x", "y", "z")
MOST_KEPT = 32
"""Runs of which axis drifts are kept."""
ORDINARY = "[C]"
"""The descriptor before blocks of a molecule that does not read."""

# The built-in tokenizers cut digits by their number alone (a test holds it), and reading a block asks of a digit only
# whether it is zero. So one digit means all in $digits, and a few hundred texts for a million blocks.
_BLOCKS = """
SELECT blocks.sample_id, smiles, coalesce(atom, -1) AS atom,
       CASE WHEN kinds[1] = 'exact' THEN '=' || translate(blocks.text, $digits, '000000000')
            ELSE translate(blocks.text, substr($digits, 2), '11111111') END AS content
FROM blocks JOIN samples USING (run_id, sample_id)
WHERE blocks.run_id = $run AND blocks.drift IS NOT NULL ORDER BY blocks.sample_id, block
"""


@computed_once(MOST_KEPT)
def axis_drifts(store: Store, run: RunFacts) -> pa.Table:
    """Of each block of known drift, in order: ``sample_id``, and a column for each of ``AXES``."""
    tokenizer, _ = run_tokenizer(run)
    if tokenizer is None:
        return pa.table({name: np.zeros(0, np.int64) for name in ("sample_id", *AXES)})
    digits = "123456789" if tokenizer.name in BUILT_IN else ""
    rows = store.table(_BLOCKS, {"run": run.run_id, "digits": digits})
    zeros, form = str.maketrans(digits, "0" * len(digits)), number_format(run)
    numbers = {}
    for text in rows["content"].unique().to_pylist():
        is_exact, as_read = text.startswith("="), form.comma.join(read_block(text, form=form).numbers)
        numbers[text] = text[1:] if is_exact else as_read.translate(zeros)
    descriptors = {smiles: _descriptors(smiles) for smiles in rows["smiles"].unique().to_pylist()}

    def block_of(smiles: str, atom: int, content: str) -> tuple[str, str]:
        """Descriptor and content."""
        of_molecule = descriptors[smiles]
        return of_molecule[atom] if 0 <= atom < len(of_molecule) else ORDINARY, numbers[content]

    blocks = list(map(block_of, *(rows[name].to_pylist() for name in ("smiles", "atom", "content"))))
    place = {block: n for n, block in enumerate(dict.fromkeys(blocks))}  # each is counted once
    free = axis_tokens([(descriptor, placeholder_of(run)) for descriptor, _ in place], tokenizer, form)
    drift = (free - axis_tokens(list(place), tokenizer, form))[[place[block] for block in blocks]]
    return pa.table({"sample_id": rows["sample_id"], **{name: drift[:, n] for n, name in enumerate(AXES)}})


def _descriptors(smiles: str) -> tuple[str, ...]:
    try:
        return enriched_descriptors(smiles)
    except DriftscopeError:  # a report file's prompt may be anything
        return ()


def axis_tokens(
    blocks: Sequence[tuple[str, str]], tokenizer: TextTokenizer, form: NumberFormat = FIXED4
) -> NDArray[np.int64]:
    """FREE tokens of each axis for each block, given as descriptor and content: [blocks, 3]."""
    tokens = np.zeros((len(blocks), len(AXES)), dtype=np.int64)
    probes = [f"{before}{form.opening}{content}{form.closing}[" for before, content in blocks]
    for row, text, ids in zip(tokens, probes, tokenizer.encode_batch(probes), strict=True):
        starts, ends = tokenizer.offsets(text, ids)
        roles, _ = token_roles(starts, ends, spans := block_spans(text, form)[:1], len(text))
        first = int(spans[0, 0]) if len(spans) else 0
        if isinstance(form, BinFormat) and not form.comma:
            begins = [first + 1 + form.digits * axis for axis in range(1, len(AXES))]
        else:
            begins = [index for index in range(first, len(text)) if text[index] == ","]
        axis = np.minimum(np.searchsorted(begins, starts[roles == FREE], side="right"), len(AXES) - 1)
        row[:] = np.bincount(axis, minlength=len(AXES))
    return tokens
