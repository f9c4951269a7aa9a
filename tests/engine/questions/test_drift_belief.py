"""What a model believes of numbers, kept and asked: figures of cells, coverage of drawn laws, decimals to spare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.decode.number_laws import BlockLaws
from engine.errors import ModelError
from engine.figures.laws import Array, NumberLaw
from engine.inspection import kept_tables, resolution
from engine.inspection.number_beliefs import NOT_ASKED, RIGHT, WRONG, belief_cells
from engine.inspection.resolution import places_of, truncated
from engine.inspection.sample import inspect_sample
from engine.jobs.number_beliefs import _drawn, cover, reference_text, references, request_of
from engine.jobs.scoring import generation_with
from engine.lp.numbers import AXES
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.questions import ask, question_of
from engine.questions.drift_belief import number_row
from engine.questions.drift_coverage import coverage_rows, widths
from engine.questions.question import NeedsWork
from engine.records import FIXED4, BinFormat, NumberFormat
from engine.store.store import Store
from pages._drift.scoring import belief_tables_of
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.questions.declared import assert_as_declared

EXACT = demo_run("qwen", "exact")
SAMPLE = f"{EXACT}/3"
MODEL = "demo-qwen:final"
WIDTH = 0.01


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept_tables, "cache_folder", lambda: tmp_path)
    return tmp_path


def bell(mean: float, spread: float) -> NumberLaw:
    """A normal law in cells."""
    first, last = (round((mean + side * spread) / WIDTH) for side in (-6, 6))
    low = np.arange(first, last, dtype=np.float64) * np.float64(WIDTH)
    p = np.exp(-(((low + WIDTH / 2 - mean) / spread) ** 2) / 2)
    return NumberLaw(low, low + np.float64(WIDTH), p / p.sum())


def covered(wider: float, molecules: int = 60) -> dict[str, Any]:
    """Numbers of molecules that are drawn from laws of their own; asked of laws of ``wider`` times the spread."""
    draws, rows = np.random.default_rng(5), []
    for molecule in range(molecules):
        for axis in AXES * 8:
            mean, spread = draws.uniform(-4, 4), draws.uniform(0.1, 0.6)
            law, value = bell(mean, wider * spread), draws.normal(mean, spread)
            rows.append({"molecule": molecule, "axis": axis, "level": law.below(value), "reach": law.reach(value)})
    return dict(coverage_rows(pa.Table.from_pylist(rows))[0])


def test_a_model_that_draws_from_its_own_laws_is_covered_and_half_the_spread_is_too_narrow_by_2() -> None:
    own, half, double = covered(1.0), covered(0.5), covered(2.0)
    assert own["numbers"] == 1_440 and own["width"] == ""
    assert own["in_90_low"] < 0.9 < own["in_90_high"] and own["in_50_low"] < 0.5 < own["in_50_high"]
    assert own["factor"] == pytest.approx(1, abs=0.06)
    assert half["in_90"] == pytest.approx(0.589, abs=0.04) and half["factor"] == pytest.approx(2, abs=0.12)
    assert half["width"] == f"too narrow by {half['factor']:.1f}"
    few = covered(0.75, molecules=3)
    assert few["in_90"] < 0.85 < few["in_90_high"] and few["width"] == "", "three molecules do not tell it"
    assert double["in_90"] > 0.99 and double["width"] == f"too wide by {1 / double['factor']:.1f}"


def test_a_sample_is_asked_once_and_its_rows_are_figures_of_the_cells(cache: Path) -> None:
    with pytest.raises(NeedsWork) as missing:
        ask(DEMO_STORE, "drift_belief", [SAMPLE])
    assert missing.value.commands == (["belief", SAMPLE, "--cell=0.01"],)
    rows = run_json("belief", SAMPLE)
    answered = ask(DEMO_STORE, "drift_belief", [SAMPLE])
    assert_as_declared(question_of("drift_belief"), answered)
    assert answered.tables["main"].to_pylist() == rows
    seen = inspect_sample(DEMO_STORE, EXACT, 3)
    assert [row["written"] for row in rows] == [block[axis] for block in seen.blocks for axis in "xyz"]
    cells = answered.tables["cells"].to_pylist()
    for row in rows:
        own = [cell for cell in cells if (cell["block"], cell["axis"]) == (row["block"], row["axis"])]
        p = np.array([cell["p"] for cell in own])
        middle = np.array([(cell["cell_low"] + cell["cell_high"]) / 2 for cell in own])
        assert p.sum() + row["rest"] == pytest.approx(1, abs=1e-6)
        assert row["mean"] == pytest.approx((p @ middle) / p.sum())
        assert row["spread"] ** 2 == pytest.approx(p @ (middle - row["mean"]) ** 2 / p.sum() + WIDTH**2 / 12)
        struck = sum(cell["p"] for cell in own if cell["right"] == WRONG) / p.sum()
        assert row["struck"] is None or row["struck"] == pytest.approx(struck)
    assert any(row["struck"] for row in rows) and all(row["struck"] is None for row in rows[:3])
    assert [row["written"] < row["low"] and row["is_inside"] for row in rows[:3]] == [True] * 3, "the frame's zeros"
    said = run("ask", "drift_belief", SAMPLE).out
    assert said.startswith("demo-qwen:final is least certain of ")
    assert f"{sum(row['is_inside'] for row in rows)} of {len(rows)} numbers lie in" in said
    assert f"not measured here: `belief {MODEL}`" in said
    finer = [row["struck"] for row in run_json("belief", SAMPLE, "--cell", "0.001")]
    assert finer == [row["struck"] and pytest.approx(row["struck"], abs=0.05) for row in rows], "by cells of any width"


@pytest.mark.parametrize(
    ("written", "low", "is_inside", "mode"),
    [
        (0.0, 0.0, True, "0.00"),
        (0.1, 0.1, True, "0.10"),
        (0.1099, 0.1, True, "0.10"),
        (0.11, 0.1, False, "0.10"),
        (-0.1, -0.11, True, "−0.10"),
        (-0.11, -0.11, False, "−0.10"),
        (0.2, 0.1, False, "0.10"),
    ],
)
def test_a_number_is_where_its_cell_is_and_a_mode_as_it_is_written(
    written: float, low: float, is_inside: bool, mode: str
) -> None:
    cell = {"block": 0, "axis": "x", "written": written, "rest": 0.0, "p": 1.0, "right": NOT_ASKED}
    row = number_row([{**cell, "cell_low": low, "cell_high": low + WIDTH}], ["C"], {}, is_bins=False)
    assert (row["is_inside"], row["modes"]) == (is_inside, f"{mode} (100 %)")


def test_a_text_without_a_law_is_said() -> None:
    without = f"{demo_run('qwen', 'group-v4.3')}/18"
    assert run("belief", without).out.startswith("No number of this text has a law: demo-qwen:final under exact")


ANSWERED = [entry.id for entry in DEMO_STORE.listing().entries if "samples" in entry.parts]


@pytest.mark.parametrize("run_id", ANSWERED)
def test_drift_asks_of_each_run_whatever_lp_it_has(run_id: str) -> None:
    (first,) = DEMO_STORE.rows("SELECT min(sample_id) AS id FROM samples WHERE run_id = $run", {"run": run_id})
    seen = inspect_sample(DEMO_STORE, run_id, first["id"])
    assert belief_tables_of(seen) is None, "the cache is empty"
    if "-grammar-" in run_id:
        assert request_of(seen).question.plan.lp == "exact"
        with pytest.raises(NeedsWork):
            ask(DEMO_STORE, "drift_belief", [f"{run_id}/3"])


def right_of(law: NumberLaw, form: NumberFormat) -> list[int]:
    """What is said of each cell of x of ethane's second carbon, given y and z on the axis."""
    at_zero = NumberLaw(np.array([0.0]), np.array([0.1]), np.array([1.0]))
    blocks = [
        BlockLaws(0, (0.0, 0.0, 0.0), (at_zero, at_zero, at_zero)),
        BlockLaws(1, (1.5, 0.0, 0.0), (law, at_zero, at_zero)),
    ]
    rows = belief_cells(parse_smiles("CC"), blocks, form).to_pylist()
    assert {row["right"] for row in rows if row["block"] == 0} == {NOT_ASKED}
    return [row["right"] for row in rows if (row["block"], row["axis"]) == (1, "x")]


