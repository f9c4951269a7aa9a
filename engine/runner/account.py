"""What a run consists of and how far it is, whoever writes it: groups, what is left of them, the run in the store.

It needs no model, so it serves a process that only hands out the work and waits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.decode.requests import default_limit
from engine.decode.samples import Sample
from engine.errors import RunError, StoreError
from engine.records import Molecule
from engine.runner.plan import Progress, RunPlan
from engine.store.entries import Entry
from engine.store.groups import Group, totals
from engine.store.sample_rows import RMSD_SUM, SOUND
from engine.store.staging import Staging


class Account:
    """One run that is being written. ``finished`` are the groups that are known to be written."""

    def __init__(self, staging: Staging, molecules: Sequence[Molecule], plan: RunPlan) -> None:
        self.staging, self.molecules, self.plan = staging, molecules, plan
        self.groups = plan.groups([molecule.heavy_atoms for molecule in molecules])
        self.finished: list[Group] = staging.groups()
        self.notes: list[str] = []
        self._limits = list(map(default_limit, molecules))
        self._began = time.perf_counter()
        self._written_here = 0

    def progress(self) -> Iterator[Progress]:
        """How far it is. Those who write it do so meanwhile."""
        yield self.now()

    def left(self) -> list[int]:
        """The groups that nobody has written yet."""
        done = self._done_places()
        return [number for number, places in enumerate(self.groups) if places[0] not in done]

    def publish(self) -> Entry:
        """Show the run in the store; every group has to be there."""
        self.finished = self.staging.groups()
        left = self.left()
        if left:
            raise RunError(
                f"{self.staging.id} has {len(left)} of {len(self.groups)} groups to go", "Go on with --resume"
            )
        return self.staging.publish({**whole(totals(self.finished)), **self._told()})

    def publish_if_whole(self) -> bool:
        """Show the run when nothing is left to write; whether it is in the store now. Several may do so at once."""
        try:
            self.finished = self.staging.groups()
            if not self.left():
                self.publish()
        except (RunError, StoreError, OSError):
            if not self.staging.is_shown:  # else another one was faster, and removed what this one was reading
                raise
        return self.staging.is_shown

    def now(self, samples: Sequence[Sample] = ()) -> Progress:
        """``samples``: those of the group in work that are finished."""
        before, generations = totals(self.finished), self.plan.plan.generations
        blocks = [block for sample in samples for block in sample.blocks]
        expected = generations * sum(self._limits[place] for place in self._done_places())
        expected += sum(self._limits[sample.sample_id // generations] for sample in samples)
        return Progress(
            run_id=self.staging.id,
            samples=len(self.molecules) * generations,
            done=int(before.get("samples", 0)) + len(samples),
            passed=int(before.get("passes", 0)) + sum(sample.check.passed for sample in samples),
            bad_blocks=int(before.get("bad_blocks", 0)) + sum(not SOUND.issuperset(block.kinds) for block in blocks),
            blocks=int(before.get("blocks", 0)) + len(blocks),
            tokens=int(before.get("tokens", 0)) + sum(sample.tokens for sample in samples),
            written=self._written_here,
            seconds=time.perf_counter() - self._began,
            work=expected / (generations * sum(self._limits)),
            notes=tuple(self.notes),
        )

    def _done_places(self) -> set[int]:
        return {member // self.plan.plan.generations for group in self.finished for member in group.members}

    def _told(self) -> dict[str, Any]:
        """What the writers said beside their samples, as columns of the run."""
        row, told = self.staging.sheet["row"], self.staging.told()
        notes = " ".join([*filter(None, [row.get("notes")]), *told.get("notes", [])])
        resumed = told.get("resumed", [])
        return {
            "device": ", ".join(told.get("devices", [])) or row.get("device"),
            "notes": notes or None,
            "resumed": len(resumed),
            "checked_samples": sum(one["checked"] for one in resumed),
            "diverged_samples": sum(one["diverged"] for one in resumed),
        }


def whole(sums: Mapping[str, float]) -> dict[str, float | int]:
    """Sums as columns: seconds and megabytes are no whole numbers, everything else is; of RMSDs the mean."""
    found = {name: value if name.endswith(("_s", "_mb")) else int(value) for name, value in sums.items()}
    if found.pop(RMSD_SUM, None) is not None:
        found["rmsd_ang"] = sums[RMSD_SUM] / sums["rmsd_samples"]
    return found
