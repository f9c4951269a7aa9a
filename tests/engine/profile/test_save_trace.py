"""What a timeline shows, saved: the same slices for `json`, and for our own reader the same sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.profile.ingest import add_trace
from engine.questions import ask, question_of
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.profile.made_traces import added, event, kernels, mark

GEMM, FMHA, CAT = "cutlass_gemm", "fmha_x", "CatArrayBatchedCopy_x"
MICROSECONDS = 1_000


def saved(store: Store, *entries: Entry, **options: Any) -> tuple[bytes, dict[str, list[dict[str, Any]]]]:
    answered = ask(store, "profiles_timeline", [entry.id for entry in entries], options)
    (download,) = question_of("profiles_timeline").DOWNLOADS
    return download.make(answered.tables), {name: table.to_pylist() for name, table in answered.tables.items()}


def events(content: bytes, kind: str) -> list[dict[str, Any]]:
    return [one for one in json.loads(content)["traceEvents"] if one["ph"] == kind]


@pytest.fixture
def two(store: Store, tmp_path: Path) -> tuple[Entry, Entry]:
    work = [*kernels((GEMM, 30), (FMHA, 10), (CAT, 7)), mark("forward", 0, 150)]
    return added(store, tmp_path, work, with_events=True), added(store, tmp_path, work[:-3], with_events=True)


@pytest.mark.parametrize("window", [{}, {"tl_from": "0.1", "tl_to": "0.125"}, {"tl_align": "its first work"}])
def test_a_file_has_the_slices_that_are_shown(store: Store, two: tuple[Entry, Entry], window: dict[str, str]) -> None:
    content, tables = saved(store, *two, **window)
    shown = [(span["what"], MICROSECONDS * span["start"], MICROSECONDS * (span["end"] - span["start"]))
             for span in tables["spans"]]  # fmt: skip
    assert len(shown) > 3
    earliest = min(0.0, *(start for _, start, _ in shown))
    slices = events(content, "X")
    assert [one["name"] for one in slices] == [name for name, _, _ in shown]
    assert [one["ts"] for one in slices] == pytest.approx([start - earliest for _, start, _ in shown], abs=1e-3)
    assert [one["dur"] for one in slices] == pytest.approx([length for _, _, length in shown], abs=1e-3)
    assert min(one["ts"] for one in slices) >= 0
    names = {(one["pid"], one.get("tid")): one["args"]["name"] for one in events(content, "M")}
    places = [(names[one["pid"], None], names[one["pid"], one["tid"]]) for one in slices]
    assert places == [(span["name"], span["lane"]) for span in tables["spans"]]
    counters = {(names[one["pid"], None], one["ts"] + earliest): one["args"] for one in events(content, "C")}
    for row in tables["main"]:
        at = next(key for key in counters if key == (row["name"], pytest.approx(1_000 * row["start_ms"], abs=2e-3)))
        assert counters[at][row["family"]] == pytest.approx(row["share"], abs=1e-6)


def test_a_file_is_read_again(store: Store, two: tuple[Entry, Entry], tmp_path: Path) -> None:
    content, tables = saved(store, two[0])
    (tmp_path / "timeline.json").write_bytes(content)
    again = add_trace(store, tmp_path / "timeline.json", with_events=True)
    work = store.table("SELECT name, stream, calls, total_us FROM trace_ops WHERE side = 'device'", of=[again.id])
    rows = {row["name"]: (row["stream"], row["calls"], round(row["total_us"], 3)) for row in work.to_pylist()}
    assert rows == {GEMM: ("7", 1, 30), FMHA: ("7", 1, 10), CAT: ("7", 1, 7)}
    spans = ask(store, "profiles_timeline", [again.id]).tables["spans"].to_pylist()
    before, after = ({(span["what"], span["lane"]) for span in of} for of in (tables["spans"], spans))
    assert before <= after


def test_operators_of_a_cpu_are_operators_again(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, [event("cpu_op", "aten::mm", 5, 6)], with_events=True)
    content, _ = saved(store, entry)
    assert [(one["name"], one["cat"]) for one in events(content, "X")] == [("aten::mm", "cpu_op")]
