"""A demonstration of use after free: llama.cpp's logits read too late, in a process of its own.

``llama_get_logits_ith`` returns a pointer into a buffer of the context. Here it is kept, and read at the step, after
the next call, after a call that needs a larger buffer, and after the context was freed. Memory is read through the
system, which reports unmapped memory; nothing is dereferenced, so nothing can crash.

    python -m tools.llama_cpp.late FILE.gguf OUT.npz < request.json

``request.json`` has ``prompt``, ``answer``, ``values``; OUT holds an array [T, values] for each way, NaN for unmapped
memory. Needs Linux. What the allocator leaves in freed memory differs: other machines show other numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelError
from tools.llama_cpp.session import WHOLE, LlamaSetting, Session, Weights

Way = Literal["at the step", "after the next call", "after the buffer grew", "after the context was freed"]
WAYS: tuple[Way, ...] = get_args(Way)
Values = NDArray[np.float32]

PLAIN = LlamaSetting("f32", WHOLE)
ROOM = 64
"""Positions beyond the text."""
MORE = 16
"""Tokens with logits that are requested at once, to make the buffer grow."""
MOST_S = 900
_MEMORY = "/proc/self/mem"


@dataclass(frozen=True, slots=True)
class LateRequest:
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    values: int  # of each row, from the first on


def read_late(gguf: Path, request: LateRequest, aside: Path) -> Mapping[Way, Values]:
    """By way, [T, values]. The child process writes into the folder ``aside``."""
    out = aside / "late.npz"
    command = [sys.executable, "-m", __name__, str(gguf), str(out)]
    done = subprocess.run(command, input=json.dumps(asdict(request)), capture_output=True, text=True, timeout=MOST_S)
    if done.returncode or not out.is_file():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(f"reading late ended with status {done.returncode} ({last[:200]})", "Leave it out: --late 0")
    with np.load(out) as arrays:
        return {way: arrays[way] for way in WAYS}


def read_memory(address: int, count: int) -> Values:
    """Numbers of this process at an address; NaN where it has no memory."""
    memory = os.open(_MEMORY, os.O_RDONLY)
    try:
        return np.frombuffer(os.pread(memory, 4 * count, address), dtype=np.float32).copy()
    except OSError:
        return np.full(count, np.nan, dtype=np.float32)
    finally:
        os.close(memory)


def row(way: Way, weights: Weights, request: LateRequest, step: int) -> Values:
    """Each token has its own context, as in an engine that makes one per request."""
    positions = len(request.prompt) + len(request.answer) + ROOM
    with Session(weights, PLAIN, positions=positions, threads=1) as session:
        session.feed([*request.prompt, *request.answer[:step]])
        if way == "at the step":
            return session.logits()[: request.values]
        address = session.address()
        if way == "after the next call":
            session.feed([request.answer[step]])
        elif way == "after the buffer grew":
            session.feed_for_all(list(islice(cycle(request.answer[step:]), MORE)), len(request.prompt) + step)
        if way != "after the context was freed":
            return read_memory(address, request.values)
    return read_memory(address, request.values)


if __name__ == "__main__":
    sheet = json.load(sys.stdin)
    wanted = LateRequest(tuple(sheet["prompt"]), tuple(sheet["answer"]), int(sheet["values"]))
    with Weights(Path(sys.argv[1])) as weights:
        rows = {way: np.array([row(way, weights, wanted, step) for step in range(len(wanted.answer))]) for way in WAYS}
    np.savez(sys.argv[2], allow_pickle=False, **dict(rows))
