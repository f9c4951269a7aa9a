"""Questions to traces: figures by hand, parts that add up, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.profile.ingest import add_trace
from engine.profile.traces import Totals, cautions, is_of_other_sizes, split_us, traces_of
from engine.questions import ask, choices_of, question_of
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.profile.made_traces import added, event, kernels, mark, write_trace

GEMM, FMHA, CAT = "cutlass_gemm", "fmha_x", "CatArrayBatchedCopy_x"


def rows(store: Store, key: str, *entries: Entry, table: str = "main", **options: Any) -> list[dict[str, Any]]:
    return ask(store, f"profiles_{key}", [entry.id for entry in entries], options).tables[table].to_pylist()


# --- families ---------------------------------------------------------------------------------------------------------
@pytest.fixture
def two(store: Store, tmp_path: Path) -> tuple[Entry, Entry]:
    control = added(store, tmp_path, kernels((GEMM, 10), (GEMM, 10), (FMHA, 4)), tokens=4)
    return control, added(store, tmp_path, kernels((GEMM, 20), (GEMM, 20), (GEMM, 20), (CAT, 7)), tokens=8)


def test_families_side_by_side(store: Store, two: tuple[Entry, Entry]) -> None:
    families = {row["family"]: row for row in rows(store, "families", *two)}
    assert list(families) == ["gemm", "concat", "attention"]
    parts = {name: (row["by_calls_us"], row["by_mean_us"]) for name, row in families.items()}
    assert parts == {"gemm": (15, 25), "concat": (7, 0), "attention": (-4, 0)}
    gemm = families["gemm"]
    assert (gemm["calls_ratio"], gemm["total_us_ratio"], gemm["us_a_token_ratio"]) == (1.5, 3, 1.5)
    assert (families["concat"]["calls_ratio"], families["concat"]["mean_us_control"]) == (None, None)
    (launch,) = rows(store, "families", *two, table="calls")
    assert (launch["family"], launch["calls_control"], launch["calls_test"]) == ("launch", 3, 4)


def test_the_steps_lead_from_one_time_to_the_other(store: Store, two: tuple[Entry, Entry]) -> None:
    for per, first, last in (("per token", 6.0, 67 / 8), ("whole traces", 24.0, 67.0)):
        steps = rows(store, "families", *two, table="steps", per=per)
        assert (1000 * steps[0]["end"], 1000 * steps[-1]["end"]) == pytest.approx((first, last))
        moves = steps[1:-1]
        assert moves[0]["start"] == steps[0]["end"] and moves[-1]["end"] == pytest.approx(steps[-1]["end"])
        assert [a["end"] for a in moves[:-1]] == pytest.approx([b["start"] for b in moves[1:]])
    assert len({step["step"] for step in moves}) == 4


def test_bars_under_a_twentieth_are_one_with_their_sum_until_they_are_unfolded(store: Store, tmp_path: Path) -> None:
    """And what is pinned comes first, and is never folded."""
    times = {GEMM: 1_000, "softmax_x": 5, "somebody's": 4, FMHA: 3, CAT: 2}
    control = added(store, tmp_path, kernels(*((name, us) for name, us in times.items())))
    test = added(store, tmp_path, kernels(*((name, 2 * us) for name, us in times.items())))
    changes: dict[str, list[tuple[str, float]]] = {}
    chosen: dict[str, dict[str, Any]] = {"folded": {}, "all": {"small": True}, "pinned": {"pinned": "concat"}}
    for name, options in chosen.items():
        steps = rows(store, "families", control, test, table="steps", per="whole traces", **options)
        moves = [(row["family"], round(1_000 * row["change"], 9)) for row in steps[1:-1]]
        changes[name] = moves
        assert 1_000 * steps[-2]["end"] == pytest.approx(2 * sum(times.values()))
    assert changes["folded"] == [("gemm", 1_000), ("softmax", 5), ("other", 4), (None, 5)]
    assert changes["all"] == [("gemm", 1_000), ("softmax", 5), ("other", 4), ("attention", 3), ("concat", 2)]
    assert changes["pinned"][:2] == [("concat", 2), ("gemm", 1_000)] and len(changes["pinned"]) == 5
    table = rows(store, "families", control, test, table="table", pinned="concat")
    assert table[0]["family"] == "concat"
    alone = rows(store, "families", control, table="steps", per="whole traces")
    assert [row["step"] for row in alone] == ["gemm", "softmax", "other", "and 2 more"]
    assert 1_000 * alone[-1]["end"] == pytest.approx(5)


def test_a_trace_is_read_once_however_many_ask_for_it(
    store: Store, two: tuple[Entry, Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notes above the cards and the first card each read both traces."""
    first = traces_of(store, two)
    monkeypatch.setattr(Store, "table", lambda *_, **__: pytest.fail("read again"))
    assert traces_of(store, two) == first
    assert traces_of(store, two[:1])[1].families == first[0].families


