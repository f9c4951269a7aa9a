"""The dialog that adds a checkpoint, without a browser: from an empty form to a lane that a Gemma wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.jobs.service import Service
from engine.models.registry import load_registry
from engine.store.schema import SAMPLES
from pages._live import add_checkpoint
from pages._shared.inspected import open_store
from tests.pages.live_pages import Live
from tests.service_harness import PATIENCE_S, ended
from tests.tiny_checkpoints import tiny_checkpoint


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    made = Service()
    monkeypatch.setattr(add_checkpoint, "service", lambda: made)
    yield made
    made.close(PATIENCE_S)


@pytest.fixture
def page(live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], AppTest]:
    monkeypatch.setenv("DRIFTSCOPE_MODELS", str(tmp_path / "mine.toml"))
    (tmp_path / "mine.toml").touch()

    def opened() -> AppTest:
        app = live(smiles="CC=O", most_tokens="100")
        app.session_state["lp2"] = app.session_state["lp3"] = "—"
        return app.button(key="add_checkpoint").click().run()

    return opened


def test_a_folder_is_checked_added_chosen_and_writes(page: Callable[[], AppTest], tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "gemma", "gemma3_text")
    app = page()
    assert app.button(key="add_go").disabled and app.button(key="add_check").disabled
    app.text_input(key="add_folder").set_value(str(folder)).run()
    app.button_group(key="add_form").set_value("Decimals").run()
    app.number_input(key="add_most").set_value(2).run()
    (command,) = [code.value for code in app.code if "models add" in code.value]
    assert command.endswith(f"models add {folder} --decimals 0-2 --integer-digits 3 --descriptors plain")
    app.button(key="add_check").click().run()
    (found,) = [message.value for message in app.success]
    assert "gemma" in found and "backend hf" in found and not app.error
    assert not (tmp_path / "mine.toml").read_text()
    app.button(key="add_go").click().run()
    assert not app.exception and not app.error
    assert app.selectbox(key="model").value == "gemma:final"
    assert load_registry().find("gemma").numbers.most_decimals == 2
    assert not [field for field in app.text_input if field.key == "add_folder"], "the dialog is closed"
    app.selectbox(key="lp1").set_value("exact").run()
    app.button(key="generate").click().run()
    (lane,) = app.session_state["live_lanes"]
    assert ended(lane.job) == "done"
    app.run()
    assert not app.exception and lane.title == "1 · exact · hf"
    assert any("fast runs" in caption.value for caption in app.caption)
    entry = open_store().entry(lane.run_id)
    assert (entry.row["backend"], entry.row["clean"], entry.row["judged"]) == ("hf", 1, 1)
    assert entry.read(SAMPLES.name)["text"][0].as_py().startswith("[CONFORMER][C]<")


def test_what_is_missing_is_one_message_and_the_form_stays(page: Callable[[], AppTest], tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "gemma", "gemma3_text")
    (folder / "config.json").unlink()
    app = page()
    app.text_input(key="add_folder").set_value(str(folder)).run()
    app.button(key="add_go").click().run()
    (error,) = app.error
    assert "has no config" in error.value
    assert app.text_input(key="add_folder").value == str(folder)
    app.text_input(key="add_tags").set_value("<a>,<b>").run()
    (error,) = app.error
    assert "2 tokens are given for four tags" in error.value and app.button(key="add_go").disabled
    assert not (tmp_path / "mine.toml").read_text()


def test_decimals_are_found_in_the_texts_that_were_pasted(page: Callable[[], AppTest], tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "gemma", "gemma3_text")
    line = "[SMILES]CO[/SMILES][CONFORMER][C]<0.12{0},-1.5{0}1,12.34{0}>[OH]<1.11{0},2.22{0},3.33{0}>[/CONFORMER]"
    app = page()
    app.text_input(key="add_folder").set_value(str(folder)).run()
    app.text_area(key="add_texts").set_value("\n".join(line.format(number % 10) for number in range(60))).run()
    app.button(key="add_go").click().run()
    assert not app.error and not app.exception
    entry = load_registry().find("gemma")
    assert (entry.numbers.least_decimals, entry.numbers.most_decimals, entry.descriptors) == (3, 3, "with-hydrogens")
