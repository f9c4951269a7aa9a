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


def _state(
    workers: Workers, staging: Staging, loaded: LoadedModel | None, asked: Sequence[Molecule], plan: RunPlan
) -> RunState:
    if isinstance(workers, Pool):
        return RayRun(staging, asked, plan, workers)
    return RunState(staging, asked, plan) if loaded is None or loaded.is_outline else Run(staging, loaded, asked, plan)


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
            if workers is None:
                loaded = load_model(chosen.entry(), chosen.device, chosen.dtype, chosen.attention)
            else:  # other processes compute
                loaded = load_outline(chosen.entry(), chosen.dtype, chosen.attention)
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
    loaded = None
    if workers is None:
        staging.lock()
        loaded = load_model(plan.model.entry(), plan.model.device, plan.model.dtype, plan.model.attention)
    return _state(workers, staging, loaded, molecules_of(staging), plan)
