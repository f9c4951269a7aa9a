"""How long a trace takes to read, and how much memory: ours, `json.load` with pandas, and HolisticTraceAnalysis' load.

``python -m tools.bench.traces`` makes a trace of a million events and one of seven million, as torch.profiler writes
them on a GPU, and reads each in processes of their own, pinned to two cores, one side after the other in each round.
What a process takes at its peak is the system's own figure, imports included. Each side's sum over all kernels stands
beside the one that the trace was made with. HolisticTraceAnalysis needs an environment of its own (`make hta`), and is
left out without it. It is no test.

    --events N ...   sizes (1,000,000 and 7,000,000)
    --repeats N      of each (3)
    --keep DIR       make the traces there, or take those that are there
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.paths import ROOT, cache_folder
from tests.engine.profile.made_traces import write_trace
from tools.bench._decode_table import Row, Spread, Table, asked, figure
from tools.bench._hta import CORES, peak

SIZES = (1_000_000, 7_000_000)
ASKED = {1_000_000: (8.0, 700.0), 7_000_000: (45.0, 700.0)}
"""Seconds and megabytes, of ours."""
ASKED_TIMES = 3.0
"""So many times the time and the memory of ours has HolisticTraceAnalysis to take."""
MOST_PLAIN = 1_000_000
"""Events of which `json.load` still fits into a machine."""
SIDES = {"ours": "trace add", "plain": "json.load + pandas", "hta": "HolisticTraceAnalysis"}
HTA = cache_folder() / "hta" / "bin" / "python"


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


@dataclass(frozen=True, slots=True)
class Measured:
    """All readings of one trace by one side."""

    seconds: Spread
    peaks_mb: Spread
    ns: int

    @classmethod
    def of(cls, found: Sequence[dict[str, Any]]) -> Measured:
        seconds, peaks = (Spread.of([one[name] for one in found]) for name in ("seconds", "peak_mb"))
        (ns,) = {one["ns"] for one in found}
        return cls(seconds, peaks, ns)


def alone(side: str, path: Path) -> dict[str, Any]:
    """One reading in a process of its own."""
    words = [sys.executable, "-m", "bench.traces", "--side", side, str(path)]
    if side == "hta":
        words = [str(HTA), str(ROOT / "bench" / "_hta.py"), str(path)]
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
    print(json.dumps({"seconds": seconds, "peak_mb": peak(), "ns": ns}))


def measured(path: Path, events: int, repeats: int) -> dict[str, Measured]:
    """By side. The machine's moods fall on all of them: each round asks every side once."""
    sides = ["ours"] if events > MOST_PLAIN else [side for side in SIDES if side != "hta" or HTA.is_file()]
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for number in range(repeats):
        for side, some in found.items():
            print(f"{events:,} events, round {number + 1}: {SIDES[side]}", file=sys.stderr)
            some.append(alone(side, path))
    return {side: Measured.of(some) for side, some in found.items()}


def speed_rows(events: int, found: dict[str, Measured]) -> list[Row]:
    rows: list[Row] = []
    for side, one in found.items():
        bound_s, bound_mb = ASKED.get(events, (None, None)) if side == "ours" else (None, None)
        limits = asked(bound_s, "s", at_least=False), asked(bound_mb, "MB", at_least=False)
        peak_mb = figure(max(one.peaks_mb.values))
        rows.append((f"{events:,}", SIDES[side], *one.seconds.cells(), limits[0], peak_mb, limits[1]))
    return rows


def ratio_rows(events: int, found: dict[str, Measured]) -> list[Row]:
    """How often the time and the memory of ours the others take."""
    rows: list[Row] = []
    ours = found["ours"]
    for side, one in found.items():
        if side == "ours":
            continue
        bound = asked(ASKED_TIMES if side == "hta" else None, "x", at_least=True)
        for what, pair in (
            ("time", one.seconds.over(ours.seconds)),
            ("memory", one.peaks_mb.over(ours.peaks_mb)),
        ):
            rows.append((f"{events:,}", f"{SIDES[side]} / trace add, {what}", *pair.cells(), bound))
    return rows


def sum_rows(events: int, found: dict[str, Measured], truth_ns: int) -> list[Row]:
    """All kernels' time, and how far each side is from what it was made with."""
    rows: list[Row] = [(f"{events:,}", "as made", f"{truth_ns / 1e6:,.6f}", "")]
    for side, one in found.items():
        rows.append((f"{events:,}", SIDES[side], f"{one.ns / 1e6:,.6f}", f"{100 * (one.ns / truth_ns - 1):+.2f} %"))
    return rows


def kernel_ns(path: Path, events: int) -> int:
    """Makes the trace where it is not there, and says what its kernels add up to."""
    sheet = path.with_suffix(".truth")
    if not (path.is_file() and sheet.is_file()):
        sheet.write_text(str(write_trace(path, events).device_ns), encoding="utf-8")
    return int(sheet.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.traces", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.side:
        read(args.side[0], Path(args.side[1]))
        return
    from tools.bench._machine import machine

    print(f"{machine(('msgspec', 'isal', 'pyarrow', 'duckdb', 'pandas'))}\n", flush=True)
    if not HTA.is_file():
        print("HolisticTraceAnalysis is left out: `make hta` makes its environment.\n", flush=True)
    speeds: list[Row] = []
    ratios: list[Row] = []
    sums: list[Row] = []
    with tempfile.TemporaryDirectory() if args.keep is None else nullcontext(str(args.keep)) as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for events in args.events:
            path = Path(folder) / f"trace-{events}.json.gz"
            truth_ns = kernel_ns(path, events)
            found = measured(path, events, args.repeats)
            speeds += speed_rows(events, found)
            ratios += ratio_rows(events, found)
            sums += sum_rows(events, found, truth_ns)
    head = ("events", "what", "s", "least .. most", "asked", "MB at most", "asked")
    print(Table("Reading a trace", head, tuple(speeds)).markdown())
    print(Table("Beside ours", ("events", "what", "times", "least .. most", "asked"), tuple(ratios)).markdown())
    print(Table("Time of all kernels", ("events", "what", "ms", "off by"), tuple(sums)).markdown())


if __name__ == "__main__":
    main()
