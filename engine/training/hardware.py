"""What a training runs on: the device, the threads, and the precision that is faster there."""

from __future__ import annotations

import time
from pathlib import Path

import torch

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def faster_precision(device: torch.device) -> str:
    """``bf16`` on a GPU; on a CPU whichever multiplies faster, measured: some have units for it, some emulate it."""
    if device.type != "cpu":
        return "bf16"
    return min(PRECISIONS, key=lambda name: _matmul_s(PRECISIONS[name]))


def describe(device: torch.device) -> str:
    """For a card: the GPU's name, or the CPU's and the threads in use."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU ({_cpu_name()}), {torch.get_num_threads()} threads"


def _matmul_s(dtype: torch.dtype) -> float:
    left, right = torch.ones(4096, 256, dtype=dtype), torch.ones(256, 1024, dtype=dtype)
    times = []
    for _ in range(5):
        started = time.perf_counter()
        torch.mm(left, right)
        times.append(time.perf_counter() - started)
    return min(times)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
