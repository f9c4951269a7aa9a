"""What `make gpu` asks of a card, at toy size on the CPU: what it compares, what it leaves out, what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.decode.plan import Plan
from tests.support import ROOT
from tools.bench import card
from tools.bench.gpu import SHAPES

SIDES = {"fast none", "fast exact", "hf none, its own draws"}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One model and one LP on both, two molecules; steps of one shape."""
    monkeypatch.setattr(card, "MODELS", ("demo-qwen",))
    monkeypatch.setattr(card, "LPS", ("exact",))
    monkeypatch.setattr(card, "WRITTEN", 2)
    monkeypatch.setattr(card, "SHAPES", list(SHAPES)[1:])
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)


def asked(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["card", *words])
    return card.main()


@pytest.mark.usefixtures("few")
def test_it_compares_and_times_and_writes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OUT", str(tmp_path))
    assert asked(monkeypatch, "--tiny", "--rounds", "2", "--batch", "2") == 0
    document = json.loads((tmp_path / "gpu.json").read_text())
    compared = [(each["lp"], each["backend"], each["first_difference"]) for each in document["comparisons"]]
    assert compared == [("exact", "fast", ""), ("exact", "hf", "")]
    assert [each["tokens"] for each in document["comparisons"]] == [48, 48]
    assert {(step["batch"], step["side"], step["rounds"]) for step in document["steps"]} == {
        (2, side, 2) for side in SIDES
    }
    assert len(document["steps"]) == 3 and len(document["timings"]) == 6 and document["left_out"] == []
    for step in document["steps"]:
        rounds = [each["step_ms"] for each in document["timings"] if same_cell(each, step)]
        assert step["step_ms"]["value"] == pytest.approx(sum(rounds) / 2)
        assert step["step_ms"]["high"] - step["step_ms"]["value"] == pytest.approx(6.353 * abs(rounds[0] - rounds[1]))
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| a toy of ") for line in lines) == 3
    assert any("ms per step | 95 % interval" in " ".join(line.split()) for line in lines)


def test_a_shape_of_qwen_is_asked_in_bins_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(card, "MODELS", ())
    monkeypatch.setattr(card, "SHAPES", list(SHAPES)[:1])
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    out = tmp_path / "card.json"
    assert asked(monkeypatch, "--tiny", "--rounds", "1", "--batch", "1", "--out", str(out)) == 0
    timings = json.loads(out.read_text())["timings"]
    in_bins = [each["model"].endswith(", 258 bins") for each in timings]
    assert in_bins == [False, False, True, True, False], "generate is last, and not asked in bins"
    assert {each["side"] for each in timings[:4]} == {"fast none", "fast exact"}
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if line.startswith("| a toy")]
    ratios = {(row[1].strip().endswith("bins"), row[3].strip()): row[8].strip() for row in rows}
    assert ratios[True, "fast none"] == ratios[False, "fast none"] == "1.00" and float(ratios[True, "fast exact"]) > 0


def same_cell(timing: dict[str, object], step: dict[str, object]) -> bool:
    return all(timing[name] == step[name] for name in ("model", "batch", "side"))


@pytest.mark.usefixtures("few")
def test_tokens_that_differ_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``generate`` draws by another seed."""

    def with_seed(lp: str, **settings: Any) -> Plan:
        return Plan(lp, seed=int(settings["backend"] == "hf"), **settings)

    monkeypatch.setattr(card, "Plan", with_seed)
    monkeypatch.setattr(card, "SHAPES", [])
    out = tmp_path / "card.json"
    assert asked(monkeypatch, "--tiny", "--rounds", "1", "--batch", "1", "--out", str(out)) == 1
    same, differs = json.loads(out.read_text())["comparisons"]
    assert same["first_difference"] == ""
    assert differs["first_difference"].startswith("molecule 0, token ")


@pytest.mark.usefixtures("few")
def test_what_the_budget_has_no_time_for_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "card.json"
    assert asked(monkeypatch, "--tiny", "--budget", "0", "--batch", "1", "--out", str(out)) == 0
    document = json.loads(out.read_text())
    assert document["timings"] == document["comparisons"] == []
    assert len(document["left_out"]) == 1 + 3 * len(SIDES)
    report = card.Report(out, "", "", deadline=time.monotonic() + 50, dearest={"a side": 60.0})
    assert not report.has_time("a side", "one that took a minute") and report.has_time("another", "one not yet seen")


def test_without_a_card_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert asked(monkeypatch) == 2
    assert (
        capsys.readouterr().err == "card: torch sees no CUDA card on this machine; --tiny tries the same on its CPU\n"
    )


def test_make_gpu_with_a_python_of_ones_own_installs_nothing() -> None:
    made = subprocess.run(
        ["make", "-n", "--no-print-directory", "gpu", "PY=python3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.split() == ["python3", "-m", "tools.bench.card"]
