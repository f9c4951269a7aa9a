"""The events of a trace's array, some megabytes at a time, without ever holding the whole text.

A buffer is split after an event, and the split is verified by decoding the text before it: if that parses from the
beginning of an event, the parser would be at the same place in the whole file. Where the guess is wrong (``},{`` occurs
inside events, too) or the text is unusual, a slower scanner of strings and brackets finds the true ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown
from engine.profile.events import (
    UNREAD,
    AnyEvent,
    decode_exactly,
    decode_quickly,
    is_coarse,
    lenient_event,
    lenient_object,
)

EVENTS_KEY = b'"traceEvents"'
OTHER_FILES = {
    frozenset((b'"schema"', b'"nodes"')): "an execution trace, whose operators have no times",
    frozenset((b'"segments"', b'"device_traces"')): "a memory snapshot",
}
"""What else the profiler writes, by keys and texts that stand around the array in no trace."""
MOST_HEAD_BYTES, MOST_EVENT_BYTES = 16 * 1024 * 1024, 8 * 1024 * 1024
MOST_OTHERS = 10_000
"""Elements of the array that are no objects: each is read by itself, and a trace has none."""
GUESSED_BYTES = 64 * 1024
"""Distance from a buffer's end within which the last event's end is searched."""
_BETWEEN = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|s)"')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(")|\\?\Z)|[{}\[\],:]', re.DOTALL)
_BLANK = re.compile(rb"[ \t\r\n]*")


@dataclass(slots=True)
class TraceHeader:
    """The object around the array, and the file's condition."""

    head: Mapping[str, Any] = field(default_factory=dict)
    is_bare: bool = False  # the file is the array alone
    is_closed: bool = False  # the array has its end
    lenient: int = 0  # events that only the lenient parser could read
    others: int = 0  # elements that are no objects


