"""Questions about runs without texts, and about runs whose answers hold several conformers, next to usual ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.inspection.runs import facts_of
from engine.questions import ask
from engine.questions.compare_matrix import words_of
from engine.questions.question import NeedsTexts
from engine.store.entries import constrained_words
from engine.store.store import Store
from pages._kit.entry_table import RUN_TABLE
from tests.cli import run, run_json
from tests.engine.chem.pickles import conformers
from tests.engine.chem.test_pools import sdf
from tests.engine.inspection.made import sample_row, write_run

ONE: dict[str, Any] = {
    "wall_s": 4.0,
    "tokens": 100,
    "molecules": 1,
    "judged": 2,
    "usable": 2,
    "model_alias": "toy",
    "model_step": "a",
}
THREE = ONE | {"tokens": 300, "conformers": 6, "conformers_per_answer": 3, "clean_conformers": 5}
THREE |= {"judged_conformers": 6, "usable_conformers": 4}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, str]:
    """Two answers of one molecule each: by ``one``, by ``three`` with three conformers in each, and a pool."""
    folder = tmp_path_factory.mktemp("pools")
    place = str(folder / "store")
    records = [("", "CCO", mol) for mol in conformers("CCO", 2)]
    (row,) = run_json("import", str(sdf(folder / "pool.sdf", records)), "--label", "ETKDG", "--store", place)
    store = Store.open(place)
    about = {"smiles": "CCO", "decode_s": 2.0, "stereo_right": None, "geometry_right": True, "usable": True}
    write_run(store, "one", [sample_row(n, generation=n, tokens=50, **about) for n in range(2)], lp="none", **ONE)
    each = {"conformers": 3, "clean_each": [True] * 3, "differ_least_ang": 0.25, "differ_mean_ang": 0.5}
    write_run(store, "three", [sample_row(n, generation=n, tokens=150, **about, **each) for n in range(2)], **THREE)
    return store, row["run_id"]


def test_a_pool_next_to_texts_is_left_out_of_questions_about_texts_and_named(home: tuple[Store, str]) -> None:
    store, pool = home
    for ids in (["one", pool], [pool, "one"]):
        answered = ask(store, "compare_lengths", ids)
        assert answered.answer.endswith("\n\nLeft out, without texts: ETKDG · imported.")
        assert {row["run"] for row in answered.tables["main"].to_pylist()} == {"one"}
    assert "Left out" not in ask(store, "compare_lengths", ["one"]).answer
    with pytest.raises(NeedsTexts, match=f"{pool} has conformers alone"):
        ask(store, "compare_lengths", [pool])


def test_a_pool_says_nothing_of_an_lp(home: tuple[Store, str]) -> None:
    store, pool = home
    entry = store.entry(pool)
    assert (constrained_words(entry), facts_of(entry).constrained) == (None, "")  # the bug: not checked
    (column,) = (column for column in RUN_TABLE.columns if column.name == "constrained")
    assert column.value(entry) is None


def test_the_time_of_a_test_is_known_also_where_the_control_is_a_pool(home: tuple[Store, str]) -> None:
    store, pool = home
    lead, about = ask(store, "compare_speed", [pool, "one"]).answer.split("\n\n")
    assert lead.splitlines() == [
        "ETKDG · imported: time unknown, usable rate unknown.",
        "none: 2.00 s per sample, 100 % usable.",
    ]
    assert "ETKDG · imported: conformers of another program" in about
    made_of = ask(store, "compare_slowdown", [pool, "one"]).answer
    assert "none:" not in made_of and "ETKDG · imported: conformers of another program" in made_of
    assert "Pace is wall time" not in ask(store, "compare_figures", ["one", pool]).answer


def test_what_is_known_of_both_is_named_where_the_chosen_measure_is_not(home: tuple[Store, str]) -> None:
    store, pool = home
    answer = ask(store, "compare_molecules", ["one", pool]).answer
    assert answer.startswith("Tokens is never known on both sides of 2 pairs of answers. Known on both sides: ")
    assert "geometry right" in answer.splitlines()[0] and "clean" not in answer.splitlines()[0]
    named = ask(store, "compare_molecules", ["one", pool], {"points_by": "geometry right"})
    assert len(named.tables["main"]) == 2


def test_a_pool_has_no_pass_rate_that_could_be_too_narrow(home: tuple[Store, str]) -> None:
    store, pool = home
    assert "pass rate" not in ask(store, "compare_figures", [pool]).answer
    assert "none: several answers per molecule" in ask(store, "compare_figures", [pool, "one"]).answer


@pytest.mark.parametrize("key", ["compare_figures", "compare_speed", "compare_slowdown", "compare_molecules"])
def test_answers_of_another_number_of_conformers_are_not_compared_unmarked(home: tuple[Store, str], key: str) -> None:
    store, _ = home
    words = "Conformers per answer differ: 1 (none) and 3 (exact)."
    assert words in ask(store, key, ["one", "three"]).answer
    assert "Conformers per answer" not in ask(store, key, ["three"]).answer


def test_a_cell_of_the_matrix_says_how_many_conformers_where_runs_of_its_model_differ(home: tuple[Store, str]) -> None:
    rows = ask(home[0], "compare_matrix", ["one", "three"]).tables["main"].to_pylist()
    assert [(row["lp"], row["conformers"]) for row in rows] == [("none", 1), ("exact", 3)]
    assert [words["seconds"].rpartition(" · ")[2] for words in words_of(rows)] == ["1 conformer", "3 conformers"]
    assert not any("conformer" in words["seconds"] for row in rows for words in words_of([row]))


def test_figures_of_conformers_are_shown_where_an_answer_has_several(home: tuple[Store, str]) -> None:
    store, _ = home
    answered = ask(store, "compare_figures", ["one", "three"])
    shown = {row["figure"]: row["exact"] for row in answered.tables["side by side"].to_pylist()}
    assert (shown["conformers"], shown["usable, of conformers (%)"]) == ("6", "66.7")
    assert (shown["least RMSD between conformers (Å)"], shown["RMSD between conformers (Å)"]) == ("0.250", "0.500")
    (row,) = [row for row in answered.tables["set-up"].to_pylist() if row["set-up"] == "conformers per answer"]
    assert (row["none"], row["exact"]) == ("1", "3")
    alone = ask(store, "compare_figures", ["one"]).tables["side by side"]["figure"].to_pylist()
    assert not any("of conformers" in figure for figure in alone)


def test_several_conformers_are_another_setting_for_the_advice(home: tuple[Store, str]) -> None:
    store, _ = home
    answer = ask(store, "compare_advice", ["toy:a"]).answer
    assert "1 run of another setting: conformers per answer" in answer


def test_what_an_lp_costs_is_not_asked_of_a_pool(home: tuple[Store, str]) -> None:
    store, pool = home
    for words in ([], ["--kept"]):
        error = run("cost-of-lp", pool, *words, "--store", str(store.home.where)).error
        assert error.endswith("has conformers alone. Choose another run")
    said = run("cost-of-lp", "one", "--kept", "--store", str(store.home.where)).out
    assert "no steps say with which probability tokens were drawn" in said


def test_coverage_counts_conformers_and_answers_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers of three conformers, one of which is of another molecule; and what *spoils* means, next to it."""
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    place, store = str(tmp_path / "store"), Store.open(str(tmp_path / "store"))
    atoms = "[C]<0.0,0.0,0.0>[C]<1.5,0.0,0.0>[O]<2.0,1.3,0.0>"
    other = atoms.replace("[O]", "[N]")
    texts = [
        "".join(f"[CONFORMER]{text}[/CONFORMER]" for text in each) for each in ((atoms,) * 3, (atoms, atoms, other))
    ]
    rows = [sample_row(n, generation=n, smiles="CCO", text=text, conformers=3) for n, text in enumerate(texts)]
    write_run(store, "three", rows, conformers=6)
    document = run_json("evaluate", "three", "--per-molecule", "1", "--workers", "1", "--store", place)
    assert (document["samples"], document["conformers"], document["asked"]) == (5, 6, 2)
    run("evaluate", "three", "--workers", "1", "--store", place)
    answer = ask(store, "compare_coverage", ["three"]).answer
    assert "exact: 5 of 6 conformers (2 samples) against " in answer
    assert "spoils = without an RMSD" in answer
    assert "spoils = without an RMSD" in run("evaluate", "three", "--workers", "1", "--store", place).out
