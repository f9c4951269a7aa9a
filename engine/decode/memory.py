"""Memory while decoding: what its shortage looks like, and how much was taken at most."""

from __future__ import annotations

import resource
import sys

import torch

from engine.errors import ModelError

_SHORT = ("out of memory", "can't allocate memory", "not enough memory")
_UNITS_A_MB = 2**20 if sys.platform == "darwin" else 2**10


def is_out_of_memory(error: RuntimeError) -> bool:
    """CUDA has a type of its own for it; a CPU's allocator and MPS say it in words."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error).lower() for words in _SHORT)


def halved(size: int, error: RuntimeError) -> int:
    """Half the batch, or ``ModelError`` where it cannot be halved."""
    if size <= 1:
        raise ModelError(
            f"memory is too short for a single row ({error})",
            "Take a smaller model or device auto, or give a lower limit of tokens",
        ) from error
    return size // 2


def peak_memory_mb(device: torch.device) -> float:
    """The most that this process has taken: on the device if it is a GPU, else in main memory."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _UNITS_A_MB
