"""The dialog that adds a checkpoint, without a browser: from an empty form to a lane that any causal model wrote."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.jobs.service import Service
from engine.models.registry import load_registry
from engine.store.schema import SAMPLES, STEPS
from pages._kit.inspected import open_store
from pages._live import add_checkpoint
from tests.cli import run
from tests.pages.apps import opened
from tests.pages.live_pages import Live
from tests.service_harness import PATIENCE_S, ended
from tests.support import soaking
from tests.tiny_checkpoints import ARCHITECTURES, tiny_checkpoint

IN_SOAK = (pytest.mark.soak, pytest.mark.skipif(not soaking(), reason="in `make soak` only"))
LINE = "[SMILES]CO[/SMILES][CONFORMER][C]<0.123,-1.531,12.343>[OH]<1.113,2.223,4.443>[/CONFORMER]"
KINDS = [pytest.param(kind, marks=() if kind == "gemma3_text" else IN_SOAK) for kind in ARCHITECTURES]


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_is_checked_added_chosen_and_writes(page: Callable[[], AppTest], tmp_path: Path, kind: str) -> None:
    folder = tiny_checkpoint(tmp_path / "theirs", kind)
    backend = "fast" if kind == "qwen2" else "hf"
    app = page()
    assert app.button(key="add_go").disabled and app.button(key="add_check").disabled
    app.text_input(key="add_folder").set_value(str(folder)).run()
    app.button_group(key="add_form").set_value("Decimals").run()
    app.number_input(key="add_most").set_value(2).run()
    assert command(app).endswith(f"models add {folder} --decimals 0-2 --integer-digits 3 --descriptors plain")
    app.button(key="add_check").click().run()
    (found,) = [message.value for message in app.success]
    assert "theirs" in found and f"backend {backend}" in found and not app.error
    assert not (tmp_path / "mine.toml").read_text()
    app.button(key="add_go").click().run()
    assert not app.exception and not app.error
    assert app.selectbox(key="model").value == "theirs:final"
    assert load_registry().find("theirs").numbers.most_decimals == 2
    assert not [field for field in app.text_input if field.key == "add_folder"], "the dialog is closed"
    app.selectbox(key="lp1").set_value("exact").run()
    app.button(key="generate").click().run()
    (lane,) = app.session_state["live_lanes"]
    assert ended(lane.job) == "done"
    app.run()
    assert not app.exception and lane.title == ("1 · exact" if backend == "fast" else "1 · exact · hf")
    why = "attends within a sliding window" if kind == "mistral" else "fast runs"
    assert any(why in caption.value for caption in app.caption) == (backend == "hf")
    entry = open_store().entry(lane.run_id)
    assert (entry.row["backend"], entry.row["clean"], entry.row["judged"]) == (backend, 1, 1)
    samples, steps = entry.read(SAMPLES.name), entry.read(STEPS.name)
    assert samples["text"][0].as_py().startswith("[CONFORMER][C]<")
    raw = steps["p_raw"].to_pylist()
    assert len(raw) == samples["tokens"][0].as_py() and all(0 < p <= 1 for p in raw), "each token is scored"


def command(app: AppTest) -> str:
    (shown,) = [code.value for code in app.code if "models add" in code.value]
    return str(shown)


def test_the_command_next_to_the_form_does_what_the_form_does(page: Callable[[], AppTest], tmp_path: Path) -> None:
    folder, bins = tiny_checkpoint(tmp_path / "their gemma", "gemma3_text"), tmp_path / "my bins.json"
    bins.write_text('{"mode": "uniform", "L": -10.5, "H": 10.5, "n_bins": 256}')
    app = page()
    app.text_input(key="add_folder").set_value(str(folder)).run()
    assert command(app).endswith(f"models add '{folder}'"), "no sample is given, and none is named"
    app.text_area(key="add_texts").set_value(LINE).run()
    assert command(app).endswith("--sample texts.txt")
    assert any("with the texts above in a file texts.txt" in caption.value for caption in app.caption)
    app.button_group(key="add_form").set_value("Bins").run()
    app.text_input(key="add_bins").set_value("0.042 21").run()
    assert "--bins 0.042 21 --descriptors plain" in command(app)
    app.text_input(key="add_bins").set_value(str(bins)).run()
    _python, _m, _engine, *typed = shlex.split(command(app))
    assert typed[:3] == ["models", "add", str(folder)]
    added = run(*typed, "--json")
    assert added.code == 0 and added.document["bins"].startswith("256 bins of 0.082 Å")


def test_what_was_checked_is_shown_for_the_texts_that_it_was_checked_with(
    page: Callable[[], AppTest], tmp_path: Path
) -> None:
    app = page()
    app.text_input(key="add_folder").set_value(str(tiny_checkpoint(tmp_path / "gemma", "gemma3_text"))).run()
    app.text_area(key="add_texts").set_value("\n".join([LINE] * 60)).run()
    app.button(key="add_check").click().run()
    assert "always 3 decimals" in app.success[0].value
    app.run()
    assert app.success, "it stays while nothing is changed"
    app.text_area(key="add_texts").set_value("\n".join([LINE.replace("0.123", "0.1")] * 60)).run()
    assert not app.success
    app.button(key="add_check").click().run()
    assert "1 to 3 decimals" in app.success[0].value


def test_a_model_whose_file_of_bins_is_gone_stops_that_model_alone(page: Callable[[], AppTest], tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "gemma", "gemma3_text")
    lines = f'alias = "gemma"\nstep = "final"\nfolder = "{folder}"\ntokenizer = "own"\nbins = "gone.json"\n'
    (tmp_path / "mine.toml").write_text(f"[[model]]\n{lines}")
    app = page()
    assert not app.exception and not app.error
    app.selectbox(key="model").set_value("gemma:final").run()
    app.button(key="generate").click().run()
    (lane,) = app.session_state["live_lanes"]
    assert ended(lane.job) == "failed"
    app.run()
    assert not app.exception and "gone\\.json" in " ".join(message.value for message in app.error)
    managed = opened("compare", view="Manage", manage="Start runs")
    assert not managed.exception and not managed.error
    assert "gemma:final" in managed.multiselect("run_model").options


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
    line = LINE.replace("3", "{0}")
    app = page()
    app.text_input(key="add_folder").set_value(str(folder)).run()
    app.text_area(key="add_texts").set_value("\n".join(line.format(number % 10) for number in range(60))).run()
    app.button(key="add_go").click().run()
    assert not app.error and not app.exception
    entry = load_registry().find("gemma")
    assert (entry.numbers.least_decimals, entry.numbers.most_decimals, entry.descriptors) == (3, 3, "with-hydrogens")
