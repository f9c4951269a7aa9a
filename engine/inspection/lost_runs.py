"""The token that lost it, for all samples of a run: a table of the run where it is the user's, so that it is computed
once; a search that was stopped goes on behind the samples that it has stored.

Of judged samples those are searched that have a wrong shape by their verdict, or none at all. It needs no model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from engine.chem.other_forms import OTHER_WORDS, other_form
from engine.errors import DriftscopeError, RunError
from engine.inspection.lost_token import WHICH_NUMBERS, WHOLE, LostBlock, lost_of_sample, may_be_lost
from engine.inspection.runs import facts_of, run_tokenizer
from engine.inspection.sample import molecule_of_answer
from engine.records import CodeFormat
from engine.store.entries import Entry, alphabet_of, without_samples
from engine.store.memo import computed_once
from engine.store.schema import LOST, SAMPLES
from engine.store.staging import rewrite_run
from engine.store.store import Store

GROUP = 1_000
"""Samples that are stored together: so many are searched again where a search is stopped."""
MOST_UNSTORED = 2_000
"""Samples of a run that is only read which a question searches by itself."""
_GROUP = """
SELECT sample_id, smiles, text, token_ids, failed, stereo_sites, extra FROM samples
WHERE run_id = $run ORDER BY sample_id LIMIT $count OFFSET $first
"""


@dataclass(frozen=True, slots=True)
class LostRun:
    """``samples`` were searched now; ``lost`` has a row each block that is lost, of all that were searched ever."""

    entry: Entry
    samples: int
    lost: pa.Table
    is_stored: bool

    @property
    def lost_samples(self) -> int:
        return len(self.lost["sample_id"].unique())


def searched_of(entry: Entry) -> int:
    """Of its samples, the first so many were searched and are stored."""
    return int(entry.row.get("lost_searched") or 0) if LOST.name in entry.parts else 0


def is_searched(entry: Entry) -> bool:
    return SAMPLES.name in entry.parts and searched_of(entry) >= entry.parts[SAMPLES.name].rows > 0


def lost_run(
    store: Store, run_id: str, *, again: bool = False, progress: Callable[[int, int], None] = lambda done, samples: None
) -> LostRun:
    """Search those samples of a run that were not, or ``again`` all. A run that is only read is not changed."""
    entry = store.entry(run_id)
    if why_not := why_not_searched(store, entry):
        raise why_not
    samples = entry.parts[SAMPLES.name].rows
    first = 0 if again else searched_of(entry)
    is_own, table = entry.files is store.home, LOST.schema.empty_table()
    if first:
        table = entry.read(LOST.name).cast(LOST.schema)
    for start in range(first, samples, GROUP):
        rows = list(_rows(store, entry, start, lambda done: progress(done, samples)))
        table = pa.concat_tables([table, LOST.rows(rows)])
        if is_own:
            done = min(start + GROUP, samples)
            columns = {"lost_searched": done, "lost_samples": len(table["sample_id"].unique())}
            entry = rewrite_run(entry, {LOST.name: table}, columns)
    return LostRun(entry, samples - first, table, is_own)


def why_not_searched(store: Store, entry: Entry) -> DriftscopeError | None:
    """Why a run has nothing to search."""
    if SAMPLES.name not in entry.parts:
        return without_samples(entry, "search")
    sql = "SELECT text FROM samples WHERE run_id = $run AND text IS NOT NULL ORDER BY sample_id LIMIT 1"
    text = store.table(sql, {"run": entry.id}, of=[entry.id])["text"].to_pylist()
    if not text:
        return RunError(f"{entry.id} has no texts, so no token of it can have lost a molecule", "Import its report")
    form = other_form(text[0])
    alphabet = alphabet_of(entry)
    if isinstance(alphabet, CodeFormat):
        why = "a code has no place before the text is whole, so that no token of it can be named"
        return RunError(f"{entry.id} has texts of codes: {why}", "Search a run of decimals or bins")
    if alphabet is None and form in ("binned", "bins", "codes"):
        return RunError(f"{entry.id}: {WHICH_NUMBERS}", OTHER_WORDS[form].capitalize())
    return None


def _rows(store: Store, entry: Entry, first: int, progress: Callable[[int], None]) -> Iterator[dict[str, Any]]:
    run = facts_of(entry)
    tokenizer, _ = run_tokenizer(run)
    names = {"run": entry.id, "first": first, "count": GROUP}
    for number, sample in enumerate(store.table(_GROUP, names, of=[entry.id]).to_pylist(), first + 1):
        if may_be_lost(sample):
            molecule, _, _ = molecule_of_answer(run, sample)
            for mark in lost_of_sample(run, sample, molecule, tokenizer):
                yield {"run_id": entry.id, "sample_id": sample["sample_id"], **columns_of(mark)}
        progress(number)


def columns_of(mark: LostBlock) -> dict[str, Any]:
    """Of the table ``lost``."""
    same = {name: value for name, value in asdict(mark).items() if name not in ("token", "by")}
    return {**same, "pos": mark.token, "tokens_by": mark.by, "digit": None if mark.digit == WHOLE else mark.digit}


@computed_once(8)
def lost_of_read_only(store: Store, entry: Entry) -> pa.Table:
    """The rows of a run that cannot be changed and is small enough to be searched when they are wanted."""
    return lost_run(store, entry.id).lost
