"""Runs of a small model with random weights: whole in every respect, and over in a second."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import Run, begin, molecules_of, resume
from engine.models.loading import LoadedModel, load_model
from engine.records import Molecule
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.staging import Staging
from engine.store.store import Store

OF_THE_CLOCK = ("run_id", "decode_s")


@functools.lru_cache(maxsize=2)
def loaded(folder: Path) -> LoadedModel:
    return load_model(choice(folder).entry(), "cpu")


def choice(folder: Path) -> ModelChoice:
    return ModelChoice(folder=str(folder), tokenizer="qwen3", device="cpu")


def molecules(count: int) -> list[Molecule]:
    """The smallest of the run set: the model is quick, long answers are not."""
    parsed = [parse_smiles(smiles) for smiles in load_run_set()[:400]]
    return sorted(parsed, key=lambda molecule: molecule.heavy_atoms)[:count]


def plan_of(folder: Path, **more: Any) -> RunPlan:
    settings = {"lp": "exact", "batch_size": 4, "limit": 60, **more.pop("plan", {})}
    return RunPlan(choice(folder), Plan(**settings), **{"group": 2, **more})


def started(store: Path, folder: Path, count: int, **more: Any) -> Run:
    """A run that is begun as the command line does it."""
    model, files = loaded(folder), Files(store)
    return opened(begin(files, model, molecules(count), plan_of(folder, **more)), model)


def opened(staging: Staging, model: LoadedModel) -> Run:
    again, plan = resume(staging.files, staging.id)
    staging.release()
    return Run(again, model, molecules_of(again), plan)


def finished(run: Run) -> Entry:
    for _ in run.progress():
        pass
    return run.publish()


def entry_in(store: Path) -> Entry:
    (entry,) = Store(Files(store)).listing().entries
    return entry


def stopped(run: Run, groups: int = 1) -> None:
    """Given up in the group after so many."""
    with closing(run.progress()) as steps:
        next(_ for _ in steps if len(run.finished) >= groups)
    run.staging.release()


def content(entry: Entry) -> dict[str, list[dict[str, Any]]]:
    """All rows of a run, without what another clock or another name would change."""
    tables = {}
    for table in entry.parts:
        rows = pq.read_table(entry.path(table), partitioning=None).to_pylist()
        tables[table] = [{key: value for key, value in row.items() if key not in OF_THE_CLOCK} for row in rows]
    return tables


def fake_slurm(folder: Path, patch: pytest.MonkeyPatch, keep: str) -> None:
    """A Slurm that takes all and carries out nothing; ``keep`` is what its sbatch does with the script ``$1``."""
    programs = folder / "bin"
    programs.mkdir()
    (programs / "srun").write_text("#!/bin/sh\n")
    (programs / "sbatch").write_text(f"#!/bin/sh\n{keep}\necho Submitted batch job 4711\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")


@contextmanager
def interrupted_after_one_group() -> Iterator[None]:
    """As by Ctrl-C, in this process."""
    write = Run._write

    def once(self: Run, number: int) -> Any:
        if self.finished:
            raise KeyboardInterrupt
        return write(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_write", once)
        yield
