"""The model card: every figure of its JSON is in it, the pictures are there, odd logs and poor models do no harm."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from engine.errors import FileFormatError
from engine.text.tokenizers import load_tokenizer
from tests.tools.training.quality_source import FACTS, SMILES, ReferenceWriter, write_log
from tools.training import quality
from tools.training.card import DATA, TrainingFacts, optimiser_of, read_curves, write_card
from tools.training.quality import Quality, measure
from tools.training.recipes import recipe_of

NAME = "demo-qwen-final"
FILES = [f"{NAME}.json", f"{NAME}.md", f"{NAME}.svg"]


def noisy(text: str) -> str:
    """Every x a tenth of an angstrom off, and one molecule with a word in a block."""
    moved = re.sub(r"<(-?\d+\.\d+)", lambda match: f"<{float(match.group(1)) + 0.1:.4f}", text)
    return moved.replace(">", "amen>", 1) if "Cl" in text else moved


@pytest.fixture(scope="module")
def measured() -> Quality:
    with pytest.MonkeyPatch.context() as patch:
        writer = ReferenceWriter(load_tokenizer("qwen3"), noisy)
        patch.setattr(quality, "load_model", lambda folder: writer)
        return measure(Path("anywhere"), writer.tokenizer, SMILES, seed=7, batch=5, seen_ids=range(1_000))


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.jsonl")


def written(folder: Path, facts: TrainingFacts, found: Quality, log_path: Path) -> tuple[str, dict[str, Any]]:
    card = write_card(folder, NAME, facts, found, log_path)
    assert card == folder / f"{NAME}.md"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    return card.read_text(encoding="utf-8"), json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))


def figures(document: object, path: str = "") -> list[tuple[str, float]]:
    if isinstance(document, dict):
        return [pair for key, value in document.items() for pair in figures(value, f"{path}.{key}")]
    if isinstance(document, list):
        return [pair for index, value in enumerate(document) for pair in figures(value, f"{path}.{index}")]
    return [(path, document)] if isinstance(document, int | float) else []


def spellings(value: float) -> set[str]:
    """How a figure may be written: whole, as a percentage, or rounded."""
    if isinstance(value, int):
        return {f"{value:,}"}
    return {f"{value:.{decimals}f}" for decimals in range(5)} | {f"{100 * value:.0f} %", f"{value:,.0f}"}


def has(card: str, value: float) -> bool:
    return any(re.search(rf"(?<![\d.,]){re.escape(text)}(?![\d]|[.,]\d)", card) for text in spellings(value))


def test_every_figure_of_the_json_is_in_the_card(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    card, document = written(tmp_path / "models", FACTS, measured, log_path)
    checked = figures(document)
    assert len(checked) > 80
    assert [(path, value) for path, value in checked if not has(card, value)] == []
    assert document["quality"] == measured.as_json()
    assert document["training"]["pass_rate"] == pytest.approx(0.8)
    assert "0.800 of the molecules copied right, 0.500 of those that state stereo with the right one" in card


def test_every_fact_is_in_the_card(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    card, document = written(tmp_path / "models", FACTS, measured, log_path)
    for text in (*FACTS.hardware, FACTS.optimiser, FACTS.command, DATA, "`qwen3`", "# demo-qwen:final"):
        assert text in card
    assert "python -m tools.training.measure --model demo-qwen:final" in card
    assert document["facts"]["measured_by"] == "python -m tools.training.measure --model demo-qwen:final"
    assert "1, 1, 2, 3" in card and "more than 18 heavy atoms" in card
    assert f"({NAME}.svg)" in card
    example = re.search(r"```\n\[SMILES\](.*)\[/SMILES\]\n\[CONFORMER\].*\[/CONFORMER\]\n```", card)
    assert example is not None and example.group(1) in SMILES


def test_the_tables_are_whole(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    card, _ = written(tmp_path / "models", FACTS, measured, log_path)
    tables = re.findall(r"(?:^\|.*\|\n)+", card, re.MULTILINE)
    assert len(tables) == 4
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
    sizes = [line.split("|")[1].strip(" *") for line in tables[2].splitlines()[2:]]
    assert sizes == ["4-8", "9-12", "13-16", "all"]


def test_the_curve_ends_where_the_log_does(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    written(tmp_path / "models", FACTS, measured, log_path)
    lines = ElementTree.parse(tmp_path / "models" / f"{NAME}.svg").findall("{http://www.w3.org/2000/svg}polyline")
    ends = [line.get("points", "").split()[-1] for line in lines]  # [structure, numbers, copied, stereo]
    assert [end.split(",")[0] for end in ends] == ["868.0"] * 4
    assert [end.split(",")[1] for end in ends[2:]] == ["180.0", "288.0"]  # 80 % and 50 % from 468 up to 108


def test_a_model_that_gets_nothing_right_has_a_card_too(tmp_path: Path, log_path: Path) -> None:
    nothing = Quality((), 0, 32, 1_000, 151_936)
    log_path.write_text('{"tokens": 5, "structure_nat": NaN, "numbers_nat": Infinity}\n', encoding="utf-8")
    card, document = written(tmp_path / "models", replace(FACTS, stages=()), nothing, log_path)
    assert document["training"] == {"structure_nat": None, "numbers_nat": None, "pass_rate": None, "stereo_rate": None}
    assert "nan" not in card.lower().replace("nano", "") and "inf" not in re.findall(r"\binf\b", card)
    assert "Of 0 blocks 0 are not exact." in card


def test_a_card_of_an_early_step_ends_there(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    _, document = written(tmp_path / "models", replace(FACTS, tokens=900_000, step="early"), measured, log_path)
    assert document["training"]["pass_rate"] == pytest.approx(0.32)
    assert document["training"]["structure_nat"] == pytest.approx(11 * 0.8**18)


def test_the_same_card_is_written_twice(tmp_path: Path, measured: Quality, log_path: Path) -> None:
    written(tmp_path / "one", FACTS, measured, log_path)
    written(tmp_path / "two", FACTS, measured, log_path)
    for name in FILES:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_a_training_that_was_taken_up_again_has_one_course(tmp_path: Path) -> None:
    entries = [{"tokens": tokens, "structure_nat": loss, "numbers_nat": 1.0} for tokens, loss in
               [(100, 3.0), (200, 2.0), (300, 1.0), (250, 1.5), (350, 0.5)]]  # fmt: skip
    entries.insert(3, {"tokens": 300, "pass_rate": 0.5})
    curves = read_curves(write_log(tmp_path / "log.jsonl", entries))
    assert curves["structure_nat"] == [(100, 3.0), (200, 2.0), (250, 1.5), (350, 0.5)]
    assert curves["pass_rate"] == []


def test_a_line_that_was_never_finished_is_left_out(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.jsonl")
    whole = read_curves(path)
    path.write_text(path.read_text() + '{"tokens": 1', encoding="utf-8")
    assert read_curves(path) == whole


@pytest.mark.parametrize("line", ["nonsense", "[1]", '{"structure_nat": 1}', '{"tokens": 1, "structure_nat": "a"}'])
def test_a_line_that_is_no_entry_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(f'{{"tokens": 1}}\n{line}\n', encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"log\.jsonl is no training log"):
        read_curves(tmp_path / "log.jsonl")


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"log\.jsonl is no training log"):
        read_curves(tmp_path / "log.jsonl")


def test_the_optimisers_of_a_training_are_told_in_their_order() -> None:
    recipe = recipe_of("demo-qwen")
    assert optimiser_of(recipe, ["adamw", "muon"]).startswith(
        "AdamW, then Muon for the body's matrices, AdamW for rows"
    )
    assert optimiser_of(recipe, []).startswith("Muon")  # files of before there was a choice