# 20 calls of 10 µs each, against 90 of 3.4: +469 by calls, -363 by each, for a change of 106.
SMALLER = ((GEMM, 10),) * 20, ((GEMM, 3.4),) * 90
RESIZED = {
    "more and smaller": (*SMALLER, "calls of other sizes"),
    "fewer and larger": (*SMALLER[::-1], "calls of other sizes"),
    "more and a little faster": (((GEMM, 10),) * 20, ((GEMM, 9),) * 30, None),
    "as many and slower": (((GEMM, 10),) * 20, ((GEMM, 15.3),) * 20, None),
}


@pytest.mark.parametrize(("control", "test", "move"), RESIZED.values(), ids=RESIZED)
def test_calls_of_other_sizes_are_named_where_more_calls_and_shorter_ones_cancel(
    store: Store, tmp_path: Path, control: Any, test: Any, move: str | None
) -> None:
    pair = added(store, tmp_path, kernels(*control)), added(store, tmp_path, kernels(*test))
    answered = ask(store, "profiles_families", [entry.id for entry in pair], {"per": "whole traces"})
    steps = answered.tables["steps"].to_pylist()[1:-1]
    (gemm,) = answered.tables["main"].to_pylist()
    assert sum(step["change"] for step in steps) == pytest.approx(gemm["us_difference"] / 1_000)
    if move is None:
        assert move not in [step["move"] for step in steps] and "other sizes" not in answered.answer
        return
    assert [(step["step"], step["move"]) for step in steps] == [(f"gemm, {move}", move)]
    assert abs(gemm["us_by_calls"]) > 4 * abs(gemm["us_difference"]) > 400
    assert "of other sizes" in answered.answer and "faster)" not in answered.answer


def test_on_another_device_calls_may_be_as_large_and_faster(store: Store, tmp_path: Path) -> None:
    entries = [added(store, tmp_path, kernels(*calls)) for calls in SMALLER]
    control, test = traces_of(store, entries)
    parts = split_us(control.work(), test.work())
    assert is_of_other_sizes(control, test, *parts)
    first, second = (
        replace(trace, entry=replace(trace.entry, row={**trace.entry.row, "device": device}))
        for trace, device in ((control, "A100"), (test, "H100"))
    )
    assert not is_of_other_sizes(first, second, *parts)


@given(st.integers(0, 50), st.floats(0, 1e6), st.integers(0, 50), st.floats(0, 1e6), st.floats(1, 99), st.floats(1, 99))
def test_more_calls_and_slower_calls_add_up(
    calls: int, us: float, test_calls: int, test_us: float, n: float, test_n: float
) -> None:
    control, test = Totals(calls, us if calls else 0.0), Totals(test_calls, test_us if test_calls else 0.0)
    assert sum(split_us(control, test, (n, test_n))) == pytest.approx(test.us / test_n - control.us / n, abs=1e-6)
    assert split_us(Totals(2, 10), Totals(6, 30)) == (20, 0) and split_us(Totals(2, 10), Totals(2, 30)) == (0, 20)


def test_what_does_not_compare_says_so(store: Store, tmp_path: Path) -> None:
    nested = [event("cpu_op", "aten::linear", 0, 10), event("cpu_op", "aten::addmm", 2, 6)]
    host, device = added(store, tmp_path, nested), added(store, tmp_path, kernels((GEMM, 10)))
    answered = ask(store, "profiles_families", [host.id, device.id])
    assert "Not comparable" in answered.answer and not answered.tables["steps"].num_rows
    sums = {(r["family"], r["side"]): (r["us_control"], r["us_test"]) for r in answered.tables["table"].to_pylist()}
    assert sums["gemm", "host"] == (10, None) and sums["gemm", "device"] == (None, 10)  # operators count once
    assert any(cautions(*traces_of(store, [host, device])))


