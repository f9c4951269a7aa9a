"""Files that are no trace, or not a whole one: a clear word, and never a wrong sum."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path

import pytest

from engine.errors import FileFormatError
from engine.profile import columns
from engine.profile import events as reader
from engine.profile.ingest import add_trace
from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.engine.profile.test_reading import one, read


def file_of(tmp_path: Path, content: bytes, name: str = "t.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "it is empty"),
        (b"   \n ", "it has no array of traceEvents"),
        (b"hello", "it begins with neither"),
        (b"\x00\x01\x02", "it begins with"),
        (b"{}", "it has no array of traceEvents"),
        (b'{"a": "traceEvents"}', "it has no array of traceEvents"),
        (b'{"traceEvents": 5}', "it has no array of traceEvents"),
        (b'{"traceEvents": null, "a": []}', "it has no array of traceEvents"),
        (b'{"traceEvents": {"a": 1}}', "it has no array of traceEvents"),
        (b'{"schemaVersion": 1, ', "it has no array of traceEvents"),
        (b'{"schemaVersion": "', "it has no array of traceEvents"),
        (b"[]", "no event with a duration"),
        (b'{"traceEvents": []}', "no event with a duration"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "no event with a duration"),
        (b"[[10, 20], [[0, 5], [0, 7]]]", "as a memory timeline has"),
        (b'[[10, "CREATE", 512, 3], [20, "DESTROY", 512, 3]]', "as a memory timeline has"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph": "X" "dur" 2}]}', "does not read"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph"', "its array of events has no end"),
        (b'[{"ph": "X", "dur": 1}', "its array of events has no end"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    with pytest.raises(FileFormatError, match=word) as raised:
        read(file_of(tmp_path, content))
    assert "\n" not in str(raised.value)
    with pytest.raises(FileFormatError):
        read(file_of(tmp_path, gzip.compress(content), "t.json.gz"))


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileFormatError, match="cannot be read: No such file"):
        read(Path("/nowhere/at/all.json"))


@pytest.mark.parametrize(("place", "word"), [(None, "is cut off: its gzip"), (-8, "is damaged"), (60, "is damaged")])
def test_gzip_that_is_cut_or_damaged(tmp_path: Path, place: int | None, word: str) -> None:
    """Too short; a wrong checksum; wrong data. No thread is left behind."""
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 500)
    content = bytearray(whole.read_bytes())
    if place is None:
        del content[len(content) // 2 :]
    else:
        content[place] ^= 0x55
    with pytest.raises(FileFormatError, match=word):
        read(file_of(tmp_path, bytes(content), "t.json.gz"))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("inflate")]


def test_several_gzip_streams_in_a_row_are_one_text(tmp_path: Path) -> None:
    text = json.dumps([one()] * 3).encode()
    path = file_of(tmp_path, gzip.compress(text[:20]) + gzip.compress(text[20:]), "t.json.gz")
    assert len(read(path).rows) == 3


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert len(read(file_of(tmp_path, b"\xef\xbb\xbf" + json.dumps([one()]).encode())).rows) == 1


def test_what_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PIECE_BYTES", 1024), ("MOST_EVENT_BYTES", 10_000), ("MOST_HEAD_BYTES", 10_000)):
        monkeypatch.setattr(reader, name, value)
    monkeypatch.setattr(columns, "MOST_OPERATIONS", 3)
    with pytest.raises(FileFormatError, match="an event of over"):
        read(file_of(tmp_path, json.dumps([one(name="x" * 50_000)]).encode()))
    with pytest.raises(FileFormatError, match="no array of traceEvents"):
        read(file_of(tmp_path, json.dumps({"a": "x" * 50_000, "traceEvents": [one()]}).encode()))
    with pytest.raises(FileFormatError, match="over 3 operations"):
        read(file_of(tmp_path, json.dumps([one(name=f"k{number}") for number in range(99)]).encode()))


def test_deep_nesting_does_not_break_it(tmp_path: Path) -> None:
    deep = "[" * 5_000 + "]" * 5_000
    content = f'[{{"ph": "X", "dur": 1, "args": {{"a": {deep}}}}}]'.encode()
    with pytest.raises(FileFormatError, match="does not read"):
        read(file_of(tmp_path, content))


def test_durations_that_no_number_holds_are_refused(tmp_path: Path) -> None:
    path = file_of(tmp_path, json.dumps([one(dur=4e15)] * 4).encode())
    with pytest.raises(FileFormatError, match="over 292 years"):
        add_trace(Store(Files(tmp_path / "store")), path)


def test_nothing_is_left_of_what_was_refused(tmp_path: Path) -> None:
    store = Store(Files(tmp_path / "store"))
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 5_000)
    path = file_of(tmp_path, whole.read_bytes()[:-3_000], "t.json.gz")
    with pytest.raises(FileFormatError):
        add_trace(store, path, keep_file=True)
    assert store.found(TRACE).entries == ()
    assert [one for one in (tmp_path / "store").rglob("*") if one.is_file()] == []
