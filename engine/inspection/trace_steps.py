"""What each step of a captured window wrote: its tokens, their blocks, and which of them are junk.

A capture knows tokens by step; their place in the text comes from the alignment of the finished sample. Steps are
matched with the trace's marks by their order alone, so they are dropped where their numbers differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.inspection.realign import aligned_as_stored, with_kinds
from engine.inspection.runs import run_facts, run_tokenizer
from engine.inspection.sample import molecule_asked
from engine.profile.capture import CapturedToken
from engine.store.store import Store
from engine.text.align import Alignment

if TYPE_CHECKING:
    from engine.decode.generation import Generation

MOST_ALIGNED = 256
"""Samples of a window that are aligned: each takes some milliseconds."""
_SAMPLES = "SELECT * FROM samples WHERE sample_id IN (SELECT unnest($ids))"
_BLOCKS = "SELECT * FROM blocks WHERE sample_id IN (SELECT unnest($ids)) ORDER BY sample_id, block"


def step_rows(written: Sequence[CapturedToken], alignments: Mapping[int, Alignment]) -> list[dict[str, Any]]:
    """Rows of ``trace_steps`` without the trace_id; without an alignment only what was written."""
    columns = {}
    for sample, of in alignments.items():
        for token in of.rows:
            block = token.text_block
            mark = token.mark if token.mark in ("junk", "cut") else ""
            kinds = list(of.blocks[block].kinds) if 0 <= block < len(of.blocks) else None
            piece = token.piece.encode("utf-8", "replace").decode()
            columns[sample, token.pos] = {"piece": piece, "block": block, "kinds": kinds, "mark": mark}
    end: dict[str, object] = {"block": -1, "kinds": None, "mark": ""}  # the end token, which no text has
    rows = []
    for captured in written:
        row = captured._asdict()
        if captured.sample_id in alignments:
            row = {**row, **columns.get((captured.sample_id, captured.pos), end)}
        rows.append(row)
    return rows


def aligned_samples(generation: Generation, sample_ids: Collection[int]) -> dict[int, Alignment]:
    """Of the finished samples, with the kinds of their blocks."""
    alignments: dict[int, Alignment] = {}
    for sample in generation.in_order():
        if sample.sample_id not in sample_ids or len(alignments) >= MOST_ALIGNED:
            continue
        inside = slice(generation.reader.tokenizer.text_length(sample.token_ids))
        molecule = generation.molecule_of(sample.sample_id)
        aligned = generation.reader.aligned(molecule, sample.token_ids[inside], sample.forced[inside], {})
        alignments[sample.sample_id] = with_kinds(aligned, [block.kinds for block in sample.blocks])
    return alignments


def aligned_in_run(store: Store, run_id: str, sample_ids: Collection[int]) -> dict[int, Alignment]:
    """Of a stored run."""
    run = run_facts(store, run_id)
    tokenizer, _ = run_tokenizer(run)
    ids = sorted(sample_ids)[:MOST_ALIGNED]
    if tokenizer is None or not ids:
        return {}
    samples, blocks = (store.table(sql, {"ids": ids}, of=[run.run_id]).to_pylist() for sql in (_SAMPLES, _BLOCKS))
    alignments: dict[int, Alignment] = {}
    for sample in samples:
        rows = [row for row in blocks if row["sample_id"] == sample["sample_id"]]
        molecule, *_ = molecule_asked(sample)
        aligned, _ = aligned_as_stored(run, sample, rows, molecule, tokenizer) if molecule.atoms else (None, "")
        if aligned is not None:
            alignments[sample["sample_id"]] = aligned
    return alignments


def repeats(store: Store, run_id: str, written: Sequence[CapturedToken]) -> bool:
    """Whether these are the tokens of that run's samples."""
    sample_ids = sorted({tok.sample_id for tok in written})
    rows = store.table(_SAMPLES, {"ids": sample_ids}, of=[run_id]).to_pylist()
    ids = {row["sample_id"]: row["token_ids"] or [] for row in rows}
    return bool(written) and all(tok.token_id in ids.get(tok.sample_id, [])[tok.pos : tok.pos + 1] for tok in written)
