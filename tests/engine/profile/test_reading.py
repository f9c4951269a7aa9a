"""The sums of a trace are those of a plain `json.load`, however the file is written and wherever it is cut."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.profile import events as reader
from engine.profile.events import TraceFile
from engine.profile.ingest import read_trace
from engine.profile.summary import event_table
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
        found = db.sql("FROM events JOIN ops USING (kind) ORDER BY events.rowid").to_arrow_table().to_pylist()
    return Read(found, counts, file)


def sums(of: Read) -> dict[tuple[str, str, str | None], list[int]]:
    found: dict[tuple[str, str, str | None], list[int]] = {}
    for row in of.rows:
        entry = found.setdefault((row["category"], row["name"], row["stream"]), [0, 0])
        entry[0] += 1
        entry[1] += row["dur"]
    return found


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
beside = st.sampled_from(
    [
        {"ph": "M", "name": "process_name", "pid": "", "args": {"name": "python"}},
        {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "ts": 1},
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 2.5},
    ]
)
wrappings = st.fixed_dictionaries(
    {
        "indent": st.sampled_from([None, 0, 2]),
        "is_bare": st.booleans(),
        "behind": st.sampled_from(
            [{}, {"traceName": "t", "INFO": [{"ph": "X", "dur": 9}]}, {"x": ['"traceEvents": [']}]
        ),
        "separators": st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]),
        "ascii": st.booleans(),
        "is_packed": st.booleans(),
    }
)


def written(path: Path, events: list[dict[str, Any]], how: dict[str, Any]) -> Path:
    document: Any = events
    if not how["is_bare"]:
        document = {"schemaVersion": 1, "deviceProperties": [{"name": '},{"ph"'}], "traceEvents": events} | how[
            "behind"
        ]
    text = json.dumps(document, indent=how["indent"], separators=how["separators"], ensure_ascii=how["ascii"])
    content = text.encode()
    path.write_bytes(gzip.compress(content, 1) if how["is_packed"] else content)
    return path


@given(
    events=st.lists(timed | beside, max_size=30), last=timed, how=wrappings, piece=st.sampled_from([16, 61, 300, 4096])
)
def test_the_sums_are_those_of_a_plain_computation(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], last: dict[str, Any], how: dict[str, Any], piece: int
) -> None:
    path = written(tmp_path_factory.mktemp("trace") / "t.json", [*events, last], how)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "PIECE_BYTES", piece)
        patch.setattr(reader, "GUESSED_BYTES", 2 * piece)
        found = read(path)
    assert sums(found) == plain_sums(path)
    assert not found.file.lenient
    assert found.counts["flow"] == sum(event["ph"] == "s" for event in events)


@pytest.mark.parametrize("name", ["made.json", "made.json.gz"])
def test_a_made_trace_has_the_sums_that_it_was_made_with(tmp_path: Path, name: str) -> None:
    """Large enough for several pieces, so that the quick way is taken."""
    path = tmp_path / name
    truth = write_trace(path, 50_000)
    found = read(path)
    assert sums(found) == truth.sums == plain_sums(path)
    assert (len(found.rows), found.counts["flow"]) == (truth.events, truth.flows)
    assert found.file.head["deviceProperties"][0]["name"] == "NVIDIA H100"


def test_the_quick_way_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last piece is looked through token by token."""
    path, looked = tmp_path / "made.json", []
    truth = write_trace(path, 60_000)
    plain = reader.element_bounds

    def watched(buffer: bytearray) -> Any:
        looked.append(len(buffer))
        return plain(buffer)

    monkeypatch.setattr(reader, "element_bounds", watched)
    assert len(read(path).rows) == truth.events
    assert len(looked) == 1 and path.stat().st_size > 3 * reader.PIECE_BYTES


def one(**said: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2.25, **said}


def read_of(tmp_path: Path, text: str) -> Read:
    path = tmp_path / "t.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return read(path)


