"""Training on preference pairs: margins are those of the whole model, and steps move them the way that is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import AutoModelForCausalLM

from engine.chem.enriched import prompt_of
from engine.models.loading import model_folder
from engine.models.registry import load_registry
from engine.models.shipped import Shipped, unpack
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tools.training.preference import Options, Preferring, main, read_texts, shipped_again, write_model

SAMPLES = 4


@pytest.fixture(scope="module")
def shipped() -> Shipped:
    entry = load_registry().find("demo-qwen:final")
    assert entry.shipped is not None
    return unpack(entry.shipped, entry.sha256)


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    """At every ninth choice of some samples the token that was written, and a digit that was not."""
    tokenizer = load_tokenizer("qwen3")
    sql = "SELECT sample_id, smiles, token_ids, forced FROM samples WHERE run_id = $run ORDER BY sample_id LIMIT $n"
    lines = []
    for sample in DEMO_STORE.rows(sql, {"run": demo_run("qwen", "exact"), "n": SAMPLES}):
        ids, prompt = sample["token_ids"], tokenizer.encode(prompt_of(sample["smiles"]))
        for pos in [pos for pos, forced in enumerate(sample["forced"]) if not forced][::9]:
            other = next(id_ for id_ in tokenizer.encode("1234") if id_ != ids[pos])
            of_ids = {"prompt_ids": [*prompt, *ids[:pos]], "chosen_ids": [ids[pos]], "rejected_ids": [other]}
            lines.append({"run_id": "r", "sample_id": sample["sample_id"], "smiles": sample["smiles"]} | of_ids)
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def preferring(shipped: Shipped, path: Path, **options: Any) -> Preferring:
    return Preferring(
        shipped, read_texts(path, shipped.live_ids, load_tokenizer("qwen3")), Options(**{"rate": 3e-4, **options})
    )


def test_margins_and_likelihood_are_those_of_the_whole_vocabulary(shipped: Shipped, pairs: Path) -> None:
    ours = preferring(shipped, pairs)
    whole = AutoModelForCausalLM.from_pretrained(model_folder(load_registry().find("demo-qwen:final")))
    lines = list(map(json.loads, pairs.read_text().splitlines()))
    expected, nats = [], []
    for sample in sorted({line["sample_id"] for line in lines}):
        of_sample = [line for line in lines if line["sample_id"] == sample]
        longest = [*of_sample[-1]["prompt_ids"], *of_sample[-1]["chosen_ids"]]
        with torch.inference_mode():
            logs = whole(torch.tensor([longest])).logits[0, :, : shipped_size()].float().log_softmax(dim=-1)
        for line in of_sample:
            at = logs[len(line["prompt_ids"]) - 1]
            expected.append(float(at[line["chosen_ids"][0]] - at[line["rejected_ids"][0]]))
        first = len(load_tokenizer("qwen3").encode(prompt_of(of_sample[0]["smiles"])))
        answer = torch.tensor(longest[first:])
        nats.append(functional.nll_loss(logs[first - 1 : len(longest) - 1], answer, reduction="none"))
    with torch.inference_mode():
        margins, nll = ours.margins(ours.texts)
    torch.testing.assert_close(margins, torch.tensor(expected), atol=5e-3, rtol=1e-3)
    torch.testing.assert_close(nll, torch.cat(nats).mean(), atol=2e-3, rtol=0)


def shipped_size() -> int:
    return load_tokenizer("qwen3").vocab_size


def improved(ours: Preferring) -> float:
    return ours.judge(range(len(ours.texts))).improved


def test_the_loss_begins_at_the_start_model_and_steps_raise_what_is_chosen(shipped: Shipped, pairs: Path) -> None:
    ours = preferring(shipped, pairs, nll=0.0)
    everything: Sequence[int] = range(len(ours.texts))
    assert ours.judge(everything).loss == pytest.approx(math.log(2), abs=1e-4)
    losses = [ours.step(list(everything), 3e-4)[0] for _ in range(6)]
    assert losses[0] == pytest.approx(math.log(2), abs=1e-4) and losses[-1] < losses[0] - 0.02
    assert improved(ours) > 0.8

    # With the tokens of each pair exchanged the other one is raised: margins of the first training then fall.
    turned = pairs.with_name("turned.jsonl")
    swap = {"chosen_ids": "rejected_ids", "rejected_ids": "chosen_ids"}
    lines = (
        {swap.get(key, key): value for key, value in json.loads(line).items()}
        for line in pairs.read_text().splitlines()
    )
    turned.write_text("".join(json.dumps(line) + "\n" for line in lines))
    other = preferring(shipped, turned, nll=0.0)
    for _ in range(6):
        other.step(list(everything), 3e-4)
    assert improved(other) > 0.8
    other.texts, other.before = ours.texts, [-before for before in other.before]
    assert improved(other) < 0.2


def test_what_was_trained_is_a_model_of_the_registry(
    shipped: Shipped, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = preferring(shipped, pairs)
    before = float(ours.margins(ours.texts)[0].detach().mean())
    for _ in range(3):
        ours.step(range(len(ours.texts)), 3e-4)
    write_model(tmp_path / "out", shipped_again(shipped, ours.network, {"preferred": {"steps": 3}}), "demo-qwen")
    monkeypatch.setenv("DRIFTSCOPE_MODELS", str(tmp_path / "out" / "models.toml"))
    entry = load_registry().find("demo-qwen:preferred")
    assert entry.shipped is not None
    again = unpack(entry.shipped, entry.sha256)
    assert again.about["preferred"] == {"steps": 3} and (again.live_ids == shipped.live_ids).all()
    with torch.inference_mode():
        trained, stored = (float(model.margins(ours.texts)[0].mean()) for model in (ours, preferring(again, pairs)))
    assert abs(stored - trained) < 0.2 * abs(trained - before), "but for half precision"


def test_it_stops_by_the_clock_and_logs(pairs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "demo-qwen:final", "--pairs", str(pairs), "--out", str(tmp_path / "out")]
    assert main([*words, "--minutes", "0.02", "--json"]) == 0
    lines = list(map(json.loads, (tmp_path / "out" / "log.jsonl").read_text().splitlines()))
    assert json.loads(capsys.readouterr().out) == lines[-1]
    assert (lines[0]["steps"], lines[0]["held_back_improved"]) == (0, 0.0)
    assert lines[-1]["steps"] > 0 and lines[-1]["spent_s"] >= 1.2
    one = pairs.with_name("one.jsonl")
    one.write_text(pairs.read_text().splitlines()[0] + "\n")
    assert main([*words[:3], str(one), *words[4:]]) == 2
    assert "pairs of 1 samples" in capsys.readouterr().err
