"""A run from its first sample to the store: groups of molecules, each written when it is finished.

Whoever is stopped or killed loses the group that he was at; ``resume`` goes on behind the last one that was written. On
a CPU in single precision it comes to the texts of an undisturbed run. Elsewhere sums may differ in their last bits with
the batch, and so may a token: some finished samples are written anew, and how many differ is kept with the run.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.chem.smiles import parse_smiles
from engine.decode.generation import FITTED_MOLECULES, Generation
from engine.decode.steps import Stop, Tap, Watch
from engine.errors import RunError
from engine.models.loading import LoadedModel
from engine.records import Molecule
from engine.runner.account import Account
from engine.runner.group import GroupWriter, device_name
from engine.runner.plan import Progress, RunPlan, new_run_id, sampling_name
from engine.store.files import Files
from engine.store.groups import Group
from engine.store.provenance import git_commit, versions
from engine.store.schema import RUN
from engine.store.staging import Staging, sweep

MOLECULES_FILE = "molecules.parquet"
PROMPT_AROUND = 16
"""Characters of a prompt that are not the SMILES; no tokenizer makes more tokens than characters of it."""
CHECKED = 4
"""Molecules of which finished samples are written anew when a run is taken up again."""


def begin(
    files: Files,
    loaded: LoadedModel,
    molecules: Sequence[Molecule],
    plan: RunPlan,
    *,
    parts: int = 1,
    on_gpu: bool | None = None,
) -> Staging:
    """Reserve a run: its plan and its molecules are in the store's staging folder, and no sample yet.

    An outline of the model will do where ``parts`` processes elsewhere write the run, ``on_gpu`` or not.
    """
    if not molecules:
        raise RunError("there is no molecule to run", "Give one SMILES or more")
    plan = plan.grouped(len(molecules), parts, on_gpu=loaded.device.type != "cpu" if on_gpu is None else on_gpu)
    near = [molecule for molecule in molecules if len(molecule.smiles) + PROMPT_AROUND >= loaded.positions]
    asked = replace(plan.plan, equal_work=False)  # which would write answers
    first = Generation(loaded, [*molecules[:FITTED_MOLECULES], *near], asked)  # refuses what cannot be asked for
    plan = plan.with_placeholder(first.placeholder)
    sweep(files, RUN)
    run_id = new_run_id(loaded.entry.name, plan.plan.lp)
    row = _first_row(run_id, loaded, molecules, plan)
    samples = len(molecules) * plan.plan.generations
    buffer = io.BytesIO()
    pq.write_table(pa.table({"smiles": [molecule.smiles for molecule in molecules]}), buffer)
    beside = {MOLECULES_FILE: buffer.getvalue()}
    return Staging.create(files, RUN, run_id, row, beside, plan=plan.sheet(), samples=samples)


def resume(files: Files, run_id: str) -> tuple[Staging, RunPlan]:
    """A run that was begun, with what it was asked to do."""
    staging = Staging.open(files, RUN, run_id)
    return staging, RunPlan.read(staging.sheet.get("plan", {}))


def molecules_of(staging: Staging) -> list[Molecule]:
    try:
        content = staging.files.read(f"{staging.folder}/{MOLECULES_FILE}")
    except OSError as error:
        raise RunError(f"the molecules of {staging.id} are lost", "Run it anew") from error
    return [parse_smiles(smiles) for smiles in pq.read_table(pa.BufferReader(content)).column("smiles").to_pylist()]


class Run(Account):
    """One process's part of a run. Iterate over ``progress``; then ``publish`` it."""

    def __init__(
        self, staging: Staging, loaded: LoadedModel, molecules: Sequence[Molecule], plan: RunPlan, *, rank: int = 0
    ) -> None:
        super().__init__(staging, molecules, plan)
        self.loaded, self.rank = loaded, rank
        self.tap: Tap | None = None
        self.watch: Watch | None = None

    def progress(
        self, cancelled: Callable[[], bool] = lambda: False, groups: Collection[int] | None = None
    ) -> Generator[Progress, None, None]:
        """Write the groups that are left (of those given), and say how far it is with every sample.

        It counts as taken up again where some (of those given) were written before.
        """
        self.staging.lock(self.rank)
        self._writer.tell()
        asked = set(range(len(self.groups)) if groups is None else groups)
        written = asked - set(self.left())
        if written:
            yield self.now()
            self._writer.check(*self._one_of(written))
        for number in self.left():
            if cancelled():
                return
            if number in asked:
                yield from self._write(number, cancelled)
        self.notes = list(self._writer.notes)

    @functools.cached_property
    def _writer(self) -> GroupWriter:
        writer = GroupWriter(self.staging, self.loaded, self.plan, self.rank)
        writer.tap, writer.watch = self.tap, self.watch
        return writer

    def _write(self, number: int, cancelled: Callable[[], bool]) -> Iterator[Progress]:
        places = self.groups[number]
        work = self._writer.work(places, [self.molecules[place] for place in places])
        for event in work.events(cancelled):
            if isinstance(event, Stop) and event.reason != "cancelled":
                self._written_here += 1
                yield self.now(work.generation.samples)
        if not work.was_cancelled:
            self.finished.append(self._writer.add(work, number))
        self.notes = list(self._writer.notes)

    def _one_of(self, numbers: Collection[int]) -> tuple[Group, list[int], list[Molecule]]:
        """The last group that was written of these, and some of its molecules."""
        generations = self.plan.plan.generations
        first = {self.groups[number][0] for number in numbers}
        group = next(
            one for one in reversed(self.finished) if first & {member // generations for member in one.members}
        )
        places = sorted({member // generations for member in group.members})[:CHECKED]
        return group, places, [self.molecules[place] for place in places]


def _first_row(run_id: str, loaded: LoadedModel, molecules: Sequence[Molecule], plan: RunPlan) -> dict[str, Any]:
    """What is known before the first sample."""
    asked, sampling = plan.plan, plan.plan.sampling
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
        "lp": asked.lp,
        "placeholder": asked.placeholder or None,
        "backend": asked.backend,
        "sampling": sampling_name(sampling),
        "temperature": sampling.temperature,
        "top_k": sampling.top_k or None,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "seed": asked.seed,
        "generations": asked.generations,
        "most_tokens": asked.limit,
        "equal_work": asked.equal_work,
        "device": None if loaded.is_outline else device_name(loaded),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "attention": plan.model.attention,
        "kv_cache": "static rows of its own positions" if asked.backend == "fast" else "dynamic",
        "batch_size": asked.batch_size,
        "molecules": len({molecule.smiles for molecule in molecules}),
        "versions": versions(),
        "git_commit": git_commit(),
    }
