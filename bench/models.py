"""How long an embedded model takes to load, first and afterwards, and what memory it takes.

``python -m bench.models`` starts a new process for each load, so that imports count. The first load finds no expanded
model (the tokenizers are there, as after ``make prepare``); the others find it, in turn over the models.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.models.registry import load_registry
from engine.paths import cache_folder

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 5
LOAD = """
import json, resource, sys, time
begin = time.perf_counter()
from engine.models.loading import load_model
from engine.models.registry import load_registry
loaded = load_model(load_registry().find(sys.argv[1]), "cpu")
ready_s = time.perf_counter() - begin
import torch
ids = torch.tensor([loaded.tokenizer.encode("[SMILES]CC=O[/SMILES]")])
loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=100)
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([ready_s, time.perf_counter() - begin - ready_s, peak_mb]))
"""


def load(model: str, cache: Path) -> list[float]:
    """Seconds until it is ready, seconds for 100 tokens, peak memory in MB."""
    environment = {"DRIFTSCOPE_CACHE": str(cache), "PATH": ""}
    call = [sys.executable, "-c", LOAD, model]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    names = [entry.name for entry in load_registry().entries if entry.shipped is not None]
    print(f"{'model':<20} {'first s':>8} {'then s':>8} {'least .. most':>16} {'100 tokens s':>13} {'peak MB':>8}")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        (cache / "tokenizers").symlink_to(cache_folder() / "tokenizers", target_is_directory=True)
        first = {name: load(name, cache) for name in names}
        later = [{name: load(name, cache) for name in names} for _ in range(REPEATS)]
    for name in names:
        ready = [one[name][0] for one in later]
        write_s = statistics.median(one[name][1] for one in later)
        peak = max(one[name][2] for one in [first, *later])
        spread = f"{min(ready):.2f} .. {max(ready):.2f}"
        figures = f"{first[name][0]:>8.2f} {statistics.median(ready):>8.2f} {spread:>16} {write_s:>13.2f} {peak:>8,.0f}"
        print(f"{name:<20} {figures}")


if __name__ == "__main__":
    main()
