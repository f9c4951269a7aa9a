"""What a command says of its progress, read from the file that it appends to, part by part: a run, or a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

PartState = Literal["running", "done", "there", "failed"]
"""``there``: the file was imported before."""


@dataclass(frozen=True, slots=True)
class Part:
    """The last that was said of a part. Counts are those of the part so far."""

    part: int
    parts: int
    state: PartState = "running"
    run_id: str = ""
    file: str = ""
    made: str = ""  # ids of the logs or traces that it brought, apart by spaces
    model_alias: str = ""
    model_step: str = ""
    lp: str = ""
    error: str = ""
    samples: int = 0
    done: int = 0
    passed: int = 0
    bad_blocks: int = 0
    blocks: int = 0
    tokens: int = 0
    written: int = 0
    seconds: float = 0.0
    work: float = 0.0
    began: float = 0.0  # the share that was there before, of a run that goes on

    @property
    def has_ended(self) -> bool:
        return self.state != "running"

    @property
    def is_in_store(self) -> bool:
        return self.state in ("done", "there")

    @property
    def made_ids(self) -> tuple[str, ...]:
        return tuple(self.made.split())

    @property
    def name(self) -> str:
        model = ":".join(filter(None, (self.model_alias, self.model_step)))
        return self.file or " · ".join(filter(None, (model, self.lp))) or self.run_id

    @property
    def samples_a_second(self) -> float:
        return self.written / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the share of the expected tokens; None where nothing tells yet."""
        done = self.work - self.began
        return self.seconds * (1 - self.work) / done if done > 0 and self.seconds > 0 else None


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    name: str if kind == "str" else (int, float) if kind == "float" else int
    for name, kind in Part.__annotations__.items()
    if name not in ("part", "parts", "state")
}


class Said:
    """Reads on from where it was; not for two threads at once."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0
        self._parts: dict[int, Part] = {}

    def parts(self) -> tuple[Part, ...]:
        """In their order; those that nothing was said of yet are not there."""
        for line in self._new_lines():
            self._take(line)
        return tuple(self._parts[number] for number in sorted(self._parts))

    def _new_lines(self) -> list[bytes]:
        """A line that is being written waits for the next time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._read += len(whole) + len(end)
        return whole.splitlines()

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if not isinstance(said, dict) or not all(type(said.get(name)) is int for name in ("part", "parts")):
            return
        known = {name: said[name] for name, kind in _KINDS.items() if isinstance(said.get(name), kind)}
        self._parts[said["part"]] = self._next(said, known)

    def _next(self, said: Mapping[str, Any], known: dict[str, Any]) -> Part:
        number = said["part"]
        before = self._parts.get(number)
        if before is None:
            before = Part(number, said["parts"], began=known.get("work", 0.0))
        if "work" not in known and known.get("samples"):
            known["work"] = known.get("done", 0) / known["samples"]
        state = said.get("state", "running")
        return replace(before, **known, state=state if state in get_args(PartState) else "running")
