"""Rollouts of a training read and judged: each text is checked, its molecule judged, and held against the other answers
of its prompt.

Processes of their own take a few prompts at a time with all their answers. What is done is stored every half minute,
so a run that is stopped resumes there. An answer's difference to another is that of their distances between atoms: it
takes no alignment, knows no symmetry and no mirror image, so it is an upper bound for molecules that are alike by
either, and a molecule that cannot bend has no other shape to be in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.chem.enriched import as_decimals, misread_ang, prompt_of
from engine.chem.geometry import judged_with
from engine.chem.judges import LIMIT_S, expected_mol
from engine.chem.verdict import CRASH, LOADED, PLAIN, TIME, JudgeSettings, judge_answer
from engine.errors import DriftscopeError, RunError
from engine.lp_records import NO_LP
from engine.processes import usable_cores
from engine.records import FailedCheck, MoleculeVerdict, NumberFormat
from engine.sandbox import Answer, Limits, Pool, SandboxError
from engine.store import reports as keys
from engine.store.entries import Entry, is_unjudged, number_format_of
from engine.store.reports.importing import ReportItem, RunOfFile
from engine.store.sample_rows import Row, run_columns, sums_of, tables_of, verdict_row
from engine.store.schema import BLOCKS, ROLLOUTS, RUN, SAMPLES
from engine.store.staging import added, rewrite_run
from engine.store.store import Store
from engine.text.blocks import PROMPT, READ_FORMAT, RULES, SOUND
from engine.text.check import find_answer

AT_ONCE, MOST_AT_ONCE = 48, 256
"""Answers that a process gets together: so many, and those of one prompt up to the second figure."""
FAR_ANG = 1e6
SAVED_S = 30.0
TABLES = (SAMPLES, BLOCKS, ROLLOUTS)


def nothing_to_judge(row: Row) -> MoleculeVerdict:
    why = row["parse_error"] if row["text"] is None and row["parse_error"] else "no text of it is stored"
    return MoleculeVerdict(0, 0, None, None, (FailedCheck(LOADED, (), f"nothing to judge: {why}"),))


def steps_of(store: Store, entry: Entry) -> list[Entry]:
    """All steps of the training that a run is a step of, in their order."""
    training = entry.row.get("training")
    if not training:
        raise RunError(f"{entry.id} is no step of a training", "Import completions that TRL logs, and choose one")
    runs = [run for run in store.listing(RUN).entries if run.row.get("training") == training]
    return sorted(runs, key=lambda run: (run.row.get("training_step") or 0, run.id))


def judge_rollouts(
    entries: Sequence[Entry],
    settings: JudgeSettings = PLAIN,
    *,
    workers: int | None = None,
    limit_s: float = LIMIT_S,
    progress: Callable[[int, int], None] = lambda done, samples: None,
) -> list[Entry]:
    """Read and judge what is not yet, and store it. ``progress`` hears of all samples of these runs."""
    whole = sum(entry.parts[SAMPLES.name].rows for entry in entries)
    before, judged = 0, []
    with Pool(workers or usable_cores(), _judging, settings, limits=Limits(limit_s, memory_mb=4096)) as pool:
        for entry in entries:
            seen = lambda done, before=before: progress(before + done, whole)  # noqa: E731
            judged.append(_judged(_Judged.of(entry), pool, settings, seen) if is_unjudged(entry) else entry)
            before += entry.parts[SAMPLES.name].rows
            progress(before, whole)
    return judged


@dataclass(slots=True)
class _Judged:
    """A run on its way."""

    entry: Entry
    form: NumberFormat | None
    samples: pa.Table  # as they were stored
    rollouts: pa.Table
    parts: dict[str, list[pa.Table]]  # judged, by table
    sums: list[dict[str, float]]  # what they add up to

    @classmethod
    def of(cls, entry: Entry) -> _Judged:
        samples, rollouts = entry.read(SAMPLES.name), entry.read(ROLLOUTS.name)
        blocks = entry.read(BLOCKS.name) if BLOCKS.name in entry.parts else BLOCKS.schema.empty_table()
        is_read = pc.is_valid(samples["passed"])
        read = samples.filter(is_read)
        parts = {SAMPLES.name: [read], BLOCKS.name: [blocks], ROLLOUTS.name: [rollouts.filter(is_read)]}
        form = number_format_of(entry)
        sums = [sums_of(read.to_pylist(), blocks.to_pylist(), form or READ_FORMAT)] if read.num_rows else []
        return cls(entry, form, samples, rollouts, parts, sums)

    @property
    def done(self) -> int:
        return sum(table.num_rows for table in self.parts[SAMPLES.name])

    def take(self, answers: Iterable[Answer]) -> None:
        for (sums, _), body in answers:
            self.sums.append(sums)
            for table, stream in zip(TABLES, msgspec.msgpack.decode(body, type=list[bytes]), strict=True):
                self.parts[table.name].append(pa.ipc.open_stream(stream).read_all())

    def left(self, table: pa.Table) -> pa.Table:
        """Of samples or rollouts, those that are not judged."""
        judged = pa.concat_tables(self.parts[SAMPLES.name])["sample_id"].combine_chunks()
        return table.filter(pc.invert(pc.is_in(table["sample_id"], judged)))

    def save(self, **columns: Any) -> None:
        """All rows, judged or not."""
        rest = {SAMPLES.name: self.left(self.samples), ROLLOUTS.name: self.left(self.rollouts)}
        tables = {}
        for table in TABLES:
            rows = pa.concat_tables([*self.parts[table.name], rest.get(table.name, table.schema.empty_table())])
            tables[table.name] = rows.sort_by([(name, "ascending") for name in table.order])
        self.entry = rewrite_run(self.entry, tables, columns)


def _judged(run: _Judged, pool: Pool, settings: JudgeSettings, seen: Callable[[int], None]) -> Entry:
    saved_s = time.monotonic()
    try:
        for rows, future in pool.in_order(_tasks(run), lambda rows: (rows, run.form)):
            run.take(_answered(pool, rows, future, run.form))
            seen(run.done)
            if time.monotonic() - saved_s > SAVED_S:
                run.save()
                saved_s = time.monotonic()
    except BaseException:  # such as Ctrl-C: what is done is kept
        if run.done:
            run.save()
        raise
    molecules = len(pc.unique(pa.concat_tables(run.parts[SAMPLES.name])["smiles"]))
    columns = {**run_columns(added(run.sums)), "judged_with": judged_with(settings.geometry), "counted_by": RULES}
    run.save(**columns, molecules=molecules)
    return run.entry


def _answered(pool: Pool, rows: list[Row], future: Future[Answer], form: NumberFormat | None) -> Iterator[Answer]:
    """Where a process ends, each is judged alone; of one that ends it so the text is read and its molecule is not."""
    try:
        yield future.result()
    except SandboxError as error:
        if error.why == "start" or "failed" in rows[0]:
            raise DriftscopeError(f"a process that judges ended: {error}", "Try again") from error
        failed = {} if len(rows) > 1 else {"failed": TIME if error.why == "time" else CRASH}
        for row in rows:
            again = [{**row, **failed}]
            yield from _answered(pool, again, pool.submit(again, form), form)


def _tasks(run: _Judged) -> Iterator[list[Row]]:
    """Answers for one process: those of a prompt together, so that each may be held against the others."""
    samples, rollouts = run.left(run.samples), run.left(run.rollouts)
    ordered = samples.select(["run_id", "sample_id", "generation", "smiles", "text", "extra"])
    for name in ("rewards", "advantage"):  # both tables are in the order of their samples
        ordered = ordered.append_column(name, rollouts[name])
    order = pc.sort_indices(ordered, [("smiles", "ascending"), ("sample_id", "ascending")])
    waiting: list[Row] = []
    for row in (row for batch in ordered.take(order).to_batches(1_024) for row in batch.to_pylist()):
        is_next = bool(waiting) and row["smiles"] != waiting[-1]["smiles"]
        if len(waiting) >= (AT_ONCE if is_next else MOST_AT_ONCE):
            yield waiting
            waiting = []
        waiting.append(row)
    if waiting:
        yield waiting


# --- in a process of its own ------------------------------------------------------------------------------------------


def _judging(settings: JudgeSettings) -> Callable[[Sequence[Row], NumberFormat | None], Answer]:
    def work(rows: Sequence[Row], form: NumberFormat | None) -> Answer:
        run = RunOfFile({}, NO_LP, None, form, ("passed", ""))
        templates: dict[Any, Any] = {}
        samples, each_blocks, rollouts = zip(*(_answer(run, row, settings, templates) for row in rows), strict=True)
        for rollout, nearest_ang in zip(rollouts, _nearest(samples, each_blocks), strict=True):
            rollout["nearest_ang"] = nearest_ang
        blocks = [row for of_answer in each_blocks for row in of_answer]
        tables = [*tables_of(rows[0]["run_id"], samples, blocks).values(), ROLLOUTS.rows(rollouts)]
        return (sums_of(samples, blocks, run.numbers), None), msgspec.msgpack.encode(list(map(_stream, tables)))

    return work


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _answer(run: RunOfFile, row: Row, settings: JudgeSettings, templates: dict[Any, Any]) -> tuple[Row, list[Row], Row]:
    """Its rows of samples, blocks and rollouts."""
    told = json.loads(row["extra"] or "{}")
    before = told.pop(keys.BEFORE, None) or prompt_of(row["smiles"])
    if PROMPT.match(row["text"]):  # a list of failures has it with the text
        before = ""
    is_listed_as_failed = told.pop(keys.REPORTED_PASSED, None) is False
    item = ReportItem(False, row["smiles"], (before + row["text"],), (told,), 0 if is_listed_as_failed else -1)
    ((sample, blocks),) = run.samples(item, row["sample_id"], templates)
    text = as_decimals(find_answer(sample["text"]).judged, run.numbers, keep=True)
    if "failed" in row:
        failed = FailedCheck(row["failed"], (), "judging it did not come to an end")
        verdict = MoleculeVerdict(0, 0, None, None, (failed,))
    else:
        verdict = judge_answer(text, expected_mol(sample["smiles"]), settings) if text else nothing_to_judge(sample)
    damaged = [block for block in blocks if not SOUND.issuperset(block["kinds"])]
    off = [misread_ang(block["text"], (block["x"], block["y"], block["z"]), run.numbers) for block in damaged]
    sample |= verdict_row(sample["clean"], verdict, sample["clean_each"]) | {"generation": row["generation"]}
    rollout = {name: row[name] for name in ("run_id", "sample_id", "rewards", "advantage")}
    return sample, blocks, rollout | {"misread_ang": max((ang for ang in off if ang is not None), default=None)}


def _nearest(samples: Sequence[Row], blocks: Sequence[list[Row]]) -> list[float | None]:
    """Of each answer with a place for every atom: the least difference to another of its molecule."""
    nearest: list[float | None] = [None] * len(samples)
    by_molecule: dict[str, dict[int, list[Any]]] = {}
    for number, sample in enumerate(samples):
        if places := _places(sample, blocks[number]):
            by_molecule.setdefault(sample["smiles"], {})[number] = places
    for of_molecule in by_molecule.values():
        each = np.array(list(of_molecule.values()))  # [answers, atoms, 3]
        first, second = np.triu_indices(each.shape[1], k=1)
        apart = np.linalg.norm(each[:, first] - each[:, second], axis=-1)  # [answers, pairs]
        lengths = (apart**2).sum(axis=1)
        squares = (lengths[:, None] + lengths[None, :] - 2 * apart @ apart.T) / apart.shape[1]
        np.fill_diagonal(squares, np.inf)
        for number, square in zip(of_molecule, squares.min(axis=1).tolist(), strict=True):
            nearest[number] = max(square, 0.0) ** 0.5 if len(each) > 1 else None
    return nearest


def _places(sample: Row, blocks: Sequence[Row]) -> list[Any]:
    """Of its first conformer; empty where an atom has none, or there is one atom."""
    first = [block for block in blocks if block["conformer"] == 1]
    places = [(block["x"], block["y"], block["z"]) for block in first]
    is_near = all(value is not None and abs(value) < FAR_ANG for place in places for value in place)
    is_whole = [block["atom"] for block in first] == list(range(sample["atoms"] or 0))
    return places if is_near and is_whole and len(places) > 1 else []
