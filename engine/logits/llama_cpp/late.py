"""What a pointer to llama.cpp's logits shows when it is read too late: a demonstration, in a process of its own.

``llama_get_logits_ith`` gives a pointer into a buffer that belongs to the context. Here it is kept, and read at the
step, after the next call, after a call that needs a larger buffer, and after the context is gone. Memory is read
through the system, which says so where there is none any more; nothing is dereferenced, so nothing can crash by it.

    python -m engine.logits.llama_cpp.late FILE.gguf OUT.npz < asked.json

``asked.json`` has ``prompt``, ``answer``, ``values``; OUT holds an array [T, values] for each way, NaN where no memory
was. Needs Linux. What the allocator leaves in freed memory is its own affair: other machines show other numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.errors import DriftscopeError, ModelError
from engine.logits.llama_cpp.session import WHOLE, Session, Setting, Weights

Way = Literal["at the step", "after the next call", "after the buffer grew", "after the context was freed"]
WAYS: tuple[Way, ...] = get_args(Way)
Values = NDArray[np.float32]

PLAIN = Setting("f32", WHOLE)
ROOM = 64
"""Positions beyond the text."""
MORE = 16
"""Tokens whose logits are asked for at once, to make the buffer grow."""
MOST_S = 900
_MEMORY = "/proc/self/mem"


@dataclass(frozen=True, slots=True)
class Asked:
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    values: int  # of each row, from the first on


def read_late(gguf: Path, asked: Asked, aside: Path) -> Mapping[Way, Values]:
    """By way, [T, values]. The child writes into the folder ``aside``."""
    out = aside / "late.npz"
    command = [sys.executable, "-m", __name__, str(gguf), str(out)]
    done = subprocess.run(command, input=json.dumps(asdict(asked)), capture_output=True, text=True, timeout=MOST_S)
    if done.returncode or not out.is_file():
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise ModelError(f"reading late ended with status {done.returncode} ({last[:200]})", "Leave it out: --no-late")
    with np.load(out) as found:
        return {way: found[way] for way in WAYS}


def shown_late(weights: Weights, asked: Asked) -> dict[Way, Values]:
    """Each token has a context of its own, as it has in an engine that makes one for every request."""
    readers: dict[Way, Callable[[Weights, Asked, int], Values]] = {
        "at the step": _at_once,
        "after the next call": _after_next,
        "after the buffer grew": _after_growth,
        "after the context was freed": _after_free,
    }
    steps = range(len(asked.answer))
    return {way: np.array([reader(weights, asked, step) for step in steps]) for way, reader in readers.items()}


def _at_once(weights: Weights, asked: Asked, step: int) -> Values:
    with _fed(weights, asked, step) as session:
        return session.logits()[: asked.values]


def _after_next(weights: Weights, asked: Asked, step: int) -> Values:
    with _fed(weights, asked, step) as session:
        address = session.address()
        session.feed([asked.answer[step]])
        return read_memory(address, asked.values)


def _after_growth(weights: Weights, asked: Asked, step: int) -> Values:
    with _fed(weights, asked, step) as session:
        address = session.address()
        ahead = list(_cycled(asked.answer[step:], MORE))
        session.feed_for_all(ahead, len(asked.prompt) + step)
        return read_memory(address, asked.values)


def _after_free(weights: Weights, asked: Asked, step: int) -> Values:
    with _fed(weights, asked, step) as session:
        address = session.address()
    return read_memory(address, asked.values)


def _fed(weights: Weights, asked: Asked, step: int) -> Session:
    session = weights.session(PLAIN, positions=len(asked.prompt) + len(asked.answer) + ROOM, threads=1)
    session.feed([*asked.prompt, *asked.answer[:step]])
    return session


def _cycled(ids: Sequence[int], count: int) -> Iterator[int]:
    return (ids[place % len(ids)] for place in range(count))


def read_memory(address: int, count: int) -> Values:
    """Numbers of this process at an address; NaN where it has no memory."""
    memory = os.open(_MEMORY, os.O_RDONLY)
    try:
        return np.frombuffer(os.pread(memory, 4 * count, address), dtype=np.float32).copy()
    except OSError:
        return np.full(count, np.nan, dtype=np.float32)
    finally:
        os.close(memory)


def main(arguments: Sequence[str]) -> int:
    said = json.load(sys.stdin)
    asked = Asked(tuple(said["prompt"]), tuple(said["answer"]), int(said["values"]))
    try:
        with Weights(Path(arguments[0])) as weights:
            found = shown_late(weights, asked)
    except DriftscopeError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    np.savez(arguments[1], allow_pickle=False, **dict(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
