"""Verdicts for a card: of ETKDGv3's conformers, of a model without a notion of space, and of mirrored ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.records import TRIMMED4
from tests.small_models import use_small_model
from tests.tools.training.corpus_source import write_source
from tools.training import under_lps
from tools.training.card import LAST_SECTION, put_section
from tools.training.conformer_texts import TextRecipe
from tools.training.corpus import MoleculePlan, Settings, build_corpus
from tools.training.molecules import read_csv
from tools.training.under_lps import (
    judge_etkdg,
    judge_model,
    main,
    molecules_by_sites,
    rates_of,
    verdict_section,
)

MOLECULES = [parse_smiles(smiles) for smiles in ("CCO", "C[C@H](N)O", "F/C=C/Cl", "C[C@H](O)[C@H](F)Cl")]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_source(folder / "source.csv.gz")
    settings = Settings(MoleculePlan(16, 4, 14, held_out=True), TextRecipe(held_out=True))
    build_corpus(folder / "built", settings, read_csv(folder / "source.csv.gz"))
    return folder / "built"


def test_etkdg_is_right_and_chance_is_a_half_a_site() -> None:
    judged = judge_etkdg(MOLECULES)
    none, one, two, three = rates_of("ETKDGv3", judged)
    assert [rate["molecules"] for rate in (none, one, two, three)] == [1, 2, 1, 0]
    assert (one["stereo_right"], one["sites_asked"], one["sites_right"], one["usable"], one["geometry_right"]) == (
        2,
        2,
        2,
        2,
        2,
    )
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
    text = encode_of(other).replace("[C@@H]", "[C@H]")
    (_, rate, _, _) = rates_of(
        "x", [(molecule, right, True), (molecule, judge_answer(text, asked.mol, WITH_STRAIN), True)]
    )
    assert (rate["molecules"], rate["stereo_right"], rate["sites_asked"], rate["sites_right"], rate["usable"]) == (
        2,
        1,
        2,
        1,
        1,
    )


def encode_of(molecule: object) -> str:
    from engine.chem.conformers import reference_conformers

    return encode(reference_conformers(molecule), TRIMMED4).text  # type: ignore[arg-type]


def test_molecules_are_taken_by_their_sites_and_no_mirror_image_of_one(corpus: Path) -> None:
    taken = molecules_by_sites(corpus, 2)
    flat = [parse_smiles(molecule.smiles.replace("@", "").replace("/", "").replace("\\", "")) for molecule in taken]
    assert len({molecule.smiles for molecule in flat}) == len(taken) > 3
    assert all(molecule.heavy_atoms <= 16 for molecule in taken)


def test_a_model_is_judged_and_its_card_gets_the_section(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    use_small_model(monkeypatch)
    monkeypatch.setattr(under_lps, "load_run_set", lambda _: ["C"])
    judged = judge_model(load_model(load_registry().find("small"), "cpu"), MOLECULES, "exact", 4)
    assert [molecule.smiles for molecule, _, _ in judged] == [molecule.smiles for molecule in MOLECULES]
    assert all(clean for _, _, clean in judged)
    assert sum(rate["geometry_right"] for rate in rates_of("small", judged)) == 0, "random digits are no molecule"
    caplog.set_level("INFO")
    assert main(["--model", "small", "--corpus", str(corpus), "--molecules", "1"]) == 0
    assert [
        caplog.text.count(f'"writer": "{name}"') for name in ("small:final, exact", "small:final, guarded", "ETKDGv3")
    ] == [4] * 3
    card = tmp_path / "one.md"
    card.write_text(f"# one\n\n## Under the LPs\n\nkept\n\n{LAST_SECTION}\n\n- all\n")
    card.with_suffix(".json").write_text("{}")
    for _ in range(2):
        put_section(card, list(verdict_section(list(rates_of("small", judged)), "x")), {"verdicts": []})
    text = card.read_text()
    assert text.count("Are the conformers right?") == 1 and "kept" in text and text.endswith("- all\n")
    assert json.loads(card.with_suffix(".json").read_text()) == {"verdicts": []}
