"""A run of 100,000 samples with a stub for the model: what the run itself costs, whether its memory stays flat.

``python -m tools.bench.scale`` plans a run as ``run`` does and writes it with a backend that hands out tokens of ready
answers, as fast as they are taken. So all that is measured is ours: reading and checking answers, tables, files, the
progress after each sample, the merge in the end. Half-way the run is left and resumed. The store that it makes is then
opened and compared. CPU seconds are of this process; wall times of a busy machine mean little. Nothing here is a test.

    --samples N --molecules N --atoms N   the size: samples, different molecules, heavy atoms of the largest
    --keep DIR                            write the store there and keep it
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from engine.chem.enriched import CLOSE_TAG, OPEN_TAG, fill_blocks, prompt_of
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.cli.output import table
from engine.decode import generation
from engine.decode.plan import Plan
from engine.decode.steps import Counters, DecodeOptions, Event, Request, Step, Stop
from engine.models.loading import LoadedModel, load_outline
from engine.models.registry import load_registry
from engine.records import Molecule
from engine.runner.plan import ModelChoice, RunPlan, RunProgress
from engine.runner.run import Run, begin, molecules_of, resume
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.text.tokenizers import TextTokenizer
from tools.bench._machine import machine, pin
from tools.bench.store import COMPARE

MODEL = "demo-qwen"
ANSWERS = 50
"""Different answers per molecule."""
SEED = 0
TWENTIETHS = 20


class StubBackend:
    """Has ready answers by prompt, and the tokens of one after the other."""

    def __init__(self, answers: dict[tuple[int, ...], list[list[int]]]) -> None:
        self.answers = answers

    def run(
        self, requests: Sequence[Request], options: DecodeOptions, counters: Counters, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        for request in requests:
            if cancelled():
                yield Stop(request.sample, "cancelled")
                continue
            answers = self.answers[tuple(request.prompt)]
            for pos, id_ in enumerate(answers[request.sample % len(answers)]):
                yield counters.count(Step(request.sample, pos, id_, forced=False))
            yield Stop(request.sample, "end")


@dataclass(frozen=True, slots=True)
class Moment:
    """What the run had used when a twentieth of its samples was done."""

    progress: RunProgress
    wall_s: float
    cpu_s: float
    rss_mb: float
    left_s: float  # as the terminal shows it


def answers_of(molecule: Molecule, tokenizer: TextTokenizer, rng: random.Random) -> list[list[int]]:
    def block() -> str:
        return ",".join(f"{rng.uniform(-5, 5):.4f}" for _ in range(3))

    assert tokenizer.end_id is not None
    contents = [[block() for _ in molecule.descriptors] for _ in range(ANSWERS)]
    texts = [f"{OPEN_TAG}{fill_blocks(molecule.smiles, molecule.descriptors, row)}{CLOSE_TAG}" for row in contents]
    return [[*ids, tokenizer.end_id] for ids in tokenizer.encode_batch(texts)]


def stubbed(loaded: LoadedModel, molecules: Sequence[Molecule]) -> None:
    """From here on, generations of this process take their tokens from ready answers."""
    rng = random.Random(SEED)
    answers = {
        tuple(loaded.tokenizer.encode(prompt_of(molecule.smiles))): answers_of(molecule, loaded.tokenizer, rng)
        for molecule in molecules
    }
    generation.make_backend = lambda *_, **__: StubBackend(answers)  # type: ignore[assignment]


def rss_mb() -> float:
    with Path("/proc/self/status").open() as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write(run: Run, moments: list[Moment], until: float) -> None:
    """Goes on to that share of the samples."""
    began_s, began = time.perf_counter(), run.now().work
    with closing(run.progress()) as steps:
        for progress in steps:
            if progress.done * TWENTIETHS >= progress.samples * (len(moments) + 1):
                wall_s, left_s = time.perf_counter() - began_s, progress.left_s(began) or 0.0
                moments.append(Moment(progress, wall_s, time.process_time(), rss_mb(), left_s))
                sys.stderr.write(f"\r{progress.done:,} of {progress.samples:,} samples")
            if until < 1 and progress.done >= until * progress.samples:
                break
    sys.stderr.write("\n")


def measure(place: Path, samples: int, molecules: int, atoms: int) -> None:
    entry = load_registry().find(MODEL)
    loaded, files = load_outline(entry), LocalFiles(place)
    small = (parse_smiles(smiles) for smiles in load_run_set())
    chosen = [molecule for molecule in small if molecule.heavy_atoms <= atoms][:molecules]
    stubbed(loaded, chosen)
    asked = [molecule for molecule in chosen for _ in range(samples // len(chosen))]
    plan = RunPlan(ModelChoice(entry.alias, entry.step), Plan(lp="exact", batch_size=256))
    staging = begin(files, loaded, asked, plan)
    moments: list[Moment] = []
    for until in (0.5, 1.0):
        again, plan = resume(files, staging.id)
        run = Run(again, loaded, molecules_of(again), plan)
        write(run, moments, until)
        again.release()
    before, peak = time.process_time(), peak_mb()
    run.publish()
    show(moments, time.process_time() - before, peak)
    opened = time.process_time()
    store = Store(files)
    store.rows("SELECT count(*) FROM runs", {})
    compared = time.process_time()
    store.rows(COMPARE, {})
    print(f"open {compared - opened:.3f} s CPU, compare {time.process_time() - compared:.3f} s CPU")


def show(moments: Sequence[Moment], publish_s: float, written_mb: float) -> None:
    rows = [
        (f"{moment.progress.done:,}", f"{moment.cpu_s:.0f}", f"{moment.rss_mb:,.0f}", f"{moment.left_s:.0f}")
        for moment in moments
    ]
    print(table(("samples", "CPU, s", "memory, MB", "time left, s"), rows))
    first, half = moments[0], moments[TWENTIETHS // 2 - 1]
    cpu = [after.cpu_s - before.cpu_s for before, after in pairwise(moments)]
    tokens_a_second = (half.progress.tokens - first.progress.tokens) / (half.cpu_s - first.cpu_s)
    predicted, taken = first.left_s, (half.wall_s - first.wall_s) * 2
    print(
        f"CPU per twentieth: first {cpu[0]:.1f} s, last {cpu[-1]:.1f} s; {tokens_a_second:,.0f} tokens per CPU second"
    )
    print(f"after the first twentieth: {predicted:.0f} s left; by its first half it took {taken:.0f} s")
    print(f"publish: {publish_s:.1f} s CPU; peak {written_mb:,.0f} MB before the merge, {peak_mb():,.0f} MB with it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--molecules", type=int, default=100)
    parser.add_argument("--atoms", type=int, default=12)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    pin(1)
    print(machine(("duckdb", "pyarrow")))
    with tempfile.TemporaryDirectory() as folder:
        measure(args.keep or Path(folder), args.samples, args.molecules, args.atoms)


if __name__ == "__main__":
    main()
