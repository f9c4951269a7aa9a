"""What a run is asked to do, in a form that its sheet keeps: whoever takes it up again needs nothing else."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.decode.plan import Plan
from engine.decode.presets import PRESETS, Sampling
from engine.errors import RunError
from engine.models.registry import ModelEntry, entry_of_folder, load_registry
from engine.records import NumberFormat

BATCHES_A_GROUP = 4
GPU_GROUPS = 8
"""A GPU's graphs are captured once a group: its groups are so many times larger."""
GROUPS_A_PART = 4
"""Where several processes share a run each has so many groups, so that none waits long for another."""
MOST_NAME = 60


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A registered model, or a folder that no registry names; and what it computes on."""

    alias: str = ""
    step: str = ""
    folder: str = ""
    tokenizer: str | None = None
    device: str = "auto"
    dtype: str | None = None
    attention: str = "sdpa"

    def entry(self) -> ModelEntry:
        if self.folder:
            return entry_of_folder(Path(self.folder), self.tokenizer)
        return load_registry().find(self.alias, self.step or None)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One model and one LP. Groups are ``group`` molecules each: what is lost when a run is killed."""

    model: ModelChoice
    plan: Plan
    keep_steps: int = 0  # samples whose steps are kept
    closing: bool = True  # ask the model, where a position LP closed a block, what it wanted
    rmsd: int = 0  # reference conformers that a sample is compared with
    group: int = 0  # 0: some batches of them
    label: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if self.keep_steps < 0 or self.rmsd < 0 or self.group < 0:
            raise RunError(
                f"{self.keep_steps} samples with steps, {self.rmsd} reference conformers, groups of {self.group}",
                "None of these can be less than 0",
            )
        if self.plan.time_limit_s is not None:
            raise RunError("a run has no time limit", "Stop it when you like, and go on with --resume")

    @property
    def molecules_a_group(self) -> int:
        if self.group:
            return self.group
        rows = max(self.plan.batch_size * BATCHES_A_GROUP, 1)
        return max(1, rows // self.plan.generations)

    def grouped(self, molecules: int, parts: int = 1, *, on_gpu: bool = False) -> RunPlan:
        """With groups of a size that suits a GPU, and small enough for each of the parts to have some."""
        if self.group or (parts == 1 and not on_gpu):
            return self
        size = self.molecules_a_group * (GPU_GROUPS if on_gpu else 1)
        if parts > 1:
            batch = math.ceil(self.plan.batch_size / self.plan.generations)
            size = min(size, max(batch, math.ceil(molecules / (parts * GROUPS_A_PART))), math.ceil(molecules / parts))
        return replace(self, group=max(1, size))

    def with_placeholder(self, placeholder: str) -> RunPlan:
        return replace(self, plan=replace(self.plan, placeholder=placeholder))

    def sheet(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, sheet: Mapping[str, Any]) -> RunPlan:
        try:
            plan = dict(sheet["plan"])
            form = plan.pop("form")
            sampling = Sampling(**plan.pop("sampling"))
            whole = Plan(**plan, sampling=sampling, form=None if form is None else NumberFormat(**form))
            rest = {key: value for key, value in sheet.items() if key not in ("plan", "model")}
            return cls(ModelChoice(**sheet["model"]), whole, **rest)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"the run's plan does not read ({error})", "It is of another version: run it anew"
            ) from error

    def groups(self, heavy_atoms: Sequence[int]) -> list[list[int]]:
        """Places of the molecules, longest first, in groups: rows of like length share a batch."""
        order = sorted(range(len(heavy_atoms)), key=lambda place: (-heavy_atoms[place], place))
        size = self.molecules_a_group
        return [order[start : start + size] for start in range(0, len(order), size)]


def sampling_name(sampling: Sampling) -> str:
    """The preset's name, or the parameters where it is none."""
    for name, one in PRESETS.items():
        if one == sampling:
            return name
    return f"t{sampling.temperature:g} k{sampling.top_k} p{sampling.top_p:g} m{sampling.min_p:g}"


def new_run_id(model: str, lp: str, now: datetime | None = None) -> str:
    """Readable, sorted by time, and no two alike."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{model}-{lp}").strip("-.")[:MOST_NAME]
    return f"{moment}-{name}-{uuid.uuid4().hex[:6]}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. ``work`` is the share of the expected tokens, which tells more than samples of any length."""

    run_id: str
    samples: int
    done: int
    passed: int
    bad_blocks: int
    blocks: int
    tokens: int
    written: int  # samples of this process
    seconds: float  # of this process
    work: float
    notes: tuple[str, ...] = ()

    @property
    def samples_a_second(self) -> float:
        return self.written / self.seconds if self.seconds > 0 else 0.0

    @property
    def pass_rate(self) -> float:
        return self.passed / self.done if self.done else 0.0
