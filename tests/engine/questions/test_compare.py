"""Compare's questions: figures of runs whose answer is known, what is not known, and what is no stronger than noise."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.comparing.differences import mark_of, ratio_words
from engine.comparing.measures import BY_NAME, figure, rate, stated
from engine.comparing.paired import Compared
from engine.errors import DriftscopeError
from engine.figures.statistics import Interval, wilson
from engine.questions import KEYS, PAGES, QuestionError, ask, compare_slowdown, question_of
from engine.questions.compare_figures import cut_notes
from engine.questions.compare_time import answer as answer_of_time
from engine.questions.question import NeedsWork, answer_lines, rows_table
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.store import Store
from engine.text.blocks import RULES
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, write_four_engines, write_run
from tests.engine.questions.declared import assert_as_declared

NONE, EXACT, BLOCKED, GUARDED = (demo_run("qwen", lp) for lp in ("none", "exact", "group-v2.1", "guarded"))
LLAMA, LLAMA_EXACT = (demo_run("llama", lp) for lp in ("none", "exact"))
REPORTED = "reported-002-qwen-lp-64"
FAILED = {"passed": False, "clean": False}
Row = dict[str, Any]


def rows(key: str, ids: list[str], store: Store = DEMO_STORE, table: str = "main", **options: Any) -> list[Row]:
    result: list[Row] = ask(store, key, ids, options).tables[table].to_pylist()
    return result


def figures(ids: list[str], store: Store = DEMO_STORE) -> dict[tuple[str, str], Row]:
    return {(row["measure"], row["run"]): row for row in rows("compare_figures", ids, store)}


def test_cuts_that_are_counted_by_different_evidence_are_not_compared_unmarked(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    for run_id, continued in (("by-mass", None), ("by-text", "1.0,2.0,3.01"), ("also-by-text", "1.0,2.0,3.01")):
        blocks = [block_row(0, 0, kinds=["cut"], continued_text=continued)]
        about: Row = {"cut_blocks": 1, "label": run_id, "counted_by": RULES}
        write_run(store, run_id, [sample_row(0, clean=False)], blocks, **about)
    entries = store.listing().entries
    names = {entry.id: entry.id for entry in entries}
    alike = [entry for entry in entries if entry.id != "by-mass"]
    assert cut_notes(store, alike, names) == [] == cut_notes(store, entries[:1], names)
    (note,) = cut_notes(store, entries, names)
    assert note.startswith("Cut blocks of by-mass are counted by the model's mass alone")
    assert note.endswith("`explain by-mass`.")
    write_run(store, "old", [sample_row(0)], [block_row(0, 0, kinds=["cut"])], lp="group-v2.1", cut_blocks=1)
    (note,) = cut_notes(store, [store.entry("old"), *alike], names | {"old": "old"})
    assert note == "old: cut blocks are counted by former rules; `verify --recount` counts them again."


# --- every question ---------------------------------------------------------------------------------------------------
BEHIND_WORK = (
    "compare_rewards", "compare_steps", "drift_belief", "drift_branches", "drift_coverage", "drift_resolution",
    "lab_alphabets",
)  # fmt: skip
"""Their own tests have the work done first, or a training imported."""


@pytest.mark.parametrize("key", KEYS)
def test_a_question_names_the_tables_columns_and_options_that_it_has(key: str) -> None:
    question = question_of(key)
    of = {
        "run": [LLAMA, LLAMA_EXACT],
        "log": ["llama.cpp-demo-llama-final-f32", "driftscope-demo-llama-final-f32"],
        "trace": ["demo-llama-final-none", "demo-llama-final-exact"],
        "model": ["demo-llama:final"],
        "sample": [f"{LLAMA}/3"],
        "text": ["demo-llama"] if key == "drift_coverage" else ["[C]<0.0,1.0,2.0amen>"],
    }
    asked = of[question.OF.kind] if question.OF.least else []
    if key in BEHIND_WORK:
        with pytest.raises(DriftscopeError, match=r"python -m engine|Import completions"):
            ask(DEMO_STORE, key, asked[: question.OF.most])
        return
    assert_as_declared(question, ask(DEMO_STORE, key, asked[: question.OF.most]))


def test_options_of_a_page_are_told_apart_by_their_names() -> None:
    """One name in a page's address is one option, which several questions may have."""
    for views in PAGES.values():
        options = [option for keys in views.values() for key in keys for option in question_of(key).OPTIONS]
        for option in options:
            assert [other for other in options if other.name == option.name] == [option] * options.count(option)


