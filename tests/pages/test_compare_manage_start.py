"""Starting runs from the Compare page: what is said before, and the command that is handed in. None is carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.decode.plan import PRESETS, Sampling
from engine.errors import RunError
from pages._shared.managing.start_form import sampling_words
from tests.cli import parsed
from tests.pages.drift_stores import OVERRIDE
from tests.pages.manage_pages import Board, command, opened, words


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    return Board.used(tmp_path, monkeypatch)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_the_first_offer_is_one_command_that_reads(board: Board) -> None:
    app = opened()
    assert "**3 runs** of 64 molecules: 192 samples in all" in words(app)
    app.button("start_runs").click().run()
    ((title, handed, inputs, about),) = board.handed
    assert (title, inputs, about) == ("3 runs of demo-llama:final", [], "")
    assert handed[0] == "run" and handed[1].startswith("--threads=")
    shown = command(app).split()
    assert shown[:4] == [".venv/bin/python", "-m", "engine", "run"]
    assert shown[4:] == handed[2:]
    args = parsed(handed)
    assert (args.model, args.lp) == (["demo-llama:final"], ["none", "group-v2.1", "exact"])
    assert (args.sample_size, args.keep_steps, args.rmsd, args.sampling) == (64, 16, None, "qwen3")


def test_everything_that_is_chosen_is_in_the_command(board: Board) -> None:
    app = opened(run_from="SMILES", run_smiles="CC=O first\n\nCCO", run_lp=["none", "exact"], seed="7", n="2")
    app.multiselect("run_model").set_value(["demo-qwen:final", "demo-llama:early"])
    app.segmented_control("run_backend").set_value("hf")
    for key, value in (("run_batch", 8), ("run_steps", 0), ("run_rmsd", 3), ("temperature", 0.9), ("most_tokens", 99)):
        app.number_input(key).set_value(value)
    app.text_input("run_label").set_value("  --two words ")
    app.run()
    assert "**4 runs** of 2 molecules × 2 samples: 16 samples in all" in words(app)
    app.button("start_runs").click().run()
    ((title, handed, _, _),) = board.handed
    assert title == "4 runs “--two words”"
    args = parsed(handed)
    assert (args.model, args.lp) == (["demo-qwen:final", "demo-llama:early"], ["none", "exact"])
    assert (args.smiles, args.label, args.seed, args.generations) == (["CC=O", "CCO"], "--two words", 7, 2)
    assert (args.backend, args.batch_size, args.keep_steps, args.rmsd) == ("hf", 8, None, 3)
    assert (args.sampling, args.temperature, args.limit) == ("qwen3", 0.9, 99)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"run_from": "SMILES", "run_smiles": "CCO\nC(C\n\nnope"}, ["Line 2: SMILES 'C(C'", "Line 4: SMILES 'nope'"]),
        ({"run_from": "SMILES", "run_smiles": f"<img src=x>\n{OVERRIDE}"}, ["Line 1", "u202e"]),
        ({"run_from": "SMILES", "run_smiles": " "}, ["Type at least one SMILES"]),
        ({"run_from": "A file"}, ["Choose a file of molecules"]),
        ({"temperature": "0", "top_p": "0.5", "n": "32", "run_lp": "exact"}, ["2,048 samples"]),
    ],
)
def test_what_cannot_be_started_is_said_before(query: dict[str, Any], told: list[str], board: Board) -> None:
    app = opened(**query)
    for part in told:
        assert part in words(app)
    has_button = any(button.key == "start_runs" for button in app.button)
    assert has_button == ("samples" in told[0])


def test_no_model_or_too_many_runs(board: Board) -> None:
    app = opened()
    app.multiselect("run_lp").set_value([]).run()
    assert "Choose at least one LP" in words(app)
    app.multiselect("run_lp").set_value(app.multiselect("run_lp").options)
    app.multiselect("run_model").set_value(app.multiselect("run_model").options).run()
    assert "Limit: 24 runs at once" in words(app)


def test_many_typed_molecules_go_as_a_file(board: Board) -> None:
    smiles = [f"{'C' * length}O" for length in range(1, 26)]
    app = opened(run_from="SMILES", run_smiles="\n".join(smiles), run_lp="exact")
    assert command(app).endswith("--smiles-file typed.smi")
    app.button("start_runs").click().run()
    ((_, handed, inputs, _),) = board.handed
    assert handed[-1] == "--smiles-file"
    assert inputs == [("typed.smi", ("\n".join(smiles) + "\n").encode())]


def test_a_file_goes_with_the_command(board: Board) -> None:
    app = opened(run_from="A file", run_lp="exact", run_column="mol", run_limit="1")
    app.file_uploader("run_file").set_value(("mole cules.csv", b"name,mol\na,CCO\n", "text/csv")).run()
    assert "**1 run** of 1 molecule" in words(app)
    app.button("start_runs").click().run()
    ((_, handed, inputs, _),) = board.handed
    assert inputs == [("mole cules.csv", b"name,mol\na,CCO\n")]
    said = parsed([*handed, "x.csv"])
    assert (said.smiles_column, said.sample_size) == ("mol", 1)


@pytest.mark.parametrize("name", list(PRESETS))
def test_a_preset_goes_by_its_name(name: str) -> None:
    assert sampling_words(PRESETS[name]) == ["--sampling", name]


def test_a_changed_preset_says_what_was_changed() -> None:
    changed = ["--sampling", "qwen3", "--temperature=0.9", "--top-k=0"]
    assert sampling_words(Sampling(0.9, 0, 0.8)) == changed


def test_a_command_that_is_not_taken_is_one_message(board: Board) -> None:
    board.refusal = RunError("this server is shutting down", "Start it again")
    app = opened()
    app.button("start_runs").click().run()
    assert "shutting down. Start it again" in words(app)
