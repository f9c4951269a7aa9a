"""Drift of single coordinates: FREE positions that the placeholder has for an axis minus tokens that its number needs.

A block's tokens are shared out by commas: a token belongs to the axis at whose comma it begins, or in whose number, so
a comma counts with the number behind it and the three axes add up to the block's own drift. A sign that merges with
the ``<`` before it is no FREE token, here as in the block's drift. Runs whose tokenizer cannot be had have no such
drift.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from engine.chem.smiles import enriched_descriptors
from engine.errors import DriftscopeError
from engine.inspection.memo import computed_once
from engine.inspection.runs import RunFacts, number_format, placeholder_of, run_tokenizer
from engine.records import NumberFormat
from engine.store.store import Store
from engine.text.blocks import read_block
from engine.text.template import FREE, block_spans, token_roles
from engine.text.tokenizers import BUILT_IN, TextTokenizer

AXES = ("x", "y", "z")
MOST_KEPT = 32
"""Runs whose axis drifts are kept."""
_ZEROS = str.maketrans("123456789", "0" * 9)
ORDINARY = "[C]"
"""The descriptor before blocks of a molecule that does not read."""

# The built-in tokenizers cut digits by their number alone (a test holds it), and reading a block asks of a digit only
# whether it is zero. So one digit stands for others, and a few hundred texts for a million blocks.
_CLEAN = "kinds[1] = 'exact'"
_LEVELLED = f"""CASE WHEN {_CLEAN} THEN '=' || translate(blocks.text, '123456789', '000000000')
    ELSE translate(blocks.text, '23456789', '11111111') END"""
_AS_WRITTEN = f"CASE WHEN {_CLEAN} THEN '=' || blocks.text ELSE blocks.text END"
_BLOCKS = """
SELECT blocks.sample_id, smiles, atom, {text} AS content
FROM blocks JOIN samples USING (run_id, sample_id)
WHERE blocks.run_id = $run AND blocks.drift IS NOT NULL ORDER BY blocks.sample_id, block
"""


@dataclass(frozen=True, slots=True, eq=False)
class AxisDrifts:
    """Of each block whose drift is known."""

    sample: NDArray[np.int32]  # [blocks]
    drift: NDArray[np.int32]  # [blocks, 3]

    def counts(self, axis: int) -> dict[int, int]:
        values, counts = np.unique(self.drift[:, axis], return_counts=True)
        return dict(zip(values.tolist(), counts.tolist(), strict=True))

    def samples(self, axis: int, drift: int) -> list[int]:
        found: list[int] = np.unique(self.sample[self.drift[:, axis] == drift]).tolist()
        return found


@computed_once(MOST_KEPT)
def axis_drifts(store: Store, run: RunFacts) -> AxisDrifts:
    tokenizer, _ = run_tokenizer(run)
    if tokenizer is None:
        return AxisDrifts(np.zeros(0, np.int32), np.zeros((0, 3), np.int32))
    is_level = tokenizer.name in BUILT_IN
    rows = store.table(_BLOCKS.format(text=_LEVELLED if is_level else _AS_WRITTEN), {"run": run.run_id})
    before, descriptors = _descriptors(rows)
    written, texts = _coded(rows["content"])
    form = number_format(run)
    read = [_numbers(text, form, is_level=is_level) for text in texts]
    place_of = {numbers: place for place, numbers in enumerate(dict.fromkeys(read))}
    written = np.array([place_of[numbers] for numbers in read], dtype=np.int64)[written]
    contents, size = list(place_of), max(len(place_of), 1)
    pairs, pair_of_row = np.unique(before * size + written, return_inverse=True)  # each pair is counted once
    blocks = [(descriptors[pair // size], contents[pair % size]) for pair in pairs.tolist()]
    needed = axis_tokens(blocks, tokenizer)[pair_of_row]
    free = axis_tokens([(descriptor, placeholder_of(run)) for descriptor in descriptors], tokenizer)[before]
    return AxisDrifts(rows["sample_id"].to_numpy().astype(np.int32), free - needed)


def _numbers(content: str, form: NumberFormat, *, is_level: bool) -> str:
    """The three numbers of a block without its junk."""
    numbers = content[1:] if content.startswith("=") else ",".join(read_block(content, form=form).numbers)
    return numbers.translate(_ZEROS) if is_level else numbers


def _coded(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], list[str]]:
    """Each row's number among the distinct values, and these."""
    coded = column.combine_chunks().dictionary_encode()
    return coded.indices.to_numpy().astype(np.int64), coded.dictionary.to_pylist()


def _descriptors(rows: pa.Table) -> tuple[NDArray[np.int64], list[str]]:
    """What stands before each block, which may merge with a sign: its number among the distinct ones, and these."""
    molecule, smiles = _coded(rows["smiles"])
    by_molecule = [_read(text) for text in smiles]
    distinct = {text: number for number, text in enumerate(dict.fromkeys([ORDINARY, *itertools.chain(*by_molecule)]))}
    widest = max(map(len, by_molecule), default=0) + 1
    # The last column, and what is empty, is the ordinary one.
    numbers = np.zeros((len(by_molecule), widest), dtype=np.int64)
    for row, descriptors in enumerate(by_molecule):
        numbers[row, : len(descriptors)] = [distinct[text] for text in descriptors]
    atom = rows["atom"].fill_null(-1).to_numpy()
    return numbers[molecule, np.where((atom >= 0) & (atom < widest), atom, widest - 1)], list(distinct)


def _read(smiles: str) -> tuple[str, ...]:
    try:
        return enriched_descriptors(smiles)
    except DriftscopeError:  # a report file's prompt may be anything
        return ()


def axis_tokens(blocks: Sequence[tuple[str, str]], tokenizer: TextTokenizer) -> NDArray[np.int32]:
    """FREE tokens of each axis for each block, given as descriptor and content: [blocks, 3]."""
    tokens = np.zeros((len(blocks), 3), dtype=np.int32)
    probes = [f"{before}<{content}>[" for before, content in blocks]
    for row, (text, ids) in enumerate(zip(probes, tokenizer.encode_batch(probes), strict=True)):
        tokens[row] = _tokens_by_axis(text, ids, tokenizer)
    return tokens


def _tokens_by_axis(text: str, ids: Sequence[int], tokenizer: TextTokenizer) -> NDArray[np.int64]:
    spans = block_spans(text)
    starts, ends = tokenizer.offsets(text, ids)
    roles, _ = token_roles(starts, ends, spans[:1], len(text))
    begins = starts[roles == FREE]
    first = int(spans[0, 0]) if len(spans) else 0
    commas = [place for place in range(first, len(text)) if text[place] == ","]
    axis = np.minimum(np.searchsorted(commas, begins, side="right"), 2)
    return np.bincount(axis, minlength=3)