def test_absolute_times_keep_their_nanoseconds(tmp_path: Path) -> None:
    """Since 1970, in microseconds: a double would keep quarters of one."""
    text = '[{"ph":"X","cat":"kernel","name":"k","ts":1700000000123456.789,"dur":0.001}]'
    found = read_of(tmp_path, text)
    assert [(row["start"], row["dur"]) for row in found.rows] == [(1_700_000_000_123_456_789, 1)]


def test_absolute_times_in_every_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PIECE_BYTES", 256)
    events = [f'{{"ph":"X","cat":"kernel","name":"k","ts":170000000012{n:04d}.{n:03d},"dur":1.5}}' for n in range(300)]
    found = read_of(tmp_path, '{"traceEvents":[' + ",\n".join(events) + "]}")
    assert [row["start"] for row in found.rows] == [170_000_000_012_000_0000 + n * 1001 for n in range(300)]


@pytest.mark.parametrize(
    ("said", "duration_ns", "start_ns"),
    [
        ('"ts": 1, "dur": "2.5"', 2500, 1000),
        ('"ts": "3", "dur": 2', 2000, 3000),
        ('"ts": NaN, "dur": 2', 2000, None),
        ('"ts": nan, "dur": 2', 2000, None),
        ('"ts": "nan", "dur": 2', 2000, None),
        ('"ts": "snan", "dur": 2', 2000, None),
        ('"ts": 1e999999999, "dur": 2', 2000, None),
        ('"ts": 1e999999999999999999, "dur": nan', 0, None),
        ('"ts": 1, "dur": -inf', 0, 1000),
        ('"ts": 1e300, "dur": 2', 2000, None),
        ('"ts": -1e300, "dur": 1e300', 0, None),
        ('"ts": null, "dur": 2', 2000, None),
        ('"ts": 1, "dur": null', 0, 1000),
        ('"ts": 1, "dur": -2', -2000, 1000),
        ('"ts": -5, "dur": 2', 2000, -5000),
        ('"dur": 2', 2000, None),
        ('"ts": 1, "dur": 1, "dur": 2', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"occupancy": inf, "text": "inf, nan"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"path": "C:\\Users\\x"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"text": "a\x01b\tc"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"text": "\udcff"}', 2000, 1000),
        ('"ts": 1, "dur": 2, "args": {"stream": 123456789012345678901234567890}', 2000, 1000),
    ],
)
def test_odd_events_count_as_what_they_say(tmp_path: Path, said: str, duration_ns: int, start_ns: int | None) -> None:
    good = json.dumps(one())
    found = read_of(
        tmp_path, f'{{"traceEvents": [{good}, {{"ph": "X", "cat": "kernel", "name": "odd", {said}}}, {good}]}}'
    )
    (odd,) = (row for row in found.rows if row["name"] == "odd")
    assert (odd["dur"], odd["start"]) == (duration_ns, start_ns)
    assert sums(found)["kernel", "k", None] == [2, 4500]


def test_names_with_half_characters_can_be_stored(tmp_path: Path) -> None:
    found = read_of(tmp_path, '[{"ph":"X","cat":"kernel","name":"a\\ud800b","ts":1,"dur":2}]')
    assert found.rows[0]["name"].encode() == b"a\\ud800b"


def test_one_stream_however_it_is_written(tmp_path: Path) -> None:
    events = [one(args={"stream": stream}) for stream in (7, "7", 7.0)]
    found = read_of(tmp_path, json.dumps(events))
    assert [(row["stream"], row["kind"]) for row in found.rows] == [("7", 0)] * 3


def test_begins_and_ends_are_told(tmp_path: Path) -> None:
    found = read_of(tmp_path, json.dumps([one(), {"ph": "B", "name": "a", "ts": 1}, {"ph": "E", "ts": 2}]))
    assert found.counts["pair"] == 2


def test_a_comma_behind_the_last_event(tmp_path: Path) -> None:
    assert len(read_of(tmp_path, f'{{"traceEvents": [{json.dumps(one())},\n]}}').rows) == 1
