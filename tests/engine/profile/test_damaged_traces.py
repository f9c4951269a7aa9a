"""Files that are no trace, or not a whole one: a clear word, and never a wrong sum."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FileFormatError
from engine.profile import columns, decompress, split_events
from engine.profile.events import _ODD_ESCAPE, _ODD_NUMBER, lenient_event
from engine.profile.ingest import add_trace, read_trace
from engine.profile.split_events import EventSplitter
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_reading import one, sums


def file_of(tmp_path: Path, content: bytes, name: str = "t.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "it is empty"),
        (b"   \n ", "it ends before an array of traceEvents"),
        (b"hello", "it begins with neither"),
        (b"\x00\x01\x02", "it begins with"),
        (b"{}", "it has no array of traceEvents"),
        (b'{"a": {"traceEvents": [1]}}', "it has no array of traceEvents"),
        (b'{"a": "traceEvents"}', "it has no array of traceEvents"),
        (b'{"traceEvents": 5}', "it has no array of traceEvents"),
        (b'{"traceEvents": null, "a": []}', "its traceEvents is no array"),
        (b'{"traceEvents": {"a": 1}}', "its traceEvents is no array"),
        (b'{"schemaVersion": 1, ', "it ends before an array of traceEvents"),
        (b'{"schemaVersion": "', "it ends before an array of traceEvents"),
        (b"[]", "no event with a duration"),
        (b'{"traceEvents": []}', "no event with a duration"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "no event with a duration"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}], "traceEvents": []}', "two arrays"),
        (b"PK\x03\x04....", "a ZIP archive"),
        (b"\x80\x04\x95", "a pickle, as memory snapshots are"),
        (b"<!DOCTYPE html><html>", "a web page, as memory timelines may be"),
        (b'{"schema": "1.1.1-chakra.0.0.4", "pid": 7, "nodes": [{"id": 1, "name": "aten::mm"}]}', "an execution trace"),
        (b'{"pid": 7, "nodes": [{"id": 1}], "schema": "1.0.1"}', "an execution trace"),
        (b'{"segments": [], "device_traces": [[]]}', "a memory snapshot"),
        (b"[[10, 20], [[0, 5], [0, 7]]]", "as a memory timeline has"),
        (b'[[10, "CREATE", 512, 3], [20, "DESTROY", 512, 3]]', "as a memory timeline has"),
        (b"\x28\xb5\x2f\xfd....", "packed with zstd"),
        ('{"traceEvents": []}'.encode("utf-16"), "UTF-16"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph": "X" "dur" 2}]}', "does not read, at byte 40"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph"', "its array of events has no end"),
        (b'[{"ph": "X", "dur": 1}', "its array of events has no end"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    with pytest.raises(FileFormatError, match=word) as raised:
        read_trace(file_of(tmp_path, content))
    assert "\n" not in str(raised.value)
    with pytest.raises(FileFormatError):
        read_trace(file_of(tmp_path, gzip.compress(content), "t.json.gz"))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileFormatError, match="cannot be read: No such file"):
        read_trace(Path("/nowhere/at/all.json"))


@pytest.mark.parametrize("opener", ["isal", "gzip"])
@pytest.mark.parametrize("kept", [0.1, 0.5, 0.999])
def test_gzip_that_ends_too_early(tmp_path: Path, kept: float, opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if opener == "gzip":
        monkeypatch.setattr(decompress, "_OPEN", gzip.GzipFile)
    whole = tmp_path / "whole.json.gz"
    truth = write_trace(whole, 5_000)
    content = whole.read_bytes()
    path = file_of(tmp_path, content[: int(len(content) * kept)], "t.json.gz")
    with pytest.raises(FileFormatError, match="is cut off: its gzip data ends too early"):
        read_trace(path)
    read = read_trace(path, partial=True)
    assert not read.around.is_closed
    assert len(read.columns) > 0.8 * kept * truth.events
    for key, (calls, total) in sums(read).items():
        assert calls <= truth.sums[key][0] and total <= truth.sums[key][1]


@pytest.mark.parametrize("opener", ["isal", "gzip"])
@pytest.mark.parametrize("place", [-8, -1, 60])
def test_gzip_that_is_damaged(tmp_path: Path, place: int, opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong checksum, a wrong length, wrong data."""
    if opener == "gzip":
        monkeypatch.setattr(decompress, "_OPEN", gzip.GzipFile)
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 500)
    content = bytearray(whole.read_bytes())
    content[place] ^= 0x55
    with pytest.raises(FileFormatError, match="is damaged: its gzip data does not inflate"):
        read_trace(file_of(tmp_path, bytes(content), "t.json.gz"))


def test_several_gzip_streams_in_a_row_are_one_text(tmp_path: Path) -> None:
    text = json.dumps([one()] * 3).encode()
    path = file_of(tmp_path, gzip.compress(text[:20]) + gzip.compress(text[20:]), "t.json.gz")
    assert len(read_trace(path).columns) == 3


def test_taking_what_there_is_of_a_whole_file_is_all_of_it(tmp_path: Path) -> None:
    text = json.dumps([one()] * 3).encode()
    path = file_of(tmp_path, gzip.compress(text[:20]) + gzip.compress(text[20:]) + b"\0" * 9, "t.json.gz")
    read = read_trace(path, partial=True)
    assert len(read.columns) == 3 and read.around.is_closed


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert len(read_trace(file_of(tmp_path, b"\xef\xbb\xbf" + json.dumps([one()]).encode())).columns) == 1


