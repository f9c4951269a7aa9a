"""What was computed of entries lately. An entry never changes, so the checksums of its files say what still holds."""

from __future__ import annotations

import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, ParamSpec, TypeVar

from engine.inspection.runs import RunFacts
from engine.store.entries import Entry
from engine.store.store import Store

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Memo(Generic[Value]):
    """The last few values. Two threads that miss at once both compute: neither waits for the other."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.most:
                self._values.popitem(last=False)
        return value


def computed_once(most: int) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """Keep what a function returned for the last arguments; entries and runs count by their files' checksums.

    Only those are told apart, not the store that was asked.
    """

    def decorate(compute: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        memo: Memo[Value] = Memo(most)
        signature = inspect.signature(compute)

        @functools.wraps(compute)
        def remembered(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return memo.of(_key(tuple(bound.arguments.values())), lambda: compute(*args, **kwargs))

        return remembered

    return decorate


def _key(argument: Hashable) -> Hashable:
    """An entry counts with its place too: a value may hold the entry, and read its files later."""
    if isinstance(argument, Entry):
        return (argument.files.where, *argument.key)
    if isinstance(argument, RunFacts):
        return argument.key
    if isinstance(argument, tuple):
        return tuple(_key(part) for part in argument if not isinstance(part, Store))
    return argument
