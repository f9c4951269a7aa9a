"""Rollouts of a training: how long 100,000 completions take to open, and how many are judged in a second.

``python -m tools.bench.rollouts`` writes a file as TRL does, of 50 steps, with the demo's own texts, 8 for each prompt,
and opens it; then it judges a step of them, and a step of texts without a conformer, in as many processes as there are
cores. CPU seconds are of all processes without their start; wall times of a busy machine mean little.

    --completions N --judged N --without N
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from engine.inspection.rollout_judging import judge_rollouts
from engine.paths import DATA
from engine.processes import usable_cores
from engine.store.files import Files
from engine.store.reports.rollouts import import_completions
from engine.store.store import Store
from tools.bench._measure import children_s, figure, machine, note, show

TEXTS = """
SELECT smiles, text FROM samples JOIN runs USING (run_id)
WHERE lp IN ('none', 'exact') AND text IS NOT NULL AND model_alias IN ('demo-qwen', 'demo-llama') ORDER BY smiles
"""
PER_PROMPT, STEPS = 8, 50


def write(path: Path, texts: Sequence[tuple[str, str]], steps: int) -> None:
    """As TRL does, with two rewards."""
    draws, count = random.Random(0), len(texts)
    rewards = {name: [draws.random() for _ in range(count)] for name in ("rmsd", "format", "advantage")}
    prompts, completions = [f"[SMILES]{smiles}[/SMILES]" for smiles, _ in texts], [text for _, text in texts]
    step = [1 + number * steps // count for number in range(count)]
    pq.write_table(pa.table({"step": step, "prompt": prompts, "completion": completions, **rewards}), path)


def cpu_s() -> float:
    return time.process_time() + children_s()


def stamp(seen: list[tuple[int, float]], done: int, _: int) -> None:
    seen.append((done, time.perf_counter()))


def judged_per_s(folder: Path, texts: Sequence[tuple[str, str]]) -> tuple[float, float, float]:
    """By the clock, from the first answer on; by CPU second; and that of one CPU second times the cores."""
    rates = []
    for part in (texts[: len(texts) // 10], texts):  # the smaller one tells what starting costs
        store = Store(Files(folder / f"judged-{len(part)}"))
        folder.mkdir(exist_ok=True)
        write(path := folder / "judged.parquet", part, 1)
        (entry,) = import_completions(store, path, warn=note)
        seen: list[tuple[int, float]] = []
        before_s = cpu_s()
        judge_rollouts([entry], progress=partial(stamp, seen))
        rates.append((len(part), cpu_s() - before_s))
    begun = next(at for at in seen if at[0])
    wall = (seen[-2][0] - begun[0]) / (seen[-2][1] - begun[1])
    (few, few_s), (many, many_s) = rates
    per_cpu_s = (many - few) / (many_s - few_s)
    return wall, per_cpu_s, per_cpu_s * usable_cores()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("completions", 100_000), ("judged", 4_000), ("without", 40_000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    asked = parser.parse_args()
    note(machine("pyarrow", "rdkit"))
    demo = Store(Files(DATA / "demo")).rows(TEXTS)
    by_molecule: dict[str, list[str]] = {}
    for row in demo:
        by_molecule.setdefault(row["smiles"], []).append(row["text"])
    pairs = [(smiles, text) for smiles, texts in by_molecule.items() for text in islice(cycle(texts), PER_PROMPT)]
    opened, judged = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "completions_00001.parquet"
        for steps in (1, STEPS):
            write(path, list(islice(cycle(pairs), asked.completions)), steps)
            start, start_cpu = time.perf_counter(), cpu_s()
            runs = import_completions(Store(Files(folder / f"opened-{steps}")), path, warn=note)
            opened_s, used_s = time.perf_counter() - start, cpu_s() - start_cpu
            opened.append([f"{asked.completions:,} as {len(runs)} runs", figure(opened_s), figure(used_s)])
        without = [(smiles, "no conformer") for smiles, _ in pairs]
        for words, texts, count in (("", pairs, asked.judged), (" without a conformer", without, asked.without)):
            figures = judged_per_s(folder / (words or "with"), list(islice(cycle(texts), count)))
            judged.append([f"completions{words}", *map(figure, figures)])
    show("Opened", "what|s|CPU s", opened)
    show("Judged per second", "what|by the clock|per CPU second|times the cores", judged)


if __name__ == "__main__":
    main()
