"""The Compare page's charts without a page: their words, their figures and their sentences against known answers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st

from engine.comparing.figures import ComparedRun, RunFigures
from engine.comparing.scatter import scatter
from engine.comparing.slowdown import slowdown
from engine.errors import StoreError
from engine.figures.statistics import wilson
from engine.store.store import Store
from pages._compare import charts as compare_charts
from pages._compare import charts_budget as budget
from pages._compare import charts_data as data
from pages._compare import charts_masks as masks
from pages._compare import charts_pairs as pairs
from pages._compare import charts_pass as passing
from pages._compare import charts_slowdown as slow
from pages._compare.charts_pairs import Spots, pairs_chart
from pages._compare.runs import RunSelection
from pages._compare.table_words import speed
from pages._shared.charts.card import table_of
from pages._shared.charts.chart import SYMBOLS
from pages._shared.charts.text import on_axis
from pages._shared.table_files import csv_of
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import store_at
from tests.pages.drift_stores import HOSTILE_JUNK, OVERRIDE

LLAMA, QWEN = "reported-002-llama-lp-64", "reported-002-qwen-lp-64"


def chosen_of(store: Store, control: str, *tests: str) -> RunSelection:
    return RunSelection(store.entry(control), tuple(store.entry(test) for test in tests))


def demo(*parts: tuple[str, str]) -> RunSelection:
    return chosen_of(DEMO_STORE, *(demo_run(*part) for part in parts))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


# --- words --------------------------------------------------------------------------------------------------------


def test_shares_in_words_have_their_interval() -> None:
    assert data.rate(64, 64) == "100 %, 94.3–100 %" and data.rate(0, 0) == "–"
    assert data.within(0.0001, 0.984) == "<0.1–98.4 %"


def test_a_name_on_an_axis_is_no_markup() -> None:
    assert on_axis("B · demo-qwen:final · exact") == "B · demo-qwen:final<br>exact"
    said = on_axis(f"B · {HOSTILE_JUNK} · {OVERRIDE}")
    assert "<img" not in said and "</script" not in said and "\u202e" not in said
    assert "…" in on_axis("B · " + 90 * "x")


def test_runs_are_told_apart_without_colour() -> None:
    assert len(set(SYMBOLS)) == len(SYMBOLS) == compare_charts.MOST_TESTS + 1


def test_data_has_every_column_and_no_invisible_character() -> None:
    table = table_of([{"run": OVERRIDE, "a": 1}, {"run": "B", "b": 2.5}])
    assert table.column_names == ["run", "a", "b"] and table["a"].to_pylist() == [1, None]
    assert csv_of(table).decode().splitlines()[2] == '"B",,2.5' and "\u202e" not in csv_of(table).decode()


# --- what the slowdown is made of -----------------------------------------------------------------------------------


def test_the_reports_slowdown_in_words_and_bars() -> None:
    chosen = chosen_of(DEMO_STORE, LLAMA, QWEN)
    told = [(one := slowdown(*chosen.entries), one.by_tokens)]
    said = slow.answer(chosen, told, data.compared_runs(DEMO_STORE, chosen))
    assert said.startswith("B takes 3.51× the time of A per sample by wall time: 1.34× the tokens times 2.62× the wall")
    assert "77 % of it is wall time per token" in said and "No interval: " in said and "reported" in said
    figure = slow.slowdown_chart(chosen, told).figure()
    assert [bar.text[0] for bar in figure.data] == ["3.51×", "1.34×", "2.62×"]
    total, tokens, a_token = figure.data
    assert tokens.base[0] == 0 and a_token.base[0] == pytest.approx(tokens.x[0])
    assert a_token.base[0] + a_token.x[0] == pytest.approx(total.x[0]) == pytest.approx(math.log(115.46 / 32.87))
    assert tokens.marker.pattern.shape != a_token.marker.pattern.shape
    assert "3.51×" in slow.slowdown_chart(chosen, told).alt and "2.62×" in slow.slowdown_chart(chosen, told).alt


def test_a_slowdown_says_what_is_not_known() -> None:
    chosen = chosen_of(DEMO_STORE, LLAMA, "reported-002-qwen-none-1000")
    one = slowdown(*chosen.entries)
    assert (
        slow.answer(chosen, [], ())
        == "Too little is known of these runs to split the ratio of their times into factors."
    )
    assert slow.unknown(chosen, one, one.by_tokens).endswith("reported. Not known: the tokens of the test.")
    assert slow.rows(chosen, [one]) == []


def test_measured_slowdowns_have_intervals_and_all_three_ways_as_data() -> None:
    chosen = demo(("qwen", "none"), ("qwen", "group-v2.1"), ("qwen", "exact"))
    told = [(one, one.by_both) for one in (slowdown(chosen.control, test) for test in chosen.tests)]
    said = slow.answer(chosen, told, data.compared_runs(DEMO_STORE, chosen))
    ratio = chosen.tests[1].row["wall_s"] / chosen.control.row["wall_s"]
    assert said.startswith(
        f"The largest difference: C is {1 / ratio:.2f}× faster ({ratio:.3f}× the time) than A per sample"
    )
    assert "95 % bootstrap over molecules: tokens" in said
    (value, low, high) = map(
        float, re.findall(r"time per token (0\.\d+)× \((0\.\d+)–(0\.\d+)×, beyond noise\)", said)[0]
    )
    assert low < value < high, "estimate and interval are of one measure"
    rows = slow.rows(chosen, [one for one, _ in told])
    assert len(rows) == 2 * (3 + 3 + 4)
    both = [row for row in rows if row["made of"] == "tokens x passes per token x wall time per pass"][:4]
    ratios: list[Any] = [row["ratio"] for row in both]
    assert math.prod(ratios[1:]) == pytest.approx(ratios[0])


def test_tokens_that_a_guard_threw_away_are_named_beside_those_that_count(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for lp, wall_s, thrown in (("exact", 1.0, None), ("guarded", 2.0, 30)):
        write_run(store, lp, [sample_row(0)], lp=lp, tokens=90, wall_s=wall_s, thrown_tokens=thrown)
    chosen = chosen_of(store, "exact", "guarded")
    told = [(one := slowdown(*chosen.entries), one.by_tokens)]
    said = slow.answer(chosen, told, data.compared_runs(store, chosen))
    assert " The guard of B threw away 25.0 % of its tokens: only their time counts here. " in said
    assert "guard of A" not in said


# --- faster, and passing --------------------------------------------------------------------------------------------


BOTH = (passing.USABLE, passing.PASSED)


def test_tests_are_judged_by_what_is_beyond_noise() -> None:
    chosen = demo(("llama", "none"), ("llama", "group-v2.1"), ("llama", "guarded"), ("llama", "exact"))
    runs = [RunFigures(entry) for entry in chosen.entries]
    beside = data.compared_runs(DEMO_STORE, chosen)
    judged = [passing.judgement(one, runs[0]) for one in beside]
    assert judged[0] == "Faster, but usable less often"
    assert judged[2] == "Faster, and same usable rate within noise"
    said = passing.answer(chosen, runs, beside)
    assert re.match(r"A takes 0\.\d+ s per sample, usable 40\.6 % \([^)]+\)\.", said)
    assert re.search(r"Faster, but usable less often: B \d\.\d+× faster, usable 0 % \([^)]+\)\.", said)
    assert f"B {speed(beside[0].ratio('wall_s_a_sample').ratio or 0)}, usable" in said, "as the page's table has it"
    assert "passed" not in said and "usable 0 % (0–5.7) and passed 100 %" in passing.answer(chosen, runs, beside, BOTH)


def test_a_run_of_which_nothing_is_usable_is_at_the_bottom_though_all_of_it_passes() -> None:
    """It stood at 100 %, by the reports' rule."""
    chosen = demo(("llama", "group-v2.1"), ("llama", "none"))
    runs = [RunFigures(entry) for entry in chosen.entries]
    first, second = passing.pass_chart(chosen, runs, []).figure().data
    assert (first.y[0], second.y[0]) == (0, runs[1].usable_rate)
    low, high = wilson(0, 64)
    assert (first.y[0] - first.error_y.arrayminus[0], first.y[0] + first.error_y.array[0]) == pytest.approx((low, high))
    both = passing.pass_chart(chosen, runs, [], BOTH).figure().data
    assert [points.y[0] for points in both] == [0, 1, runs[1].usable_rate, 1] and first.x[0] == both[1].x[0]


