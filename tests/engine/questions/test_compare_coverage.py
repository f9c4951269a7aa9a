"""A pool of conformers next to published figures: by which convention, and why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from engine.questions import KEYS, ask, options_of, question_of
from engine.store.store import Store
from tests.cli import run, run_json
from tests.engine.chem.pickles import conformers, embedded, references, write
from tests.engine.chem.test_pools import sdf
from tests.engine.comparing.test_published import AGREES, DIFFUSION, MISMATCHES
from tests.engine.inspection.made import sample_row, write_run

MOLECULES = (("CCCCCO", 2), ("CC(C)CO", 2))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A store with a pool, 2K conformers for K references of each molecule, and the run's id."""
    folder = tmp_path_factory.mktemp("coverage")
    home = str(folder / "store")
    records = [("", smiles, mol) for smiles, count in MOLECULES for mol in conformers(smiles, 2 * count, 5)]
    (row,) = run_json("import", str(sdf(folder / "pool.sdf", records)), "--label", "ETKDG", "--store", home)
    path = write(folder / "references.pickle", references(MOLECULES))
    for label in ("geom-drugs-test", "mine"):
        run_json("references", "add", str(path), "--label", label, "--store", home)
    return home, row["run_id"]


@pytest.mark.parametrize("key", [key for key in KEYS if question_of(key).OF.kind in ("run", "sample")])
def test_every_question_has_an_answer_or_one_line_for_a_pool(home: tuple[str, str], key: str) -> None:
    """Also next to a language model's run. It was an unforeseen error where no sample has a text."""
    store = Store.open(home[0])
    if not store.has("texts"):
        write_run(store, "texts", [sample_row(0, smiles="CCO", text="[CONFORMER][C]<0.0,0.0,0.0>", generation=0)])
    for ids in ([home[1]], ["texts", home[1]], [home[1], "texts"], [f"{home[1]}/0"]):
        result = run("ask", key, *ids, "--store", home[0])
        assert result.code == 0 or result.error


def test_a_pool_stands_next_to_a_run_with_texts(home: tuple[str, str]) -> None:
    """What needs tokens is null, not 0."""
    store = Store.open(home[0])
    answered = ask(store, "compare_figures", [home[1]])
    assert answered.answer.startswith("ETKDG · imported: 100 % geometry right.")
    (row,) = run_json("show", home[1], "--store", home[0])
    named = ("pass_rate", "clean_rate", "tokens_a_sample", "wall_s", "junk_letters_share", "cut_share", "usable_rate")
    assert [row.get(name) for name in named] == [None] * len(named)
    assert row["geometry_right_rate"] == 1.0
    error = run("ask", "drift_histogram", home[1], "--store", home[0]).error
    assert error.endswith("has conformers alone. Choose another run")


@pytest.fixture(scope="module")
def evaluated(home: tuple[str, str]) -> Any:
    words = ("--references", "geom-drugs-test", "--atom-indices", "--workers", "1", "--store", home[0])
    return run_json("evaluate", home[1], *words)


def by_rdkit(smiles: str, count: int, *, symmetric: bool) -> Any:
    """[references, conformers]"""
    refs, mols = (Chem.RemoveHs(embedded(smiles, number, seed)) for number, seed in ((count, 7), (2 * count, 5)))
    align = rdMolAlign.GetBestRMS if symmetric else rdMolAlign.AlignMol
    return np.array([[align(Chem.Mol(mols), refs, b, a) for b in range(2 * count)] for a in range(count)])


@pytest.mark.parametrize(("name", "symmetric"), [("ditmc", True), ("ditmc-alignmol", False)])
def test_with_and_without_a_permutation_of_atoms(evaluated: Any, name: str, symmetric: bool) -> None:
    row = {row["convention"]: row for row in evaluated["conventions"]}[name]
    matrices = [by_rdkit(*molecule, symmetric=symmetric) for molecule in MOLECULES]
    assert row["cov_r"] == pytest.approx(np.mean([(m.min(1) < 0.75).mean() for m in matrices]))
    assert row["mat_r_ang"] == pytest.approx(np.mean([m.min(1).mean() for m in matrices]), abs=2e-4)
    assert row["mat_p_ang"] == pytest.approx(np.mean([m.min(0).mean() for m in matrices]), abs=2e-4)
    assert evaluated["fallbacks"] == {"symmetry_budget": 0, "without_rmsd": 0, "atom_indices": 0}


def test_published_figures_stand_where_all_agrees_and_else_say_why(home: tuple[str, str], evaluated: Any) -> None:
    shown = {row["name"]: row["differs"] for row in evaluated["published"]}
    assert [name for name, differs in shown.items() if not differs] == ["Torsional Diffusion", "ET-Flow", "DiTMC-L"]
    assert shown["3DMolGen, 2 epochs, no LP"] == "samples in all: 8, not 197,694"
    store = Store.open(home[0])
    answered = ask(store, "compare_coverage", [home[1]], {"evaluation_references": "geom-drugs-test"})
    rows = answered.tables["conventions"].to_pylist()
    places = {row["name"]: index for index, row in enumerate(rows)}
    assert rows[places["DiTMC-L"]]["cov_r"] == 0.792
    assert [rows[places[name] - 1]["convention"] for name in ("DiTMC-L", "ET-Flow", "Torsional Diffusion")] == [
        "ditmc", "etflow", "torsional-diffusion",
    ]  # fmt: skip
    assert "MCF-L (convention: its source does not say how it counts)" in answered.answer
    at_another = {"evaluation_references": "geom-drugs-test", "evaluation_threshold": "1.25 Å"}
    answered = ask(store, "compare_coverage", [home[1]], at_another)
    assert len(answered.tables["conventions"]) == len(rows) - 3 and "threshold: 1.25 Å, not 0.75 Å" in answered.answer


@pytest.mark.parametrize(("setting", "published", "names"), [({}, {}, ""), *MISMATCHES])
def test_of_twelve_mismatches_twelve_are_refused_by_name_and_draw_nothing(
    home: tuple[str, str], evaluated: Any, monkeypatch: pytest.MonkeyPatch, setting: Any, published: Any, names: str
) -> None:
    """And what agrees is drawn."""
    figure = msgspec.structs.replace(DIFFUSION, **published)
    monkeypatch.setattr("engine.comparing.published.load_published", lambda: (figure,))
    monkeypatch.setattr("engine.comparing.evaluation.Evaluation.setting", lambda _: replace(AGREES, **setting))
    store, question = Store.open(home[0]), question_of("compare_coverage")
    entries = [store.entry(home[1])]
    options = options_of(question, store, entries, {"evaluation_references": "geom-drugs-test"})
    tables = question.tables(store, entries, options)
    drawn = [row for row in tables["conventions"].to_pylist() if row["name"] == figure.name]
    (row,) = tables["published"].to_pylist()
    assert row["differs"].startswith(names) and bool(drawn) == (not names) == (not row["differs"])
    assert not names or f"published figures ({row['differs']})." in question.answer(tables, options)


def test_a_set_of_another_name_draws_nothing(home: tuple[str, str]) -> None:
    assert run("evaluate", home[1], "--references", "mine", "--workers", "1", "--store", home[0]).code == 0
    answered = ask(Store.open(home[0]), "compare_coverage", [home[1]], {"evaluation_references": "mine"})
    assert {row["name"] for row in answered.tables["conventions"].to_pylist()} == {"ETKDG · imported"}
    assert "none of 8 published figures (references: mine, not GEOM-Drugs)" in answered.answer
