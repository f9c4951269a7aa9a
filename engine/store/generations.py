"""Generations of the group as runs: a pickle ``{smiles: [Mol, ...]}``, read in a process of its own.

Such a run has conformers and no texts: whether an answer passed or was clean is not known, and stays null. Its
molecules are judged and held against references like any other's, by a text that states the conformer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from engine.chem.conformer_files import UNREADABLE, HeavyConformer, pickled_conformers, settled_smiles, under_its_key
from engine.chem.enriched import as_decimals, enriched_text
from engine.chem.smiles import enriched_descriptors, read_text_order
from engine.chem.structure_files import form_by_name
from engine.errors import DriftscopeError, FileError, shown
from engine.records import BinFormat, ReaderName
from engine.store.entries import Entry, number_format_of, sha256_of
from engine.store.schema import CONFORMERS, RUN, SAMPLES
from engine.store.staging import begun_anew
from engine.store.store import Store
from engine.user_files import open_file

GROUP = 5_000
"""Samples that are written together."""
DECIMALS = 6
"""Of a text that states a conformer: pickles of RDKit hold single precision."""
NOTE = "Read from a pickle of molecules: its texts, and how they came about, are not known."

Row = dict[str, Any]


def is_pickle(path: Path) -> bool:
    with open_file(path) as file:
        return file.read(1) == b"\x80" or form_by_name(path) == "pickle"


def import_generations(
    store: Store,
    path: Path,
    *,
    label: str | None = None,
    progress: Callable[[int], object] = lambda done: None,
    warn: Callable[[str], object] = lambda text: None,
) -> Entry:
    """The file as a run, named by its content, unless it is there; an error where nothing can be read. ``progress``
    gets how many samples are read, ``warn`` what cannot be."""
    with open_file(path) as file:
        run_id = f"imported-{sha256_of(file)[:16]}"
    if store.has(run_id):
        return store.entry(run_id)
    row: Row = {"origin": "imported", "source": path.name, "notes": NOTE, "created_at": datetime.now(UTC).isoformat()}
    with begun_anew(store.home, RUN, run_id, row | ({"label": label} if label else {})) as staging:
        each: Counter[str] = Counter()  # samples of a molecule
        unread: list[str] = []
        stats: list[str] = []
        with_conformer = 0
        read = enumerate(pickled_conformers([path], ["molecules"], stats.append))
        while group := list(islice(read, GROUP)):
            samples, conformers = list[Row](), list[Row]()
            for number, item in group:
                if item.problem.startswith(UNREADABLE):
                    unread.append(item.problem)
                sample, conformer = _rows(item)
                ids = {"run_id": run_id, "sample_id": number}
                samples.append({**ids, "generation": each[sample["smiles"]], **sample})
                conformers += [{**ids, **conformer}] if conformer else []
                each[sample["smiles"]] += 1
            with_conformer += len(conformers)
            staging.add({SAMPLES.name: SAMPLES.rows(samples), CONFORMERS.name: CONFORMERS.rows(conformers)})
            progress(each.total())
        if not each:
            raise FileError(f"{shown(path.name)} has no molecule in it", "There is nothing to import")
        if unread and not with_conformer:
            problem = f"none of {len(unread):,} molecules of {shown(path.name)} can be read"
            raise FileError(f"{problem}. The first: {unread[0]}", "Write the file again")
        counts: Row = {"samples": each.total(), "molecules": len(each), "generations": max(each.values())}
        counts["notes"] = f"{NOTE} Its stats, of samples that are not in it too: {stats[0]}." if any(stats) else NOTE
        if unread:
            left_out = f"{len(unread):,} of {each.total():,} molecules cannot be read. The first: {unread[0]}"
            counts["notes"] += f" {left_out}."
            warn(f"{shown(path.name)}: {left_out}")
        return staging.publish(counts)


def _rows(item: HeavyConformer) -> tuple[Row, Row | None]:
    """One answer as a row of ``samples``, and its conformer where it has one."""
    placed = under_its_key(item)
    if not (is_asked := not placed.problem):
        placed = under_its_key(replace(item, key=""))
    if placed.problem:
        return {**_prompt_columns(item.key), "parsed": False, "parse_error": placed.problem}, None
    read = {"parsed": True, "same_graph": is_asked, "generated_smiles": placed.smiles, "has_real_coordinates": True}
    return {**_prompt_columns(item.key), **read}, {"smiles": placed.smiles, "xyz": placed.xyz.ravel()}


@lru_cache(4_096)
def _prompt_columns(key: str) -> Mapping[str, Any]:
    try:
        smiles = settled_smiles(key)
        mol = read_text_order(smiles)
    except DriftscopeError:
        return {"smiles": key}
    return {"smiles": smiles, "atoms": mol.GetNumAtoms(), "heavy_atoms": mol.GetNumHeavyAtoms()}


def conformer_texts(
    store: Store, entry: Entry, sample_ids: Sequence[int] | None = None, reader: ReaderName = "strict"
) -> dict[int, str]:
    """For samples with a missing or a binned text (all of them, or of these): one that states their conformers in
    decimals, by sample. None of a molecule that has no enriched form; of bins what the reader does not take is kept."""
    form = number_format_of(entry)
    if isinstance(form, BinFormat) and SAMPLES.name in entry.parts:
        sql = "SELECT sample_id, text FROM samples WHERE run_id = $run AND text IS NOT NULL"
    elif CONFORMERS.name in entry.parts:
        sql = "SELECT sample_id, smiles, xyz FROM conformers WHERE run_id = $run"
    else:
        return {}
    parameters: Row = {"run": entry.id}
    if sample_ids is not None:
        sql += " AND sample_id IN (SELECT unnest($ids))"
        parameters |= {"ids": list(sample_ids)}
    texts = {}
    for row in store.table(sql, parameters, of=[entry.id]).to_pylist():
        with suppress(DriftscopeError):
            if "text" in row and isinstance(form, BinFormat):
                texts[row["sample_id"]] = as_decimals(row["text"], form, reader, keep=True)
                continue
            numbers = [f"{value:.{DECIMALS}f}" for value in row["xyz"]]
            triples = tuple(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
            texts[row["sample_id"]] = enriched_text(row["smiles"], enriched_descriptors(row["smiles"]), triples)
    return texts