def test_work_before_the_first_pass_stands_apart_and_is_divided_by_nothing(store: Store, tmp_path: Path) -> None:
    """82 ms of packing weights, done once, were "other: each 47.1x faster" of every token."""
    once = [mark("template", 0, 20), event("cpu_op", "mkldnn::_reorder_linear_weight", 20, 80)]
    passes = [part for at in (100, 160) for part in (mark("step", at, 50), event("cpu_op", "aten::mm", at + 5, 40))]
    packed = added(store, tmp_path, [*once, *passes], origin="measured", tokens=4, forward_passes=2)
    plain = added(store, tmp_path, passes, origin="measured", tokens=4, forward_passes=2)
    for entry in (packed, plain):
        families = {row["family"]: row["us_control"] for row in rows(store, "families", entry, table="table")}
        assert families["gemm"] == pytest.approx(20, abs=0.01)
        assert families.get("other", 0.0) == pytest.approx(0, abs=0.1)
        figures = {row["name"]: row["control"] for row in rows(store, "launches", entry)}
        assert (figures["work_us_a_token"], figures["span_us"]) == (pytest.approx(20, abs=0.01), pytest.approx(110))
        assert sum(row["control_us"] for row in rows(store, "places", entry)) == pytest.approx(40, abs=0.1)
    (before,) = rows(store, "families", packed, table="before")
    assert (before["family"], before["before_us_control"]) == ("other", pytest.approx(80, abs=0.1))
    assert rows(store, "families", plain, table="before") == []
    both = ask(store, "profiles_families", [packed.id, plain.id])
    assert "as fast" in both.answer and "Before the first pass" in both.answer


def test_a_wrapper_is_no_call_of_its_own(store: Store, tmp_path: Path) -> None:
    """``aten::linear`` and ``aten::addmm`` were 200 products for 100."""
    nested = [
        part
        for at in range(0, 10_000, 100)
        for part in (event("cpu_op", "aten::linear", at, 60), event("cpu_op", "aten::addmm", at + 2, 55))
    ]
    alone = [event("cpu_op", "aten::softmax", 10_000, 9), event("cpu_op", "aten::add", 10_001, 7)]
    entry = added(store, tmp_path, nested + alone, tokens=1)
    families = {row["family"]: row for row in rows(store, "families", entry)}
    assert (families["gemm"]["calls_control"], families["gemm"]["mean_us_control"]) == (100, 60)
    assert families["softmax"]["calls_control"] == 1  # a family of wrappers alone


# --- places and passes ------------------------------------------------------------------------------------------------
STEPS = [mark("step", at, 1_000) for at in (1_000, 2_000)] + [mark("decode", at, 600) for at in (1_000, 2_000)]
STEPS += [mark("sample", at + 700, 200) for at in (1_000, 2_000)]


def test_what_is_inside_of_two_phases_belongs_to_the_inner_one(store: Store, tmp_path: Path) -> None:
    """Marks of another thread and those outside of steps are no part of them."""
    marks = [
        mark("template", 0, 50),
        mark("step", 100, 40),
        mark("decode", 100, 30),
        mark("prefill", 105, 10),
        mark("sample", 132, 8),
        mark("step", 140, 20),
        mark("constraint", 145, 0),
        mark("sample", 165, 10),
        mark("sample", 140, 20, thread=2),
    ]
    entry = added(store, tmp_path, marks, origin="measured")
    means = {row["phase"]: row["us"] for row in rows(store, "phases", entry)}
    assert means == {"prefill": 5, "forward": 10, "sample": 4, "other": 11}
    (around,) = rows(store, "phases", entry, table="around")
    assert [around[n] for n in ("in_passes", "before", "between", "after", "templates")] == [60, 100, 0, 15, 50]


