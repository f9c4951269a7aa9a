"""A run from its first sample to the store: groups of molecules, each written when it is finished.

A process that is stopped or killed loses its current group; ``resume`` continues after the last saved group. On a CPU
in single precision the result has the texts of an uninterrupted run. Elsewhere sums may differ in their last bits with
the batch, and so may a token: some finished samples are generated again, and the run keeps how many differ.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.chem.molecule_list import MoleculeList, smiles_of
from engine.chem.smiles import parse_written
from engine.decode.generation import FITTED_MOLECULES, Generation
from engine.decode.steps import StepObserver, Stop, Tap
from engine.errors import RunError
from engine.jobs.group import GroupWriter, device_name
from engine.jobs.plan import RunPlan, RunProgress, new_run_id, sampling_name
from engine.jobs.rmsd_references import FILE as REFERENCES_FILE
from engine.jobs.rmsd_references import packed_references
from engine.jobs.run_state import RunState
from engine.lp_records import FORMER, full_name, stored_lp
from engine.models.devices import threads_of
from engine.models.loading import LoadedModel
from engine.records import Molecule
from engine.store.files import Files
from engine.store.groups import Group
from engine.store.inflated import StoredFileError, open_bytes
from engine.store.provenance import git_commit, versions
from engine.store.references import ReferenceSet
from engine.store.schema import RUN
from engine.store.staging import Staging, sweep

MOLECULES_FILE = "molecules.parquet"
MOST_MOLECULES = 10_000_000
PROMPT_AROUND = 16
"""Characters of a prompt besides the SMILES; a text never has more tokens than characters."""
CHECKED = 4
"""Molecules whose finished samples are generated again when a run is resumed."""


def begin(
    files: Files,
    loaded: LoadedModel,
    molecules: Sequence[Molecule],
    plan: RunPlan,
    *,
    references: ReferenceSet | None = None,
    parts: int = 1,
    on_gpu: bool | None = None,
) -> Staging:
    """Creates a run in the store's staging folder: its plan and its molecules, without samples.

    RMSD, where the plan asks for it, is to ``references``. The model's outline is enough where ``parts`` other
    processes write the run, ``on_gpu`` or not.
    """
    if not molecules:
        raise RunError("there are no molecules", "Give one SMILES or more")
    plan = plan.grouped(len(molecules), parts, on_gpu=loaded.device.type != "cpu" if on_gpu is None else on_gpu)
    smiles = smiles_of(molecules)
    places: dict[str, int] = {}
    for place, text in enumerate(smiles):  # one may be asked for many times
        places.setdefault(text, place)
    each = list(places.values())
    near = [place for place in each if len(smiles[place]) + PROMPT_AROUND >= loaded.positions]
    trial = replace(plan.plan, equal_work=False)  # equal work would generate samples
    some = [molecules[place] for place in (*each[:FITTED_MOLECULES], *near)]
    first = Generation(loaded, some, trial)  # an error where the plan does not fit
    plan = replace(plan, plan=replace(plan.plan, placeholder=first.placeholder))
    sweep(files, RUN)
    run_id = new_run_id(loaded.entry.name, plan.plan.lp)
    row = _first_row(run_id, loaded, len(each), len(molecules), plan)
    samples = len(molecules) * plan.plan.generations
    buffer = io.BytesIO()
    pq.write_table(pa.table({"smiles": smiles}), buffer)
    beside = {MOLECULES_FILE: buffer.getvalue()}
    if references is not None and plan.rmsd:
        plan = replace(plan, rmsd_references=references.name)
        beside[REFERENCES_FILE] = packed_references(references, [molecules[place] for place in each])
    return Staging.create(files, RUN, run_id, row, beside, plan=plan.sheet(), samples=samples)


def resume(files: Files, run_id: str) -> tuple[Staging, RunPlan]:
    staging = Staging.open(files, RUN, run_id)
    return staging, RunPlan.read(staging.sheet.get("plan", {}))


def molecules_of(staging: Staging) -> Sequence[Molecule]:
    """Read as places in a list of different texts: a small file can name one text of any length in every row."""
    try:
        file = open_bytes(staging.files.read(f"{staging.folder}/{MOLECULES_FILE}"), read_dictionary=["smiles"])
        if file.metadata.num_rows > MOST_MOLECULES:
            raise RunError(f"{staging.id} names {file.metadata.num_rows:,} molecules", "Start a new run")
        parts = file.read(columns=["smiles"]).column("smiles").chunks
        names = [part.dictionary.to_pylist() for part in parts]
        texts = [known[place] for known, part in zip(names, parts, strict=True) for place in part.indices.to_pylist()]
    except (OSError, pa.ArrowException, LookupError, TypeError, AttributeError) as error:
        reason = f": {error}" if isinstance(error, StoredFileError) else ""
        raise RunError(f"the molecules of {staging.id} are lost{reason}", "Start a new run") from error
    return MoleculeList.of(texts, parse_written)


class Run(RunState):
    """One process's part of a run. Iterate over ``progress``; then ``publish`` it."""

    def __init__(
        self, staging: Staging, loaded: LoadedModel, molecules: Sequence[Molecule], plan: RunPlan, *, rank: int = 0
    ) -> None:
        super().__init__(staging, molecules, plan)
        self.loaded, self.rank = loaded, rank
        self.tap: Tap | None = None
        self.watch: StepObserver | None = None

    def progress(
        self, cancelled: Callable[[], bool] = lambda: False, groups: Collection[int] | None = None
    ) -> Generator[RunProgress, None, None]:
        """Writes the groups that are left (of those given), and yields the progress after every sample.

        It counts as resumed where some (of those given) were written before.
        """
        self.staging.lock(self.rank)
        with closing(self._writer):
            yield from self._progress(cancelled, groups)

    def _progress(
        self, cancelled: Callable[[], bool], groups: Collection[int] | None
    ) -> Generator[RunProgress, None, None]:
        self._writer.note_device()
        own = set(range(len(self.groups)) if groups is None else groups)
        written = own - set(self.left())
        if written:
            yield self.now()
            self._writer.check(*self._last_of(written))
        for number in self.left():
            if cancelled():
                return
            if number in own:
                yield from self._write(number, cancelled)
        self.notes = list(self._writer.notes)

    @functools.cached_property
    def _writer(self) -> GroupWriter:
        writer = GroupWriter(self.staging, self.loaded, self.plan, self.rank)
        writer.tap, writer.watch = self.tap, self.watch
        return writer

    def _write(self, number: int, cancelled: Callable[[], bool]) -> Iterator[RunProgress]:
        places = self.groups[number]
        work = self._writer.work(places, [self.molecules[place] for place in places])
        for event in work.events(cancelled):
            if isinstance(event, Stop) and event.reason != "cancelled":
                self._written_here += 1
                yield self.now(work.generation.samples)
        if not work.was_cancelled:
            self.finished.append(self._writer.add(work, number))
        self.notes = list(self._writer.notes)

    def _last_of(self, numbers: Collection[int]) -> tuple[Group, list[int], list[Molecule]]:
        """The last written group of these, and some of its molecules."""
        first = {self.groups[number][0] for number in numbers}
        group = next(group for group in reversed(self.finished) if first & self.places_of(group))
        places = sorted(self.places_of(group))[:CHECKED]
        return group, places, [self.molecules[place] for place in places]


