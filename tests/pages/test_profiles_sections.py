"""The Profiles page's first three sections: families, launches and operations, without a browser."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace

import pytest

from engine.profile.phases import Phases, StepPhases, StepToken
from engine.profile.reported import publish_reported
from engine.store.store import Store
from pages._profiles import launches, launches_phases
from pages._profiles.traces import TraceSelection, comparison_of
from tests.pages.profile_pages import Open, html, opened, runs, said, store, table
from tests.pages.profile_traces import HOSTILE, add, both, hostile, on_gpu, operators

__all__ = ["opened", "store"]


def test_families_say_where_the_difference_comes_from(opened: Open, store: Store) -> None:
    both(store)
    app = opened(view="Families")
    words = said(app)
    by_clock = "Per token, B is 1.99× faster by the clock (30.5 µs to 15.3 µs)."
    assert by_clock in words
    assert "matrix products, gemm (7.00 µs less per token: 75.0 % fewer calls per token, the mean call 2.00×" in words
    assert "of the whole traces; B has 2.00× the tokens of A" in words
    assert "Attention and gemm are 84.2 % of the work in A and 40.0 % in B" in words
    body = html(app)
    assert '<th scope="row" title="Products of matrices' in body and "−0.060" in body
    assert body.count('scope="colgroup"') == 2  # time and per token; the difference is one column
    full = html(opened(view="Families", columns="true"))
    assert full.count('scope="colgroup"') == 6  # time, calls, each, difference, share, per token
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    moves = {trace["name"]: trace["marker"]["pattern"]["shape"] for trace in figure["data"] if trace["showlegend"]}
    assert moves == {"fewer calls": "", "faster calls": "/", "more calls": "", "slower calls": "/"}
    assert figure["layout"]["showlegend"]
    per_token = said(opened(view="Families", per="per token"))
    assert "Work goes from 9.50 µs to 2.50 µs per token" in per_token


def test_no_line_of_families_ends_before_a_unit(opened: Open, store: Store) -> None:
    both(store)
    app = opened(view="Families")
    told = "\n".join(str(one.value) for one in (*app.markdown, *app.caption)).replace("\\", "")
    for figure in ("30.5\u00a0µs to", "75.0\u00a0% fewer", "9.50\u00a0µs to 2.50\u00a0µs", "84.2\u00a0% of the work"):
        assert figure in told
    assert not re.search(r"\d (%|µs|ms)(?!\w)", told)


def test_the_columns_of_the_table_add_up(store: Store) -> None:
    from pages._profiles.families import csv_of, family_table

    control, test = both(store)
    found = comparison_of(TraceSelection(control, (test,)))
    columns, told = family_table(found, found.families)
    assert [group.heading for group in columns] == [
        "time, ms", "calls", "each, µs", "per token, µs", "difference of whole traces, ms", "share",
    ]  # fmt: skip
    assert told[0].name == "gemm" and told[-1].is_sum and told[-1].name == "all"
    assert {len(line.cells) for line in told} == {sum(group.columns for group in columns)}
    rows = list(csv.DictReader(io.StringIO(csv_of(found))))
    change = sum(float(row["by_calls_us"]) + float(row["by_mean_us"]) for row in rows)
    assert change == pytest.approx(found.difference_us) == pytest.approx(-45)
    alone = list(csv.DictReader(io.StringIO(csv_of(comparison_of(TraceSelection(control))))))
    assert set(alone[0]) == {"side", "family", "calls", "total_us", "mean_us", "us_a_token", "us_a_sample"}


def test_a_trace_alone_has_its_own_figures_and_no_ratio(opened: Open, store: Store) -> None:
    gpu = on_gpu(store)
    for view in ("Families", "Launches", "Kernels"):
        app = opened(view=view, control=gpu.id)
        assert "×" not in said(app).replace("×\n", "") and "in B" not in said(app) and "colgroup" not in html(app)
        assert not app.error
    assert "Of 60.0 µs of work, 15.0 µs per token: gemm takes 50.0 %" in said(opened(control=gpu.id))
    assert "1.25 kernels launched per token; 0.250 waits for the device per token" in said(
        opened(control=gpu.id, view="Launches")
    )


def test_what_no_rule_caught_says_what_to_do(opened: Open, store: Store) -> None:
    gpu = on_gpu(store)
    app = opened(control=gpu.id)
    assert "13.3 % of the work (1 call), most of it somebody's" in said(app)
    assert "DRIFTSCOPE_TRACE_FAMILIES" in said(app) and 'side = "device"' in app.code[0].value


def test_unlike_traces_are_shown_and_not_taken_apart(opened: Open, store: Store) -> None:
    control, test = both(store)
    gpu = on_gpu(store)
    figures = launches.figure_rows(comparison_of(TraceSelection(test, (gpu,))))
    ratios = {line.name: line.cells[-1].text for line in figures}
    assert ratios["Tokens covered"] == "0.200×" and ratios["Concatenations"] == "–"  # kernels are no operators
    app = opened(control=control.id, test=gpu.id)
    assert (
        "Not comparable: one is work of a device" in said(app)
        and "gemm, CPU" in html(app)
        and "gemm, device" in html(app)
    )
    assert "0×" not in html(app) and "By calls" not in said(app)
    assert "operators on the CPU, without operators inside them in A, device operations in B" in said(app)
    assert "Not comparable: one is work of a device" in said(opened(control=control.id, test=gpu.id, view="Kernels"))
    publish_reported(store)
    app = opened(control="reported-003-llama", test=gpu.id)
    assert "A is a report, which names" in said(app) and "was not measured here" in said(app)


def test_reported_traces_have_what_the_report_names_alone(opened: Open, store: Store) -> None:
    publish_reported(store)
    query = {"control": "reported-003-llama", "test": "reported-003-qwen"}
    app = opened(**query)
    assert "; work that the report names " in said(app) and "names some operations only" in said(app)
    app = opened(**query, view="Launches")
    assert "33.7 kernels launched per token in A and 76.3 in B, 2.26×" in said(app)
    body = html(app)
    assert "per sample, µs" not in body  # with it the table of calls is wider than a small window
    assert "2,912,920" in body and "Waits" not in body and "was not captured here" in said(app)


def test_a_cpu_has_operators_in_place_of_launches(opened: Open, store: Store) -> None:
    both(store)
    app = opened(view="Launches")
    words = said(app)
    assert "0.400 operators per token in A and 0.200 in B" in words and "in these traces" in words
    assert [one.value for one in app.subheader][-1] == "Operators per token"
    assert [one.label for one in app.expander][-1] == "All figures"
    assert "Copies between memories" not in html(app)
    assert "No trace marks where its passes begin." in words and "older one" in words


def test_operations_are_filtered_by_change_family_and_name(opened: Open, store: Store) -> None:
    both(store)
    app = opened(view="Kernels")
    rows = table(app, 1)
    assert dict(zip(rows["name"], rows["change"], strict=True)) == {
        "aten::mm": "fewer calls", "aten::add": "more calls", "aten::softmax": "only in A", "aten::cat": "only in B",
    }  # fmt: skip
    assert rows["difference"].sum() == pytest.approx(-0.045)
    assert list(table(opened(view="Kernels", change=["only in B"]), 1)["name"]) == ["aten::cat"]
    assert list(table(opened(view="Kernels", family="gemm"), 1)["name"]) == ["aten::mm"]
    assert list(table(opened(view="Kernels", kernel="SOFT aten"), 1)["name"]) == ["aten::softmax"]
    assert "No operation matches" in said(opened(view="Kernels", kernel="nobody"))
    app = opened(view="Kernels", by="calls")
    assert "Which differ most in calls?" in [one.value for one in app.subheader]
    assert list(app.dataframe[1].proto.column_order)[:4] == ["name", "calls_a", "calls_b", "calls_x"]


def test_hostile_names_are_text(opened: Open, store: Store) -> None:
    from pages._profiles.kernels_table import csv_of, key_of

    entry = hostile(store)
    found = comparison_of(TraceSelection(entry))
    for view in ("Families", "Launches", "Kernels"):
        app = opened(view=view, control=entry.id)
        assert HOSTILE not in html(app)
        shown = "".join(str(one) for one in (*table(app).to_numpy().ravel(), said(app), html(app)))
        assert "\u202e" not in shown
    key = key_of(max(found.kernels, key=lambda row: len(row.name)))
    app = opened(view="Kernels", control=entry.id, operation=key)
    assert app.code[0].value == "x" * 10_000
    assert max(len(name) for name in table(app, 1)["name"]) <= 120
    assert HOSTILE in csv_of(found)


def token(mark: str | None, piece: str = "5") -> StepToken:
    return StepToken(0, 0, 5, piece, forced=False, block=0, kinds=(), mark=mark)


def step(number: int, forward_us: float, *marks: str | None, start_us: float = 0.0) -> StepPhases:
    phases_us = {"forward": forward_us, "sample": 10.0}
    pieces = {"junk": HOSTILE, "cut": "9"}
    tokens = tuple(token(mark, pieces.get(mark or "", "5")) for mark in marks)
    return StepPhases(number, start_us, forward_us + 10, phases_us, tokens)


def test_one_normal_and_one_junk_step_as_bars(store: Store) -> None:
    control, test = both(store)
    control = replace(control, row={**control.row, "span_us": 500.0})
    found = TraceSelection(control, (test,), runs(store))
    clean = Phases((step(0, 100, "", start_us=60), step(1, 300, "", start_us=180)), 50.0, "")
    junky = Phases((step(0, 100, "", "junk"), step(1, 90, ""), step(2, 80, "cut")), None, "")
    told = [(control, clean), (test, junky)]
    lanes = launches_phases.examples(found, told)
    assert [lane.name for lane in lanes] == [
        "A · pass 1 · without junk",
        "B · pass 2 · without junk",
        "B · pass 1 · with junk",
        "B · pass 3 · with a cut",
    ]
    assert lanes[2].what == f"wrote “{HOSTILE}” (junk) “5”"
    assert launches_phases.junk_words(found, told) == (
        "Of 2 passes of A none wrote junk; of 3 passes of B 1 wrote junk: 110 µs on average, 100 µs without."
    )
    assert launches_phases.mean_words(found, told) == (
        "In A a pass takes 210 µs on average, 95.2 % of it forward; in B a pass takes 100 µs on average, 90.0 % of it"
        " forward."
    )
    assert launches_phases.clock_words(found, told) == (
        "A takes 0.500 ms by the clock: 0.420 ms in passes, 0.060 ms before the first (templates 0.050 ms, the"
        " rest set-up), 0.010 ms between them and 0.010 ms after the last."  # of B, passes overlap
    )
    assert all(sum(lane.phases_us.values()) > 0 for lane in lanes)
    assert launches_phases.without_lp_words(found, told[1:]) == ""
    free = TraceSelection(control, (test,), {str(control.row.get("run_id")): {"lp": "none"}})
    assert launches_phases.without_lp_words(free, told) == (
        "Without an LP (A), constraint is the time to add the drawn tokens, and templates are the prompts alone."
    )


def test_steps_that_are_not_known_are_not_drawn(store: Store) -> None:
    control, _ = both(store)
    found = TraceSelection(control)
    unknown = [(control, Phases((step(0, 100, None),), None, "Where they stand is not known."))]
    assert launches_phases.examples(found, unknown) == []
    assert launches_phases.junk_words(found, unknown) == "Which passes wrote junk is not known."
    assert launches_phases.mean_words(found, unknown).startswith("A pass takes 110 µs on average")
    none = [(control, Phases((), None, "It was not captured here."))]
    assert launches_phases.mean_words(found, none) == "No trace marks where its passes begin."


def test_an_axis_that_does_not_begin_at_nought_says_so(opened: Open, store: Store) -> None:
    one, other = (add(store, operators(("mm", 1000.0), ("add", time)), tokens=5) for time in (10, 12))
    words = said(opened(control=one.id, test=other.id))
    assert "The axis does not begin at 0. Not available: per sample and per pass" in words
    both(store)
    assert "does not begin" not in said(opened())