@pytest.mark.parametrize(
    ("key", "options", "message"),
    [
        ("compare_figure", {}, "compare_figures"),
        ("drift_damage", {"threshold": "1"}, "no option 'threshold'"),
        ("compare_time", {"time": "seconds"}, "no option 'time'"),
        ("compare_time", {"time_in": "hours"}, "'hours' is no Time in"),
    ],
)
def test_what_cannot_be_asked_is_one_line(key: str, options: Row, message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        ask(DEMO_STORE, key, [NONE], options)


def test_the_same_question_is_computed_once_until_a_run_is_renamed(store: Store) -> None:
    write_run(store, "one", [sample_row(0)])
    first = ask(store, "compare_time", ["one"])
    assert ask(store, "compare_time", ["one"]) is first
    store.annotate("one", label="mine")
    assert ask(store, "compare_time", ["one"]) is not first


# --- figures ----------------------------------------------------------------------------------------------------------
def test_a_reported_run_has_what_its_report_says_and_nothing_more() -> None:
    entry = DEMO_STORE.entry(REPORTED)
    values = {name: value for name in BY_NAME if (value := figure(entry, name)) is not None}
    assert values == pytest.approx(
        {
            "wall_s": 115.46,
            "wall_s_a_sample": 115.46 / 64,
            "ms_a_token": 115_460 / 38_195,
            "tokens": 38_195,
            "tokens_a_sample": 38_195 / 64,
            "samples": 64,
            "pass_rate": 1.0,
            "blocks": entry.row["blocks"],
            "junk_letters_share": 61 / entry.row["blocks"],
        }
    )


def test_a_speed_without_an_interval_says_so_and_does_not_ask() -> None:
    pace = BY_NAME["wall_s_a_sample"]
    assert ratio_words({"ratio": 1.0, "mark": "unknown"}, pace) == "as fast (no interval)"
    assert ratio_words({"ratio": 1.0, "mark": "same"}, pace) == "as fast (no difference)"
    assert ratio_words({"ratio": 1.2, "mark": "unknown"}, pace) == "slower by 1.20× (no interval)"
    assert ratio_words({"ratio": 1.0, "mark": "unknown"}, BY_NAME["clean_rate"]) == "1.00× ?"


def test_a_rate_has_wilsons_interval() -> None:
    interval = rate(DEMO_STORE.entry("reported-002-llama-none-1000"), "pass_rate")
    assert interval == Interval(0.189, *wilson(189, 1_000))
    assert rate(DEMO_STORE.entry("reported-003-qwen-lp-64"), "pass_rate") is None
    odd = replace(DEMO_STORE.entry(NONE), row={**DEMO_STORE.entry(NONE).row, "passes": 70})
    assert rate(odd, "pass_rate") == Interval(70 / 64)


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ('{"cov_r": 0.681, "mat_r_ang": 0.6}', (0.681, 0.6)),
        ('{"cov_r": "68 %", "mat_r": true}', (None, None)),
        ("{", (None, None)),
    ],
)
def test_coverage_is_taken_from_what_a_file_says(extra: str, expected: tuple[float | None, float | None]) -> None:
    coverage = stated(replace(DEMO_STORE.entry(NONE), row={"extra": extra}))
    assert (coverage["cov_r"], coverage["mat_r"]) == expected


def test_drift_and_strain_per_atom_are_means_over_samples(store: Store) -> None:
    samples = [
        sample_row(0, geometry_right=True, strain_kcal=8.0, heavy_atoms=4),
        sample_row(1, geometry_right=True, strain_kcal=6.0, heavy_atoms=2),
        sample_row(2, geometry_right=False, strain_kcal=99.0, heavy_atoms=1),
    ]
    for row, drift in zip(samples, (1, -3, None), strict=True):
        row["drift"] = drift
    blocks = [block_row(0, 0, drift=2), block_row(0, 1, drift=-1), block_row(1, 0, drift=-3)]
    write_run(store, "one", samples, blocks=blocks)
    values = {name: row["value"] for (name, _), row in figures(["one"], store).items()}
    assert (values["drift_mean"], values["drift_abs_mean"]) == pytest.approx((-2 / 3, 2))
    assert values["strain_kcal_per_atom"] == pytest.approx(2.5)


