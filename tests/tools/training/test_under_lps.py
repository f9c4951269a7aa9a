"""Rates under each LP: counted from blocks, put into a card once, and in place of what was there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.chem.smiles import parse_smiles
from engine.errors import FileFormatError
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.small_models import use_small_model
from tools.training import under_lps
from tools.training.card import LAST_SECTION as BEHIND
from tools.training.card import put_section
from tools.training.under_lps import BLOCKS, block_section, main, measure_lp

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
        put_section(
            card,
            list(block_section([RATES], "the command")),
            {"lps": {"exact": RATES}, "lps_by": "the command"},
        )
        text = card.read_text()
        assert text.count(BLOCKS) == 1
        assert "| `exact` | 100.0 % | 100.0 % | 99.5 % |  1,000 |   0.1 % |       2.0 % | 30.0 % | 67.9 % |" in text
        assert text.index("text") < text.index(BLOCKS) < text.index("the command") < text.index(BEHIND)
    document = json.loads(card.with_suffix(".json").read_text())
    assert document["name"] == "one" and document["lps"]["exact"]["cut"] == 300 and document["lps_by"] == "the command"


def test_what_is_no_card_is_left_alone(tmp_path: Path) -> None:
    card = tmp_path / "one.md"
    card.write_text("# one\n")
    with pytest.raises(FileFormatError, match="no card that `measure` has written"):
        put_section(card, list(block_section([RATES], "x")), {})
    assert card.read_text() == "# one\n"


@pytest.mark.usefixtures("loaded")
def test_the_tool_on_some_molecules_changes_no_card(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(under_lps, "load_run_set", lambda _: ["C"])
    assert main(["--model", "small", "--molecules", "1"]) == 0
    assert caplog.text.count('"lp"') == len(LPS)
    assert main(["--model", "nobody"]) == 2
