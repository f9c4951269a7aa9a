"""Rates and verdicts under each LP: counted from blocks, against ETKDGv3, and put into a card once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import TRIMMED4
from tests.small_models import use_small_model
from tests.tools.training.corpus_source import write_source
from tools.training.card import LAST_SECTION as BEHIND
from tools.training.card import put_section
from tools.training.conformer_texts import TextRecipe
from tools.training.corpus import MoleculePlan, Settings, build_corpus
from tools.training.molecules import read_csv
from tools.training.under_lps import (
    BLOCKS,
    block_section,
    judge_etkdg,
    measure_lp,
    molecules_by_sites,
    rates_of,
    verdict_section,
)

MOLECULES = [parse_smiles("CC=O"), parse_smiles("CCO")]
NAMES = ("samples", "passed", "decodes", "clean", "blocks", "letters", "nonnumeric", "cut", "exact", "tokens")
RATES = {"lp": "exact", **dict(zip(NAMES, (200, 200, 200, 199, 1000, 1, 20, 300, 679, 5), strict=True))}


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


def test_a_card_gets_one_section(tmp_path: Path) -> None:
    card = tmp_path / "one.md"
    card.write_text(f"# one\n\ntext\n\n{BEHIND}\n\n- all\n")
    card.with_suffix(".json").write_text('{"name": "one"}')
    for _ in range(2):
        put_section(card, list(block_section([RATES], "the command")), {"lps": {"exact": RATES}, "lps_by": "it"})
        text = card.read_text()
        assert text.count(BLOCKS) == 1
        assert "| `exact` | 100.0 % | 100.0 % | 99.5 % |  1,000 |   0.1 % |       2.0 % | 30.0 % | 67.9 % |" in text
        assert text.index("text") < text.index(BLOCKS) < text.index("the command") < text.index(BEHIND)
    document = json.loads(card.with_suffix(".json").read_text())
    assert document["name"] == "one" and document["lps"]["exact"]["cut"] == 300 and document["lps_by"] == "it"


WITH_SITES = [parse_smiles(smiles) for smiles in ("CCO", "C[C@H](N)O", "F/C=C/Cl", "C[C@H](O)[C@H](F)Cl")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_source(folder / "source.csv.gz")
    settings = Settings(MoleculePlan(16, 4, 14, held_out=True), TextRecipe(held_out=True))
    build_corpus(folder / "built", settings, read_csv(folder / "source.csv.gz"))
    return folder / "built"


def test_etkdg_is_right_and_chance_is_a_half_a_site() -> None:
    judged = judge_etkdg(WITH_SITES)
    none, one, two, three = rates_of("ETKDGv3", judged)
    assert [rate["molecules"] for rate in (none, one, two, three)] == [1, 2, 1, 0]
    counts = ("stereo_right", "sites_asked", "sites_right", "usable", "geometry_right")
    assert [one[name] for name in counts] == [2] * 5
    assert (one["chance"], two["chance"]) == (0.5, 0.25)
    assert one["strain_kcal"] is not None and three["strain_kcal"] is None
    lines = "\n".join(verdict_section([none, one, two, three], "the command"))
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines.splitlines()]
    assert ["0", "ETKDGv3", "1", "100 %", "-", "-", "-", "100 %"] in [row[:8] for row in rows]
    assert ["2", "ETKDGv3", "1", "100 %", "100 %", "25 %", "100 %", "100 %"] in [row[:8] for row in rows]
    assert lines.endswith("Measured by `the command`.")


def test_a_mirrored_conformer_counts_as_wrong() -> None:
    asked, other = parse_smiles("C[C@H](N)O"), parse_smiles("C[C@@H](N)O")
    ((molecule, right, _),) = judge_etkdg([asked])
    text = encode(reference_conformers(other), TRIMMED4).text.replace("[C@@H]", "[C@H]")
    wrong = judge_answer(text, asked.mol, WITH_STRAIN)
    (_, rate, _, _) = rates_of("x", [(molecule, right, True), (molecule, wrong, True)])
    counts = ("molecules", "stereo_right", "sites_asked", "sites_right", "usable")
    assert [rate[name] for name in counts] == [2, 1, 2, 1, 1]


def test_molecules_are_taken_by_their_sites_and_no_mirror_image_of_one(corpus: Path) -> None:
    taken = molecules_by_sites(corpus, 2)
    flat = [parse_smiles(molecule.smiles.replace("@", "").replace("/", "").replace("\\", "")) for molecule in taken]
    assert len({molecule.smiles for molecule in flat}) == len(taken) > 3
    assert all(molecule.heavy_atoms <= 16 for molecule in taken)
