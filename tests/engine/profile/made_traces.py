"""Traces as torch.profiler writes them on a GPU, made from a seed: any size, and with the sums that they have.

A step launches kernels of every family: an operator on the host, the call, the kernel, and the two ends of the arrow
between them. Each step lies inside marks, as a captured run has them. And small ones, event by event.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.profile.ingest import add_trace
from engine.store.entries import Entry
from engine.store.store import Store

EVENTS_A_KERNEL, KERNELS_A_STEP = 5, 200
_ELEMENTWISE = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::{0}"
    "(at::TensorIteratorBase&)::{{lambda()#1}}::operator()() const::{{lambda(float)#1}}>(at::TensorIteratorBase&, "
    "{{lambda(float)#1}} const&)::{{lambda(int)#1}}>(int, {{lambda(int)#1}})"
)
KERNELS: Mapping[str, str] = {
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>::Params)": "attention",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy_alignedK_contig<float, unsigned int, 3>()": "concat",
    _ELEMENTWISE.format("direct_copy_kernel_cuda"): "copy",
    _ELEMENTWISE.format("silu_kernel"): "elementwise",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)": "fill",
    "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT": "gemm",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_tn_align1>(Params)": "gemm",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(R)": "reduce",
    "void (anonymous namespace)::softmax_warp_forward<float, float, 10, false>(float*, float const*)": "softmax",
    "void at::native::index_elementwise_kernel<128, 4>(int)": "index",
    "mystery_kernel_of_somebody": "other",
}
NAMES = tuple(KERNELS)
_HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "totalGlobalMem": 85_000_000_000, "text": '},{"ph"'}],
    "displayTimeUnit": "ms",
}


@dataclass(slots=True)
class Truth:
    """What the trace's sums are: calls and nanoseconds by category, name and stream."""

    sums: dict[tuple[str, str, str | None], list[int]] = field(default_factory=dict)
    events: int = 0  # with a duration
    flows: int = 0
    device_ns: int = 0
    idle_ns: int = 0
    gaps: int = 0


def write_trace(path: Path, events: int, seed: int = 0, *, slower: float = 1.0) -> Truth:
    """A trace of about so many events, gz where the name says so. ``slower`` makes its kernels longer."""
    truth, draw, records = Truth(), random.Random(seed), list[dict[str, Any]]()
    now = step_began = 4_485_864_466_112
    free = 0

    def add(category: str, name: str, begin: int, length: int, stream: int | None = None, **args: Any) -> None:
        args |= {} if stream is None else {"device": 0, "stream": stream}
        times = {"pid": 1234, "tid": 1234, "ts": begin / 1000, "dur": length / 1000}
        records.append({"ph": "X", "cat": category, "name": name, **times, "args": args})
        sums = truth.sums.setdefault((category, name, None if stream is None else str(stream)), [0, 0])
        sums[0] += 1
        sums[1] += length
        truth.events += 1

    for number in range(max(1, events // EVENTS_A_KERNEL)):
        name = NAMES[draw.randrange(len(NAMES))]
        op, call, wait = draw.randrange(3_000, 9_000), draw.randrange(2_000, 6_000), draw.randrange(0, 20_000)
        length, stream = int(draw.randrange(900, 12_000) * slower), 7 if draw.randrange(10) else 20
        begin = max(now + 500 + call + 1_000, free) + wait
        if number and begin > free:
            truth.gaps += 1
            truth.idle_ns += begin - free
        free = begin + length
        add("cpu_op", "aten::op", now, op)
        add("cuda_runtime", "cudaLaunchKernel", now + 500, call, correlation=number)
        add("kernel", name, begin, length, stream, correlation=number)
        for phase in "sf":
            records.append({"ph": phase, "id": number, "ts": begin / 1000, "cat": "ac2g", "name": "ac2g"})
        truth.device_ns += length
        truth.flows += 2
        now += op + draw.randrange(500, 2_000)
        if (number + 1) % KERNELS_A_STEP == 0:
            add("user_annotation", "driftscope::forward", step_began, now - step_began)
            step_began = now
    document = {**_HEAD, "traceEvents": records, "traceName": "made", "INFO": [{"note": "x"}, {"note": "y"}]}
    content = json.dumps(document, indent=1).encode()
    path.write_bytes(gzip.compress(content, 1, mtime=0) if path.suffix == ".gz" else content)
    return truth


def plain_sums(path: Path) -> dict[tuple[str, str, Any], list[float]]:
    """What `json.load` makes of a file: calls and microseconds by category, name and stream."""
    opener: Any = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rb") as file:
        document = json.load(file, strict=False)
    events = document if isinstance(document, list) else document["traceEvents"]
    sums: dict[tuple[str, str, Any], list[float]] = {}
    for event in events:
        if event.get("ph") == "X":
            stream = event.get("args", {}).get("stream")
            row = sums.setdefault((event["cat"], event["name"], None if stream is None else str(stream)), [0, 0])
            row[0] += 1
            row[1] += round(event["dur"] * 1000)
    return sums


def event(category: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": 1_000 + ts, "dur": dur, "args": args}


def kernels(*named: tuple[str, float], stream: int = 7) -> list[dict[str, Any]]:
    """Kernels one after the other, each with its launch."""
    events = []
    for number, (name, dur) in enumerate(named):
        events.append(event("cuda_runtime", "cudaLaunchKernel", 100 * number, 5, correlation=number))
        events.append(event("kernel", name, 100 * number + 20, dur, correlation=number, stream=stream, device=0))
    return events


def mark(name: str, start: float, dur: float, thread: int = 1) -> dict[str, Any]:
    return {**event("user_annotation", f"driftscope::{name}", start, dur), "tid": thread}


def added(
    store: Store, folder: Path, events: list[dict[str, Any]], *, with_events: bool = False, **about: Any
) -> Entry:
    path = folder / "made.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return add_trace(store, path, about, about.pop("written", ()), about.pop("steps", 0), with_events=with_events)
