"""Rows of runs from their sheets, and ratios to a control: what is known, what is not, what is noise."""

from __future__ import annotations

import json

import pytest

from engine.comparing.figures import (
    CONFORMERS,
    RATIOS,
    ROW_COLUMNS,
    ROW_FIGURES,
    ROW_RATIOS,
    RunFigures,
    all_figures,
    compare_rows,
)
from engine.comparing.measures import MEASURES
from engine.comparing.slowdown import slowdown
from engine.evidence.advisor import AdviceRequest, advise
from engine.figures.statistics import wilson
from engine.store.schema import RUNS
from engine.store.store import Store
from tests.engine.comparing.by_id import compare_with
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, write_run

BY_ID = {figure.run_id: figure for figure in all_figures(DEMO_STORE)}


def test_a_reported_run_has_what_its_report_says_and_nothing_more() -> None:
    found = BY_ID["reported-002-qwen-lp-64"]
    assert (found.origin, found.model, found.lp, found.has_samples) == ("reported", "Qwen", "group-v3.8", False)
    assert (found.wall_s, found.tokens, found.pass_rate, found.junk_letters) == (115.46, 38_195, 1.0, 61)
    assert found.ms_a_token == pytest.approx(3.023, abs=5e-4)
    assert found.wall_s_a_sample == pytest.approx(1.804, abs=5e-4)
    assert found.junk_letters_share == pytest.approx(0.038, abs=5e-4)
    unknown = (found.junk_nonnumeric, found.forward_passes, found.forced_share, found.clean_rate, found.cut_share)
    assert unknown == (None,) * 5
    assert (found.rmsd_ang, found.drift_mean, found.cov_r, found.mat_p, found.backend) == (None, None, None, None, "")


def test_a_pass_rate_has_wilsons_interval() -> None:
    found = BY_ID["reported-002-llama-none-1000"]
    assert (found.pass_rate, found.pass_rate_low, found.pass_rate_high) == (0.189, *wilson(189, 1_000))
    without = BY_ID["reported-003-qwen-lp-64"]
    assert (without.pass_rate, without.pass_rate_low, without.pass_rate_high) == (None, None, None)


def test_the_command_line_has_the_figures_of_the_page() -> None:
    control, test = demo_run("qwen", "none"), "reported-002-qwen-lp-64"
    page = compare_with(DEMO_STORE, control, [test])
    _, row = compare_rows(DEMO_STORE, DEMO_STORE.entry(control), [DEMO_STORE.entry(test)])
    for name in (*ROW_COLUMNS, *ROW_FIGURES):
        assert row[name] == getattr(page.tests[0].figures, name) or getattr(page.tests[0].figures, name) == ""
    for name in ROW_RATIOS:
        assert row[f"{name}_ratio"] == page.tests[0].ratio(name).ratio


def test_a_run_has_no_other_figures() -> None:
    with pytest.raises(AttributeError, match="no figure 'speed'"):
        _ = BY_ID[demo_run("qwen", "none")].speed


def test_nothing_is_nought_that_nobody_said(store: Store) -> None:
    write_run(store, "bare", [sample_row(0)])
    found = RunFigures(store.entry("bare"))
    properties = (name for name, part in vars(RunFigures).items() if isinstance(part, property) and name[0] != "_")
    known = {name for name in (*RUNS.names, *CONFORMERS, *properties) if getattr(found, name) not in (None, "")}
    assert known == {
        *("run_id", "origin", "created_at", "model_alias", "lp", "samples"),
        *("name", "model", "lp_words", "has_samples", "is_profiled"),
    }


def test_the_newest_run_comes_first(store: Store) -> None:
    for day, run_id in ((2, "b"), (1, "a"), (3, "c")):
        write_run(store, run_id, [sample_row(0)], created_at=f"2026-01-0{day}T00:00:00+00:00")
    assert [figure.run_id for figure in all_figures(store)] == ["c", "b", "a"]


def test_a_table_of_runs_opens_no_file_of_theirs(store: Store) -> None:
    write_run(store, "one", [sample_row(0, tokens=3)])
    entry = store.entry("one")
    store.home.write(f"{entry.folder}/samples.parquet", b"x" * entry.parts["samples"].bytes)
    assert [figure.run_id for figure in all_figures(store)] == ["one"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"cov_r": 0.681, "mat_r_ang": 0.6}, (0.681, 0.6)),
        ({"COV-R": 0.681, "MAT-R": 0.6}, (0.681, 0.6)),
        ({"cov_r": "68 %", "mat_r": True}, (None, None)),
        ({"other": 1}, (None, None)),
        ({"cov_r": 10**400, "mat_r": 0.5}, (None, 0.5)),
        ([1, 2], (None, None)),
    ],
)
def test_coverage_is_taken_from_what_a_file_says(
    store: Store, said: object, expected: tuple[float | None, ...]
) -> None:
    write_run(store, "one", [sample_row(0)], extra=json.dumps(said))
    found = RunFigures(store.entry("one"))
    assert (found.cov_r, found.mat_r) == expected


