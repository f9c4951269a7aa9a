"""Rates and verdicts under each LP: counted from blocks, against ETKDGv3, and put into a card once."""

from __future__ import annotations

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import TRIMMED4
from tests.small_models import use_small_model
from tools.training.under_lps import (
    judge_etkdg,
    measure_lp,
    rates_of,
)

MOLECULES = [parse_smiles("CC=O"), parse_smiles("CCO")]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> LoadedModel:
    use_small_model(monkeypatch)
    return load_model(load_registry().find("small"), "cpu")


def test_blocks_are_counted_and_judged(loaded: LoadedModel) -> None:
    exact = measure_lp(loaded, MOLECULES, "exact")
    assert [exact[name] for name in ("samples", "passed", "decodes", "clean")] == [2, 2, 2, 2]
    assert [exact[name] for name in ("blocks", "exact", "cut", "letters", "nonnumeric")] == [6, 6, 0, 0, 0]
    short = measure_lp(loaded, MOLECULES, "group-v4.3")
    assert short["blocks"] == 6
    assert short["nonnumeric"] == 0
    assert short["cut"] + short["exact"] < 6 or short["clean"] < 2, "random digits and marks are rarely three numbers"


WITH_SITES = [parse_smiles(smiles) for smiles in ("CCO", "C[C@H](N)O", "F/C=C/Cl", "C[C@H](O)[C@H](F)Cl")]


def test_etkdg_is_right_and_chance_is_a_half_a_site() -> None:
    judged = judge_etkdg(WITH_SITES)
    none, one, two, three = rates_of("ETKDGv3", judged)
    assert [rate["molecules"] for rate in (none, one, two, three)] == [1, 2, 1, 0]
    counts = ("stereo_right", "sites_asked", "sites_right", "usable", "geometry_right")
    assert [one[name] for name in counts] == [2] * 5
    assert (one["chance"], two["chance"]) == (0.5, 0.25)
    assert one["strain_kcal"] is not None and three["strain_kcal"] is None


def test_a_mirrored_conformer_counts_as_wrong() -> None:
    asked, other = parse_smiles("C[C@H](N)O"), parse_smiles("C[C@@H](N)O")
    ((molecule, right, _),) = judge_etkdg([asked])
    text = encode(reference_conformers(other), TRIMMED4).text.replace("[C@@H]", "[C@H]")
    wrong = judge_answer(text, asked.mol, WITH_STRAIN)
    (_, rate, _, _) = rates_of("x", [(molecule, right, True), (molecule, wrong, True)])
    counts = ("molecules", "stereo_right", "sites_asked", "sites_right", "usable")
    assert [rate[name] for name in counts] == [2, 1, 2, 1, 1]
