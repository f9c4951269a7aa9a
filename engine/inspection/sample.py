"""One sample whole: what was asked for, what was written, token by token against the template, and what it spells.

The rows of ``blocks`` are what the run's own judge said, with the model's masses that nobody kept; so where the
alignment, made anew here, would call a block otherwise, the stored kinds win. What cannot be shown is said in
``missing``, in words for a person. Nothing here runs a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rdkit import Chem

from engine.chem.enriched import SMILES_TAGS
from engine.chem.smiles import enriched_descriptors, parse_smiles, read_text_order
from engine.errors import DriftscopeError, StoreError
from engine.inspection.estimates import BlockEstimate, estimates_of
from engine.inspection.retelling import aligned_as_stored
from engine.inspection.runs import RunFacts, run_facts
from engine.inspection.shapes import conformer_of
from engine.inspection.tools import run_tokenizer
from engine.records import Molecule
from engine.store.entries import Entry
from engine.store.reports.format import BEFORE
from engine.store.schema import Kind
from engine.store.store import Store
from engine.store.views import connect
from engine.text.align import Alignment
from engine.text.tokenizers import TextTokenizer

Row = Mapping[str, Any]
ENDS = {
    "length": "Its writing was stopped at the limit of tokens, so its end is not there.",
    "time": "Its writing was stopped at the limit of time, so its end is not there.",
    "cancelled": "Somebody stopped its writing, so its end is not there.",
    "empty_mask": "Its writing ended where the LP allowed no token.",
    "desync": "Its writing ended where a token came that the LP had not allowed.",
}
_TABLES = (
    "SELECT * FROM samples WHERE run_id = $run AND sample_id = $sample",
    "SELECT * FROM blocks WHERE run_id = $run AND sample_id = $sample ORDER BY block",
    "SELECT * FROM steps WHERE run_id = $run AND sample_id = $sample ORDER BY pos",
)


@dataclass(frozen=True, slots=True, eq=False)
class Inspected:
    """One sample of a run. ``conformer_atoms`` has the molecule's atom for each atom of ``conformer``, -1 for none."""

    run: RunFacts
    sample: Row  # of samples
    molecule: Molecule  # without atoms where the SMILES that was asked for does not read
    tokenizer: TextTokenizer | None
    alignment: Alignment | None
    ids_from_text: bool  # ids were made from the text, so they need not be those that the model wrote
    blocks: tuple[Row, ...]  # of blocks, in order
    steps: Mapping[int, Row]  # of steps, by pos; each of top_k has its piece beside its id
    estimates: Mapping[int, BlockEstimate]  # by block: what a cut cost, where the model was asked
    conformer: Chem.Mol | None
    conformer_atoms: tuple[int, ...]
    why_no_conformer: str  # or why some of its atoms are not there
    missing: tuple[str, ...]
    can_score: bool  # the ids are there as written, so a model can be asked what it thought of them


def inspect_sample(store: Store, run_id: str, sample_id: int) -> Inspected:
    """The sample of a run, which is named by its id or by any part that no other run has."""
    run = run_facts(store, run_id)
    sample, blocks, steps = _rows(store, run, sample_id)
    molecule, why_no_molecule = molecule_asked(sample)
    tokenizer, why_no_tokenizer = run_tokenizer(run)
    has_ids = bool(sample["token_ids"])
    alignment, why_no_alignment = None, ""
    if tokenizer is not None and molecule.atoms:
        alignment, why_no_alignment = aligned_as_stored(run, sample, blocks, molecule, tokenizer)
    shape = conformer_of(sample, blocks, molecule)
    return Inspected(
        run=run,
        sample=sample,
        molecule=molecule,
        tokenizer=tokenizer,
        alignment=alignment,
        ids_from_text=alignment is not None and not has_ids,
        blocks=blocks,
        steps={row["pos"]: _with_pieces(row, tokenizer) for row in steps},
        estimates=estimates_of(blocks, molecule, tokenizer),
        conformer=shape.mol,
        conformer_atoms=shape.atoms,
        why_no_conformer=shape.why_not,
        missing=tuple(
            said
            for said in (
                why_no_molecule,
                why_no_tokenizer,
                why_no_alignment,
                *_missing(run, sample, blocks, bool(steps), tokenizer is not None),
            )
            if said
        ),
        can_score=has_ids and tokenizer is not None and molecule.atoms > 0,
    )