class EventSplitter:
    """One file's events, by iteration; ``around`` is complete after it."""

    def __init__(self, path: Path, pieces: Iterator[bytes], *, may_end_early: bool = False) -> None:
        self.path, self._pieces, self._may_end_early = path, pieces, may_end_early
        self.around = TraceHeader()
        self._buffer = bytearray()
        self._is_last = False  # no more text comes
        self._is_exact = False
        self._behind = 0  # bytes that left the buffer

    def __iter__(self) -> Iterator[Sequence[AnyEvent]]:
        self._cut(self._head())
        while not self.around.is_closed:
            if self._is_last:
                yield from self._rest()
                return
            yield from self._next()
            self._fill()

    # --- the buffer ---------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """At least twice what is left there: the buffer is then read again from its beginning."""
        enough = min(2 * len(self._buffer), MOST_EVENT_BYTES + 1)
        while not self._is_last:
            try:
                piece = next(self._pieces, None)
            except FileFormatError:
                if not self._may_end_early:
                    raise
                piece = None
            if piece is None:
                self._is_last = True
            else:
                self._buffer += piece
                if len(self._buffer) >= enough:
                    return

    def _cut(self, end: int) -> None:
        del self._buffer[:end]
        self._behind += end

    # --- the head -----------------------------------------------------------------------------------------------------

    def _head(self) -> int:
        """The offset of the array's first element."""
        while True:
            self._fill()
            start = _after_blank(self._buffer, 0)
            if start < len(self._buffer):
                if self._buffer[start] == ord("["):
                    self.around.is_bare = True
                    return start + 1
                if self._buffer[start] != ord("{"):
                    raise self._no_trace("it begins with neither an object nor an array")
                found = self._array_start(start)
                if found is not None:
                    return found
            if self._is_last:
                raise self._no_trace("it ends before an array of traceEvents" if self._buffer else "it is empty")
            if len(self._buffer) >= MOST_HEAD_BYTES:
                raise self._no_trace(f"{MOST_HEAD_BYTES // 2**20} MB come before an array of traceEvents")

    def _array_start(self, start: int) -> int | None:
        """The offset after the bracket of the key of that name; None where more text is needed."""
        depth, key_at, is_wanted = 0, -1, False
        keys: set[bytes] = set()
        for token in _TOKEN.finditer(self._buffer, start):
            kind = token[0][:1]
            if kind == b'"':
                if token[1] is None:
                    return None  # an unfinished text
                if depth == 1:
                    keys.add(token[0])
                    for needed, what in OTHER_FILES.items():
                        if needed <= keys:
                            raise self._no_trace(f"it is {what}")
                if depth == 1 and not is_wanted:
                    key_at = token.start() if token[0] == EVENTS_KEY else -1
            elif kind == b":" and depth == 1 and key_at >= 0:
                is_wanted = True
            elif kind in b"{[":
                if is_wanted and depth == 1:
                    if kind == b"{":
                        raise self._no_trace("its traceEvents is no array")
                    self.around.head = lenient_object(bytes(self._buffer[start:key_at]) + b'"":0}')
                    return token.end()
                depth += 1
            elif kind in b"}]":
                depth -= 1
                if depth == 0:
                    raise self._no_trace("it has no array of traceEvents")
            elif kind == b"," and depth == 1:
                if is_wanted:
                    raise self._no_trace("its traceEvents is no array")
                key_at = -1
        return None

    # --- the array ----------------------------------------------------------------------------------------------------

    def _next(self) -> Iterator[Sequence[AnyEvent]]:
        """The complete events in the buffer."""
        start = _after_blank(self._buffer, 0)
        if start == 0:
            self._buffer[0:0] = b" "  # room for a bracket
            self._behind -= 1
            start = 1
        comma = self._guess(start)
        if comma is not None:
            events = self._decoded(start, comma)
            if events is not None:
                self._cut(comma + 1)
                yield events
                return
        yield from self._scanned(start)
        if len(self._buffer) > MOST_EVENT_BYTES:
            raise self._no_trace(f"an event of over {MOST_EVENT_BYTES // 2**20} MB")

    def _rest(self) -> Iterator[Sequence[AnyEvent]]:
        """The last events, when no more text comes."""
        yield from self._scanned(_after_blank(self._buffer, 0))
        if not self.around.is_closed and not self._may_end_early:
            raise FileFormatError(
                f"{shown(self.path, 200)} is cut off: its array of events has no end",
                "Record it again, or read what there is with --partial",
            )

    def _guess(self, start: int) -> int | None:
        """The comma after what looks like the last complete event."""
        begin = max(start, len(self._buffer) - GUESSED_BYTES)
        last = None
        for last in _BETWEEN.finditer(self._buffer, begin):  # noqa: B007 - the last one is wanted
            pass
        return None if last is None else last.start(1)

    def _decoded(self, start: int, end: int) -> Sequence[AnyEvent] | None:
        """The elements between two offsets, the second one of a comma; None where they do not parse.

        The bytes before and after become brackets for the parser, which saves a copy.
        """
        before, behind = self._buffer[start - 1], self._buffer[end]
        self._buffer[start - 1], self._buffer[end] = ord("["), ord("]")
        try:
            with memoryview(self._buffer) as whole, whole[start - 1 : end + 1] as part:
                if not self._is_exact:
                    events = decode_quickly(part)
                    if not is_coarse(events):
                        return events
                    self._is_exact = True
                return decode_exactly(part)
        except UNREAD:
            self._buffer[start - 1], self._buffer[end] = before, behind
            return None

    def _scanned(self, start: int) -> Iterator[Sequence[AnyEvent]]:
        """The complete elements of the buffer, found token by token; reads the tail where the array ends."""
        bounds, end, is_closed = element_bounds(self._buffer, start)
        events = [event for begin, stop in bounds if (event := self._one(begin, stop)) is not None]
        self._cut(end)
        if is_closed:
            self.around.is_closed = True
            self._tail()
        yield events

    def _one(self, begin: int, end: int) -> AnyEvent | None:
        raw = bytes(self._buffer[begin:end])
        try:
            return decode_exactly(b"[" + raw + b"]")[0]
        except UNREAD:
            pass
        try:
            event = lenient_event(raw)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{shown(self.path, 200)} has an event that does not read, at byte {self._behind + begin:,}: {error}",
                "Record the trace again",
            ) from error
        self.around.lenient += event is not None
        self.around.others += event is None
        if self.around.others > MOST_OTHERS:
            raise self._no_trace(f"over {MOST_OTHERS:,} elements of its array are no events, as in a memory timeline")
        return event

    # --- after the array ----------------------------------------------------------------------------------------------

    def _tail(self) -> None:
        """Read to the end, so that damage and a second array are found."""
        overlap = 2 * len(EVENTS_KEY)
        while True:
            if EVENTS_KEY in self._buffer and not self.around.is_bare:
                colon = _after_blank(self._buffer, self._buffer.index(EVENTS_KEY) + len(EVENTS_KEY))
                if self._buffer[colon : colon + 1] == b":":
                    raise self._no_trace("it has two arrays of traceEvents")
            if self._is_last:
                return
            self._cut(max(0, len(self._buffer) - overlap))
            self._fill()

    def _no_trace(self, why: str) -> FileFormatError:
        return FileFormatError(
            f"{shown(self.path, 200)} is no trace: {why}", "Give a Chrome trace of torch.profiler, plain or as .gz"
        )


def element_bounds(buffer: bytes | bytearray, start: int) -> tuple[list[tuple[int, int]], int, bool]:
    """Bounds of the complete elements of an array from ``start``, the offset after them, and whether it ends."""
    bounds: list[tuple[int, int]] = []
    depth, begin, end = 0, start, start
    for token in _TOKEN.finditer(buffer, start):
        kind = token[0][:1]
        if kind == b'"' and token[1] is None:
            break
        if kind in (b"{", b"["):
            depth += 1
        elif kind in (b"}", b"]"):
            depth -= 1
        if (depth == 0 and kind == b",") or depth < 0:
            if _after_blank(buffer, begin) < token.start():  # not after a last comma
                bounds.append((begin, token.start()))
            begin = end = token.end()
            if depth < 0:
                return bounds, end, True
    return bounds, end, False


def _after_blank(buffer: bytes | bytearray, at: int) -> int:
    match = _BLANK.match(buffer, at)
    return at if match is None else match.end()
