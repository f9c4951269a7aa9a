"""The progress of a command: on a terminal, and in a file that it appends to, which another process reads.

Each line of the file is one JSON object about one *part* of the work, a run or a file: its number from 0 of how many,
how far it is, and in the end its ``state``.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from engine.figures.words import fixed, short_percent
from engine.user_files import parsed_json

PartState = Literal["running", "done", "there", "failed"]  # there: the file was imported before
Say = Callable[..., None]


@contextlib.contextmanager
def telling(path: Path | None, *, is_shown: bool) -> Iterator[Say]:
    """What says how far work is: ``say("3/9 samples", work=0.33, samples=9)``. The text is a line of standard error,
    redrawn in place; the rest a line of the file. Twice a second, and where it says ``now=True``."""
    told_s = 0.0

    def say(text: str = "", *, now: bool = False, **values: Any) -> None:
        nonlocal told_s
        if not now and time.monotonic() - told_s < 0.5:
            return
        told_s = time.monotonic()
        if is_shown and text:
            share = f"{fixed(100 * min(max(values['work'], 0.0), 1.0), 0)}% " if "work" in values else ""
            sys.stderr.write(f"\r{share}{text}\033[K")
            sys.stderr.flush()
        if file is not None and values:
            with contextlib.suppress(OSError):  # a full disk stops the work where it writes samples, not here
                file.write(f"{json.dumps(values, allow_nan=False)}\n".encode())

    with contextlib.ExitStack() as stack:
        file: Any = path and stack.enter_context(path.open("ab", buffering=0))
        if is_shown:
            stack.callback(sys.stderr.write, "\r\033[K")
        yield say


@dataclass(frozen=True, slots=True)
class PartProgress:
    """How far a part is. ``work`` is a run's share of the expected tokens, since samples differ in length."""

    part: int = 0
    parts: int = 1
    state: PartState = "running"
    run_id: str = ""
    model_alias: str = ""
    model_step: str = ""
    lp: str = ""
    file: str = ""
    made: str = ""  # ids of the logs or traces that it added, separated by spaces
    error: str = ""
    samples: int = 0
    done: int = 0
    passes: int = 0
    decodes: int | None = 0  # None: groups of an earlier version did not count it
    clean: int = 0
    bad_blocks: int = 0
    blocks: int = 0
    tokens: int = 0
    written: int = 0  # samples of this process
    seconds: float = 0.0  # of this process
    work: float = 0.0
    began: float = 0.0  # the share that was done before, of a resumed run

    @property
    def has_ended(self) -> bool:
        return self.state != "running"

    @property
    def made_ids(self) -> tuple[str, ...]:
        """Of what is in the store now."""
        return tuple(self.made.split()) if self.state in ("done", "there") else ()

    @property
    def name(self) -> str:
        model = ":".join(filter(None, (self.model_alias, self.model_step)))
        return self.file or " · ".join(filter(None, (model, self.lp))) or self.run_id

    @property
    def samples_a_second(self) -> float:
        return self.written / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the pace of this process; None before it has one."""
        here = self.work - self.began
        return self.seconds * (1 - self.work) / here if here > 0 and self.seconds > 0 else None

    def words(self) -> str:
        left = f", {fixed(self.seconds_left, 0)} s left" if self.seconds_left is not None and self.work < 1 else ""
        counts = (("passed", self.passes), ("decode", self.decodes), ("clean", self.clean))
        rates = ", ".join(
            f"{short_percent(count / max(self.done, 1))} {name}" for name, count in counts if count is not None
        )
        return f"{self.done}/{self.samples} samples, {fixed(self.samples_a_second, 1)} samples/s{left}, {rates}"


_NAMES = {field.name for field in fields(PartProgress)}


class ProgressFile:
    """Reads new lines at each call; not for two threads at once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self._parts: dict[int, PartProgress] = {}

    def parts(self) -> tuple[PartProgress, ...]:
        """The last report of each, in their order; parts without one are missing."""
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            file.seek(self._read)
            whole, end, _ = file.read().rpartition(b"\n")  # a line that is being written is read the next time
            self._read += len(whole) + len(end)
            for line in whole.splitlines():
                with contextlib.suppress(ValueError):
                    report = {name: value for name, value in parsed_json(line).items() if name in _NAMES}
                    number = report.get("part", 0)
                    self._parts[number] = replace(self._parts.get(number, PartProgress()), **report)
        return tuple(self._parts[number] for number in sorted(self._parts))
