"""What was computed of entries lately. An entry never changes, so the checksums of its files say what still holds."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

from engine.store.entries import Entry
from engine.store.store import Store

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


@runtime_checkable
class HasKey(Protocol):
    """What an entry or a run counts by: the checksums of its files."""

    @property
    def key(self) -> Hashable: ...


class Memo(Generic[Value]):
    """The last few values. Two threads that miss at once both compute: neither waits for the other. What a value was
    made of is not kept."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._made: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
        value = make()
        with self._lock:
            value = self._made.setdefault(key, value)
            self._made.move_to_end(key)
            while len(self._made) > self.most:
                self._made.popitem(last=False)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """For what was made together with others; what is kept already stays."""
        self.of(key, lambda: value)


def entry_key(entry: Entry) -> Hashable:
    return (entry.files.where, *entry.key)


def computed_once(most: int) -> Callable[[Callable[Arguments, Value]], Callable[Arguments, Value]]:
    """Keep what a function returned for the last arguments; entries and runs count by their files' checksums, an entry
    with its place too: a value may read its files later. The store that was asked does not count."""

    def key_of(argument: Any) -> Hashable:
        if isinstance(argument, Entry):
            return entry_key(argument)
        return argument.key if isinstance(argument, HasKey) else argument

    def decorate(compute: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
        memo: Memo[Value] = Memo(most)

        @functools.wraps(compute)
        def remembered(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
            named = ((name, key_of(value)) for name, value in sorted(kwargs.items()))
            key = (*(key_of(value) for value in args if not isinstance(value, Store)), *named)
            return memo.of(key, lambda: compute(*args, **kwargs))

        return remembered

    return decorate
