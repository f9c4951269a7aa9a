"""The plan of a run, in a form that its sheet keeps: a process that resumes it needs nothing else."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.chem.verdict import PLAIN, WITH_STRAIN, JudgeSettings
from engine.decode.plan import PRESETS, Branch, Plan, Sampling
from engine.errors import RunError
from engine.lp_records import FORMER, GuardSettings, split_cleanup, stored_lp
from engine.models.registry import ModelEntry, entry_of_folder, load_registry
from engine.records import read_number_format
from engine.text.generated import mode_of

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel

BATCHES_A_GROUP, GPU_GROUPS, GROUPS_A_PART = 4, 8, 4
"""Larger on a GPU, since its graphs are captured once a group; several a process, so that none waits for another."""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A registered model, or an unregistered folder; and its device."""

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

    def load(self, plan: Plan, url: str | None = None, *, scores: bool = False) -> LoadedModel:
        """What writes under this plan. ``scores``: whether the weights are needed here though a server writes, of
        ``url`` or of the environment."""
        from engine.models.loading import load_model, load_outline, served_as

        entry = self.entry()
        if plan.backend != "server":
            return load_model(entry, self.device, self.dtype, self.attention)
        loaded = served_as(load_outline(entry, self.dtype, self.attention), url)
        if not scores:
            return loaded
        return replace(load_model(entry, self.device, self.dtype, self.attention), served=loaded.served)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """One model and one LP. A killed run loses at most one group of ``group`` molecules."""

    model: ModelChoice
    plan: Plan
    keep_steps: int = 0  # samples with kept steps
    closing: bool = True  # score the blocks that a position LP closed by force
    rmsd: int = 0  # reference conformers per molecule
    rmsd_references: str = ""  # the set that has these conformers, all of a molecule's; empty: by ETKDG
    group: int = 0  # 0: a few batches
    label: str = ""
    source: str = ""
    judge: bool = False  # the molecules too, in processes of their own
    strain: bool = False  # judged, with their strain

    def __post_init__(self) -> None:
        if self.plan.time_limit_s is not None:
            raise RunError("a run has no time limit", "Stop it at any time, and resume it with --resume")

    @property
    def scores(self) -> bool:
        """Whether the model reads once more what was written."""
        return self.keep_steps > 0 or (self.closing and mode_of(split_cleanup(self.plan.lp)[0]) == "position")

    @property
    def judge_settings(self) -> JudgeSettings | None:
        """None where molecules are not judged."""
        if self.strain:
            return WITH_STRAIN
        return PLAIN if self.judge else None

    @property
    def molecules_a_group(self) -> int:
        return self.group or max(1, self.plan.batch_size * BATCHES_A_GROUP // self.plan.generations)

    def grouped(self, molecules: int, parts: int = 1, *, on_gpu: bool = False) -> RunPlan:
        """With groups large enough for a GPU, and small enough that every part gets some."""
        if self.group or (parts == 1 and not on_gpu):
            return self
        size = self.molecules_a_group * (GPU_GROUPS if on_gpu else 1)
        if parts > 1:
            batch = math.ceil(self.plan.batch_size / self.plan.generations)
            size = min(size, max(batch, math.ceil(molecules / (parts * GROUPS_A_PART))), math.ceil(molecules / parts))
        return replace(self, group=max(1, size))

    @classmethod
    def read(cls, sheet: Mapping[str, Any]) -> RunPlan:
        """Of what ``asdict`` made of a plan, and JSON of that."""
        try:
            stored = dict(sheet["plan"])
            former: dict[str, Any] = {}
            if stored.pop("last_positions", None) == 2:  # of before the position LPs were the group's own
                is_former = stored_lp(stored["lp"], is_former=True).name.startswith(FORMER)
                former = {"lp": FORMER * is_former + stored["lp"], "descriptors": "plain", "bos": False}
            guard = stored.get("guard")
            if guard:
                kept = {key: value for key, value in guard.items() if key != "weigh"}  # of runs of before
                guard = GuardSettings(**{**kept, "checks": tuple(kept["checks"])})
            form = None if stored["form"] is None else read_number_format(stored["form"])
            sampling = Sampling(**stored["sampling"])
            branch = stored.get("branch")
            if branch:
                branch = Branch(**{**branch, "ids": tuple(branch["ids"]), "tokens": tuple(branch["tokens"])})
            records = {"form": form, "sampling": sampling, "guard": guard, "branch": branch}
            plan = Plan(**{**stored, **former, **records})
            return cls(**{**sheet, "model": ModelChoice(**sheet["model"]), "plan": plan})
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"the run's plan cannot be read ({error})", "It is of another version: run again") from error

    def assumed(self, sheet: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the version which wrote the sheet did not have yet. A guard's are as old as guards, and
        before conformers, examples and branches were settings, an answer had one, a prompt none, and no run was one."""
        known = {*sheet, *sheet["plan"], "guard", "conformers", "examples", "branch"}
        settings = asdict(self) | asdict(self.plan)
        return {name: value for name, value in settings.items() if name not in known}

    def groups(self, heavy_atoms: Sequence[int]) -> list[list[int]]:
        """Indices of the molecules in groups, longest first: rows of similar length share a batch."""
        order = sorted(range(len(heavy_atoms)), key=lambda index: (-heavy_atoms[index], index))
        size = self.molecules_a_group
        return [order[start : start + size] for start in range(0, len(order), size)]


def sampling_name(sampling: Sampling) -> str:
    """The preset's name, or the parameters: ``t1 k0 p0.9 m0``."""
    parameters = f"t{sampling.temperature:g} k{sampling.top_k} p{sampling.top_p:g} m{sampling.min_p:g}"
    return next((name for name, preset in PRESETS.items() if preset == sampling), parameters)


def new_run_id(model: str, lp: str) -> str:
    """Readable, sorted by time, and unique."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{model}-{lp}").strip("-.")[:60]
    return f"{moment}-{name}-{uuid.uuid4().hex[:6]}"