def _first_row(run_id: str, loaded: LoadedModel, molecules: int, places: int, plan: RunPlan) -> dict[str, Any]:
    """The run's row before the first sample of so many molecules, which may stand in several places."""
    options, sampling = plan.plan, plan.plan.sampling
    return {
        "run_id": run_id,
        "created_at": datetime.now(UTC).isoformat(),
        "origin": "measured",
        "source": plan.source or None,
        "label": plan.label or None,
        "model_alias": loaded.entry.alias,
        "model_step": loaded.entry.step,
        "model_family": loaded.family,
        "weights": loaded.entry.sha256 or None,
        "tokenizer": loaded.tokenizer.name,
        "vocab_size": loaded.tokenizer.vocab_size,
        "lp": full_name(options.lp).removeprefix(FORMER),
        "placeholder": options.placeholder or None,
        "descriptors": options.descriptors_of(loaded.entry.descriptors),
        "backend": options.backend,
        "sampling": sampling_name(sampling),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or None,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": options.seed,
        "generations": options.generations if molecules == places else None,
        "most_tokens": options.limit,
        "equal_work": options.equal_work,
        "guard": json.dumps(asdict(options.guard)) if stored_lp(options.lp).is_guarded else None,
        "device": None if loaded.is_outline else device_name(loaded),
        "threads": None if loaded.is_outline else threads_of(loaded.device),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "attention": plan.model.attention,
        "kv_cache": "static rows of its own positions" if options.backend == "fast" else "dynamic",
        "batch_size": options.batch_size,
        "molecules": molecules,
        "versions": versions(),
        "git_commit": git_commit(),
    }
