"""The calls of the system by which a store is written, and something that happens at the n-th of them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

CALLS = ("fsync", "replace", "rename", "mkdir", "unlink", "rmdir")


class Fault:
    """``work`` is done before the call whose turn it is (before every call without a turn)."""

    def __init__(self, work: Callable[[], object], turn: int | None = None) -> None:
        self.work, self.turn, self.calls = work, turn, 0

    @property
    def is_over(self) -> bool:
        """Whether the call came."""
        return self.turn is not None and self.calls > self.turn

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **more: Any) -> Any:
            self.calls += 1
            if self.turn in (None, self.calls - 1):
                self.work()
            return call(*given, **more)

        return counted

    def _before_writing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        counted = self._before(call)
        return lambda file, mode="r", *given, **more: (counted if "w" in mode else call)(file, mode, *given, **more)

    @contextmanager
    def armed(self) -> Iterator[Fault]:
        with ExitStack() as patches:
            for name in CALLS:
                patches.enter_context(mock.patch.object(os, name, self._before(getattr(os, name))))
            patches.enter_context(mock.patch.object(io, "open", self._before_writing(io.open)))
            yield self


def raising(error: BaseException) -> Callable[[], object]:
    def work() -> None:
        raise error

    return work
