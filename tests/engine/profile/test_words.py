"""What traces say in sentences: the answer with its figures, and nothing of what is not known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.figures.words import microseconds, number, percent, signed_microseconds, times
from engine.profile.cautions import cautions
from engine.profile.compare import TraceComparison, compare, compare_traces
from engine.profile.ingest import TraceMetadata, add_trace
from engine.profile.lp_words import head_words, lp_words, sample_words
from engine.profile.reported import load_reported, publish_reported
from engine.profile.stored_trace import StoredTrace
from engine.profile.waterfall import waterfall
from engine.profile.words import (
    alone,
    compute_words,
    incomparable,
    kernels_words,
    launches_words,
    other_words,
    where_from,
)
from engine.store.entries import Entry
from engine.store.files import LocalFiles
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from tests.engine.inspection.made import DEMO_STORE
from tests.engine.profile.test_compare import CAT, FMHA, GEMM, kernels
from tests.engine.profile.test_ingest import event, trace_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(LocalFiles(tmp_path / "store"))


def added(store: Store, tmp_path: Path, *named: tuple[str, float], **told: int) -> Entry:
    return add_trace(store, trace_of(tmp_path, kernels(*named)), TraceMetadata(**told))  # type: ignore[arg-type]


def pair(store: Store, *entries: Entry) -> TraceComparison:
    return compare(*(StoredTrace.of(entry) for entry in entries))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0"),
        (64, "64"),
        (1_234_567, "1,234,567"),
        (-3, "−3"),
        (64.0, "64.0"),
        (0.0, "0"),
        (1.004, "1.00"),
        (9.996, "10.0"),
        (99.96, "100"),
        (0.0123, "0.012"),
        (0.00001, "1.0e-05"),
        (-12.34, "−12.3"),
        (float("inf"), "∞"),
        (float("nan"), "–"),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_times_and_shares() -> None:
    assert [microseconds(one) for one in (None, 0.0, 0.5, 12.3, 1_500.0, 2.5e6)] == [
        "–", "0 µs", "0.500 µs", "12.3 µs", "1.50 ms", "2.50 s",
    ]  # fmt: skip
    assert (signed_microseconds(1500), signed_microseconds(-1500)) == ("+1.50 ms", "−1.50 ms")
    assert [percent(one) for one in (None, 0.0, 0.0001, 0.5, 0.9999, 1.0, -0.25)] == [
        "–", "0 %", "<0.1 %", "50.0 %", ">99.9 %", "100 %", "−25.0 %",
    ]  # fmt: skip
    assert times(2.621) == "2.62×" and times(None) == "–"


def test_the_difference_names_its_largest_families(store: Store, tmp_path: Path) -> None:
    one = added(store, tmp_path, (GEMM, 10), (GEMM, 10), (FMHA, 4), tokens=10)
    other = added(store, tmp_path, (GEMM, 20), (GEMM, 20), (GEMM, 20), (CAT, 7), tokens=20)
    assert where_from(pair(store, one, other)) == (
        "Per token, B is 1.37× faster by the clock (22.4 µs to 16.4 µs), but takes 1.40× as long in work"
        " (2.40 µs to 3.35 µs)."
        " The largest parts are matrix products, gemm (1.00 µs more per token: 25.0 % fewer calls per token, the mean"
        " call 2.00× as long) and concatenations (0.350 µs more per token: only in B, 1 call)."
        " In the other direction: attention (0.400 µs less per token: only in A, 1 call)."
    )
    assert where_from(pair(store, other, one)).startswith(
        "Per token, B takes 1.37× as long by the clock (16.4 µs to 22.4 µs), but is 1.40× faster in work (3.35 µs to"
    )
    assert where_from(pair(store, one, one)) == "Both take 24.0 µs of work, and no family differs."


def test_a_part_says_how_much_of_the_difference_it_is(store: Store, tmp_path: Path) -> None:
    one, other = (added(store, tmp_path, (GEMM, time), ("fill", time)) for time in (10, 20))
    said = where_from(pair(store, one, other))
    assert said.endswith("the mean call 2.00× as long): 100 % of the difference in work.") and "er token" not in said


def test_parts_may_be_more_than_the_whole(store: Store, tmp_path: Path) -> None:
    one = added(store, tmp_path, (GEMM, 1000), ("fill", 20))
    other = added(store, tmp_path, (GEMM, 2000), ("fill", 5))
    said = where_from(pair(store, one, other))
    assert said.endswith("more than the whole difference in work, since smaller ones change in the other direction.")


def test_without_a_span_the_pace_is_that_of_the_work(store: Store) -> None:
    told = (replace(one, row={**one.row, "span_us": None}) for one in load_reported().traces)
    qwen, llama = publish_reported(store, list(told))
    assert where_from(pair(store, llama, qwen)).startswith(
        "Per token, B takes 3.76× as long: 395 µs of work that the report names against 105 µs in A."
    )
    assert where_from(pair(store, llama, qwen)).endswith("100 % of the named work's difference.")


def test_a_trace_alone_says_its_own_shares(store: Store, tmp_path: Path) -> None:
    entry = added(store, tmp_path, (GEMM, 30), (FMHA, 10), ("somebody's", 10), tokens=10)
    found = pair(store, entry, entry)
    assert alone(found.control, found.families) == (
        "The trace takes 230 µs by the clock (23.0 µs per token). Of 50.0 µs of work, 5.00 µs per token: gemm takes"
        " 60.0 % (1 call of 30.0 µs), attention takes 20.0 % (1 call of 10.0 µs) and other takes 20.0 % (1 call of 10.0"
        " µs). Attention and gemm together are 80.0 % of it."
    )
    assert other_words(found.control, found.families) == "20.0 % of the work (1 call), most of it somebody's"
    assert compute_words(found, of_span=False).startswith("Attention and gemm are 80.0 % of the work; 20.0 % is")


def test_what_a_report_leaves_out_is_not_nought(store: Store, tmp_path: Path) -> None:
    qwen, llama = (one for one in publish_reported(store) if one.id)
    found = pair(store, llama, qwen)
    assert where_from(found).startswith(
        "Per token, B takes 2.41× as long by the clock (620 µs to 1.50 ms; work that the report names"
    )
    assert where_from(found).endswith(
        "the mean call 1.87× as long): 100 % of the named work's difference. By the clock B takes 877 µs more per"
        " token: the named work's difference, 290 µs, is 33.1 % of that."
    )
    for name in ("compute_share", "compute_span_share", "sync_calls", "memcpy_calls", "sync_a_token"):
        assert (found.figure(name).control, found.figure(name).test) == (None, None)
    assert "is not known" in compute_words(found, of_span=True)
    assert "waits" not in launches_words(found) and "76.3 in B, 2.26×" in launches_words(found)
    mixed = pair(store, llama, added(store, tmp_path, (GEMM, 30)))
    assert incomparable(mixed).startswith("Not comparable as a whole: A is a report")
    assert where_from(mixed) == kernels_words(mixed) == incomparable(mixed)
    words = "Attention and gemm are 100 % of the work in B; in the other it is not known."  # which is drawn
    assert compute_words(mixed, of_span=False) == words


def test_a_cpu_has_no_launches(store: Store, tmp_path: Path) -> None:
    operators = [event("cpu_op", "aten::mm", 0, 5), event("cpu_op", "aten::add", 10, 5)]
    cpu = add_trace(store, trace_of(tmp_path, operators), TraceMetadata(tokens=4))
    found = pair(store, cpu, cpu)
    assert launches_words(found).endswith("0.500 operators per token.")
    gpu = added(store, tmp_path, (GEMM, 5))
    assert "Not comparable: one is work of a device" in where_from(pair(store, cpu, gpu))
    assert any("only operators on the CPU" in caution for caution in cautions(StoredTrace.of(cpu), StoredTrace.of(gpu)))


def test_what_to_know_before_the_figures(store: Store, tmp_path: Path) -> None:
    one, other = (added(store, tmp_path, (GEMM, 5), tokens=count) for count in (10, 20))
    said = cautions(StoredTrace.of(one), StoredTrace.of(other))
    assert said == ["They cover different numbers of tokens: 10 in A, 20 in B. Compare per-token figures."]
    assert cautions(StoredTrace.of(one)) == []
    reported = publish_reported(store)
    both = cautions(*map(StoredTrace.of, reported))
    assert len(both) == 3 and "Both are what a report states. They were not measured here." in both
    assert cautions(StoredTrace.of(reported[1])) == [
        "The trace is what a report states. It was not measured here.",
        "The trace's file: the generic concatenations are the report's estimate.",
    ]


def test_kernels_are_counted_by_their_change(store: Store, tmp_path: Path) -> None:
    one = added(store, tmp_path, ("gone", 1), ("fewer", 2), ("fewer", 2), ("same", 4))
    other = added(store, tmp_path, ("added", 30), ("fewer", 2), ("same", 4))
    said = kernels_words(pair(store, one, other))
    assert said == (
        "Of 4 operations, 1 only in B, 1 only in A, 1 called less often and 1 called as often. The largest difference"
        " is added (other): +30.0 µs, 0 calls in A and 1 in B."
    )
    found = compare_traces(store, one.id, one.id)
    assert kernels_words(found) == "Of 3 operations, 3 called as often."


def test_a_table_of_operations_that_is_another_is_told(store: Store, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from engine.errors import StoreError

    entry = added(store, tmp_path, (GEMM, 5))
    pq.write_table(pa.table({"x": [1]}), entry.path("trace_ops"))
    with pytest.raises(StoreError, match="does not read"):
        StoredTrace.of(entry)
    assert store.found(TRACE).damages


def test_what_the_lp_of_a_traces_run_changes() -> None:
    traces = {entry.row["label"]: StoredTrace.of(entry) for entry in DEMO_STORE.found(TRACE).entries}
    runs = {entry.id: entry.row for entry in DEMO_STORE.found().entries}

    def words(control: str, test: str) -> tuple[str, str]:
        pair = tuple(traces[f"demo-llama:final, {lp}"] for lp in (control, test))
        of = [runs[trace.entry.row["run_id"]] for trace in pair]
        return lp_words(compare(*pair), *of), head_words(*of)

    assert words("none", "exact")[1] == "exact computes logits for only 1,118 of the vocabulary's 128,330 tokens"
    control, test = (runs[traces[f"demo-llama:final, {lp}"].entry.row["run_id"]] for lp in ("none", "exact"))
    assert head_words(control, {**test, "backend": "hf"}) == ""  # which computes all logits, and masks them
    assert head_words(control, {**test, "vocab_size": 1_118}) == ""
    said, head = words("none", "group-v2.1")
    assert said.startswith("B's LP, group-v2.1, forces 22.2 % of its") and head == ""
    assert words("exact", "none") == ("", "")


def test_a_pace_per_token_is_no_pace_per_sample(store: Store) -> None:
    """An LP was told as 1.06× faster under which a sample takes longer, since it has more tokens."""
    traces = {entry.row["label"]: StoredTrace.of(entry) for entry in DEMO_STORE.found(TRACE).entries}
    runs = {entry.id: entry.row for entry in DEMO_STORE.found().entries}

    def words(control: str, test: str) -> str:
        pair = traces[control], traces[test]
        return sample_words(compare(*pair), *(runs[trace.entry.row["run_id"]] for trace in pair))

    control, test = (traces[f"demo-qwen:final, {lp}"] for lp in ("none", "group-v2.1"))
    run = runs[test.entry.row["run_id"]]
    longer = sample_words(
        compare(control, test), runs[control.entry.row["run_id"]], {**run, "tokens": 2 * run["tokens"]}
    )
    assert longer.startswith("But B writes 622 tokens per sample against 277 in A: per sample it takes about 1.")
    assert longer.endswith("× as long by the clock.")
    assert words("demo-llama:final, none", "demo-llama:final, group-v2.1").startswith("B writes 233 tokens")
    assert words("demo-llama:final, none", "demo-llama:final, exact") == ""  # alike
    publish_reported(store)
    reported = compare(*(StoredTrace.of(store.found(TRACE).get(f"003-{name}", TRACE)) for name in ("llama", "qwen")))
    assert sample_words(reported, {}, {}).endswith("per sample it takes 3.23× as long by the clock.")


def test_a_smaller_output_head_stands_beside_its_effect(store: Store, tmp_path: Path) -> None:
    """Or by itself, where products of matrices are not the largest part or no faster."""
    head = "exact computes logits for only 18 of the vocabulary's 151,673 tokens"
    slow, fast = (added(store, tmp_path, (GEMM, time), (CAT, 9)) for time in (30, 10))
    said = where_from(pair(store, slow, fast), "A cause.", head)
    faster = f"Mostly matrix products, gemm (100 % of the difference in work): {head}."
    assert said.endswith(f"{faster} A cause.")
    assert where_from(pair(store, fast, slow), "A cause.", head).endswith(f"3.00× as long. A cause. {head}.")
    other = added(store, tmp_path, (GEMM, 29), (CAT, 2))
    said = where_from(pair(store, slow, other), "A cause.", head)
    assert "The largest parts are concat" in said and said.endswith(f"A cause. {head}.")


def test_of_the_demo_traces_the_larger_cause_comes_first() -> None:
    traces = {entry.row["label"]: StoredTrace.of(entry) for entry in DEMO_STORE.found(TRACE).entries}
    pair = traces["demo-llama:final, none"], traces["demo-llama:final, exact"]
    run = {"model_alias": "demo-llama", "model_step": "final"}
    said = lp_words(compare(*pair), run | {"lp": "none"}, run | {"lp": "exact"})
    assert said == "B's LP, exact, forces 40.0 % of its tokens, so they need no pass of their own."
    whole = where_from(compare(*pair), said, "a head")
    assert "largest parts are matrix products, gemm (" in whole and "because a head)" in whole
    assert whole.endswith(f"% of the difference in work. {said}")
    assert kernels_words(compare(*pair)).startswith("Over the whole traces (B has 1.67× the tokens of A), of 1")


def test_sentence_and_chart_of_traces_of_unlike_length_are_of_one_base(store: Store, tmp_path: Path) -> None:
    """Twice the calls for four times the tokens are fewer calls per token, in both."""
    one = added(store, tmp_path, (GEMM, 10), tokens=10)
    other = added(store, tmp_path, (GEMM, 10), (GEMM, 10), tokens=40)
    found = pair(store, one, other)
    assert where_from(found).endswith("gemm: 50.0 % fewer calls per token, the mean call 1.00× as long.")
    assert where_from(pair(store, one, added(store, tmp_path, (GEMM, 20), tokens=10))).startswith("Per token, B takes")
    (step,) = waterfall(found, "token").steps
    assert step.by_calls_us == pytest.approx(-0.5)
    assert step.by_mean_us == 0
