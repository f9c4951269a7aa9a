"""Stores for tests of the Profiles page: captured traces of runs, one of a GPU, and one that is hostile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.profile.ingest import add_trace
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.profile.made_traces import event, kernels

HOSTILE = "<img src=x onerror=alert(1)>"
OVERRIDE = "\u202e[x](http://a.b)"
GEMM, FMHA, CAT, COPY = "cutlass_gemm", "fmha_x", "CatArrayBatchedCopy_x", "direct_copy_kernel"


def add(store: Store, events: list[dict[str, Any]], **metadata: Any) -> Entry:
    """A trace of these events."""
    path = Path(store.home.path("made.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"traceEvents": events}))
    try:
        return add_trace(store, path, metadata)
    finally:
        path.unlink()


def operators(*named: tuple[str, float]) -> list[dict[str, Any]]:
    """What a CPU does, one after the other."""
    return [event("cpu_op", f"aten::{name}", 100 * index, dur) for index, (name, dur) in enumerate(named)]


def captured(store: Store, lp: str, events: list[dict[str, Any]], model: str = "tiny", **metadata: Any) -> Entry:
    """A trace that is of a run of this model and LP."""
    run_id = f"run-{model}-{lp}"
    write_run(store, run_id, [sample_row(0)], model_alias=model, model_step="final", lp=lp)
    counted = {"tokens": 10, "forward_passes": 5, "counted_by": "engine"}
    return add(store, events, origin="measured", run_id=run_id, **{**counted, **metadata})


def both(store: Store) -> tuple[Entry, Entry]:
    """A control without an LP and a test with one, on a CPU."""
    control = captured(store, "none", operators(("mm", 40), ("mm", 40), ("add", 10), ("softmax", 5)))
    test = captured(store, "exact", operators(("mm", 20), ("add", 10), ("add", 14), ("cat", 6)), tokens=20)
    return control, test


def on_gpu(store: Store, **metadata: Any) -> Entry:
    wait = event("cuda_runtime", "cudaStreamSynchronize", 90, 8)
    named = [(GEMM, 30.0), (FMHA, 10.0), (CAT, 7.0), (COPY, 5.0), ("somebody's", 8.0)]
    return add(store, [*kernels(*named), wait], label="a GPU", tokens=4, forward_passes=2, **metadata)


def hostile(store: Store) -> Entry:
    events = kernels((HOSTILE, 5.0), ("x" * 10_000, 4.0), (f"gemm{OVERRIDE}", 3.0))
    return add(store, events, label=f"{OVERRIDE}{HOSTILE}" + "l" * 300, tokens=2)
