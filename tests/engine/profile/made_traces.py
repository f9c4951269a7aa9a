"""Traces as torch.profiler writes them on a GPU, made from a seed: any size, and with the sums that they have.

A step launches kernels of every family: an operator on the host, the call, the kernel, and the two ends of the arrow
between them. Each step lies inside marks, as a captured run has them.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from engine.store.entries import Entry

EVENTS_A_KERNEL = 5
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
    "baseTimeNanoseconds": 1_790_857_026_000_000_000,
}
_OP = (
    '  {\n    "ph": "X", "cat": "cpu_op", "name": "aten::op", "pid": 1234, "tid": 1234,\n    "ts": %s, "dur": %s,\n'
    '    "args": {\n      "External id": %d,"Record function id": 0, "Ev Idx": %d\n    }\n  }'
)
_CALL = (
    '  {\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1234, "tid": 1234,\n'
    '    "ts": %s, "dur": %s,\n    "args": {\n      "External id": %d, "cbid": 211, "correlation": %d\n    }\n  }'
)
_KERNEL = (
    '  {\n    "ph": "X", "cat": "kernel", "name": %s, "pid": 0, "tid": %d,\n    "ts": %s, "dur": %s,\n    "args": {\n'
    '      "External id": %d,\n      "queued": 0, "device": 0, "context": 1,\n      "stream": %d, "correlation": %d,\n'
    '      "registers per thread": 16,\n      "shared memory": 0,\n      "blocks per SM": 0.007576,\n'
    '      "warps per SM": 0.030303,\n      "grid": [1, 1, 1],\n      "block": [128, 1, 1],\n'
    '      "est. achieved occupancy %%": 0\n    }\n  }'
)
_BEGIN = (
    '  {\n    "ph": "s", "id": %d, "pid": 1234, "tid": 1234, "ts": %s,\n    "cat": "ac2g", "name": "ac2g"\n  },\n'
    '  {\n    "ph": "f", "id": %d, "pid": 0, "tid": %d, "ts": %s,\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }'
)
_MARK = (
    '  {\n    "ph": "X", "cat": "user_annotation", "name": "%s", "pid": 1234, "tid": 1234,\n    "ts": %s, "dur": %s,\n'
    '    "args": {\n      "External id": 0\n    }\n  }'
)
KERNELS_A_STEP = 200
KERNELS_A_WRITE = 10_000


@dataclass(slots=True)
class Truth:
    """What the trace's sums are: calls and nanoseconds by category, name and stream."""

    sums: dict[tuple[str, str, str | None], list[int]] = field(default_factory=dict)
    events: int = 0  # with a duration
    flows: int = 0
    device_ns: int = 0
    idle_ns: int = 0
    gaps: int = 0

    def add(self, category: str, name: str, stream: str | None, ns: int) -> None:
        found = self.sums.setdefault((category, name, stream), [0, 0])
        found[0] += 1
        found[1] += ns
        self.events += 1


def write_trace(path: Path, events: int, seed: int = 0, *, slower: float = 1.0) -> Truth:
    """A trace of about so many events, gz where the name says so. ``slower`` makes its kernels longer."""
    truth = Truth()
    with _writing(path) as file:
        head = json.dumps(_HEAD, indent=2)[:-2] + ',\n  "traceEvents": [\n'
        file.write(head.encode())
        for number, some in enumerate(_parts(max(1, events // EVENTS_A_KERNEL), seed, slower, truth)):
            file.write((",\n" if number else "").encode() + ",\n".join(some).encode())
        file.write(b'\n  ],\n  "traceName": "made", "INFO": [{"note": "x"}, {"note": "y"}]\n}\n')
    return truth


def _parts(kernels: int, seed: int, slower: float, truth: Truth) -> Iterator[list[str]]:
    draw = random.Random(seed)
    now, free, first, some = 4_485_864_466_112_000, 0, True, []
    step_began = now
    texts = {name: json.dumps(name) for name in NAMES}
    for number in range(kernels):
        name = NAMES[draw.randrange(len(NAMES))]
        op, call, wait = draw.randrange(3_000, 9_000), draw.randrange(2_000, 6_000), draw.randrange(0, 20_000)
        length, stream = int(draw.randrange(900, 12_000) * slower), 7 if draw.randrange(10) else 20
        begin = max(now + 500 + call + 1_000, free) + wait
        if not first and begin > free:
            truth.gaps += 1
            truth.idle_ns += begin - free
        first, free = False, begin + length
        some += [
            _OP % (_us(now), _us(op), number, number),
            _CALL % (_us(now + 500), _us(call), number, number),
            _KERNEL % (texts[name], stream, _us(begin), _us(length), number, stream, number),
            _BEGIN % (number, _us(now + 500), number, stream, _us(begin)),
        ]
        truth.add("cpu_op", "aten::op", None, op)
        truth.add("cuda_runtime", "cudaLaunchKernel", None, call)
        truth.add("kernel", name, str(stream), length)
        truth.device_ns += length
        truth.flows += 2
        now += op + draw.randrange(500, 2_000)
        if (number + 1) % KERNELS_A_STEP == 0:
            some.append(_MARK % ("driftscope::forward", _us(step_began), _us(now - step_began)))
            truth.add("user_annotation", "driftscope::forward", None, now - step_began)
            step_began = now
        if (number + 1) % KERNELS_A_WRITE == 0:
            yield some
            some = []
    if some:
        yield some


def plain_sums(path: Path) -> dict[tuple[str, str, Any], list[float]]:
    """What `json.load` makes of a file: calls and microseconds by category, name and stream."""
    opener: Any = gzip.open if path.read_bytes()[:2] == b"\x1f\x8b" else open
    with opener(path, "rb") as file:
        document = json.load(file, strict=False)
    events = document if isinstance(document, list) else document["traceEvents"]
    found: dict[tuple[str, str, Any], list[float]] = {}
    for event in events:
        if event.get("ph") == "X":
            stream = event.get("args", {}).get("stream")
            one = found.setdefault((event["cat"], event["name"], None if stream is None else str(stream)), [0, 0])
            one[0] += 1
            one[1] += round(event["dur"] * 1000)
    return found


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1, mtime=0) as packed:
            yield packed  # type: ignore[misc]  # it is written to as any file is


def crafted(entry: Entry, table: str, **columns: Any) -> Entry:
    """The trace with another value in the last row of a table's columns, and the checksum of what was written."""
    path = Path(entry.path(table))
    rows = pq.read_table(path)
    for name, value in columns.items():
        values = [*rows[name].to_pylist()[:-1], value]
        place = rows.column_names.index(name)
        rows = rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))
    pq.write_table(rows, path)
    content = path.read_bytes()
    part = replace(entry.parts[table], bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return replace(entry, parts={**entry.parts, table: part})