# --- beside a control -------------------------------------------------------------------------------------------------


def test_every_ratio_is_of_a_figure_and_a_measure() -> None:
    assert all(hasattr(BY_ID[demo_run("qwen", "none")], figure) for figure in RATIOS)
    assert set(RATIOS.values()) - {""} == set(MEASURES)


def test_a_control_and_its_tests() -> None:
    control, cut, reported = demo_run("qwen", "none"), demo_run("qwen", "group-v2.1"), "reported-002-qwen-lp-64"
    found = compare_with(DEMO_STORE, control, [cut, reported])
    assert found.control.run_id == control
    assert [test.figures.run_id for test in found.tests] == [cut, reported]
    mine, theirs = found.tests
    passes = mine.ratio("pass_rate")
    assert (passes.control, passes.test, passes.ratio, passes.within_noise, passes.reason) == (1, 1, 1, True, "")
    tokens = mine.ratio("tokens_a_sample")
    assert tokens.within_noise is False and tokens.interval is not None
    assert tokens.ratio == pytest.approx(tokens.interval.value)  # all samples are paired
    cut_share = mine.ratio("cut_share")
    assert (cut_share.ratio, cut_share.within_noise) == (None, False)  # nothing to divide by, and no noise
    assert mine.ratio("forward_passes").reason.startswith("Counted once per run")
    assert mine.ratio("cov_r").reason == "Not known of the control and the test."
    assert theirs.ratio("clean_rate").reason == "Not known of the test."
    time = theirs.ratio("wall_s_a_sample")
    assert time.ratio is not None and time.within_noise is None and "is reported" in time.reason


@pytest.mark.parametrize("lp", ["group-v2.1", "group-v4.3", "exact", "guarded"])
def test_a_pair_of_runs_has_one_pace_everywhere(lp: str) -> None:
    """Of one pair there were five: with set-up, without it, by the samples' overlapping times, over tokens."""
    control, test = (DEMO_STORE.entry(demo_run("llama", name)) for name in ("none", lp))
    found = compare_with(DEMO_STORE, control.id, [test.id]).tests[0]
    ratio = (test.row["wall_s"] / test.row["samples"]) / (control.row["wall_s"] / control.row["samples"])
    (row,) = compare_rows(DEMO_STORE, control, [test])[1:]
    per_sample, per_token = found.ratio("wall_s_a_sample"), found.paired.measure("ms_a_token")
    advised = advise(DEMO_STORE, "demo-llama", AdviceRequest(lps=("none", row["lp"]))).measured.figures(row["lp"])
    total = slowdown(control, test).by_tokens.total
    assert per_sample.interval and advised.time_ratio and total and per_token.ratio
    ratios = [per_sample.ratio, per_sample.interval.value, row["wall_s_a_sample_ratio"], advised.time_ratio.value]
    assert [*ratios, total.ratio] == pytest.approx([ratio] * 5)
    assert per_sample.interval.ends == (row["wall_s_a_sample_ratio_low"], row["wall_s_a_sample_ratio_high"])
    assert found.paired.measure("wall_part_s").test == pytest.approx(row["wall_s_a_sample"])
    assert (per_token.test, per_token.ratio.value) == pytest.approx((row["ms_a_token"], row["ms_a_token_ratio"]))


def test_drift_and_strain_per_atom_are_read_for_runs_that_are_compared(store: Store) -> None:
    known = {"geometry_right": True, "same_graph": True, "heavy_atoms": 4}
    samples = [
        sample_row(0, drift=-1, strain_kcal=8.0, **known),
        sample_row(1, drift=4, strain_kcal=4.0, strain_moved_ang=0.5, **known),
        sample_row(2, strain_kcal=90.0, **known | {"same_graph": False}),
        sample_row(3, strain_kcal=90.0, **known | {"geometry_right": False}),
    ]
    blocks = [block_row(0, 0, drift=2), block_row(0, 1, drift=-3), block_row(1, 0, drift=4), block_row(2, 0)]
    write_run(store, "one", samples, blocks)
    write_run(store, "two", [sample_row(0)])
    found = compare_with(store, "one", ["two", "one"])
    assert (found.control.drift_mean, found.control.drift_abs_mean) == pytest.approx((1, 3))
    assert (found.control.strain_kcal_per_atom, found.tests[0].figures.strain_kcal_per_atom) == (1.5, None)
    assert found.control.strain_moved_ang == 0.5
    assert (found.tests[0].figures.drift_mean, found.tests[0].figures.drift_abs_mean) == (None, None)
    assert found.tests[1].figures == found.control
