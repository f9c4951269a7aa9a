"""Conformers of others as runs: SDF, Parquet, and the pickles ``{smiles: [Mol, ...]}`` of the group's generations.

Such a run has conformers and no texts: whether an answer passed or was clean is not known, and stays null. Its
molecules are judged as they are read, and held against references like any other's, by a text that states the
conformer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from engine.chem.conformer_files import UNREADABLE, files_of, settled_smiles
from engine.chem.enriched import as_decimals, enriched_text
from engine.chem.geometry import judged_with
from engine.chem.pools import GRAPH, PoolConformer, pool_records, read_pool
from engine.chem.smiles import enriched_descriptors, read_text_order
from engine.chem.verdict import LOADED, PLAIN, JudgeSettings
from engine.errors import DriftscopeError, FileError, shown
from engine.file_forms import form_by_name
from engine.records import Alphabet, BinFormat, FailedCheck, MoleculeVerdict, ReaderName
from engine.store.entries import Entry, number_format_of, sha256_of
from engine.store.sample_rows import run_columns, verdict_row, verdict_sums
from engine.store.schema import CONFORMERS, RUN, SAMPLES
from engine.store.staging import begun_anew, totals
from engine.store.store import Store
from engine.user_files import open_file

GROUP = 5_000
"""Samples that are written together."""
DECIMALS = 6
"""Of a text that states a conformer: pickles of RDKit hold single precision."""
NOTE = "Read from {}: its texts, and how they came about, are not known."

Row = dict[str, Any]


def is_pool_folder(path: Path) -> bool:
    """Whether it is a folder with files of conformers, by their names."""
    return path.is_dir() and any(form_by_name(file, "pool") for file in path.rglob("*") if file.is_file())


def import_pool(
    store: Store,
    path: Path,
    *,
    label: str | None = None,
    settings: JudgeSettings | None = PLAIN,
    conformers: Iterable[PoolConformer] | None = None,
    progress: Callable[[int, float], object] = lambda done, share: None,
    warn: Callable[[str], object] = lambda text: None,
) -> Entry:
    """A file, or the files of a folder, as a run, named by its content, unless it is there; an error where nothing can
    be read. Each conformer is judged on its way unless ``settings`` is None. ``progress`` gets how many samples are
    read, and no share of the file; ``warn`` what cannot be. ``conformers``: all of them, where they have
    been read and judged already."""
    form, paths = files_of(path)
    run_id = f"imported-{_content_of(paths)[:16]}"
    if store.has(run_id):
        return store.entry(run_id)
    name = path.resolve().name
    note = NOTE.format(form.words)
    row: Row = {"origin": "imported", "source": name, "notes": note, "created_at": datetime.now(UTC).isoformat()}
    with begun_anew(store.home, RUN, run_id, row | ({"label": label} if label else {})) as staging:
        stats: list[str] = []
        pool = _PoolRows(run_id, form.name, is_judged=settings is not None)
        with closing(read_pool(pool_records(path, ["molecules"], stats.append), settings)) as read:
            left = iter(read if conformers is None else conformers)
            while group := list(islice(left, GROUP)):
                samples, places = pool.rows(group)
                tables = {SAMPLES.name: SAMPLES.rows(samples), CONFORMERS.name: CONFORMERS.rows(places)}
                staging.add(tables, sums=verdict_sums(samples))
                progress(pool.each.total(), 0.0)
        if not pool.each and not pool.left_out:
            raise FileError(f"{shown(name)} has no molecule in it", "There is nothing to import")
        if pool.left_out and not pool.with_conformer:
            problem = f"none of {len(pool.left_out):,} molecules of {shown(name)} can be read"
            raise FileError(f"{problem}. The first: {pool.left_out[0]}", "Write the file again")
        columns: Row = run_columns(totals(staging.groups()))
        columns.pop("usable", None)  # without texts
        notes = [note, *pool.notes()]
        if any(stats):
            notes.append(f"Its stats, of samples that are not in it too: {'; '.join(filter(None, stats))}.")
        if pool.left_out:
            of = pool.each.total() + pool.nameless
            left_out = f"{len(pool.left_out):,} of {of:,} molecules cannot be read. The first: {pool.left_out[0]}"
            notes.append(f"{left_out}.")
            warn(f"{shown(name)}: {left_out}")
        return staging.publish(
            {
                **columns,
                "judged_with": None if settings is None else judged_with(settings.geometry),
                "samples": pool.each.total(),
                "molecules": len(pool.each),
                "generations": max(pool.each.values()),
                "notes": " ".join(notes),
            }
        )


def _content_of(paths: Sequence[Path]) -> str:
    """SHA-256 of a file, or of those of several."""
    digests = []
    for path in paths:
        with open_file(path) as file:
            digests.append(sha256_of(file))
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


class _PoolRows:
    """A pool's conformers as rows of a run, and what is counted on their way."""

    def __init__(self, run_id: str, form: str, *, is_judged: bool) -> None:
        self.run_id, self.form, self.is_judged = run_id, form, is_judged
        self.each: Counter[str] = Counter()  # samples of a molecule
        self.smiles_from: Counter[str] = Counter()
        self.left_out: list[str] = []
        self.nameless = 0  # of those, without a SMILES that says what they should be: they are no samples
        self.with_conformer = 0

    def rows(self, pool: Iterable[PoolConformer]) -> tuple[list[Row], list[Row]]:
        """Of ``samples`` and of ``conformers``."""
        samples, conformers = list[Row](), list[Row]()
        for conformer in pool:
            if self._is_left_out(conformer.problem):
                self.left_out.append(f"{conformer.problem} ({conformer.source})")
            if not conformer.asked:
                self.nameless += 1
                continue
            sample = _sample_row(conformer, is_judged=self.is_judged)
            ids = {"run_id": self.run_id, "sample_id": self.each.total()}
            samples.append({**ids, "generation": self.each[sample["smiles"]], **sample})
            self.each[sample["smiles"]] += 1
            if conformer.xyz:
                conformers.append({**ids, "smiles": conformer.smiles, "xyz": conformer.xyz})
                self.smiles_from[conformer.smiles_from] += 1
                self.with_conformer += 1
        return samples, conformers

    def _is_left_out(self, problem: str) -> bool:
        """In a pickle a molecule without coordinates is a generation that failed."""
        return bool(problem) and (self.form != "pickle" or problem.startswith(UNREADABLE))

    def notes(self) -> Iterator[str]:
        """Where the molecules are from, of files that need not name them."""
        if self.form != "pickle":
            counts = ", ".join(f"{where} {count:,}" for where, count in self.smiles_from.most_common())
            yield f"SMILES from: {counts}."
        if self.smiles_from[GRAPH]:
            yield "Where it is from the graph alone, stereo is not judged."


