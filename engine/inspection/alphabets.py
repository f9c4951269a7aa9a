"""What an alphabet costs: reference conformers written in it, read back, and held against themselves.

No model is asked: it is what a perfect model would lose. Codes are left out, since their encoder is no part of this.
Each molecule's first conformer is written in its principal-axis frame, in decimals, in the group's bins, in bins of
files, and in as many quantile bins of these very conformers, between the ends of the group's uniform ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rdkit import Chem

from engine.chem.bin_files import BARE_BINS
from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, as_decimals, decode, encode
from engine.chem.frame import place_in_frame
from engine.chem.judges import JudgeTask, judged
from engine.chem.smiles import molecule_of
from engine.errors import ConstraintError, DriftscopeError, StoreError
from engine.figures.laws import Array
from engine.inspection.kept_tables import KeptTable
from engine.inspection.lost_token import ORDINALS, lost_blocks, tokens_of
from engine.lp.exact import ExactConstraint
from engine.lp.follower import AutomatonRows, Follower
from engine.records import FIXED4, GROUP_UNIFORM, BinFormat, NumberFormat
from engine.store.entries import Entry
from engine.store.references import ReferenceSet, reference_set
from engine.store.store import Store
from engine.text.tokenizer_build import QWEN_BINS, WHOLE_NUMBERS
from engine.text.tokenizers import load_tokenizer

VERSION = 1
AS_IT_IS = "as it is"
DECIMALS = {f"{count} decimal{'s' * (count > 1)}": NumberFormat(count, count) for count in (4, 3, 2, 1)}
QUANTILE = f"{GROUP_UNIFORM.bins} quantile bins"
TOKENIZERS = ("qwen3", "llama3", QWEN_BINS)
"""The last has a token for each number of the group's bins, and is asked about these alone."""
FORCED_OF = 200
"""Molecules of which the tokens that ``exact`` forces are counted."""


Row = dict[str, Any]
_OF_TOKENIZERS = [(f"{what}_{name}", kind) for name in TOKENIZERS for what, kind in
                  (("tokens", pa.int32()), ("forced", pa.float64()), ("token", pa.string()))]  # fmt: skip