def test_reported_points_have_another_symbol_and_only_a_pass_rate() -> None:
    chosen = chosen_of(DEMO_STORE, demo_run("llama", "group-v4.3"), QWEN)
    runs = [RunFigures(entry) for entry in chosen.entries]
    (alone,) = passing.pass_chart(chosen, runs, []).figure().data
    assert alone.marker.symbol == "circle"
    mine, _, reported = passing.pass_chart(chosen, runs, [], BOTH).figure().data
    assert (mine.marker.symbol, reported.marker.symbol) == ("circle", "diamond-open")
    assert reported.x[0] == pytest.approx(115.46 / 64)
    faint, *_ = passing.pass_chart(chosen, runs, runs, BOTH).figure().data
    assert list(faint.marker.symbol) == ["circle", "circle", "diamond-open"] and faint.marker.opacity < 0.5
    assert passing.row(chosen, runs[1])["origin"] == "reported"
    assert passing.left_out(chosen, runs[1]).endswith("usable unknown. “Passed too” shows its pass rate.")


def test_what_has_no_time_or_no_rate_is_named(store: Store) -> None:
    write_run(store, "unjudged", [sample_row(0)], wall_s=1.0)
    unjudged = chosen_of(store, "unjudged")
    assert passing.left_out(unjudged, RunFigures(unjudged.control)).endswith("not judged.")
    chosen = chosen_of(DEMO_STORE, "reported-003-qwen-lp-64", "reported-004-gpt2-fp32")
    runs = [RunFigures(entry) for entry in chosen.entries]
    assert passing.left_out(chosen, runs[0], BOTH).endswith("reported, usable unknown and passed unknown.")
    assert passing.left_out(chosen, runs[1]).endswith("time unknown and usable unknown.")
    (beside,) = data.compared_runs(DEMO_STORE, chosen)
    assert passing.judgement(beside, runs[0]) == "Neither time nor usable rate can be compared"


