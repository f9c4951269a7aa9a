"""The figures of ``right_molecules``, on a few small molecules: who judges, what repairs, and what the tables count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.frame import add_conformer
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.models.loading import load_model
from engine.models.registry import load_registry
from tools.bench import _methods, right_molecules
from tools.bench._beside import replayed
from tools.bench._methods import LPS, REBUILT
from tools.bench._verdicts import STEREO, embedded_near, judge, minimised
from tools.bench.sizes import TOY

ISOMERS = (("C[C@@H](O)[C@H](N)C(=O)O", "C[C@H](O)[C@H](N)C(=O)O"), ("CC/C=C/CO", "CC/C=C\\CO"))
FEW = ["C[C@H](N)C=O", "N#CC=O"]


def of_another_isomer(smiles: str, other: str) -> tuple[Chem.Mol, Chem.Mol]:
    """The molecule, and it with coordinates of another isomer."""
    expected, embedded = parse_smiles(smiles).mol, reference_conformers(parse_smiles(other), 1)
    order = embedded.GetSubstructMatch(expected, useChirality=False)
    wrong = Chem.Mol(expected)
    add_conformer(wrong, embedded.GetConformer().GetPositions()[list(order)])
    return expected, wrong


@pytest.mark.parametrize(("smiles", "other"), ISOMERS)
def test_the_hand_and_the_side_count_and_distance_geometry_alone_mends_them(smiles: str, other: str) -> None:
    expected, wrong = of_another_isomer(smiles, other)
    right = reference_conformers(parse_smiles(smiles), 1)
    verdicts = [judge(mol, expected) for mol in (right, wrong, minimised(wrong, expected))]
    assert [verdict.failed for verdict in verdicts] == [(), (STEREO,), (STEREO,)]
    assert [verdict.sites - verdict.sites_right for verdict in verdicts] == [0, 1, 1]
    assert [verdict.usable for verdict in verdicts] == [True, False, False]
    assert (verdicts[2].moved_ang or 0.0) < 0.01 < (verdicts[1].moved_ang or 0.0)
    assert judge(embedded_near(wrong, expected), expected).usable


def test_what_is_not_there_or_pressed_is_not_usable() -> None:
    molecule = parse_smiles(FEW[0])
    assert judge(None, molecule.mol).sites == 1 and not judge(None, molecule.mol).stereo_right
    pressed = reference_conformers(molecule, 1)
    pressed.GetConformer().SetPositions(0.6 * pressed.GetConformer().GetPositions())
    assert "bond_lengths" in judge(pressed, molecule.mol).failed


def test_distance_geometry_keeps_what_was_right() -> None:
    molecule = parse_smiles("CCCCC(=O)NCCCO")
    mol = reference_conformers(molecule, 1, seed=5)
    rebuilt = embedded_near(mol, molecule.mol)
    assert rebuilt is not None
    far = Chem.GetDistanceMatrix(mol) >= 3
    before, after = (Chem.Get3DDistanceMatrix(each)[far] for each in (mol, rebuilt))
    another = Chem.Get3DDistanceMatrix(reference_conformers(molecule, 1, seed=6))[far]
    assert np.abs(after - before).max() < 0.5 < np.abs(another - before).max()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[list[str]]]:
    """What is printed by title. Not by ``capsys``: PoseBusters logs to the stream of the test before."""
    (tmp_path / "drugs.tsv").write_text(f"name\tsmiles\none\t{FEW[0]}\n", "utf-8")
    monkeypatch.setattr(right_molecules, "DRUGS", tmp_path / "drugs.tsv")
    monkeypatch.setattr(right_molecules, "load_run_set", lambda limit: FEW[:limit])
    monkeypatch.setattr(right_molecules, "pin", lambda threads: None)
    monkeypatch.setattr(_methods, "MOST_TRIES", 2)
    printed: dict[str, list[list[str]]] = {}

    def show(title: str, head: str, rows: Any) -> None:
        printed[title] = [head.split("|"), *map(list, rows)]

    monkeypatch.setattr(right_molecules, "show", show)
    return printed


def asked(tmp_path: Path, *words: str) -> Any:
    right_molecules.main(["--model", "demo-qwen", "--out", str(tmp_path / "figures.json"), *words])
    return json.loads((tmp_path / "figures.json").read_text("utf-8"))["demo-qwen:final"]


def test_the_table_has_every_method_and_its_cost(tmp_path: Path, tables: dict[str, list[list[str]]]) -> None:
    figures = asked(tmp_path, "--repeats", "1")
    by_name = {method["name"]: method for method in figures["methods"]}
    exact, again = by_name["exact"], by_name["exact again until usable, 2 times at most"]
    embedded = figures["methods"][-1]
    assert [len(method["verdicts"]) for method in figures["methods"]] == [2] * 8
    assert exact["thrown"] == embedded["tokens"] == 0 < exact["passes"] and again["tokens"] > 0
    assert {verdict["failed"] == [] for verdict in embedded["verdicts"]} == {True}
    repaired = by_name[REBUILT]
    assert (repaired["tokens"], repaired["passes"]) == (exact["tokens"], exact["passes"])
    assert repaired["seconds"] > exact["seconds"]
    assert {lp: len(rounds) for lp, rounds in figures["timings"].items()} == dict.fromkeys(LPS, 1)

    right, cost, pairs = tables.values()
    assert [[row[0] for row in table[1:]] for table in (right, cost)] == [list(by_name)] * 2
    assert {len(row) for row in (*right, *cost, *pairs)} == {8, 11, 3}
    usable = [sum(not verdict["failed"] for verdict in method["verdicts"]) for method in by_name.values()]
    assert [float(row[1].split()[0]) for row in right[1:]] == [50.0 * count for count in usable]
    taken = [by_name[lp]["tokens"] + by_name[lp]["thrown"] for lp in ("shaped", "exact")]
    assert [float(row[2]) for row in pairs if row[0].startswith("tokens")] == [round(taken[0] / taken[1], 3)]
    assert all("2.4 M weights" in title for title in tables)
    weights = {name: method["log_weight"] for name, method in by_name.items()}
    assert any(weight is not None for weight in weights["shaped"]) and set(weights["guarded"]) == {None}


def test_a_drug_is_asked_several_times_under_each_lp(tmp_path: Path, tables: dict[str, list[list[str]]]) -> None:
    figures = asked(tmp_path, "--drugs", "--answers", "2")
    assert {way: [len(answers) for answers in figures[way]] for way in figures} == {way: [2] for way in (REBUILT, *LPS)}
    usable = [sum(not verdict["failed"] for verdict in figures[way][0]) for way in (*LPS, REBUILT)]
    (_, *rows), *_ = tables.values()
    assert [row[3:7] for row in rows] == [[f"{count} of 2" for count in usable]] * 2
    assert usable[-1] == 2 and [row[0] for row in rows] == ["one", "all"]


def test_the_drugs_are_larger_than_what_the_models_learnt() -> None:
    names, smiles = zip(
        *(line.split("\t") for line in right_molecules.DRUGS.read_text("utf-8").splitlines()[1:]), strict=True
    )
    molecules = [parse_smiles(text) for text in smiles]
    assert [molecule.smiles for molecule in molecules] == list(smiles) and len(set(names)) == 20
    assert all(20 <= molecule.heavy_atoms <= 37 for molecule in molecules)
    assert all(judge(None, molecule.mol).sites <= 8 for molecule in molecules)
    assert all(max(map(molecule.mol.GetRingInfo().NumAtomRings, range(molecule.atoms))) > 1 for molecule in molecules)


def test_a_larger_model_does_the_passes_and_the_tokens_stay() -> None:
    torch.set_num_threads(1)
    loaded = load_model(load_registry().find("demo-qwen"), "cpu")
    molecules = [parse_smiles(smiles) for smiles in FEW]
    rows = replayed(loaded, molecules, TOY, 2)
    for (lp, tokens, thrown, passes, *_), expected in zip(rows, ("exact", "shaped"), strict=True):
        generation = Generation(loaded, molecules, Plan(expected, batch_size=2))
        generation.run()
        counters = generation.counters
        counted = (counters.tokens, counters.thrown_tokens, counters.forward_passes)
        assert (lp, tokens, thrown, passes) == (expected, *map(str, counted))
    assert rows[0][-1] == "1.00"