def test_passes_that_wrote_junk_and_those_that_did_not(store: Store, tmp_path: Path) -> None:
    def written(n: int, mark_: str | None) -> dict[str, Any]:
        return {"step": n, "sample_id": 0, "pos": n, "token_id": 5, "forced": False, "piece": str(n), "mark": mark_}

    marks = [mark("step", 100 * number, 10 * (number + 1)) for number in range(4)]
    tokens = [written(0, ""), written(1, "junk"), written(2, ""), written(3, "cut")]
    entry = added(store, tmp_path, marks, origin="measured", steps=4, written=tokens)
    states = {r["state"]: (r["passes"], r["mean_us"], r["wrote"]) for r in rows(store, "phases", entry, table="states")}
    assert states == {"without junk": (2, 20, "0"), "with junk": (1, 20, "1"), "with a cut": (1, 40, "3")}
    assert {row["state"] for row in rows(store, "phases", entry, table="by_state")} == set(states)
    short = added(store, tmp_path, marks[:1], origin="measured", steps=2, written=tokens[:2])
    assert "1 marks of 2 steps" in short.row["warnings"]


# --- launches, kernels ------------------------------------------------------------------------------------------------
def test_figures_of_launches(store: Store, tmp_path: Path) -> None:
    copy = event("gpu_memcpy", "Memcpy HtoD", 130, 5, stream=20, device=0)
    wait = event("cuda_runtime", "cudaStreamSynchronize", 90, 8)
    counts: dict[str, Any] = {"tokens": 10, "samples": 2, "forward_passes": 5}
    control = kernels((GEMM, 30), (FMHA, 10), ("somebody's", 10))
    pair = added(store, tmp_path, control, **counts), added(store, tmp_path, [*control, copy, wait], **counts)
    figures = {row["name"]: (row["control"], row["test"]) for row in rows(store, "launches", *pair)}
    expected = {
        "span_us": (230, 230),
        "work_us": (50, 55),
        "work_us_a_token": (5, 5.5),
        "work_us_a_sample": (25, 27.5),
        "compute_share": (80, 100 * 40 / 55),
        "idle_share": (100 * 160 / 210, 100 * 155 / 210),
        "gaps": (2, 2),  # the copy begins where attention ends
        "launch_calls": (3, 3),
        "launch_a_token": (0.3, 0.3),
        "launch_us": (15, 15),
        "sync_calls": (0, 1),
        "sync_us": (0, 8),
        "memcpy_calls": (0, 1),
        "delay_us": (20, 20),
        "other_share": (20, 100 * 10 / 55),
        "overlap_share": (0, 0),
    }
    assert {name: figures[name] for name in expected} == {name: pytest.approx(both) for name, both in expected.items()}


def test_cuda_graphs_are_counted_apart_from_launches(store: Store, tmp_path: Path) -> None:
    graph = [event("cuda_runtime", "cudaGraphLaunch", 1_000, 9, correlation=90)]
    graph += [event("kernel", GEMM, 1_010 + 10 * n, 8, correlation=90, stream=7, device=0) for n in range(4)]
    pair = [added(store, tmp_path, events) for events in (kernels((GEMM, 30)), [*kernels((GEMM, 30)), *graph])]
    figures = {row["name"]: (row["control"], row["test"]) for row in rows(store, "launches", *pair)}
    names = ("launch_calls", "graph_launch_calls", "graph_launch_us", "work_calls")
    assert [figures[name] for name in names] == [(1, 1), (0, 1), (0, 9), (1, 5)]
    answered = ask(store, "profiles_launches", [entry.id for entry in pair])
    assert "CUDA graph launches" in answered.tables["table"]["what"].to_pylist()
    assert answered.answer.count("1 CUDA graphs launched") == 1
    assert store.rows(f"SELECT launched FROM trace_ops WHERE trace_id = '{pair[1].id}' AND side = 'device'") == [
        {"launched": 5}  # each kernel of the graph, by the graph's launch
    ]


