"""What a pass is predicted to cost: constants against what ships, shapes against real models, and the command."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode import machine_rates
from engine.decode.cost import (
    FORCED,
    LEGAL_ROWS,
    MACHINES,
    SHAPES,
    NamedShape,
    Prediction,
    body_weights,
    predict,
    work_of,
)
from engine.decode.head import LiveHead
from engine.errors import ModelError
from engine.evidence.advice.predicted import predicted_of, unmeasured
from engine.lp.constraint import build_constraint
from engine.models.layout import VOCAB_ROWS
from engine.models.registry import load_registry
from engine.models.shapes import ModelShape
from engine.models.summary import body_sizes
from engine.text.tokenizers import load_tokenizer
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE

CPU = MACHINES["epyc-1"]


def predicted(name: str, machine: str = "epyc-1", **asked: object) -> Prediction:
    return predict(SHAPES[name].sizes, MACHINES[machine], work_of(SHAPES[name], **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(("tokenizer", "model"), [("qwen3", "demo-qwen"), ("llama3", "demo-llama")])
def test_what_is_forced_and_legal_is_that_of_the_demo(tokenizer: str, model: str) -> None:
    rows = [entry.row for entry in DEMO_STORE.found().entries if entry.row.get("lp") == "exact"]
    (row,) = (row for row in rows if (row.get("model_alias"), row["origin"]) == (model, "measured"))
    assert FORCED[tokenizer] == pytest.approx(row["forced_tokens"] / row["tokens"], abs=0.01)
    constraint = build_constraint("exact", load_tokenizer(tokenizer), VOCAB_ROWS[tokenizer])
    programs = [constraint.compile(parse_smiles(smiles)) for smiles in load_run_set(64)]
    head = LiveHead(torch.zeros(VOCAB_ROWS[tokenizer], 1), constraint.automaton, programs)
    assert LEGAL_ROWS[tokenizer] == len(head.ids)


def test_a_model_has_the_weights_that_its_shape_says(tmp_path: Path) -> None:
    shape, demo = ModelShape("qwen3", 32, 2, 2, 1, 48), load_registry().find("demo-qwen")
    config = shape.config(50, end=0)
    config.save_pretrained(tmp_path)
    sizes = body_sizes(replace(demo, shipped=None, folder=tmp_path))
    layers = cast("Any", shape.model(config)).model.layers
    assert body_weights(sizes) == sum(weight.numel() for weight in layers.parameters() if weight.ndim == 2)
    assert body_sizes(demo) == SHAPES["demo-qwen"].sizes
    assert round(body_weights(SHAPES["qwen3-0.6b"].sizes) / 1e6) == 440


def test_an_lp_gains_less_on_a_larger_model_and_more_where_more_is_forced() -> None:
    ratios = [predicted(name).ratio for name in ("demo-qwen", "qwen-30m", "qwen3-0.6b")]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] > 1
    sizes, work = SHAPES["qwen3-0.6b"].sizes, work_of(SHAPES["qwen3-0.6b"])
    assert predict(sizes, CPU, replace(work, forced=0.5)).ratio > predict(sizes, CPU, work).ratio


def test_a_pass_of_a_large_model_at_batch_1_reads_its_weights() -> None:
    off = predicted("qwen3-0.6b", batch=1, seen=1).off
    weights = body_weights(SHAPES["qwen3-0.6b"].sizes) + 151_936 * 1_024
    assert off.roof_s == pytest.approx(4 * weights / CPU.bytes_per_s, rel=0.01)
    assert off.roof_s < off.pass_s < 1.5 * off.roof_s
    assert off.tokens == 1
    half = predicted("qwen3-0.6b", batch=1, seen=1, dtype="bfloat16").off
    assert half.roof_s == pytest.approx(off.roof_s / 2, rel=0.01)


def test_each_machine_needs_longer_than_its_roof() -> None:
    for machine in MACHINES:
        for name in SHAPES:
            prediction = predicted(name, machine, dtype="bfloat16")
            assert all(cost.pass_s > cost.roof_s for cost in (prediction.on, prediction.off))
    with pytest.raises(ModelError, match="no rate of epyc-1 is known for 'float16'"):
        predicted("qwen3-0.6b", dtype="float16")


def test_an_unknown_tokenizer_forces_what_the_one_that_forces_less_does() -> None:
    assert work_of(NamedShape("/my/tokenizer", SHAPES["demo-qwen"].sizes)).forced == min(FORCED.values())


def test_the_command_says_that_it_predicts() -> None:
    found = run_json("cost", "--shape", "qwen3-0.6b", "--machine", "h200")
    assert (found["predicted"], found["rates"], found["dtype"]) == (True, "data sheet", "bfloat16")
    assert found["ratio"] == pytest.approx(found["exact"]["tokens_per_s"] / found["none"]["tokens_per_s"])
    assert sum(found["exact"]["ms"].values()) == pytest.approx(found["exact"]["ms_per_pass"])
    out = run("cost", "--model", "demo-llama", "--machine", "epyc-1").out
    assert out.startswith("Predicted, not measured: demo-llama (2.4 M weights in the layers)")
    assert "there is no shape 'qwen3'" in run("cost", "--shape", "qwen3").error
    assert "there is no machine 'h20'" in run("cost", "--shape", "qwen3-0.6b", "--machine", "h20").error


def test_this_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WIDE": 64, "TALL": 128, "COUNT": 1, "SMALL_CALLS": 5, "LOGITS": (2, 3_000)}.items():
        monkeypatch.setattr(machine_rates, name, value)
    found = run_json("cost", "--shape", "demo-qwen", "--threads", "1")
    assert found["rates"] == "measured"
    assert found["machine"].startswith("here, 1 of ")
    assert 0 < found["exact"]["roof_ms"] < found["exact"]["ms_per_pass"]


def test_models_without_a_run_have_a_predicted_gain() -> None:
    gains = unmeasured({"demo-qwen:final"})
    assert "demo-qwen:final" not in gains
    assert gains["demo-llama:final"] == predicted_of("demo-llama")
    assert gains["demo-llama:final"].startswith("Predicted, not measured: with the exact LP ")
    assert predicted_of("nobody") == ""
