"""The sums of a trace are those of a plain json.load, however it is written and cut; what is none is named."""

from __future__ import annotations

import gzip
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FileError
from engine.profile import columns
from engine.profile import events as reader
from engine.profile.events import TraceFile
from engine.profile.ingest import add_trace, read_trace
from engine.profile.summary import event_table
from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.engine.profile.made_traces import plain_sums, write_trace

HARD_NAMES = ['},{"ph": "X"', '}, {"name', "a\\", '"]', "[{", "\u202e", "€", "k" * 10_000, "a\nb", ""]
STREAMS: list[Any] = [7, "7", "", "Traces", None, 20]


class Read(NamedTuple):
    rows: list[dict[str, Any]]  # kind, category, name, stream, start, dur; times are nanoseconds
    counts: Counter[str]
    file: TraceFile


def read(path: Path) -> Read:
    with event_table() as db:
        counts, file = read_trace(db, path)
        rows = db.sql("FROM events JOIN ops USING (kind) ORDER BY events.rowid").to_arrow_table().to_pylist()
    return Read(rows, counts, file)


def sums(of: Read) -> dict[tuple[str, str, str | None], list[int]]:
    totals: dict[tuple[str, str, str | None], list[int]] = {}
    for row in of.rows:
        entry = totals.setdefault((row["category"], row["name"], row["stream"]), [0, 0])
        entry[0] += 1
        entry[1] += row["dur"]
    return totals


def micros(most: int) -> st.SearchStrategy[float]:
    return st.integers(0, most).map(lambda ns: ns / 1000)


timed: Any = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(["kernel", "cpu_op", "cuda_runtime", "gpu_memcpy", "made up"]),
        "name": st.sampled_from(HARD_NAMES) | st.text(st.characters(codec="utf-8"), max_size=20),
        "ts": micros(10**12),
        "dur": micros(10**9),
    },
    optional={
        "pid": st.sampled_from(STREAMS),
        "tid": st.sampled_from(STREAMS),
        "args": st.fixed_dictionaries(
            {},
            optional={
                "stream": st.sampled_from(STREAMS),
                "correlation": st.sampled_from([1, 2, "3", 4.0, None, "x"]),
                "list": st.just([{"ph": "X", "dur": 5}, {"ph": "Y"}]),
            },
        ),
    },
)
META = {"ph": "M", "name": "process_name", "pid": "", "args": {"name": "python"}}
FLOW = {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 1}
BEHIND: list[Any] = [{}, {"traceName": "t", "INFO": [{"ph": "X", "dur": 9}]}, {"x": ['"traceEvents": [']}]
untimed = st.sampled_from([META, FLOW, {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 2.5}])
wrappings = st.fixed_dictionaries({
    "indent": st.sampled_from([None, 0, 2]), "is_bare": st.booleans(), "behind": st.sampled_from(BEHIND),
    "separators": st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
    "ascii": st.booleans(), "is_packed": st.booleans(),
})  # fmt: skip


def written(path: Path, events: list[dict[str, Any]], how: dict[str, Any]) -> Path:
    document: Any = events
    if not how["is_bare"]:
        head = {"schemaVersion": 1, "deviceProperties": [{"name": '},{"ph"'}]}
        document = {**head, "traceEvents": events, **how["behind"]}
    text = json.dumps(document, indent=how["indent"], separators=how["separators"], ensure_ascii=how["ascii"])
    content = text.encode()
    path.write_bytes(gzip.compress(content, 1) if how["is_packed"] else content)
    return path


