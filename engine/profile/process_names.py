"""Work of a device in a trace without categories: JAX and TensorFlow name processes and threads instead.

A process ``/device:GPU:0`` has threads such as ``Stream #7(Compute)``, which hold kernels and copies, and others that
say the same once more by other names (``XLA Modules``, ``Steps``). A TPU has no streams: there ``XLA Ops`` holds the
work. The names are asked when an event comes, so those of a process have to come before its events, as they do.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.profile.events import AnyEvent, Mixed

_DEVICE = re.compile(r"/device:(?!CPU\b)\w+:(\d+)", re.ASCII)
_STREAM, _OPS = re.compile(r"stream\b", re.IGNORECASE), re.compile("XLA Ops")
_COPY = re.compile(r"mem(cpy|set)", re.IGNORECASE)


class Place(NamedTuple):
    """Category, stream and device in the words of torch.profiler."""

    category: str
    stream: Mixed = None
    device: Mixed = None


class ProcessNames:
    def __init__(self) -> None:
        self._devices: dict[Mixed, str] = {}  # by process
        self._threads: dict[Mixed, dict[Mixed, str]] = {}  # by process
        self._streams: dict[tuple[Mixed, Mixed], Place] = {}  # by process and thread, as far as they were asked for

    def note(self, event: AnyEvent) -> None:
        """One event of the phase ``M``."""
        name = event.args.name if event.args else None
        if not isinstance(name, str):
            return
        self._streams.clear()
        if event.name == "process_name" and (match := _DEVICE.match(name)):
            self._devices[event.pid] = match[1]
        elif event.name == "thread_name":
            self._threads.setdefault(event.pid, {})[event.tid] = name

    def place(self, event: AnyEvent) -> Place:
        """Of an event without a category; an empty one for the host."""
        key = event.pid, event.tid
        if (place := self._streams.get(key)) is None:
            place = self._streams[key] = self._of_thread(*key)
        copied = _COPY.match(event.name) if place.category == "kernel" else None
        return place._replace(category=f"gpu_mem{copied[1].lower()}") if copied else place

    def _of_thread(self, pid: Mixed, tid: Mixed) -> Place:
        if (device := self._devices.get(pid)) is None:
            return Place("")
        threads = self._threads.get(pid, {})
        thread = threads.get(tid, str(tid))
        wanted = next((kind for kind in (_STREAM, _OPS) if any(map(kind.match, threads.values()))), None)
        holds_work = wanted is None or wanted.match(thread)
        return Place("kernel" if holds_work else "gpu_user_annotation", thread, device)