# --- budget ---------------------------------------------------------------------------------------------------------


def test_a_budget_adds_up_in_every_unit() -> None:
    chosen = demo(("qwen", "none"), ("qwen", "exact"))
    budgets = [budget.budget_of(entry) for entry in chosen.entries]
    for unit, whole in ((budget.SECONDS, 1.0), (budget.PER_SAMPLE, 64.0), (budget.SHARE, budgets[0].time.wall_s or 0)):
        bars = budget.budget_chart(chosen, budgets, unit).figure().data
        assert [bar.name for bar in bars] == [*budget.PARTS.values(), budget.UNEXPLAINED]
        assert sum(bar.x[0] for bar in bars) == pytest.approx((budgets[0].time.wall_s or 0) / whole)
    said = budget.answer(chosen, budgets)
    assert re.match(r"Forward takes most: A [789]\S+ % and B [789]\S+ %; unexplained \d\.\d % to \d\.\d %\.", said)
    assert re.search(r"Checking the answers came later: A \d+\.\d s and B \d+\.\d s\.", said)
    looks = {(bar.marker.color, bar.marker.pattern.shape) for bar in bars}
    assert len(looks) == len(bars)


def test_a_reports_time_is_not_taken_apart() -> None:
    chosen = chosen_of(DEMO_STORE, QWEN, "reported-004-gpt2-fp32")
    budgets = [budget.budget_of(entry) for entry in chosen.entries]
    assert budgets[0].pieces == {budget.UNCOUNTED: 115.46} and budgets[1].pieces == {}
    assert budget.answer(chosen, budgets) == "The parts of these runs' time were not measured."
    notes = budget._notes(chosen, budgets, budgets[:1])
    assert notes[0] == "A and B: No part of the time was counted." and "Not drawn, time unknown: B · GPT-2" in notes[1]