@given(
    events=st.lists(timed | untimed, max_size=30), last=timed, how=wrappings, piece=st.sampled_from([16, 61, 300, 4096])
)
def test_the_sums_are_those_of_a_plain_computation(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], last: dict[str, Any], how: dict[str, Any], piece: int
) -> None:
    path = written(tmp_path_factory.mktemp("trace") / "t.json", [*events, last], how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "PIECE_BYTES", piece)
        patch.setattr(reader, "GUESSED_BYTES", 2 * piece)
        trace = read(path)
    assert sums(trace) == plain_sums(path)
    assert not trace.file.lenient
    assert trace.counts["flow"] == sum(event["ph"] == "s" for event in events)


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
def test_a_large_trace_is_read_quickly(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last piece is looked through token by token."""
    looked, plain = [], reader.element_bounds

    def watched(buffer: bytearray) -> Any:
        looked.append(len(buffer))
        return plain(buffer)

    monkeypatch.setattr(reader, "PIECE_BYTES", 1 << 18)
    monkeypatch.setattr(reader, "element_bounds", watched)
    truth = write_trace(tmp_path / name, 10_000)
    trace = read(tmp_path / name)
    assert sums(trace) == truth.sums and len(looked) == 1
    assert (len(trace.rows), trace.counts["flow"]) == (truth.events, truth.flows)
    assert trace.file.head["deviceProperties"][0]["name"] == "NVIDIA H100"


def kernel(**said: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2.25, **said}


def read_of(tmp_path: Path, text: str) -> Read:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return read(path)


def test_absolute_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    """Since 1970, in microseconds: a double would keep quarters of one."""
    text = '[{"ph":"X","cat":"kernel","name":"k","ts":1700000000123456.789,"dur":0.001}]'
    trace = read_of(tmp_path, text)
    assert [(row["start"], row["dur"]) for row in trace.rows] == [(1_700_000_000_123_456_789, 1)]


@pytest.mark.parametrize(
    ("said", "duration_ns", "start_ns"),
    [
        ('"ts": 1, "dur": "2.5"', 2500, 1000),
        ('"ts": "3", "dur": 2', 2000, 3000),
        ('"ts": NaN, "dur": 2', 2000, None),
        ('"ts": 1e999999999999999999, "dur": nan', 0, None),
        ('"ts": 1e300, "dur": 2', 2000, None),
        ('"ts": 1, "dur": null', 0, 1000),
        ('"ts": 1, "dur": -2', -2000, 1000),
        ('"ts": 1, "dur": 1, "dur": 2', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"occupancy": inf, "text": "inf, nan"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"path": "C:\\Users\\x"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"text": "\udcff"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"stream": 123456789012345678901234567890}', 2000, 1000),
    ],
)
def test_odd_events_count_as_what_they_say(tmp_path: Path, said: str, duration_ns: int, start_ns: int | None) -> None:
    good = json.dumps(kernel())
    trace = read_of(
        tmp_path, f'{{"traceEvents": [{good}, {{"ph": "X", "cat": "kernel", "name": "odd", {said}}}, {good}]}}'
    )
    (odd,) = (row for row in trace.rows if row["name"] == "odd")
    assert (odd["dur"], odd["start"]) == (duration_ns, start_ns)
    assert sums(trace)["kernel", "k", None] == [2, 4500]


def file_of(tmp_path: Path, content: bytes, name: str = "t.json") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "it is empty"),
        (b"hello", "it begins with neither"),
        (b"{}", "it has no array of traceEvents"),
        (b'{"traceEvents": []}', "no event with a duration"),
        (b'{"traceEvents": [{"ph": "M", "name": "x"}]}', "no event with a duration"),
        (b"[[10, 20], [[0, 5], [0, 7]]]", "as a memory timeline has"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph": "X" "dur" 2}]}', "does not read"),
        (b'{"traceEvents": [{"ph": "X", "dur": 1}, {"ph"', "its array of events has no end"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, content: bytes, word: str) -> None:
    with pytest.raises(FileError, match=word) as raised:
        read(file_of(tmp_path, content))
    assert "\n" not in str(raised.value)
    with pytest.raises(FileError):
        read(file_of(tmp_path, gzip.compress(content), "t.json.gz"))


@pytest.mark.parametrize(("index", "word"), [(None, "is cut off: its gzip"), (-8, "is damaged"), (60, "is damaged")])
def test_gzip_that_is_cut_or_damaged(tmp_path: Path, index: int | None, word: str) -> None:
    """Too short; a wrong checksum; wrong data. No thread is left behind."""
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 500)
    content = bytearray(whole.read_bytes())
    if index is None:
        del content[len(content) // 2 :]
    else:
        content[index] ^= 0x55
    with pytest.raises(FileError, match=word):
        read(file_of(tmp_path, bytes(content), "t.json.gz"))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("inflate")]


@pytest.mark.parametrize("length", [70_000, 2_000_000])
def test_a_long_name_in_a_gzip_header_is_read_or_named(tmp_path: Path, length: int) -> None:
    """Of two million characters it was an error that was not foreseen."""
    write_trace(whole := tmp_path / "whole.json.gz", 500)
    packed = whole.read_bytes()
    content = packed[:3] + bytes([packed[3] | 8]) + packed[4:10] + b"n" * length + b"\0" + packed[10:]
    assert not packed[3] & 8 and gzip.decompress(content) == gzip.decompress(packed)
    path = file_of(tmp_path, content, "t.json.gz")
    if length < 500_000:
        assert len(read(path).rows) == 300
    else:
        with pytest.raises(FileError, match=r"has a gzip header of over 512 KB\. Compress it again"):
            read(path)


def test_what_has_no_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PIECE_BYTES", 1024), ("MOST_EVENT_BYTES", 10_000), ("MOST_HEAD_BYTES", 10_000)):
        monkeypatch.setattr(reader, name, value)
    monkeypatch.setattr(columns, "MOST_OPERATIONS", 3)
    with pytest.raises(FileError, match="an event of over"):
        read(file_of(tmp_path, json.dumps([kernel(name="x" * 50_000)]).encode()))
    with pytest.raises(FileError, match="no array of traceEvents"):
        read(file_of(tmp_path, json.dumps({"a": "x" * 50_000, "traceEvents": [kernel()]}).encode()))
    with pytest.raises(FileError, match="over 3 operations"):
        read(file_of(tmp_path, json.dumps([kernel(name=f"k{number}") for number in range(99)]).encode()))


def test_nothing_is_left_of_what_was_refused(tmp_path: Path) -> None:
    store = Store(Files(tmp_path / "store"))
    whole = tmp_path / "whole.json.gz"
    write_trace(whole, 5_000)
    path = file_of(tmp_path, whole.read_bytes()[:-3_000], "t.json.gz")
    with pytest.raises(FileError):
        add_trace(store, path, keep_file=True)
    assert store.listing(TRACE).entries == ()
    assert [file for file in (tmp_path / "store").rglob("*") if file.is_file()] == []