def test_only_a_bonds_length_away_is_right() -> None:
    low = np.arange(0, 30) / 10
    right = right_of(NumberLaw(low, low + 0.1, np.full(30, 1 / 30)), FIXED4)
    assert set(right[:14]) == {RIGHT} and set(right[17:]) == {WRONG}, "x alone: nearer is right with y and z"


def test_of_a_lost_atom_all_is_struck() -> None:
    low = np.arange(1000, 1030) / 10
    assert set(right_of(NumberLaw(low, low + 0.1, np.full(30, 1 / 30)), FIXED4)) == {WRONG}


def test_of_a_bin_the_middle_is_asked() -> None:
    """From 1.2 to 6.2 there is a right place; at 3.7 there is none, and of 1.0 to 2.0 the middle is right."""
    low, high = np.array([1.0, 1.2]), np.array([2.0, 6.2])
    law = NumberLaw(low, high, np.array([0.5, 0.5]))
    assert right_of(law, FIXED4) == [RIGHT, RIGHT] and right_of(law, BinFormat.equal(-7, 7, 1)) == [RIGHT, WRONG]


def test_what_changes_a_law_is_in_the_key_of_what_is_kept_and_a_damaged_file_is_not_taken(cache: Path) -> None:
    request = request_of(inspect_sample(DEMO_STORE, EXACT, 3))
    run_json("belief", SAMPLE)
    assert request.kept.read() is not None
    plan = request.question.plan
    plans = (replace(plan, form=NumberFormat(4, 4, 3)), replace(plan, bos=not plan.bos), replace(plan, conformers=2))
    others = [replace(request, question=replace(request.question, plan=other)) for other in plans]
    others.append(replace(request, entry=replace(request.entry, sha256="0" * 64)))
    assert [other.kept.read() for other in others] == [None] * 4
    (file,) = cache.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    assert request.kept.read() is None


