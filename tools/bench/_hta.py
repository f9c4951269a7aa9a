"""HolisticTraceAnalysis' load of one trace, in the environment that `make hta` makes: nothing of the project is there.

``python bench/_hta.py TRACE`` prints seconds, peak memory, and the kernels' sums, in nanoseconds, as it has them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from importlib import metadata
from pathlib import Path

CORES = 2


def main(path: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:CORES]))
    logging.disable(logging.WARNING)
    began = time.perf_counter()  # imports are in the time of every side
    from hta.trace_analysis import TraceAnalysis  # type: ignore[import-not-found]

    found = TraceAnalysis(trace_files={0: path}).t
    seconds, peak_mb = time.perf_counter() - began, peak()
    events = found.get_trace(0)
    is_kernel = events["cat"] == found.symbol_table.get_sym_id_map()["kernel"]
    kernels = events[is_kernel]
    said = {
        "seconds": seconds,
        "peak_mb": peak_mb,
        "ns": round(float(kernels["dur"].sum()) * 1000),
        "calls": len(kernels),
        "versions": {name: metadata.version(name) for name in ("HolisticTraceAnalysis", "pandas")},
    }
    print(json.dumps(said))


def peak() -> float:
    """Megabytes that this process took at most, whoever began it; on Linux."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main(sys.argv[1])