def _rows(store: Store, run: RunFacts, sample_id: int) -> tuple[Row, tuple[Row, ...], tuple[Row, ...]]:
    """Of all three tables at once: a connection takes longer than what is asked of it."""

    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[tuple[Row, ...]]:
        names = {"run": run.run_id, "sample": sample_id}
        with connect(found) as connection:
            return [tuple(connection.sql(sql, params=names).to_arrow_table().to_pylist()) for sql in _TABLES]

    samples, blocks, steps = store.reading(ask)
    if not samples:
        raise StoreError(
            f"the run {run.run_id} has no sample {sample_id}", f"It has {run.samples:,}; they count from 0"
        )
    return samples[0], blocks, steps


def molecule_asked(sample: Row) -> tuple[Molecule, str]:
    """The molecule in the order of the prompt, as the answer follows it; one without atoms, and why, where it does not
    read. A report file's prompt need not be canonical; then ``extra`` has it."""
    smiles = _prompt_smiles(sample)
    try:
        canonical = parse_smiles(smiles)
        if canonical.smiles == smiles:
            return canonical, ""
        mol = read_text_order(smiles)
        elements = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
        return Molecule(smiles, smiles, enriched_descriptors(smiles), elements, canonical.heavy_atoms, mol), ""
    except DriftscopeError as error:
        return Molecule(smiles, smiles, (), (), 0, Chem.Mol()), f"There is no molecule to compare with: {error.what}."


def _prompt_smiles(sample: Row) -> str:
    smiles: str = sample["smiles"]
    try:
        extra = json.loads(sample["extra"] or "{}")
    except ValueError:
        return smiles
    before = extra.get(BEFORE) if isinstance(extra, dict) else None
    _, opened, behind = before.partition(SMILES_TAGS[0]) if isinstance(before, str) else ("", "", "")
    asked, closed, _ = behind.partition(SMILES_TAGS[1])
    return asked.strip() if opened and closed and asked.strip() else smiles


def _with_pieces(row: Row, tokenizer: TextTokenizer | None) -> Row:
    top = [
        {**one, "piece": "" if tokenizer is None else tokenizer.piece(one["token_id"])} for one in row["top_k"] or ()
    ]
    return {**row, "top_k": top}


def _missing(
    run: RunFacts, sample: Row, blocks: Sequence[Row], has_steps: bool, has_tokenizer: bool
) -> tuple[str, ...]:
    has_ids = bool(sample["token_ids"])
    if has_ids or not sample["text"]:
        of_ids = "" if has_ids else "It has no text and no tokens."
    elif has_tokenizer:
        of_ids = (
            "Only its text is known, not the tokens as the model wrote them. They are shown as the tokenizer cuts the"
            " text, which need not be how the model wrote it; which of them were forced is not known."
        )
    else:
        of_ids = "Only its text is known, and no tokenizer to cut it, so there are no tokens to show."
    return (
        of_ids,
        "" if blocks else "Its blocks are not there to be shown.",
        "" if has_steps else _no_steps(run, has_ids),
        ENDS.get(sample["stop_reason"] or "", ""),
    )


def _no_steps(run: RunFacts, has_ids: bool) -> str:
    if not has_ids:
        return "What the model thought at each token is not known, and without the tokens it cannot be asked."
    kept = "This run kept the steps of other samples" if run.has_steps else "This run kept no steps"
    return f"{kept}: what the model thought at each token is not stored. A model can be asked anew."