def test_parts_that_exceed_the_whole_are_marked(store: Store) -> None:
    write_run(store, "odd", [sample_row(0)], wall_s=10.0, forward_s=12.0)
    chosen = chosen_of(store, "odd")
    one = budget.budget_of(chosen.control)
    (mark,) = budget.budget_chart(chosen, [one], budget.SECONDS).figure().layout.shapes
    assert mark.x0 == mark.x1 == 10.0
    assert "exceed the wall time by 2.00 s" in budget._notes(chosen, [one], [one])[0]


# --- pairs ----------------------------------------------------------------------------------------------------------


def with_pairs(store: Store) -> RunSelection:
    """Eight shared molecules, one of the control's alone; two pairs have the same two figures."""
    smiles = ["C" * count for count in range(1, 10)]
    tokens = [10, 10, 30, 40, 50, 60, 70, 80, 90]
    write_run(
        store, "left", [sample_row(n, smiles=s, tokens=t) for n, (s, t) in enumerate(zip(smiles, tokens, strict=True))]
    )
    others = [12, 12, 30, 41, 50, 65, 70, 99]
    rows = [sample_row(100 + n, smiles=s, tokens=t) for n, (s, t) in enumerate(zip(smiles, others, strict=False))]
    write_run(store, "right", rows)
    return chosen_of(store, "left", "right")


def test_pairs_that_are_alike_share_a_point(store: Store) -> None:
    chosen = with_pairs(store)
    found = scatter(store, "left", "right", "tokens")
    spots = Spots.of(found)
    assert len(spots.x) == 7 and spots.count.tolist() == [2, 1, 1, 1, 1, 1, 1]
    assert spots.pairs_at(1) == [1, 0] and spots.pairs_at(3) == [3]
    points, ring = pairs_chart(chosen, found, spots, 0).figure().data
    assert points.type == "scattergl" and points.marker.size[0] > points.marker.size[1]
    assert (ring.x[0], ring.y[0]) == (10, 12)
    assert points.hovertext[0] == "C and 1 more<br>A 10, B 12"


def test_the_largest_difference_comes_first(store: Store) -> None:
    chosen = with_pairs(store)
    found = scatter(store, "left", "right", "tokens")
    assert pairs.largest(found)[:2] == [7, 5]
    row = pairs.rows(chosen, found)[0]
    assert row == {
        "SMILES": "C" * 8,
        "A": 80.0,
        "B": 99.0,
        "sample of A": "drift?run=left&sample=7",
        "sample of B": "drift?run=right&sample=107",
    }


def test_pairs_in_words(store: Store) -> None:
    chosen = with_pairs(store)
    beside: tuple[ComparedRun, ...] = data.compared_runs(store, chosen)
    found = scatter(store, "left", "right", "tokens")
    said = pairs.answer(chosen, found, beside[0].paired)
    assert said.startswith("Over all pairs, tokens: B 47.4, A 43.8, difference +3.62 (+0.375 to +")
    assert said.endswith("beyond noise. Of 8 pairs, 5 lie higher in B, 0 higher in A, 3 are equal.")
    assert pairs.answer(chosen, scatter(store, "left", "right", "drift"), beside[0].paired).startswith(
        "8 pairs of answers"
    )
    alike = pairs.answer(chosen, scatter(store, "left", "right", "passed"), beside[0].paired)
    assert alike.startswith("Over all pairs, passed: B 100 %, A 100 %, no difference.")


