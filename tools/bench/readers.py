"""Ten readers of the live page, each with one molecule, while an eleventh has 100 molecules written.

``python -m tools.bench.readers`` hands the lanes that the page starts with to the app's worker, in this process and
without a browser. All ten come at the same moment: while the first lane of the 100 is written, and again while its
result is checked. The table says how long each reader waits for the first token and for the end of all lanes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.chem.molecule_sets import RUN_FILE, load_named
from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.live.lane import Lane, LaneEvent, LaneTokens, lane_work, scored_answers, warm
from engine.runner.plan import ModelChoice, RunPlan
from engine.service import Job, Service
from engine.store.files import LocalFiles
from tools.bench._machine import machine, pin

READERS, MANY = 10, 100
LPS = ("none", "group-v2.1", "exact")
POLL_S = 0.1
MODEL = ModelChoice("demo-qwen")
PHASES = ("writing", "checking the result")


@dataclass(slots=True)
class Reader:
    """One owner's lanes, in order, and when they wrote."""

    jobs: list[Job[LaneEvent]]
    began: float = field(default_factory=time.perf_counter)
    first_s: list[float] = field(default_factory=list)  # per lane, to its first token
    ended_s: float = 0.0

    def poll(self) -> None:
        """As the page does."""
        seen = [job.poll() for job in self.jobs]
        now = time.perf_counter() - self.began
        self.first_s += [
            now for lane in seen[len(self.first_s) :] if any(isinstance(event, LaneTokens) for event in lane.events)
        ]
        if all(lane.has_ended for lane in seen):
            self.ended_s = self.ended_s or now


def wait(readers: Sequence[Reader], until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(POLL_S)
        for reader in readers:
            reader.poll()


def lanes(smiles: Iterable[str]) -> list[Lane]:
    """As the live page asks for them."""
    molecules = [parse_smiles(one) for one in smiles]
    kept = scored_answers([molecule.atoms for molecule in molecules], 1)
    wanted = tuple(molecule.smiles for molecule in molecules)
    return [Lane(wanted, RunPlan(MODEL, Plan(lp=lp), keep_steps=kept, rmsd=10, strain=True)) for lp in LPS]


def submitted(service: Service, owner: str, smiles: Iterable[str], folder: Path) -> Reader:
    return Reader([service.submit(owner, lane_work(lane, LocalFiles(folder))) for lane in lanes(smiles)])


def round_of(service: Service, phase: str, readers: int, folder: Path) -> list[Reader]:
    """The readers that came when the first of the many lanes was in that phase."""
    many = submitted(service, "many", RUN_FILE.read_text(encoding="utf-8").split()[:MANY], folder)
    wait([many], lambda: many.jobs[0].progress.note.startswith(phase))
    named = [molecule.smiles for molecule in load_named()]
    come = [submitted(service, f"reader {n}", [named[n % len(named)]], folder) for n in range(readers)]
    wait([many, *come], lambda: all(reader.ended_s for reader in come))
    for job in many.jobs:
        job.stop()
    for job in many.jobs:
        job.wait()
    return come


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--readers", type=int, default=READERS)
    args = parser.parse_args()
    pin(2)
    print(machine(["torch", "transformers"]))
    service = Service()
    service.wake("warm", warm(MODEL))
    with tempfile.TemporaryDirectory() as folder:
        first = submitted(service, "first", ["CCO"], Path(folder))  # starts the judge's process, and imports
        wait([first], lambda: first.ended_s > 0)
        print("| the readers come while the hundred are | reader | first token of each lane, s | all lanes done, s |")
        print("|---|---|---|---|")
        for phase in PHASES:
            for number, reader in enumerate(round_of(service, phase, args.readers, Path(folder)), start=1):
                firsts = ", ".join(f"{second:.1f}" for second in reader.first_s)
                print(f"| {phase} | {number} | {firsts} | {reader.ended_s:.1f} |", flush=True)
    service.close()


if __name__ == "__main__":
    main()
