"""How long a trace takes to read, and how much memory: ours, and `json.load` with pandas, on traces made for it.

``python -m bench.traces`` makes a trace of a million events and one of seven million, as torch.profiler writes them on
a GPU, and reads each in processes of their own, pinned to two cores. What a process takes at its peak is the system's
own figure, imports included. Each side's sums are held against those that the trace was made with. It is no test.

    --events N ...   sizes (1,000,000 and 7,000,000)
    --repeats N      of each (3)
    --keep DIR       make the traces there, or take those that are there
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench._decode_table import Row, Spread, Table, asked, figure
from engine.paths import ROOT
from tests.engine.profile.made_traces import write_trace

CORES = 2
SIZES = (1_000_000, 7_000_000)
ASKED = {1_000_000: (8.0, 700.0), 7_000_000: (45.0, 700.0)}
"""Seconds and megabytes, of ours."""
MOST_PLAIN = 1_000_000
"""Events of which `json.load` still fits into a machine."""
SIDES = {"ours": "trace add", "plain": "json.load + pandas"}


def ours(path: Path) -> int:
    """Nanoseconds of all kernels."""
    from engine.profile.ingest import add_trace
    from engine.store.files import LocalFiles
    from engine.store.store import Store

    with tempfile.TemporaryDirectory() as folder:
        store = Store(LocalFiles(Path(folder)))
        add_trace(store, path)
        (row,) = store.rows("SELECT sum(total_ns)::BIGINT AS ns FROM trace_ops WHERE category = 'kernel'")
        return int(row["ns"])


def plain(path: Path) -> int:
    """What one would write first."""
    import pandas as pd

    with gzip.open(path, "rb") as file:
        events = pd.DataFrame(json.load(file)["traceEvents"])
    events["stream"] = [args.get("stream") if isinstance(args, dict) else None for args in events["args"]]
    timed = events[events["ph"] == "X"]
    sums = timed.groupby(["cat", "name", "stream"], dropna=False)["dur"].agg(["count", "sum"])
    return round(float(sums.loc["kernel"]["sum"].sum()) * 1000)


def alone(side: str, path: Path) -> dict[str, Any]:
    """One reading in a process of its own."""
    words = [sys.executable, "-m", "bench.traces", "--side", side, str(path)]
    done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def pin() -> None:
    """As ``bench._machine`` does, without torch, whose 200 MB are no part of this."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CORES]))


def read(side: str, path: Path) -> None:
    pin()
    began = time.perf_counter()
    ns = {"ours": ours, "plain": plain}[side](path)
    seconds = time.perf_counter() - began
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # kilobytes, on Linux
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb, "ns": ns}))


def measured(path: Path, truth_ns: int, events: int, repeats: int) -> list[Row]:
    rows: list[Row] = []
    for side, name in SIDES.items():
        if side == "plain" and events > MOST_PLAIN:
            continue
        found = [alone(side, path) for _ in range(repeats)]
        bound_s, bound_mb = ASKED.get(events, (None, None)) if side == "ours" else (None, None)
        seconds, peaks = (Spread.of([one[name] for one in found]) for name in ("seconds", "peak_mb"))
        sums = "as made" if all(one["ns"] == truth_ns for one in found) else "WRONG"
        rows.append(
            (
                f"{events:,}",
                name,
                *seconds.cells(),
                asked(bound_s, "s", at_least=False),
                figure(max(peaks.values)),
                asked(bound_mb, "MB", at_least=False),
                sums,
            )
        )
    return rows


def kernel_ns(path: Path, events: int) -> int:
    """Makes the trace where it is not there, and says what its kernels add up to."""
    sheet = path.with_suffix(".truth")
    if not (path.is_file() and sheet.is_file()):
        sheet.write_text(str(write_trace(path, events).device_ns), encoding="utf-8")
    return int(sheet.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.traces", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        read(args.side[0], Path(args.side[1]))
        return
    from bench._machine import machine

    print(f"{machine(('msgspec', 'isal', 'pyarrow', 'duckdb', 'pandas'))}\n")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() if args.keep is None else nullcontext(str(args.keep)) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for events in args.events:
            path = Path(folder) / f"trace-{events}.json.gz"
            rows += measured(path, kernel_ns(path, events), events, args.repeats)
    head = ("events", "what", "s", "least .. most", "asked", "MB at most", "asked", "sums")
    print(Table("Reading a trace into the store", head, tuple(rows)).markdown())


if __name__ == "__main__":
    main()