# --- ratios -----------------------------------------------------------------------------------------------------------
def compared(value: float, low: float | None, high: float | None, ratio: float = 1.0) -> Compared:
    return Compared("", 9, 9, 1.0, 1.0, Interval(value, low, high), Interval(ratio, low, high), "")


@pytest.mark.parametrize(
    ("gap", "ratio", "measure", "expected"),
    [
        (compared(-0.5, -0.6, -0.4, 0.5), 0.5, "wall_s_a_sample", "better"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "wall_s_a_sample", "worse"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "pass_rate", "better"),
        (compared(0.5, 0.4, 0.6, 1.5), 1.5, "forced_share", "differs"),
        (compared(0.1, -0.4, 0.6, 1.1), 1.1, "wall_s_a_sample", "noise"),
        (compared(0.0, 0.0, 0.0), 1.0, "wall_s_a_sample", "same"),
        (compared(0.03, 0.01, 0.05, 1.03), 1.03, "wall_s_a_sample", "doubtful"),  # a few per cent of time
        (compared(0.03, 0.01, 0.05, 1.03), 1.03, "tokens_a_sample", "worse"),  # tokens are counted, not timed
        (compared(0.5, 0.4, 0.6, 1.5), 0.9, "pass_rate", "doubtful"),  # the runs as wholes say the opposite
    ],
)
def test_a_mark_is_no_stronger_than_its_interval(gap: Compared, ratio: float, measure: str, expected: str) -> None:
    assert mark_of(BY_NAME[measure], ratio, gap) == expected


def test_a_ratio_is_test_over_control_with_its_interval() -> None:
    cells = figures([NONE, EXACT, BLOCKED])
    pace, wall_s = cells["wall_s_a_sample", EXACT], [DEMO_STORE.entry(run).row["wall_s"] for run in (EXACT, NONE)]
    assert pace["ratio"] == pytest.approx(wall_s[0] / wall_s[1]) and pace["mark"] == "better"
    assert pace["ratio_low"] < pace["ratio"] < pace["ratio_high"] < 1
    assert cells["clean_rate", BLOCKED]["mark"] == "worse" and cells["usable_rate", EXACT]["mark"] == "same"
    assert cells["wall_s", EXACT]["mark"] == "unknown" and cells["wall_s", NONE].get("ratio") is None
    assert all(cells[name, EXACT]["reason"] for name in ("drift_abs_mean", "forward_passes")), "no verdict, and why"


def test_a_profiled_run_has_no_ratio_of_time(store: Store) -> None:
    for run_id, source in (("plain", ""), ("slow", "python -m engine run --profile")):
        write_run(
            store,
            run_id,
            [sample_row(n, tokens=9, decode_s=1.0) for n in range(8)],
            source=source,
            wall_s=8.0,
            tokens=72,
        )
    cells = figures(["plain", "slow"], store)
    assert cells["wall_s_a_sample", "slow"]["ratio"] is None and "profile" in cells["wall_s", "slow"]["reason"]
    assert cells["tokens_a_sample", "slow"]["ratio"] == 1.0


def test_what_else_differs_is_a_table(store: Store) -> None:
    write_run(store, "a", [sample_row(0)], lp="exact", batch_size=8, guard=None)
    write_run(store, "b", [sample_row(0)], lp="guarded", batch_size=32, guard='{"retries": 2}')
    settings = rows("compare_figures", ["a", "b"], store, "set-up")
    assert {row["set-up"]: (row.get("exact"), row.get("guarded")) for row in settings} == {"batch size": ("8", "32")}