def test_an_endless_event_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompress, "PIECE_BYTES", 1024)
    monkeypatch.setattr(split_events, "MOST_EVENT_BYTES", 10_000)
    monkeypatch.setattr(split_events, "MOST_HEAD_BYTES", 10_000)
    with pytest.raises(FileFormatError, match="an event of over"):
        read_trace(file_of(tmp_path, json.dumps([one(name="x" * 50_000)]).encode()))
    with pytest.raises(FileFormatError, match="come before an array"):
        read_trace(file_of(tmp_path, json.dumps({"a": "x" * 50_000, "traceEvents": [one()]}).encode()))


def test_an_event_of_more_than_8_mb_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="an event of over 8 MB"):
        read_trace(file_of(tmp_path, json.dumps([one(name="x" * 2**24)]).encode()))


@pytest.mark.parametrize(
    ("limit", "key", "word"),
    [
        ("MOST_OPERATIONS", "name", "over 3 operations"),
        ("MOST_THREADS", "tid", "over 3 threads"),
        ("MOST_NAME_CHARACTERS", "name", "over 3 characters in names of operations"),
        ("MOST_NAME_CHARACTERS", "tid", "over 3 characters in names of threads"),
    ],
)
def test_names_and_threads_have_a_limit(
    limit: str, key: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gz of 2 MB had 400,000 names and took 0.8 GB; one of 35 MB had 7 million threads and took 1.9 GB."""
    monkeypatch.setattr(columns, limit, 3)
    monkeypatch.setattr(decompress, "PIECE_BYTES", 100)
    events = [one(**{"name": "k", "cat": "", "tid": 1, key: f"k{number}"}) for number in range(9)]
    with pytest.raises(FileFormatError, match=word):
        read_trace(file_of(tmp_path, json.dumps(events).encode()))


def test_escapes_take_no_memory_of_their_own() -> None:
    """29 million of them, 56 KB of gz, took 3.6 GB."""
    text = b'["' + rb"\\" * 200_000 + b'"]'
    tracemalloc.start()
    try:
        assert split_events.element_bounds(text, 1) == ([(1, len(text) - 1)], len(text), True)
        assert tracemalloc.get_traced_memory()[1] < 4 * len(text)
    finally:
        tracemalloc.stop()
    assert len(_ODD_ESCAPE.findall(text.decode())) == 1
    unfinished = '"' + r"\"" * 2_000
    assert [found.span() for found in _ODD_NUMBER.finditer(unfinished)] == [(0, len(unfinished))]
    event = lenient_event(rb'{"name": "\q\n\u00e9\u00g", "pid": nan}')
    assert event is not None and (event.name, event.pid) == ("\\q\né\\u00g", None)


@pytest.mark.parametrize("text", [{"a": [[]] * 50_000, "traceEvents": [one()]}, [one(args={"a": [[]] * 50_000})]])
def test_what_has_no_end_for_long_is_read_over_a_few_times_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: object
) -> None:
    """A piece more, and all of it again, would be thousands of times as much: minutes for 20 MB."""
    monkeypatch.setattr(decompress, "PIECE_BYTES", 100)
    read = []
    starts, bounds = EventSplitter._array_start, split_events.element_bounds

    def array_start(splitter: EventSplitter, start: int) -> int | None:
        read.append(len(splitter._buffer))
        return starts(splitter, start)

    def element_bounds(text: bytearray, start: int) -> Any:
        read.append(len(text))
        return bounds(text, start)

    monkeypatch.setattr(EventSplitter, "_array_start", array_start)
    monkeypatch.setattr(split_events, "element_bounds", element_bounds)
    path = file_of(tmp_path, json.dumps(text).encode())
    read_trace(path)
    assert path.stat().st_size <= sum(read) < 4 * path.stat().st_size


def test_deep_nesting_does_not_break_it(tmp_path: Path) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    content = f'[{{"ph": "X", "dur": 1, "args": {{"a": {deep}}}}}]'.encode()
    with pytest.raises(FileFormatError, match="does not read"):
        read_trace(file_of(tmp_path, content))


def test_durations_that_no_number_holds_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, json.dumps([one(dur=4e15)] * 4).encode())
    with pytest.raises(FileFormatError, match="over 292 years"):
        add_trace(Store(LocalFiles(tmp_path / "store")), path)


def test_nothing_is_left_of_what_was_refused(tmp_path: Path) -> None:
    store = Store(LocalFiles(tmp_path / "store"))
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 5_000)
    path = file_of(tmp_path, whole.read_bytes()[:-3_000], "t.json.gz")
    with pytest.raises(FileFormatError):
        add_trace(store, path, keep_file=True)
    assert store.found(TRACE).entries == ()
    assert [one for one in (tmp_path / "store").rglob("*") if one.is_file()] == []


def test_a_broken_reader_stops_its_thread(tmp_path: Path) -> None:
    """Whoever stops reading in the middle leaves no thread behind."""
    import threading

    path = tmp_path / "t.json"
    write_trace(path, 60_000)
    with decompress.open_trace(path) as (source, pieces):
        assert len(next(pieces)) == decompress.PIECE_BYTES
        assert source.bytes > 3 * decompress.PIECE_BYTES
    assert "inflate" not in [thread.name for thread in threading.enumerate()]


def test_the_checksum_of_a_file_without_isal_is_checked_by_zlib() -> None:
    assert zlib.error in decompress._WRONG
