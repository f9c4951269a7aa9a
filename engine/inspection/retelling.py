"""A stored answer aligned anew with its template, so that its marks agree with what its run said of its blocks.

Whether a clean triple was cut only the model's masses tell, and these are not stored; the kinds that they led to are.
So the kinds come back as masses that lead to them again, and what then still differs is set right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from engine.decode.samples import Reader
from engine.errors import DriftscopeError
from engine.inspection.runs import RunFacts
from engine.inspection.tools import number_format
from engine.records import Kind, Molecule
from engine.text.align import AlignedToken, Alignment, Mark
from engine.text.blocks import CLOSED_BY_MODEL, LP_NAMES, CloseMass
from engine.text.tokenizers import TextTokenizer

Row = Mapping[str, Any]
GOING_ON, CLOSING = CloseMass(0.0, 1.0), CloseMass(1.0, 0.0)


def aligned_as_stored(
    run: RunFacts, sample: Row, blocks: Sequence[Row], molecule: Molecule, tokenizer: TextTokenizer
) -> tuple[Alignment | None, str]:
    """The alignment with the stored kinds, or None and why.

    Text without ids is cut by the tokenizer and aligned by structure, whatever the LP: where an LP forced by position,
    the positions of tokens that nobody wrote would say nothing.
    """
    written, forced = sample["token_ids"], sample["forced"]
    try:
        if written:
            ids = _without_end(written, tokenizer)
            flags = (forced or [False] * len(ids))[: len(ids)]
            lp = run.constraint if run.constraint in LP_NAMES else "none"
        else:
            ids = tokenizer.encode(sample["text"] or "")
            flags, lp = [False] * len(ids), "none"
        reader = Reader(tokenizer, lp, run.placeholder, number_format(run))
        found = reader.aligned(molecule, ids, flags, masses_of_kinds(blocks, lp))
    except (DriftscopeError, ValueError) as error:
        return None, f"Its tokens cannot be aligned with the template: {getattr(error, 'what', error)}."
    found = with_kinds(found, [tuple(row["kinds"] or ()) for row in blocks])
    return (found if written and forced else _without_forced(found)), ""


def _without_end(ids: Sequence[int], tokenizer: TextTokenizer) -> list[int]:
    return list(ids[:-1] if ids[-1] == tokenizer.end_id else ids)


def masses_of_kinds(blocks: Sequence[Row], lp: str) -> dict[int, CloseMass]:
    """By block, masses that lead to the stored kinds again; the model's own are not stored."""
    if lp in CLOSED_BY_MODEL:
        return {}
    told = {("cut",): GOING_ON, ("exact",): CLOSING}
    found = ((row["block"], told.get(tuple(row["kinds"] or ()))) for row in blocks)
    return {block: mass for block, mass in found if mass is not None}


def with_kinds(alignment: Alignment, kinds: Sequence[tuple[Kind, ...]]) -> Alignment:
    """The alignment with these kinds in place of its own, by block, and the marks of cuts that follow from them."""
    differing = {
        number: stored
        for number, (block, stored) in enumerate(zip(alignment.blocks, kinds, strict=False))
        if stored and stored != block.kinds
    }
    if not differing:
        return alignment
    blocks = [replace(one, kinds=differing.get(n, one.kinds)) for n, one in enumerate(alignment.blocks)]
    readings = [replace(one, kinds=differing.get(n, one.kinds)) for n, one in enumerate(alignment.readings)]
    marks = _marks(alignment.rows, {number: "cut" in stored for number, stored in differing.items()})
    rows = [replace(row, mark=marks[n]) if n in marks else row for n, row in enumerate(alignment.rows)]
    return replace(alignment, rows=tuple(rows), blocks=tuple(blocks), readings=tuple(readings))


def _marks(rows: Sequence[AlignedToken], is_cut: Mapping[int, bool]) -> dict[int, Mark]:
    """New marks by column: a cut stands at the last FREE token of its block, unless that says something else."""
    found: dict[int, Mark] = {n: "" for n, row in enumerate(rows) if row.mark == "cut" and row.text_block in is_cut}
    last = {row.text_block: n for n, row in enumerate(rows) if row.pos is not None and row.text_role == "FREE"}
    for block, cut in is_cut.items():
        if cut and block in last and rows[last[block]].mark in ("", "cut"):
            found[last[block]] = "cut"
    return found


def _without_forced(alignment: Alignment) -> Alignment:
    """Nobody said what was forced."""
    return replace(alignment, rows=tuple(replace(row, forced=None) for row in alignment.rows))


# --- columns and atoms --------------------------------------------------------------------------------------------


def atoms_of_columns(alignment: Alignment) -> list[int | None]:
    """For each column the atom that its token speaks of: its descriptor, its block; where nothing was written, the
    atom of the template's block. None for bonds, branches, tags, and for atoms that the molecule has not."""
    atoms = {number: block.atom for number, block in enumerate(alignment.blocks)}
    descriptors = _descriptor_spans(alignment)
    found: list[int | None] = []
    here = 0
    for row in alignment.rows:
        atom = row.block
        if row.start is not None and row.end is not None:
            while here < len(descriptors) and descriptors[here][1] <= row.start:
                here += 1
            is_descriptor = here < len(descriptors) and row.end > descriptors[here][0]
            block = row.text_block if row.text_block >= 0 else descriptors[here][2] if is_descriptor else -1
            atom = atoms.get(block, -1)
        found.append(atom if atom >= 0 else None)
    return found


def columns_of_atom(alignment: Alignment, atom: int) -> list[int]:
    """The columns of an atom's descriptor and block, in order; none for an atom that was not written."""
    return [column for column, one in enumerate(atoms_of_columns(alignment)) if one == atom]


def atom_of_column(alignment: Alignment, index: int) -> int | None:
    """The atom of one column; None where it has none, and for a column that is not there."""
    return atoms_of_columns(alignment)[index] if 0 <= index < len(alignment.rows) else None


def _descriptor_spans(alignment: Alignment) -> list[tuple[int, int, int]]:
    """First character of each block's descriptor, the block's ``<``, and the block, in order."""
    found: list[tuple[int, int, int]] = []
    seen, behind = -1, 0
    for row in alignment.rows:
        if row.start is None or row.end is None or row.text_block <= seen:
            continue
        opening = alignment.text.find("<", row.start, row.end)
        start = alignment.text.rfind("[", behind, opening) if opening >= 0 else -1
        if start >= 0:
            found.append((start, opening, row.text_block))
        seen, behind = row.text_block, row.end
    return found
