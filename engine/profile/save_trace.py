"""A timeline that is shown, as a file of Chrome's trace format: for Perfetto, ``chrome://tracing`` and `trace add`.

Slices are events with a duration, of a process for each trace and a thread for each lane. Shares of the time are
counters: they are means over bins, and no events. Times begin at 0; a slice that reaches beyond the window is whole.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa

CATEGORIES = {"device": "kernel", "host": "cpu_op", "call": "cuda_runtime"}  # of work, by its side
MARK = "user_annotation"  # of phases and pauses, which are no work
Event = dict[str, Any]


def chrome_trace(tables: Mapping[str, pa.Table]) -> bytes:
    """Of the tables ``main`` and ``spans`` of the question about a timeline."""
    spans, shares = tables["spans"].to_pylist(), tables["main"].to_pylist()
    zero_ms = min([0.0, *(span["start"] for span in spans), *(share["start_ms"] for share in shares)])
    process_of: dict[str, int] = defaultdict(count(1).__next__)
    events = [*slices(spans, process_of, zero_ms), *counters(shares, process_of, zero_ms)]
    names = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}
        for name, process in process_of.items()
    ]
    return json.dumps({"traceEvents": [*names, *events], "displayTimeUnit": "ms"}).encode()


def slices(spans: Sequence[Mapping[str, Any]], process_of: dict[str, int], zero_ms: float) -> Iterator[Event]:
    lanes: dict[tuple[str, str], int] = {}
    for span in spans:
        lane = span["name"], span["lane"]
        process = process_of[span["name"]]
        if lane not in lanes:
            lanes[lane] = len(lanes) + 1
            place = {"pid": process, "tid": lanes[lane]}
            yield {"ph": "M", "name": "thread_name", **place, "args": {"name": span["lane"]}}
        is_work = span["kind"] == "event"
        stream = {"stream": span["lane"].rpartition("stream ")[2]} if is_work and "stream " in span["lane"] else {}
        yield {
            "ph": "X",
            "cat": CATEGORIES[span["side"]] if is_work else MARK,
            "name": span["what"],
            "ts": round(1000 * (span["start"] - zero_ms), 3),
            "dur": round(1000 * (span["end"] - span["start"]), 3),
            "pid": process,
            "tid": lanes[lane],
            "args": {"family": span["family"] or span["kind"], **stream},
        }


def counters(shares: Sequence[Mapping[str, Any]], process_of: dict[str, int], zero_ms: float) -> Iterator[Event]:
    """At each edge the shares of all families of a trace; 0 where one has no work until the next."""
    of_trace: dict[str, dict[float, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for share in shares:
        of_trace[share["name"]][share["start_ms"]][share["family"]] = round(share["share"], 6)
        of_trace[share["name"]].setdefault(share["end_ms"], {})  # where it may end
    for name, edges in of_trace.items():
        none = dict.fromkeys(sorted({family for at_edge in edges.values() for family in at_edge}), 0)
        for edge_ms in sorted(edges):
            ts = round(1000 * (edge_ms - zero_ms), 3)
            place = {"name": "share of the time", "pid": process_of[name]}
            yield {"ph": "C", **place, "ts": ts, "args": none | edges[edge_ms]}
