"""How long a logit log of a million entries takes into the store, and what it is asked for then.

``python -m tools.bench.logits`` writes logs into a folder of its own first (250 MB, clean, and with a fifth of the
entries damaged) and removes them in the end. The table has one pass over each: reading takes long enough to tell.

    --entries N --width N   the size: lines, and values of each
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from engine.logits.health import health
from engine.logits.ingest import add_file
from engine.store.store import Store
from tools.bench._measure import figure, machine, peak_mb, pin, show

LINES, HIT, MOST_S = 10_000, 0.2, 30.0
HEAD = '{"checkpoint":"logits","team":"llama.cpp","token_idx":%d,"dtype":"f32","shape":"[151936]","values":['
TAIL = '],"ts":"2025-10-07T20:40:00Z","source":"bench"}\n'


def write(path: Path, entries: int, width: int, *, is_damaged: bool) -> None:
    """Texts of 1,000 tokens each."""
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, entries, LINES):
            rows = rng.normal(2, 3, (min(LINES, entries - start), width)).astype(np.float32)
            if is_damaged:
                hit = rng.random(len(rows)) < HIT
                rows[hit, 0] = 10.0 ** rng.uniform(16, 34, hit.sum())
                rows[1:][hit[1:], 2:4] = rows[:-1][hit[1:], 2:4]
            for index, row in enumerate(rows.tolist()):
                file.write(HEAD % ((start + index) % 1_000) + ",".join(f"{value:.9g}" for value in row) + TAIL)


def measured(folder: Path, name: str, entries: int, width: int, *, is_damaged: bool) -> list[tuple[str, ...]]:
    path, store = folder / f"{name}.jsonl", Store.open(folder / "store")
    write(path, entries, width, is_damaged=is_damaged)
    began = time.perf_counter()
    (entry,) = add_file(store, path)
    read_s = time.perf_counter() - began
    began = time.perf_counter()
    figures = health(store, entry)
    ask_s = time.perf_counter() - began
    kept = sum(part.bytes for part in entry.parts.values())
    size = f"{entries:,} x {width}, {name}"
    limit = f"<= {MOST_S:g} s" if (entries, width) == (1_000_000, 10) else ""
    return [
        (f"read into the store: {size}", figure(read_s), "s", limit),
        ("entries per second", f"{entries / read_s:,.0f}", "", ""),
        ("file", figure(path.stat().st_size / 2**20), "MB", ""),
        ("in the store", figure(kept / 2**20), "MB", ""),
        (f"its health ({figures['damaged_share']:.0%} damaged)", figure(ask_s), "s", ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a logit log takes into the store.")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=10)
    args = parser.parse_args()
    pin(2)
    print(machine("numpy", "pyarrow", "msgspec", "duckdb"))
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="driftscope-logits-") as folder:
        for name in ("clean", "damaged"):
            rows += measured(Path(folder), name, args.entries, args.width, is_damaged=name == "damaged")
    rows.append(("peak memory of the process", figure(peak_mb()), "MB", ""))
    show("Logit logs", "what|took||asked", rows)


if __name__ == "__main__":
    main()
