"""A run of 100,000 samples with a stub for the model: what the run itself costs, whether its memory stays flat.

``python -m tools.bench.scale`` plans a run as ``run`` does and writes it with a backend that hands out tokens of ready
answers, as fast as they are taken. So all that is measured is ours: reading and checking answers, tables, files, the
progress after each sample, the merge in the end. Half-way the run is left and resumed. The store that it makes is then
opened and compared. CPU seconds are of this process; wall times of a busy machine mean little.

    --samples N --molecules N --atoms N   the size: samples, different molecules, heavy atoms of the largest
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import Run, begin, molecules_of, resume
from engine.models.loading import load_outline
from engine.models.registry import load_registry
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.jobs.stub_backend import stubbed
from tools.bench._measure import machine, note, peak_mb, pin, show
from tools.bench.store import COMPARE

MODEL = "demo-qwen"
TWENTIETHS = 20


def measure(folder: Path, samples: int, molecules: int, atoms: int) -> None:
    entry = load_registry().find(MODEL)
    loaded, files = load_outline(entry), Files(folder)
    small = (parse_smiles(smiles) for smiles in load_run_set())
    chosen = [molecule for molecule in small if molecule.heavy_atoms <= atoms][:molecules]
    stubbed(loaded, chosen)
    repeated = [molecule for molecule in chosen for _ in range(samples // len(chosen))]
    plan = RunPlan(ModelChoice(entry.alias, entry.step), Plan(lp="exact", batch_size=256))
    staging = begin(files, loaded, repeated, plan)
    # What the run had used when each twentieth was done: samples, tokens, wall and CPU seconds, MB, seconds left.
    moments: list[tuple[int, int, float, float, float, float]] = []
    for until in (0.5, 1.0):
        again, plan = resume(files, staging.id)
        run = Run(again, loaded, molecules_of(again), plan)
        began_s = time.perf_counter()
        with closing(run.progress()) as steps:
            for progress in steps:
                if progress.done * TWENTIETHS >= progress.samples * (len(moments) + 1):
                    rss = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line)
                    taken = (time.perf_counter() - began_s, time.process_time(), int(rss.split()[1]) / 1024)
                    moments.append((progress.done, progress.tokens, *taken, progress.seconds_left or 0.0))
                    note(f"{progress.done:,} of {progress.samples:,} samples")
                if until < 1 and progress.done >= until * progress.samples:
                    break
        again.release()
    before, peak = time.process_time(), peak_mb()
    run.publish()
    published = time.process_time()
    store = Store(files)
    store.rows("SELECT count(*) FROM runs", {})
    opened = time.process_time()
    store.rows(COMPARE, {})
    compared = time.process_time()
    rows = [(f"{done:,}", f"{cpu_s:.0f}", f"{mb:,.0f}", f"{left_s:.0f}") for done, _, _, cpu_s, mb, left_s in moments]
    show("A run of many samples", "samples|CPU, s|memory, MB|time left, s", rows)
    first, half = moments[0], moments[TWENTIETHS // 2 - 1]
    cpu = [after[3] - before[3] for before, after in pairwise(moments)]
    print(f"CPU per twentieth: first {cpu[0]:.1f} s, last {cpu[-1]:.1f} s")
    print(f"{(half[1] - first[1]) / (half[3] - first[3]):,.0f} tokens per CPU second")
    print(
        f"after the first twentieth: {first[5]:.0f} s left; by its first half it took {2 * (half[2] - first[2]):.0f} s"
    )
    print(f"publish: {published - before:.1f} s CPU; peak {peak:,.0f} MB before the merge, {peak_mb():,.0f} MB with it")
    print(f"open {opened - published:.3f} s CPU, compare {compared - opened:.3f} s CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--molecules", type=int, default=100)
    parser.add_argument("--atoms", type=int, default=12)
    args = parser.parse_args()
    pin(1)
    print(machine("duckdb", "pyarrow"))
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), args.samples, args.molecules, args.atoms)


if __name__ == "__main__":
    main()
