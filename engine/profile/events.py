"""The events of a trace file, some megabytes at a time, without ever holding the whole text.

A piece is inflated in a thread while the previous one is parsed. The text is split after an event, and the split is
verified by decoding what comes before it: if that parses from the beginning of an event, the parser would be at the
same place in the whole file. Where the guess is wrong (``},{`` occurs inside events, too) or the text is unusual, a
slower scanner of strings and brackets finds the true ends. ``isal`` inflates four times as fast as ``gzip``.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

import msgspec
from isal import igzip, isal_zlib

from engine.errors import FileError, shown
from engine.user_files import parsed_json

GZIP: Any = igzip.IGzipFile
_WRONG: Any = (isal_zlib.error, gzip.BadGzipFile)
PIECE_BYTES = 4 * 1024 * 1024
MOST_HEAD_BYTES, MOST_EVENT_BYTES = 16 * 1024 * 1024, 8 * 1024 * 1024
GUESSED_BYTES = 64 * 1024  # from a buffer's end, within which the last event's end is searched
COARSE_US = float(2**43)  # above this a double has no nanosecond resolution for a time in microseconds
Mixed = int | str | float | None
Time = TypeVar("Time", float, Decimal)
_ARRAY = re.compile(rb'(?<!\\)"traceEvents"\s*:\s*\[')
_BETWEEN = re.compile(rb'\}\s*(,)\s*\{\s*"(?:ph|name|cat|pid|tid|ts|dur|args|id|s)"')
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(")|\\?\Z)|[{}\[\],]', re.DOTALL)
_ODD_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?\b(?:nan|inf)\b', re.IGNORECASE | re.DOTALL)
_HALF = r"u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|[c-fC-F](?<!\\u[dD][89abAB]..\\u[dD].))"
_ODD_ESCAPE = re.compile(rf'(?:\\(?!{_HALF})(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}})[^\\]*+)++|\\(.|\Z)', re.DOTALL)


class Args(msgspec.Struct, gc=False):
    stream: Mixed = None
    correlation: Mixed = None
    device: Mixed = None
    name: Any = None  # of a process or a thread, in an event that names one


class Event(msgspec.Struct, Generic[Time], gc=False):
    """Times are microseconds. ``ts`` as Decimal keeps all digits: slower, and needed where times count from 1970."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: Time | None = None
    dur: float | None = None
    pid: Mixed = None
    tid: Mixed = None
    args: Args | None = None