def test_the_pair_of_an_address(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pairs(store)
    found = scatter(store, "left", "right", "tokens")
    address: dict[str, str] = {}
    monkeypatch.setattr(st, "query_params", address)
    pairs.put_pair(found, 4)
    assert address == {"pair": "4-104"} and pairs.shown_pair(found) == 4
    pairs.put_pair(found, None)
    pairs.put_pair(found, None)
    assert address == {} and pairs.shown_pair(found) is None
    for said in ("4", "-", "4-4", "x-104", "4-١٠٤", "9" * 30 + "-1", "4-104-1"):
        address["pair"] = said
        assert pairs.shown_pair(found) is None


def test_ten_thousand_points_are_one_trace(store: Store) -> None:
    rng = np.random.default_rng(0)
    for run_id in ("left", "right"):
        write_run(
            store,
            run_id,
            [sample_row(n, smiles=f"C{n}", decode_s=s) for n, s in enumerate(rng.random(10_000))],
            wall_s=9.0,
        )
    found = scatter(store, "left", "right", "wall_part_s")
    (points,) = pairs_chart(chosen_of(store, "left", "right"), found, Spots.of(found), None).figure().data
    assert len(points.x) == 10_000 and points.type == "scattergl"


# --- masks ----------------------------------------------------------------------------------------------------------


def test_what_lps_mask() -> None:
    chosen = demo(("qwen", "none"), ("qwen", "group-v2.1"), ("qwen", "group-v4.3"), ("qwen", "exact"))
    found = [masks.Masked(run, data.masks_of(DEMO_STORE, run)) for run in chosen.measured]
    assert [one.is_open for one in found] == [True, False, False, True]
    assert [masks.legal_tokens(one) for one in found] == [(151_673, 151_673), (150_462, 150_496), (12, 15), (1, 12)]
    said = masks.answer(chosen, found)
    assert said.startswith("C masks most: median 33.5 M masked entries per molecule, at 221 FREE positions.")
    assert re.search(r"batch of 32 would take 1\.\d\d GB \(the reports' 9\.7 GB:", said)
    assert "Under A and D the model chooses how many positions there are." in said
    drawable = [one for one in found if not one.is_open]
    blocked, allowed = masks.masks_chart(chosen, drawable, masks.POSITIONS).figure().data
    blocks = blocked.x[0]  # 20 FREE positions each; the shorter placeholder has 17
    assert blocks > 0 and (blocked.y[0], allowed.y[0]) == (20 * blocks, 17 * blocks)
    entries = masks.masks_chart(chosen, drawable, masks.ENTRIES).figure()
    assert entries.data[0].y[0] == blocks * (20 * 1_177 + 34)  # 34 marks alone may not come last
    assert entries.layout.yaxis.title.text == "forbidden tokens, over FREE positions"
    assert [tuple(line.x) for line in masks.masks_chart(chosen, found, masks.LEGAL).figure().data][3] == (1, 12)
    assert len(masks.rows(chosen, found)) == 4 * 64
    assert "Not drawn here: A and D." in masks._notes(chosen, found, drawable)


def test_masks_of_unknown_lps_say_so(store: Store) -> None:
    write_run(store, "odd", [sample_row(0)], lp=None, tokenizer=None)
    chosen = chosen_of(store, "odd")
    found = [masks.Masked(chosen.control, data.masks_of(store, chosen.control))]
    assert masks.answer(chosen, found) == "The masks of these runs cannot be counted here."
    assert "The run does not name its tokenizer." in masks._notes(chosen, found, [])[0]


def test_a_run_that_is_gone_is_an_error_that_a_user_can_read(store: Store) -> None:
    with pytest.raises(StoreError):
        data.masks_of(store, DEMO_STORE.entry(LLAMA))
