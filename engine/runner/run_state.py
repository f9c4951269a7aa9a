"""The state of a run that is being written: its groups, which of them are left, its progress, its publication.

It needs no model, so it also serves a process that submits the run and waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from engine.chem.geometry import judged_with
from engine.decode.requests import default_limit
from engine.decode.samples import Sample
from engine.errors import RunError, StoreError
from engine.records import Molecule
from engine.runner.plan import RunPlan, RunProgress
from engine.store.entries import Entry
from engine.store.groups import Group, totals
from engine.store.sample_rows import SINCE_2, run_columns
from engine.store.staging import Staging
from engine.text.blocks import SOUND


class RunState:
    """One run that is being written. ``finished``: the groups that are known to be written."""

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan) -> None:
        self.staging, self.molecules, self.plan = staging, molecules, plan
        self.groups = plan.groups([molecule.heavy_atoms for molecule in molecules])
        self.finished: list[Group] = staging.groups()
        self.notes: list[str] = []
        self._limits = list(map(default_limit, molecules))
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
        before, generations = totals(self.finished), self.plan.plan.generations
        blocks = [block for sample in samples for block in sample.blocks]
        expected = generations * sum(self._limits[place] for place in self.places_of(*self.finished))
        expected += sum(self._limits[sample.sample_id // generations] for sample in samples)
        return RunProgress(
            run_id=self.staging.id,
            samples=len(self.molecules) * generations,
            done=int(before.get("samples", 0)) + len(samples),
            passed=int(before.get("passes", 0)) + sum(sample.check.passed for sample in samples),
            decodes=int(before.get("decodes", 0)) + sum(sample.check.decodes for sample in samples),
            clean=int(before.get("clean", 0)) + sum(sample.check.clean for sample in samples),
            bad_blocks=int(before.get("bad_blocks", 0)) + sum(not SOUND.issuperset(block.kinds) for block in blocks),
            blocks=int(before.get("blocks", 0)) + len(blocks),
            tokens=int(before.get("tokens", 0)) + sum(sample.tokens for sample in samples),
            written=self._written_here,
            seconds=time.perf_counter() - self._began,
            work=expected / (generations * sum(self._limits)),
            notes=tuple(self.notes),
        )

    def places_of(self, *groups: Group) -> set[int]:
        """The places of the molecules in these groups."""
        return {member // self.plan.plan.generations for group in groups for member in group.members}

    def _noted_columns(self) -> dict[str, Any]:
        """Columns of the run from the writers' notes."""
        row, written = self.staging.sheet["row"], self.staging.notes()
        notes = " ".join([*filter(None, [row.get("notes")]), *written.get("notes", [])])
        resumed = written.get("resumed", [])
        settings = self.plan.judge_settings
        return {
            "device": ", ".join(written.get("devices", [])) or row.get("device"),
            "notes": notes or None,
            "judged_with": None if settings is None else judged_with(settings.geometry),
            "resumed": len(resumed),
            "checked_samples": sum(check["checked"] for check in resumed),
            "diverged_samples": sum(check["diverged"] for check in resumed),
        }
