"""How long a trace takes to read, and how much memory: ours, and `json.load` with pandas.

``python -m tools.bench.traces`` makes a trace of a million events and one of seven million, as torch.profiler writes
them on a GPU, and reads each in processes of their own, pinned to two cores, one side after the other in each round.
What a process takes at its peak is the system's own figure, imports included. Each side's sum over all kernels is
next to the one that the trace was made with. It is no test.

    --events N ...   sizes (1,000,000 and 7,000,000)
    --repeats N      of each (3)
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tools.bench._measure import figure, machine, note, over, pin, show, spread

SIZES = (1_000_000, 7_000_000)
ASKED = {1_000_000: ("<= 8 s", "<= 700 MB"), 7_000_000: ("<= 45 s", "<= 700 MB")}
MOST_PLAIN = 1_000_000
"""Events of which `json.load` still fits into a machine."""
SIDES = {"ours": "trace add", "plain": "json.load + pandas"}


def ours(path: Path) -> int:
    """Nanoseconds of all kernels."""
    from engine.profile.ingest import add_trace
    from engine.store.files import Files
    from engine.store.store import Store

    with tempfile.TemporaryDirectory() as folder:
        store = Store(Files(Path(folder)))
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


def reading(side: str, path: Path) -> dict[str, Any]:
    pin(2)
    began = time.perf_counter()
    ns = {"ours": ours, "plain": plain}[side](path)
    status = Path("/proc/self/status").read_text(encoding="ascii")  # whoever began it; on Linux
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return {"seconds": time.perf_counter() - began, "peak_mb": int(peak.split()[1]) / 1024, "ns": ns}


def alone(side: str, path: Path) -> dict[str, Any]:
    """One reading in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(reading, side, path).result()


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a trace takes to read.")
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    pin(2)
    from tests.engine.profile.made_traces import write_trace

    print(f"{machine('msgspec', 'isal', 'pyarrow', 'duckdb', 'pandas')}\n", flush=True)
    speeds, ratios, sums = list[tuple[str, ...]](), list[tuple[str, ...]](), list[tuple[str, ...]]()
    with tempfile.TemporaryDirectory() as folder:
        for events in args.events:
            path = Path(folder) / f"trace-{events}.json.gz"
            truth_ns = write_trace(path, events).device_ns
            sides = ["ours", *(["plain"] if events <= MOST_PLAIN else [])]
            readings: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
            for number in range(args.repeats):
                for side in sides:
                    note(f"{events:,} events, round {number + 1}: {SIDES[side]}")
                    readings[side].append(alone(side, path))
            size, our = f"{events:,}", readings["ours"]
            sums.append((size, "as made", f"{truth_ns / 1e6:,.6f}", ""))
            for side, runs in readings.items():
                seconds, peaks = ([run[name] for run in runs] for name in ("seconds", "peak_mb"))
                asked_s, asked_mb = ASKED.get(events, ("", "")) if side == "ours" else ("", "")
                speeds.append((size, SIDES[side], *spread(seconds), asked_s, figure(max(peaks)), asked_mb))
                ns = runs[0]["ns"]
                sums.append((size, SIDES[side], f"{ns / 1e6:,.6f}", f"{100 * (ns / truth_ns - 1):+.2f} %"))
                for name, values in (("seconds", seconds), ("peak_mb", peaks)) if side != "ours" else ():
                    cells = over(values, [run[name] for run in our])
                    ratios.append((size, f"{SIDES[side]} / trace add, {name}", *cells))
    show("Reading a trace", "events|what|s|least .. most|asked|MB at most|asked", speeds)
    show("Compared with ours", "events|what|times|least .. most", ratios)
    show("Time of all kernels", "events|what|ms|off by", sums)


if __name__ == "__main__":
    main()