def test_what_a_trace_does_not_know_is_none(store: Store, tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("name\tcount\ttotal_ms\tavg_ms\ncutlass_gemm\t10\t1\t0.1\n")
    pair = add_trace(store, table), added(store, tmp_path, kernels((GEMM, 10)))
    figures = {row["name"]: row for row in rows(store, "launches", *pair)}
    for name in ("span_us", "idle_share", "gaps", "launch_calls", "launch_us", "sync_calls", "delay_us", "tokens"):
        assert figures[name]["control"] is None, name
    assert (figures["launch_calls"]["test"], figures["launch_calls"]["ratio"]) == (1, None)
    host = added(store, tmp_path, [event("cpu_op", "aten::mm", 0, 6)], tokens=2)
    alone = {row["name"]: row["control"] for row in rows(store, "launches", host)}
    assert (alone["launch_calls"], alone["memcpy_calls"], alone["attention_calls"]) == (None, None, 0)
    assert rows(store, "launches", host, table="operators") == [
        {"name": "made.json · imported", "family": "gemm", "a_token": 0.5}
    ]


def test_operations_that_came_went_grew_and_shrank(store: Store, tmp_path: Path) -> None:
    control = kernels(("gone", 1), ("fewer", 2), ("fewer", 2), ("more", 3), ("same", 4))
    test = kernels(("added", 1), ("fewer", 9), ("more", 3), ("more", 3), ("same", 5))
    pair = (
        added(store, tmp_path, control + kernels(("same", 4), stream=20)[1:]),
        added(store, tmp_path, test + kernels(("same", 5), stream=20)[1:]),
    )
    operations = rows(store, "kernels", *pair)
    changes = {"gone": "gone", "added": "added", "fewer": "shrunk", "more": "grown", "same": "same"}
    assert {row["name"]: row["change"] for row in operations} == changes  # of both streams together
    assert abs(operations[0]["difference_us"]) == max(abs(row["difference_us"]) for row in operations)
    chosen = rows(store, "kernels", *pair, table="table", change="only in B,fewer calls", kernel="E")
    assert {row["name"] for row in chosen} == {"added", "fewer"}
    assert rows(store, "kernels", *pair, table="table", kernel="no such") == []  # the bug: a KeyError
    (largest,) = rows(store, "kernels", *pair, table="largest", kernel="same")
    assert (largest["words"], largest["move"]) == ("+2.00 µs", "more in the test")
    pinned = rows(store, "kernels", *pair, table="largest", kernel="added", operation=largest["key"])
    assert [row["name"] for row in pinned] == ["same", "added"]  # whatever is searched for
    calls = rows(store, "kernels", *pair, table="most_calls", by="calls")
    assert {row["name"]: row["calls"] for row in calls} == {"gone": -1, "added": 1, "fewer": -1, "more": 1}
    choices = choices_of(question_of("profiles_kernels").OPTIONS[-1], store, pair)
    assert [*choices.values()] == ["none", "same", "fewer", "more", "added", "gone"]  # the longest first
    assert choices[largest["key"]] == "same"
    streams = rows(store, "kernels", *pair, table="streams", operation=largest["key"])
    assert [(row["stream"], row["us"]) for row in streams] == [("7", 4), ("20", 4), ("7", 5), ("20", 5)]
    assert [row["delay_us"] for row in streams[:2]] == [20, 20]


def test_what_can_be_pinned_is_what_the_bars_show_and_each_of_it_has_a_name_of_its_own(
    store: Store, tmp_path: Path
) -> None:
    """The bugs: operators of the host could be pinned where a device has the work, and nothing was; two kernels with
    one short name were one bar, and one choice looked like the other."""
    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<{}>>(int)"
    wide, narrow = kernel.format("double"), kernel.format("float")
    traced = [event("cpu_op", "aten::linear", 0, 90), *kernels((wide, 30), (GEMM, 20), (narrow, 10))]
    entry = added(store, tmp_path, traced)
    choices = choices_of(question_of("profiles_kernels").OPTIONS[-1], store, [entry])
    short = "vectorized_elementwise_kernel [FillFunctor]"
    assert [*choices.values()] == ["none", f"{short} (1)", GEMM, f"{short} (2)"]
    for key in [key for key in choices if key]:
        assert rows(store, "kernels", entry, table="streams", operation=key)
    bars = {row["short_name"]: row["name"] for row in rows(store, "kernels", entry, table="largest")}
    label = "vectorized_elementwise_kernel [Fi…"
    assert bars == {f"{label} (1)": wide, GEMM: GEMM, f"{label} (2)": narrow}


# --- timeline, reports ------------------------------------------------------------------------------------------------
def test_work_along_time_is_that_of_the_families(store: Store, tmp_path: Path) -> None:
    write_trace(tmp_path / "made.json", 4_000)
    entry = add_trace(store, tmp_path / "made.json", with_events=True)
    bins, shifted = (rows(store, "timeline", entry, tl_align=align) for align in ("its start", "its first work"))
    for drawn in (bins, shifted):
        work = sum(1000 * (row["end_ms"] - row["start_ms"]) * row["share"] for row in drawn)
        assert work == pytest.approx(sum(row["total_us_control"] for row in rows(store, "families", entry)))
    assert len({row["family"] for row in bins}) == 8  # the last one is the rest
    assert min(row["start_ms"] for row in shifted) == pytest.approx(0, abs=1e-9)
    part = rows(store, "timeline", entry, tl_from="1", tl_to="2")
    assert min(row["end_ms"] for row in part) > 1 and max(row["start_ms"] for row in part) < 2


def test_a_timeline_has_no_more_steps_than_pixels_and_zoomed_in_every_bin(store: Store, tmp_path: Path) -> None:
    """Work that changes from bin to bin was drawn in the colour of whichever was on top."""
    entry = added(store, tmp_path, kernels(*[(GEMM, 30), (FMHA, 10)] * 2_000))  # 400 ms
    bins = rows(store, "timeline", entry)
    starts = sorted({row["start_ms"] for row in bins})
    assert 400 < len(starts) <= 800
    shares = {name: [row["share"] for row in bins if row["family"] == name][1:-1] for name in ("gemm", "attention")}
    assert all(share == pytest.approx(0.15, abs=0.06) for share in shares["gemm"])  # 30 of each 200 µs
    assert all(share == pytest.approx(0.05, abs=0.03) for share in shares["attention"])
    short = added(store, tmp_path, kernels(*[(GEMM, 30), (FMHA, 10)] * 200))  # 40 ms of the same axis
    beside = [row for row in rows(store, "timeline", entry, short) if short.id in row["name"]]
    assert 60 < len({row["start_ms"] for row in beside}) < 120
    close = rows(store, "timeline", entry, tl_from="100", tl_to="110")
    widths = {row["end_ms"] - row["start_ms"] for row in close}
    assert max(widths) == pytest.approx(400 / 4096, rel=0.01) and max(row["share"] for row in close) > 0.25
    assert 100 < max(row["end_ms"] for row in close) < 110.2


def test_spans_of_a_window(store: Store, tmp_path: Path) -> None:
    events = [*kernels((GEMM, 30), (FMHA, 10), (CAT, 7)), mark("forward", 0, 150), mark("forward", 150, 50)]
    entry = added(store, tmp_path, events, with_events=True)
    spans = rows(store, "timeline", entry, table="spans")
    lanes = [(row["lane"], row["what"], row["start"], row["end"]) for row in spans]
    assert lanes == [
        ("forward", "forward", 0, 0.15),
        ("forward", "forward", 0.15, 0.2),
        ("longest pauses", f"between {GEMM} and {FMHA}", 0.05, 0.12),
        ("longest pauses", f"between {FMHA} and {CAT}", 0.13, 0.22),
        ("stream 7", GEMM, 0.02, 0.05),
        ("stream 7", FMHA, 0.12, 0.13),
        ("stream 7", CAT, 0.22, 0.227),
    ]
    part = rows(store, "timeline", entry, table="spans", tl_from="0.11", tl_to="0.125")
    assert [row["what"] for row in part if row["kind"] == "event"] == [FMHA]
    assert rows(store, "timeline", entry, table="spans", tl_from="0.11", tl_to="0.1") == rows(
        store, "timeline", entry, table="spans", tl_from="0.11"
    ), "an end before its start is none"
    found = rows(store, "timeline", entry, table="spans", tl_find="fmha_X pause")
    assert not any(not row["is_faint"] for row in found)  # both words in one name
    found = rows(store, "timeline", entry, table="spans", tl_find="FMHA")
    assert [row["what"] for row in found if not row["is_faint"]] == [lanes[2][1], lanes[3][1], FMHA]
    shares = rows(store, "timeline", entry, tl_find="gem", pinned="attention")
    assert {row["family"]: row["is_faint"] for row in shares} == {"attention": True, "gemm": False, "concat": True}
    assert shares[0]["family"] == "attention"  # the lowest of the shares
    table = tmp_path / "table.tsv"
    table.write_text("name\tcount\ttotal_ms\nfmha\t10\t5\n")
    assert "no timeline" in ask(store, "profiles_timeline", [add_trace(store, table).id]).answer