def test_a_model_of_another_tokenizer_or_a_short_context_is_one_error() -> None:
    request = request_of(inspect_sample(DEMO_STORE, EXACT, 3))
    question = request.question
    with pytest.raises(ModelError, match="written with the tokenizer llama3"):
        generation_with(replace(question, tokenizer="llama3"), load_model(request.entry, "cpu"))
    long = replace(request, question=replace(question, token_ids=list(question.token_ids) * 40))
    with pytest.raises(ModelError, match="longer than the model's context"):
        long.compute(generation_with(question, load_model(request.entry, "cpu")))


def test_a_run_of_one_decimal_has_none_to_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolution, "number_format_of", lambda entry: NumberFormat(1, 1, 3))
    for command in (["resolution", EXACT], ["ask", "drift_resolution", EXACT]):
        assert "one decimal" in run(*command).error


def texts_of(first: int, last: int) -> list[tuple[str, str | Array]]:
    """References as demo-qwen writes them."""
    form = load_registry().find(MODEL).numbers
    return [(smiles, reference_text(parse_smiles(smiles), of, form)) for smiles, of in references()[first:last]]


def test_references_are_covered_by_the_demo_model_and_kept(tmp_path: Path) -> None:
    with pytest.raises(NeedsWork) as missing:
        ask(DEMO_STORE, "drift_coverage", [MODEL])
    assert missing.value.commands == (["belief", MODEL],)
    loaded = load_model(load_registry().find(MODEL), "cpu", "float32")
    levels = cover(loaded, references()[:3], "three").to_pylist()
    answered = ask(Store.open(tmp_path / "empty"), "drift_coverage", [MODEL])
    assert answered.answer == ask(DEMO_STORE, "drift_coverage", [EXACT]).answer, "by the model of a run, or by name"
    assert_as_declared(question_of("drift_coverage"), answered)
    assert answered.tables["main"].to_pylist() == coverage_rows(pa.Table.from_pylist(levels))
    assert answered.answer.endswith("3 texts: three.")
    assert len(levels) == sum(np.count_nonzero(places) for _, places in references()[:3]), "the frame's zeros are out"
    assert np.mean([abs(row["level"] - 0.5) <= 0.45 for row in levels]) > 0.7
    of_texts = cover(loaded, texts_of(0, 3), "three.txt").to_pylist()
    assert len(of_texts) == len(levels), "a number is drawn from its last decimal"
    np.testing.assert_allclose([r["reach"] for r in of_texts], [r["reach"] for r in levels], atol=0.05)


def test_of_bins_a_number_is_drawn_from_its_bin_though_the_top_one_has_no_upper_end() -> None:
    form = BinFormat.equal(-2, 2, 0.1)
    true = _drawn([(form.value_ang("040") or 0.0, -2.0, 0.0)], form, np.random.default_rng(1))
    assert 1.9 <= true[0, 0] <= 2.0 and -2.0 <= true[0, 1] <= -1.9 and abs(true[0, 2]) <= 0.1


