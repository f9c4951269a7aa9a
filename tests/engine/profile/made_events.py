"""Small traces, event by event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.profile.ingest import add_trace
from engine.store.entries import Entry
from engine.store.store import Store


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 1_000 + ts, "dur": dur, "args": args}


def kernels(*named: tuple[str, float], stream: int = 7) -> list[dict[str, Any]]:
    """Kernels one after the other, each with its launch."""
    found = []
    for number, (name, dur) in enumerate(named):
        found.append(event("cuda_runtime", "cudaLaunchKernel", 100 * number, 5, correlation=number))
        found.append(event("kernel", name, 100 * number + 20, dur, correlation=number, stream=stream, device=0))
    return found


def mark(name: str, start: float, dur: float, thread: int = 1) -> dict[str, Any]:
    return {**event("user_annotation", f"driftscope::{name}", start, dur), "tid": thread}


def added(
    store: Store, folder: Path, events: list[dict[str, Any]], *, with_events: bool = False, **about: Any
) -> Entry:
    path = folder / "made.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return add_trace(store, path, about, about.pop("written", ()), about.pop("steps", 0), with_events=with_events)