def test_a_run_of_which_the_lp_did_not_act_is_named(store: Store) -> None:
    """The bug: next to a run without an LP nothing said so, as nothing else was known to differ."""
    write_run(store, "a", [sample_row(0)], lp="none")
    write_run(store, "b", [sample_row(0)], lp="exact", constrained="no", constrained_why="1 sample of 1: dropped")
    note = "exact: its LP did not act on every token (1 sample of 1: dropped)."
    for ids in (["a", "b"], ["b"]):
        for key in ("compare_matrix", "compare_figures"):
            assert rows(key, ids, store, "notes")[0]["note"] == note
    (row,) = [row for row in rows("compare_figures", ["a", "b"], store, "set-up") if row["set-up"] == "constrained"]
    assert (row["none"], row["exact"]) == ("no LP", "no")
    store.annotate("b", label="mine")
    write_run(store, "c", [sample_row(0)], lp="exact", constrained="not in its language", label="theirs")
    first, second = rows("compare_figures", ["b", "c"], store, "notes")[:2]
    assert "did not act" in first["note"] and "does not allow all of its tokens" in second["note"]


def test_runs_of_four_engines_are_told_apart_and_timed(store: Store) -> None:
    """The same molecules, model and LP; only what wrote them differs, and the LP of one."""
    ids = write_four_engines(store)
    found = figures(ids, store)
    names = ["exact · server", "grammar · server", "exact", "exact · hf"]
    assert [found["canonical_share", run]["name"] for run in ids] == names
    assert [found["canonical_share", run]["value"] for run in ids] == [1, 0.75, 1, 1]
    assert found["canonical_share", "b"]["ratio"] == 0.75
    assert [found["wall_s_a_sample", run]["value"] for run in ids] == [2, 3, 0.5, 4]
    places = cells(ids, store)
    assert {place: row["run"] for place, row in places.items()} == {
        ("m:1 · server", "exact"): "a",
        ("m:1 · server", "grammar"): "b",
        ("m:1", "exact"): "c",
        ("m:1 · hf", "exact"): "d",
    }
    assert places["m:1", "exact"]["over_first"].startswith("4.00× faster than m:1 · server")
    assert [row["name"] for row in rows("compare_speed", ids, store)] == names
    (engine,) = [row for row in rows("compare_figures", ids, store, "set-up") if row["set-up"] == "backend"]
    assert [engine[name] for name in names] == ["server", "server", "fast", "hf"]


def cells(ids: list[str], store: Store = DEMO_STORE) -> dict[tuple[str, str], Row]:
    return {(row["model"], row["lp"]): row for row in rows("compare_matrix", ids, store)}


def test_a_run_is_compared_with_its_own_model_without_an_lp_and_with_the_first_model_under_its_lp() -> None:
    found = cells([LLAMA, EXACT, LLAMA_EXACT, NONE, REPORTED])
    assert list(found) == [
        ("demo-llama:final", "none"),
        ("demo-llama:final", "exact"),
        ("demo-qwen:final", "none"),
        ("demo-qwen:final", "exact"),
        ("Qwen (reported)", "group-v3.8"),
    ]
    qwen = found["demo-qwen:final", "exact"]
    seconds = {run: DEMO_STORE.entry(run).row["wall_s"] / 64 for run in (NONE, EXACT, LLAMA_EXACT)}
    assert qwen["seconds"] == seconds[EXACT] and qwen["speed"] == pytest.approx(seconds[NONE] / seconds[EXACT])
    assert qwen["speed_low"] < qwen["speed"] < qwen["speed_high"] and qwen["speed_mark"] == "▲"
    assert qwen["over_first"] == f"slower by {seconds[EXACT] / seconds[LLAMA_EXACT]:.2f}× than demo-llama:final ▼"
    assert found["Qwen (reported)", "group-v3.8"]["speed"] is None
    assert "so no ratio: Qwen (reported)." in ask(DEMO_STORE, "compare_matrix", [NONE, REPORTED]).answer


def test_usable_decides_the_tone_and_nothing_usable_is_never_better() -> None:
    found = cells([NONE, EXACT, BLOCKED, GUARDED])
    tones = {lp: row["tone"] for (_, lp), row in found.items()}
    assert tones == {"none": "same", "exact": "same", "group-v2.1": "none", "guarded": "better"}
    assert found["demo-qwen:final", "group-v2.1"]["usable_mark"] == "▼"
    ends = wilson(29, 64)
    exact = found["demo-qwen:final", "exact"]
    assert (exact["usable"], exact["usable_low"], exact["usable_high"]) == (29 / 64, *ends)


