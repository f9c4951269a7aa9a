"""How long an embedded model takes to load, first and afterwards, and what memory it takes.

``python -m tools.bench.models`` starts a new process for each load, and tells the imports of torch and transformers,
which a process makes once, from the loading itself. The first load finds no expanded model (the tokenizers are there,
as after ``make prepare``); the others find it, in turn over the models.
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

ROOT = Path(__file__).resolve().parents[2]
REPEATS = 5
LOAD = """
import json, resource, sys, time
begin = time.perf_counter()
import torch, transformers.models.llama.modeling_llama, transformers.models.qwen3.modeling_qwen3
imported = time.perf_counter()
from engine.models.loading import load_model
from engine.models.registry import load_registry
loaded = load_model(load_registry().find(sys.argv[1]), "cpu")
ready = time.perf_counter()
ids = torch.tensor([loaded.tokenizer.encode("[SMILES]CC=O[/SMILES]")])
loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=100)
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([imported - begin, ready - imported, time.perf_counter() - ready, peak_mb]))
"""


def load(model: str, cache: Path) -> list[float]:
    """Seconds of imports, of loading and for 100 tokens, and peak memory in MB."""
    environment = {"DRIFTSCOPE_CACHE": str(cache), "PATH": ""}
    call = [sys.executable, "-c", LOAD, model]
    done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    names = [entry.name for entry in load_registry().entries if entry.shipped is not None]
    head = f"{'imports s':>10} {'first s':>8} {'then s':>8} {'least .. most':>14} {'100 tokens s':>13} {'peak MB':>8}"
    print(f"{'model':<18} {head}")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        (cache / "tokenizers").symlink_to(cache_folder() / "tokenizers", target_is_directory=True)
        first = {name: load(name, cache) for name in names}
        later = [{name: load(name, cache) for name in names} for _ in range(REPEATS)]
    for name in names:
        imports, ready, write = ([one[name][column] for one in later] for column in range(3))
        peak = max(one[name][3] for one in [first, *later])
        spread = f"{min(ready):.2f} .. {max(ready):.2f}"
        times = (
            f"{statistics.median(imports):>10.2f} {first[name][1]:>8.2f} {statistics.median(ready):>8.2f} {spread:>14}"
        )
        print(f"{name:<18} {times} {statistics.median(write):>13.2f} {peak:>8,.0f}")


if __name__ == "__main__":
    main()