SCHEMA = pa.schema(
    [("form", pa.string()), ("molecule", pa.int32()), ("smiles", pa.string()), ("atoms", pa.int32()),
     ("rmsd_ang", pa.float64()), ("bond_ang", pa.float64()), ("doubled", pa.int32()), ("tails", pa.int32()),
     ("right", pa.bool_()), ("lost", pa.bool_()), ("check", pa.string()), *_OF_TOKENIZERS]
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class WrittenReferences:
    """``table``: a row for each form and molecule."""

    entry: Entry
    table: pa.Table


def kept_alphabets(entry: Entry) -> KeptTable:
    return KeptTable("alphabets", [VERSION, *entry.key])


def write_references(
    store: Store,
    name: str,
    bins: Mapping[str, BinFormat] | None = None,
    *,
    most: int | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, texts: None,
) -> WrittenReferences:
    """Write and read the conformers of a set in every form, and judge what comes back."""
    references = reference_set(store, name)
    mols = list(_conformers(references, most))
    if not mols:
        raise StoreError(f"{name} has no conformer that can be written", "Choose another set")
    forms = {AS_IT_IS: NumberFormat(6, 6), **DECIMALS, **BARE_BINS, QUANTILE: quantile_bins(mols), **(bins or {})}
    writers = {name: _Writer(form) for name, form in forms.items()}
    rows, tasks = list[Row](), list[JudgeTask]()
    for number, mol in enumerate(mols):
        places = None
        for name, writer in writers.items():
            row, text, places = writer.row(mol, places, counts_forced=number < FORCED_OF)
            rows.append({"form": name, "molecule": number, **row})
            tasks.append(JudgeTask(len(tasks), as_decimals(text, writer.form), row["smiles"]))
    with closing(judged(iter(tasks), workers=workers)) as verdicts:
        for done, (task, verdict) in enumerate(verdicts, start=1):
            rows[task.key]["right"] = verdict.is_right
            progress(done, len(tasks))
    for mol, start in zip(mols, range(0, len(rows), len(forms)), strict=True):
        as_it_is, *others = rows[start : start + len(forms)]
        for row in others:
            row["lost"] = as_it_is["right"] and not row["right"]
            if row["lost"]:
                row.update(writers[row["form"]].lost_at(mol))
    table = pa.Table.from_pylist([row for row in rows if row["form"] != AS_IT_IS], schema=SCHEMA)
    kept_alphabets(references.entry).write(table)
    return WrittenReferences(references.entry, table)


def quantile_bins(mols: Sequence[Chem.Mol]) -> BinFormat:
    """As many coordinates in each, between the ends of the group's uniform bins."""
    values = np.concatenate([mol.GetConformer().GetPositions().ravel() for mol in mols])
    inner = np.unique(np.quantile(values, np.linspace(0, 1, GROUP_UNIFORM.bins + 1)[1:-1]))
    low, high = GROUP_UNIFORM.low_ang, GROUP_UNIFORM.high_ang
    return BinFormat(edges=(low, *inner[(inner > low) & (inner < high)].tolist(), high), mode="quantile")


def _conformers(references: ReferenceSet, most: int | None) -> Iterator[Chem.Mol]:
    """The first of each molecule that has an enriched form."""
    for smiles in references.molecules()[:most]:
        with suppress(DriftscopeError):
            if (mol := references.conformers(smiles)) is not None:
                placed = place_in_frame(mol)
                encode(placed, FIXED4, conformer=0)
                yield Chem.Mol(placed, confId=0)


class _Writer:
    """One form: what of a conformer comes back from its text."""

    def __init__(self, form: NumberFormat) -> None:
        self.form = form
        self.tokenizers = [load_tokenizer(name) for name in TOKENIZERS if name != QWEN_BINS or self._is_of_bins]
        self._forcing: list[tuple[ExactConstraint, AutomatonRows]] = []
        with suppress(ConstraintError):
            for tokenizer in self.tokenizers:
                exact = ExactConstraint(tokenizer, form, tokenizer.vocab_size)
                self._forcing.append((exact, AutomatonRows(exact.automaton)))

    @property
    def _is_of_bins(self) -> bool:
        return isinstance(self.form, BinFormat) and self.form.bins < WHOLE_NUMBERS

    def row(self, mol: Chem.Mol, places: Array | None, *, counts_forced: bool) -> tuple[Row, str, Array]:
        """``places``: those of the conformer itself, in the order of the text; None: this text's are."""
        enriched = encode(mol, self.form)
        decoded = decode(as_decimals(enriched.text, self.form))
        back = np.array(decoded.coordinates)
        places = back if places is None else places
        bonds = np.array([(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in decoded.mol.GetBonds()], int)
        lengths = [np.linalg.norm(xyz[bonds[:, 0]] - xyz[bonds[:, 1]], axis=1) for xyz in (back, places) if len(bonds)]
        row: Row = {
            "smiles": enriched.smiles,
            "atoms": len(back),
            "rmsd_ang": float(np.sqrt(((back - places) ** 2).sum(axis=1).mean())),
            "bond_ang": float(np.abs(lengths[0] - lengths[1]).mean()) if lengths else None,
            "doubled": len(back) - len(np.unique(back, axis=0)),
            "tails": sum(any(map(self._is_outermost, triple)) for triple in enriched.numbers),
        }
        answer = f"{OPEN_TAG}{enriched.text}{CLOSE_TAG}"
        for number, tokenizer in enumerate(self.tokenizers):
            ids = tokenizer.encode(answer)
            row[f"tokens_{tokenizer.name}"] = len(ids)
            if counts_forced and number < len(self._forcing):
                exact, rows = self._forcing[number]
                follower = Follower(rows, exact.compile(molecule_of(mol)))
                row[f"forced_{tokenizer.name}"] = sum(map(follower.take, ids)) / len(ids)
        return row, enriched.text, places

    def _is_outermost(self, number: str) -> bool:
        """Of bins: whether it is a tail, or the first or last bin, which may be wide."""
        return isinstance(self.form, BinFormat) and not 1 < int(number) < self.form.bins

    def lost_at(self, mol: Chem.Mol) -> Row:
        """The check that the first lost atom fails, and by tokenizer the token that lost it."""
        text, smiles = encode(mol, self.form)[:2]
        found: Row = {}
        for tokenizer in self.tokenizers:
            marks = lost_blocks(text, smiles, tokens_of(text, tokenizer), self.form)
            if not marks:
                continue
            mark = marks[0]
            where = f"{ORDINALS[min(mark.place, 9) - 1]} token of {mark.axis}"
            if mark.is_before:
                where = "before its block"
            found.update({"check": mark.check, f"token_{tokenizer.name}": where})
        return found
