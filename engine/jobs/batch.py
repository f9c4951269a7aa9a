"""Runs one after the other: each model under each LP, or one that was stopped; written by this process or by others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from engine.errors import RunError
from engine.jobs.cluster import Cluster
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.ray_run import Pool, RayRun
from engine.jobs.run import Run, RunState, begin, molecules_of, resume
from engine.models.loading import LoadedModel, load_model, load_outline
from engine.records import Molecule
from engine.store.files import Files
from engine.store.references import ReferenceSet
from engine.store.staging import Staging

Workers: TypeAlias = Cluster | Pool | None
"""Tasks of a cluster, Ray's actors, or this process."""


def begun(
    files: Files,
    workers: Workers,
    asked: Sequence[Molecule],
    plans: Sequence[RunPlan],
    references: ReferenceSet | None = None,
) -> Iterator[RunState]:
    """Each when the one before is in the store, or submitted. Plans of one model stand side by side: it is loaded
    once."""
    chosen: ModelChoice | None = None
    for plan in plans:
        if plan.model != chosen:
            chosen = plan.model
            loaded = _loaded(chosen, workers)
        parts, on_gpu = 1, None
        if isinstance(workers, Cluster):
            parts, on_gpu = workers.tasks, workers.gpus_a_task(chosen.device) > 0
        elif workers is not None:
            parts, on_gpu = workers.count, workers.gpus > 0
        staging = begin(files, loaded, asked, plan, references=references, parts=parts, on_gpu=on_gpu)
        yield _state(workers, staging, loaded, asked, RunPlan.read(staging.sheet["plan"]))


def resumed(files: Files, workers: Workers, run_id: str, device: str = "auto") -> RunState:
    """``device``: another than it began on."""
    staging, plan = resume(files, run_id)
    if staging.is_being_written:
        raise RunError(f"{staging.id} is being written by another process", "Wait for it, or stop it")
    if device != "auto":
        plan = replace(plan, model=replace(plan.model, device=device))
    if workers is None:
        staging.lock()
    loaded = None if workers else _loaded(plan.model, workers)
    return _state(workers, staging, loaded, molecules_of(staging), plan)


def _loaded(model: ModelChoice, workers: Workers) -> LoadedModel:
    """The outline is enough where other processes compute."""
    if workers is None:
        return load_model(model.entry(), model.device, model.dtype, model.attention)
    return load_outline(model.entry(), model.dtype, model.attention)


def _state(
    workers: Workers, staging: Staging, loaded: LoadedModel | None, asked: Sequence[Molecule], plan: RunPlan
) -> RunState:
    if workers is None and loaded is not None:
        return Run(staging, loaded, asked, plan)
    return RayRun(staging, asked, plan, workers) if isinstance(workers, Pool) else RunState(staging, asked, plan)
