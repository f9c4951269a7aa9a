"""The state of a run that is being written: its groups, which of them are left, its progress, its publication.

It needs no model, so it also serves a process that submits the run and waits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.chem.geometry import judged_with
from engine.chem.molecule_list import heavy_atoms_of
from engine.decode.requests import default_limit
from engine.decode.samples import Sample
from engine.errors import RunError, StoreError
from engine.jobs.plan import RunPlan, RunProgress
from engine.records import Molecule
from engine.store.entries import Entry
from engine.store.groups import Group, totals
from engine.store.sample_rows import SINCE_2, run_columns
from engine.store.staging import Staging
from engine.text.blocks import SOUND

COUNTED = ("samples", "passes", "decodes", "clean", "bad_blocks", "blocks", "tokens")
"""Sums of a group that the progress shows."""


@dataclass(slots=True)
class _GrowingSum:
    """What the items of a list that only grows add up to; each is looked at once, since a run has many."""

    of: Sequence[Any] = ()
    counted: int = 0
    sums: Counter[str] = field(default_factory=Counter)

    def after(self, items: Sequence[Any], figures: Callable[[Any], Mapping[str, float]]) -> Counter[str]:
        if self.of is not items or self.counted > len(items):
            self.of, self.counted, self.sums = items, 0, Counter()
        for item in items[self.counted :]:
            self.sums.update(figures(item))
        self.counted = len(items)
        return self.sums


class RunState:
    """One run that is being written. ``finished``: the groups that are known to be written."""

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan) -> None:
        self.staging, self.molecules, self.plan = staging, molecules, plan
        heavy_atoms = heavy_atoms_of(molecules)
        self.groups = plan.groups(heavy_atoms)
        self.finished: list[Group] = staging.groups()
        self.notes: list[str] = []
        self._limits = list(map(default_limit, heavy_atoms))
        self._expected = plan.plan.generations * sum(self._limits)
        self._groups_tally, self._samples_tally = _GrowingSum(), _GrowingSum()
        self._began = time.perf_counter()
        self._written_here = 0

    def progress(self) -> Iterator[RunProgress]:
        """The progress so far; subclasses write the run meanwhile."""
        yield self.now()

    def left(self) -> list[int]:
        """The groups that are not written yet."""
        done = self.places_of(*self.finished)
        return [number for number, places in enumerate(self.groups) if places[0] not in done]

    def publish(self) -> Entry:
        """Moves the run into the store; every group has to be written."""
        self.finished = self.staging.groups()
        if left := self.left():
            raise RunError(
                f"{self.staging.id} lacks {len(left)} of {len(self.groups)} groups", "Resume it with --resume"
            )
        sums = totals(self.finished)
        if not all(SINCE_2[0] in group.sums for group in self.finished):  # begun by a version that did not count these
            sums = {name: value for name, value in sums.items() if name not in SINCE_2}
        return self.staging.publish({**run_columns(sums), **self._noted_columns()})

    def publish_if_whole(self) -> bool:
        """Publishes the run if no group is left; whether it is in the store now. Several processes may try at once."""
        try:
            self.finished = self.staging.groups()
            if not self.left():
                self.publish()
        except (RunError, StoreError, OSError):
            if not self.staging.is_shown:  # else another process was faster, and removed the staged files
                raise
        return self.staging.is_shown

    def now(self, samples: Sequence[Sample] = ()) -> RunProgress:
        """``samples``: finished ones of the current group."""
        sums = self._groups_tally.after(self.finished, self._of_group) + self._samples_tally.after(
            samples, self._of_sample
        )
        return RunProgress(
            run_id=self.staging.id,
            samples=len(self.molecules) * self.plan.plan.generations,
            done=int(sums["samples"]),
            passed=int(sums["passes"]),
            decodes=int(sums["decodes"]),
            clean=int(sums["clean"]),
            bad_blocks=int(sums["bad_blocks"]),
            blocks=int(sums["blocks"]),
            tokens=int(sums["tokens"]),
            written=self._written_here,
            seconds=time.perf_counter() - self._began,
            work=sums["expected"] / self._expected,
            notes=tuple(self.notes),
        )

    def _of_group(self, group: Group) -> dict[str, float]:
        expected = self.plan.plan.generations * sum(self._limits[place] for place in self.places_of(group))
        return {**{name: group.sums.get(name, 0) for name in COUNTED}, "expected": expected}

    def _of_sample(self, sample: Sample) -> dict[str, float]:
        return {
            "samples": 1,
            "passes": sample.check.passed,
            "decodes": sample.check.decodes,
            "clean": sample.check.clean,
            "bad_blocks": sum(not SOUND.issuperset(block.kinds) for block in sample.blocks),
            "blocks": len(sample.blocks),
            "tokens": sample.tokens,
            "expected": self._limits[sample.sample_id // self.plan.plan.generations],
        }

    def places_of(self, *groups: Group) -> set[int]:
        """The places of the molecules in these groups."""
        return {member // self.plan.plan.generations for group in groups for member in group.members}

    def _noted_columns(self) -> dict[str, Any]:
        """Columns of the run from the writers' notes."""
        row, written = self.staging.sheet["row"], self.staging.notes()
        notes = " ".join([*filter(None, [row.get("notes")]), *written.get("notes", [])])
        resumed, threads = written.get("resumed", []), written.get("threads", [])
        settings = self.plan.judge_settings
        return {
            "device": ", ".join(written.get("devices", [])) or row.get("device"),
            "threads": threads[0] if len(threads) == 1 else None,  # no one number holds for several
            "notes": notes or None,
            "judged_with": None if settings is None else judged_with(settings.geometry),
            "resumed": len(resumed),
            "checked_samples": sum(check["checked"] for check in resumed),
            "diverged_samples": sum(check["diverged"] for check in resumed),
        }