def _sample_row(conformer: PoolConformer, *, is_judged: bool) -> Row:
    asked = _prompt_columns(conformer.asked)
    if conformer.problem:
        failed = FailedCheck(LOADED, (), f"nothing to judge: {conformer.problem}")
        verdict = MoleculeVerdict(0, 0, None, None, (failed,)) if is_judged else None
        return {**asked, "parsed": False, "parse_error": conformer.problem, **verdict_row(None, verdict)}
    return {
        **asked,
        "parsed": True,
        "same_graph": conformer.same_graph,
        "generated_smiles": conformer.smiles,
        "has_real_coordinates": True,
        **verdict_row(None, conformer.verdict),
    }


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
    """For samples with a missing text, or one of bins or codes (all of them, or of these): one that states their
    conformers in decimals, by sample. None of a molecule that has no enriched form; of bins what the reader does not
    take is kept, and of codes all that has no decoder. Of codes a conformer beside the text is taken first."""
    form = number_format_of(entry)
    parameters: Row = {"run": entry.id}
    some = ""
    if sample_ids is not None:
        some = " AND sample_id IN (SELECT unnest($ids))"
        parameters = {"run": entry.id, "ids": list(sample_ids)}

    def rows(part: str, sql: str) -> list[Row]:
        return store.table(sql + some, parameters, of=[entry.id]).to_pylist() if part in entry.parts else []

    texts = {}
    stated = "SELECT sample_id, smiles, xyz FROM conformers WHERE run_id = $run"
    for row in [] if isinstance(form, BinFormat) else rows(CONFORMERS.name, stated):
        with suppress(DriftscopeError):
            numbers = [f"{value:.{DECIMALS}f}" for value in row["xyz"]]
            triples = tuple(zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True))
            texts[row["sample_id"]] = enriched_text(row["smiles"], enriched_descriptors(row["smiles"]), triples)
    if isinstance(form, Alphabet):
        for row in rows(SAMPLES.name, "SELECT sample_id, text FROM samples WHERE run_id = $run AND text IS NOT NULL"):
            if row["sample_id"] not in texts:
                with suppress(DriftscopeError):
                    texts[row["sample_id"]] = as_decimals(row["text"], form, reader, keep=True)
    return dict(sorted(texts.items()))