def test_texts_without_a_law_are_one_error_and_answers_follow_the_command_that_is_run_again(tmp_path: Path) -> None:
    loaded = load_model(load_registry().find(MODEL), "cpu", "float32")
    run_json("belief", SAMPLE)
    expected, widths_of = [], []
    for first, name in ((0, "first.txt"), (5, "second.txt")):
        expected.append(widths(cover(loaded, texts_of(first, first + 3), name)))
        assert ask(DEMO_STORE, "drift_coverage", [MODEL]).answer.endswith(f"3 texts: {name}.")
        rows = ask(DEMO_STORE, "drift_belief", [SAMPLE]).tables["main"].to_pylist()
        widths_of.append({row["axis"]: row["width"] for row in rows})
    assert widths_of == [{axis: of.get(axis, "") for axis in "xyz"} for of in expected]
    file = tmp_path / "a.txt"
    file.write_text("[SMILES]CCO[/SMILES][CONFORMER][C]<0.0,0.0,0.0>[C]<nan,0.0,0.0>[O]<0.0,0.0,0.0>[/CONFORMER]")
    assert "not measured" not in ask(DEMO_STORE, "drift_belief", [SAMPLE]).answer
    assert "a.txt: demo-qwen:final has no law" in run("belief", MODEL, "--texts", str(file)).error
    assert ask(DEMO_STORE, "drift_coverage", [MODEL]).answer.endswith("3 texts: second.txt.")


def test_a_block_that_exact_would_not_write_lends_no_number_to_another() -> None:
    """`0.0,0.0,0.0001,1.410` closes with four numbers: block 0 had the numbers of block 1."""
    run_id = next(entry.id for entry in DEMO_STORE.listing().entries if "demo-qwen-final-group-v2.1-d469c1" in entry.id)
    for sample in (2, 5):
        rows = run_json("belief", of := f"{run_id}/{sample}")
        blocks = inspect_sample(DEMO_STORE, run_id, sample).blocks
        assert [row["written"] for row in rows] == [blocks[row["block"]][row["axis"]] for row in rows]
    assert len(rows) == 12
    without = 3 * len(blocks) - len(rows)
    assert f"{without} numbers of blocks that exact would not" in ask(DEMO_STORE, "drift_belief", [of]).answer


@pytest.mark.parametrize(
    ("text", "decimals", "expected"),
    [("[C]<0.1999,-0.04,2.0>", 1, "[C]<0.1,0.0,2.0>"), ("[C]<-1.2399,12.5,0.0>", 2, "[C]<-1.23,12.5,0.0>")],
)
def test_numbers_are_truncated_as_their_writer_does(text: str, decimals: int, expected: str) -> None:
    assert truncated(text, decimals) == expected


def test_decimals_that_are_free_by_the_verdict_on_each_text() -> None:
    with pytest.raises(NeedsWork) as missing:
        ask(DEMO_STORE, "drift_resolution", [EXACT])
    assert missing.value.commands == (["resolution", EXACT],)
    rows = run_json("resolution", EXACT, "--workers", "1")
    assert_as_declared(question_of("drift_resolution"), ask(DEMO_STORE, "drift_resolution", [EXACT]))
    sql = "SELECT smiles, text FROM samples WHERE run_id = $run AND usable"
    usable = DEMO_STORE.rows(sql, {"run": EXACT})
    assert rows[0] | {"usable": len(usable), "lost": 0} == rows[0] and len(usable) > 20
    right = moved = 0.0
    for sample in usable:
        text = sample["text"].removeprefix("[CONFORMER]").partition("[/CONFORMER]")[0]
        cut = truncated(text, 1)
        right += judge_answer(cut, parse_smiles(sample["smiles"]).mol).is_right
        off = places_of(text) - places_of(cut)
        assert 0 <= np.abs(off).max() < 0.1
        moved += np.sqrt((off**2).sum(axis=1).mean())
    assert rows[-1]["decimals"] == "1" and rows[-1]["usable"] == right and rows[-1]["lost"] == len(usable) - right
    assert rows[-1]["rmsd_ang"] == pytest.approx(moved / len(usable))
    assert [row["lost"] for row in rows] == sorted(row["lost"] for row in rows)