def test_a_run_that_nobody_judged_has_no_tone_and_the_worst_answer_is_the_one_that_opens(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    write_run(store, "one", [sample_row(0), sample_row(1, **FAILED), sample_row(2, clean=False, bad_blocks=3)])
    row = next(iter(cells(["one"], store).values()))
    assert (row["tone"], row["usable"], row["speed"]) == ("", None, None)
    assert row["worst"] == "run=one&sample=2"


def judged(store: Store, run_id: str, usable: int, wall_s: float, **about: Any) -> None:
    """Twelve molecules, so many of them usable."""
    samples = [sample_row(number, usable=number < usable, smiles="C" * (number + 1)) for number in range(12)]
    write_run(store, run_id, samples, wall_s=wall_s, usable=usable, judged=12, **about)


def test_the_sentence_tells_noise_from_no_loss_and_of_no_model_what_is_anothers(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    for alias, seconds, usable in (("a", 6.0, 6), ("b", 12.0, 9), ("c", 48.0, 9)):
        judged(store, f"{alias}-none", 9, 24.0, lp="none", model_alias=alias)
        judged(store, f"{alias}-exact", usable, seconds, lp="exact", model_alias=alias)
    lines = ask(store, "compare_matrix", [entry.id for entry in store.listing().entries]).answer.splitlines()
    said = "a: exact is 4.00× faster than none and loses no usable molecules beyond noise; most are usable under none"
    assert lines[0] == f"{said}, 75.0 %."
    assert lines[1].startswith("b: exact is 2.00× faster than none and loses no usable molecules; most")
    assert lines[2] == "c: most are usable under none, 75.0 %."


def test_what_is_not_in_the_table_is_named_and_a_step_that_is_no_number_is_no_point(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    for run_id, step in (("first", "1"), ("again", "1"), ("odd", "²")):
        write_run(store, run_id, [sample_row(0)], lp="exact", model_alias="a", model_step=step, label=run_id)
    answer = ask(store, "compare_matrix", ["first", "again", "odd"]).answer
    assert "Not in the table, since another run of that model and LP is" in answer and "again" in answer


def test_checkpoints_of_a_model_are_lines_over_their_steps(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    for step, seconds in (("900", 3.0), ("10", 1.0), ("200", 2.0)):
        write_run(store, f"at-{step}", [sample_row(0)], lp="exact", model_alias="a", model_step=step, wall_s=seconds)
    ids = [entry.id for entry in store.listing().entries]
    points = [
        (row["at"], row["value"])
        for row in rows("compare_matrix", ids, store, "steps")
        if row["figure"] == "s per sample"
    ]
    assert points == [(10.0, 1.0), (200.0, 2.0), (900.0, 3.0)]
    assert not rows("compare_matrix", ids[:2], store, "steps")


def test_each_engine_has_a_line_of_its_own_over_the_steps(tmp_path: Path) -> None:
    """The bug: one line went to and fro between two engines, and two steps of each counted as four."""
    store = Store(Files(tmp_path))
    for backend, steps in (("fast", (1, 2, 3)), ("server", (1, 2, 3)), ("hf", (1, 2))):
        for step in steps:
            about: Row = {"backend": backend, "model_step": str(step), "wall_s": float(step)}
            write_run(store, f"{backend}-{step}", [sample_row(0)], lp="exact", model_alias="a", **about)
    ids = [entry.id for entry in store.listing().entries]
    steps_of: dict[str, list[float]] = {}
    for row in rows("compare_matrix", ids, store, "steps"):
        if row["figure"] == "s per sample":
            steps_of.setdefault(row["line"], []).append(row["at"])
    assert steps_of == {"a · exact": [1, 2, 3], "a · server · exact": [1, 2, 3]}
    ids = [id_ for id_ in ids if id_ not in ("fast-3", "server-3")]
    assert not rows("compare_matrix", ids, store, "steps")


# --- time -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("key", ["compare_figures", "compare_speed", "compare_slowdown"])
def test_speed_has_one_direction_in_every_card_and_table(key: str) -> None:
    """One card said 4.40x faster, the next one 0.227x."""
    for pair, words in (([NONE, EXACT], "4.40× faster"), ([EXACT, NONE], "slower by 4.40×")):
        lines = "\n".join(answer_lines(question_of(key), ask(DEMO_STORE, key, pair)))
        assert words in lines
        assert "0.227" not in lines.replace(" ", "")


def test_the_reports_slowdown() -> None:
    factors = rows("compare_slowdown", [f"reported-002-{name}-lp-64" for name in ("llama", "qwen")])
    assert [(row["factor"], round(row["ratio"], 2)) for row in factors] == [
        ("wall time per sample", 3.51),
        ("tokens", 1.34),
        ("wall time per token", 2.62),
    ]
    assert sum(row["share"] for row in factors[1:]) == pytest.approx(1)


@given(st.lists(st.tuples(*[st.integers(1, 10**6)] * 4), min_size=2, max_size=2), st.integers(0, 2))
def test_factors_multiply_to_the_whole(sheets: list[tuple[int, ...]], way: int) -> None:
    names = ("wall_s", "samples", "tokens", "forward_passes")
    entries = [
        Entry(
            str(n),
            str(n),
            Files(Path()),
            1,
            {"origin": "measured", "lp": str(n), **dict(zip(names, sheet, strict=True))},
            {},
            {},
        )
        for n, sheet in enumerate(sheets)
    ]
    made_of = list(compare_slowdown.WAYS)[way]
    whole, *factors = compare_slowdown.tables(DEMO_STORE, entries, {"made_of": made_of})["main"].to_pylist()
    assert math.prod(row["ratio"] for row in factors) == pytest.approx(whole["ratio"], rel=1e-9)
    assert all(first["end"] == pytest.approx(second["start"]) for first, second in pairwise(factors))


@pytest.mark.parametrize(
    ("sheet", "rest", "note"),
    [
        ({"wall_s": 10.0, "forward_s": 8.0}, 2.0, "the rest includes"),
        ({"wall_s": 10.0, "forward_s": 12.5}, 0.0, "the parts exceed the wall time by 2.50 s"),
        ({"forward_s": 8.0}, None, "the whole time is not known"),
        ({"wall_s": 10.0}, None, "no part of the time was counted"),
    ],
)
def test_the_rest_of_the_time_is_computed(store: Store, sheet: Row, rest: float | None, note: str) -> None:
    write_run(store, "one", [sample_row(0)], **sheet)
    parts = {row["part"]: row["seconds"] for row in rows("compare_time", ["one"], store)}
    assert parts.get("unexplained") == rest and note in ask(store, "compare_time", ["one"]).answer


# --- failures, lengths, molecules, masks, coverage --------------------------------------------------------------------
@pytest.fixture
def two(store: Store) -> Store:
    stereo = [{"check": "stereo", "atoms": [atom], "detail": "mirrored"} for atom in (1, 4)]
    write_run(
        store,
        "one",
        [
            sample_row(0, tokens=10, stop_reason="end", smiles="C"),
            sample_row(1, tokens=33, stop_reason="length", issues=["not closed", "no match"], smiles="CC", **FAILED),
            sample_row(2, tokens=12, stop_reason="end", issues=["no match", "no match"], smiles="CCC", **FAILED),
            sample_row(3, smiles="CCCC", **FAILED),
        ],
    )
    write_run(
        store,
        "two",
        [
            sample_row(0, tokens=20, smiles="C", failed=stereo),
            sample_row(1, tokens=11, issues=["no match"], smiles="CC", **FAILED),
            sample_row(2, tokens=12, smiles="CCC"),
            sample_row(3, tokens=5, smiles="O"),
        ],
    )
    return store


def test_a_sample_with_two_issues_counts_in_both_and_once_in_each(two: Store) -> None:
    failures = rows("compare_failures", ["one", "two"], two)
    counts = {(row["reason"], row["run"]): (row["samples"], row["of"]) for row in failures}
    assert counts == {
        ("rule or check failed", "one"): (3, 4),
        ("rule or check failed", "two"): (2, 4),
        ("no match", "one"): (2, 4),
        ("no match", "two"): (1, 4),
        ("not closed", "one"): (1, 4),
        ("molecule: stereo", "two"): (1, 4),
        ("no reason named", "one"): (1, 4),
    }


def test_the_chart_has_a_cell_of_a_run_in_which_nothing_failed(two: Store) -> None:
    write_run(two, "three", [sample_row(0, smiles="C")])
    cells = rows("compare_failures", ["one", "three"], two, "shown")
    failed = {row["run"]: row["samples"] for row in cells if row["reason"] == "rule or check failed"}
    assert failed == {"one": 3, "three": 0}


def test_lengths_share_their_bins_and_the_limit_is_counted(two: Store) -> None:
    lengths = {(row["run"], row["verdict"]): row for row in rows("compare_lengths", ["one", "two"], two)}
    failed = lengths["one", "failed"]
    assert (failed["samples"], failed["unknown"], failed["mean"], failed["median"]) == (3, 1, 22.5, 22.5)
    assert (failed["stops_known"], failed["at_limit"]) == (2, 1)
    bins = rows("compare_lengths", ["one", "two"], two, "bins")
    assert sum(row["samples"] for row in bins) == 7 and all(row["from"] <= row["below"] for row in bins)
    assert {row["signed"] < 0 for row in bins if row["verdict"] == "failed"} == {True}


def test_a_pair_leads_to_its_samples_and_the_largest_difference_comes_first(two: Store) -> None:
    reply = ask(two, "compare_molecules", ["one", "two"])
    assert [(row["smiles"], row["control"], row["test"], row["pair"]) for row in reply.tables["main"].to_pylist()] == [
        ("CC", 33, 11, "1-1"),
        ("C", 10, 20, "0-0"),
        ("CCC", 12, 12, "2-2"),
    ]
    overall = reply.tables["overall"].to_pylist()[0]
    assert [overall[name] for name in ("pairs", "above", "below", "alone")] == [3, 1, 1, 2]
    (picked,) = rows("compare_molecules", ["one", "two"], two, pair="1-1")
    assert picked["test_sample"] == "run=two&sample=1"


def test_what_is_not_computed_names_its_command(store: Store) -> None:
    write_run(store, "one", [sample_row(0, smiles="CCO", text="[CONFORMER][C]<0.0,0.0,0.0>[/CONFORMER]")])
    with pytest.raises(NeedsWork) as missing:
        ask(store, "compare_coverage", ["one"])
    assert missing.value.commands == (["evaluate", "one"],)


def test_coverage_names_what_it_leaves_out_and_compares_nothing_with_a_control_without_conformers() -> None:
    answered = ask(DEMO_STORE, "compare_coverage", [demo_run("qwen", "group-v4.3"), NONE, REPORTED])
    by_run = {(row["run"], row["missing_rule"]): row for row in answered.tables["main"].to_pylist()}
    assert by_run[NONE, "skip"]["cov_r"] > 0 and "difference" not in by_run[NONE, "skip"]
    notes = answered.tables["notes"]["note"].to_pylist()
    of_cache = [note for note in notes if note.startswith("By atom indices")]  # only where they were never computed
    assert len(notes) - len(of_cache) == 3 and "without samples" in answered.answer


def test_speed_against_usable_with_other_runs_as_background() -> None:
    points = rows("compare_speed", [NONE, EXACT], all_runs=True, passed_too=True)
    chosen = [row for row in points if not row["is_other"]]
    assert [(row["name"], row["figure"]) for row in chosen] == [
        ("none", "usable"),
        ("none", "passed"),
        ("exact", "usable"),
        ("exact", "passed"),
    ]
    assert all(row["low"] <= row["share"] <= row["high"] for row in chosen) and len(points) > len(chosen)


def test_the_largest_part_of_the_time_is_one_that_was_measured() -> None:
    rows = [{"name": "a", "part": part, "share": share} for part, share in (("forward", 0.4), ("unexplained", 0.6))]
    tables = {"main": rows_table(rows), "gaps": rows_table([], ["name", "why"])}
    assert answer_of_time(tables, {}) == "a: forward takes 40.0 %, unexplained 60.0 %."