AnyEvent = Event[float] | Event[Decimal]
_quickly: Callable[[Any], list[Event[float]]] = msgspec.json.Decoder(list[Event[float]]).decode
_exactly: Callable[[Any], list[Event[Decimal]]] = msgspec.json.Decoder(list[Event[Decimal]]).decode
UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class TraceFile:
    """One file, open. ``head`` is the object around the array, ``lenient`` counts events of invalid JSON."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self.path = path
        self._file = file
        self._bytes = path.stat().st_size
        self.head: Mapping[str, Any] = {}
        self.lenient = 0
        self._is_exact = False

    @property
    def share(self) -> float:
        """That is read, from 0 to 1."""
        return min(1.0, self._file.tell() / max(1, self._bytes))

    def events(self) -> Iterator[Sequence[AnyEvent]]:
        with closing(self._pieces()) as pieces:  # its thread ends with it
            yield from self._events(pieces)

    def _events(self, pieces: Iterator[bytes]) -> Iterator[Sequence[AnyEvent]]:
        buffer = self._after_head(pieces)
        for piece in pieces:
            buffer += piece
            # What is before the last comma between two events, else what the scanner finds.
            commas = [match.start(1) for match in _BETWEEN.finditer(buffer, max(0, len(buffer) - GUESSED_BYTES))]
            if commas and (events := self._decoded(buffer, commas[-1])) is not None:
                buffer[: commas[-1] + 1] = b"["
                yield events
                continue
            events, is_closed = self._scanned(buffer)
            yield events
            if is_closed:
                break
            if len(buffer) > MOST_EVENT_BYTES:
                raise self._no_trace(f"an event of over {MOST_EVENT_BYTES // 2**20} MB")
        else:
            events, is_closed = self._scanned(buffer)
            yield events
            if not is_closed:
                problem = f"{shown(self.path, 200)} is cut off: its array of events has no end"
                raise FileError(problem, "Copy it again")
        sum(map(len, pieces))  # to the end, so that damage is found

    def _pieces(self) -> Generator[bytes, None, None]:
        is_packed = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        reader: Any = GZIP(fileobj=self._file, mode="rb") if is_packed else self._file
        name = shown(self.path, 200)
        try:
            with ThreadPoolExecutor(1, "inflate") as pool:
                ahead = pool.submit(reader.read, PIECE_BYTES)
                while piece := ahead.result():
                    ahead = pool.submit(reader.read, PIECE_BYTES)
                    yield piece
        except EOFError as error:
            raise FileError(f"{name} is cut off: its gzip data ends too early", "Copy it again") from error
        except _WRONG as error:
            raise FileError(f"{name} is damaged: {error}", "Copy it again") from error
        except OverflowError as error:  # the name in its header is longer than a buffer of isal
            raise FileError(f"{name} has a gzip header of over 512 KB", "Compress it again") from error
        except OSError as error:
            raise FileError(f"{name} cannot be read: {error.strerror or error}", "Check the disk") from error

    def _after_head(self, pieces: Iterator[bytes]) -> bytearray:
        """The text from the array on."""
        buffer = bytearray()
        while piece := next(pieces, b""):
            buffer += piece
            text = buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
            if text and text[0] not in b"{[":
                raise self._no_trace("it begins with neither an object nor an array")
            if text[:1] == b"[":
                return text
            if (match := _ARRAY.search(text)) is not None:
                with suppress(ValueError):  # no figure depends on it
                    head = _lenient_value(text[: match.start()].decode("utf-8", "replace") + '"":0}')
                    self.head = head if isinstance(head, dict) else {}
                return text[match.end() - 1 :]
            if len(buffer) >= MOST_HEAD_BYTES:
                break
        raise self._no_trace("it has no array of traceEvents" if buffer else "it is empty")

    def _decoded(self, buffer: bytearray, end: int) -> Sequence[AnyEvent] | None:
        """The events before the comma at ``end``; None where they do not parse."""
        buffer[end] = ord("]")
        try:
            with memoryview(buffer) as whole, whole[: end + 1] as text:  # a copy takes as long as parsing it
                if not self._is_exact:
                    events = _quickly(text)
                    first = next((event.ts for event in events if event.ph == "X" and event.ts is not None), 0.0)
                    if abs(first) < COARSE_US:
                        return events
                    self._is_exact = True
                return _exactly(text)
        except UNREAD:
            buffer[end] = ord(",")
            return None

    def _scanned(self, buffer: bytearray) -> tuple[Sequence[AnyEvent], bool]:
        """The complete elements, found token by token and taken from the buffer, and whether the array ends."""
        bounds, end, is_closed = element_bounds(buffer)
        events = [self._parse_event(bytes(buffer[begin:stop])) for begin, stop in bounds]
        buffer[:end] = b"["
        return events, is_closed

    def _parse_event(self, raw: bytes) -> AnyEvent:
        try:
            return _exactly(b"[" + raw + b"]")[0]
        except UNREAD:
            pass
        # As torch writes some: NaN, control characters, backslashes of Windows, damaged UTF-8; or numbers as texts.
        try:
            value = _lenient_value(raw.decode("utf-8", "replace"))
            if not isinstance(value, dict):
                raise self._no_trace("its array has elements that are no events, as a memory timeline has")
            self.lenient += 1
            return msgspec.convert(value, Event[Decimal], strict=False)
        except (ValueError, RecursionError) as error:
            problem = f"{shown(self.path, 200)} has an event that does not read: {error}"
            raise FileError(problem, "Record the trace again") from error

    def _no_trace(self, why: str) -> FileError:
        problem = f"{shown(self.path, 200)} is no trace: {why}"
        return FileError(problem, "Give a Chrome trace of torch.profiler, plain or as .gz")


def element_bounds(buffer: bytes | bytearray) -> tuple[list[tuple[int, int]], int, bool]:
    """Bounds of the complete elements of an array that begins here, the offset after them, and whether it ends."""
    bounds: list[tuple[int, int]] = []
    depth, begin = 0, 1
    for token in _TOKEN.finditer(buffer, 1):
        kind = token[0][:1]
        if kind == b'"' and token[1] is None:
            break  # an unfinished text
        depth += (kind in b"{[") - (kind in b"}]")
        if (depth == 0 and kind == b",") or depth < 0:
            if buffer[begin : token.start()].strip():  # not after a last comma
                bounds.append((begin, token.start()))
            begin = token.end()
            if depth < 0:
                return bounds, begin, True
    return bounds, begin, False


def _lenient_value(text: str) -> Any:
    """What is no number is null; a backslash that escapes nothing, or half a character, is one."""
    plain = _ODD_NUMBER.sub(lambda match: match[0] if match[0].startswith('"') else "null", text)
    plain = _ODD_ESCAPE.sub(lambda match: match[0] if match[1] is None else f"\\\\{match[1]}", plain)
    return parsed_json(plain, strict=False, parse_float=_decimal)


def _decimal(text: str) -> Decimal | None:
    """None for 1e999999999999999999."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return None
