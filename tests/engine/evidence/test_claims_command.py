"""``claims`` on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.evidence import verdicts
from engine.store.store import DEMO
from tests.cli import run, run_json

STORE = ("--store", str(DEMO))


def test_claims_of_a_report_with_a_verdict() -> None:
    found = run_json("claims", "--report", "003", "--verdict", "contradicted", *STORE)
    assert {claim["report"] for claim in found} == {"003"} and {claim["verdict"] for claim in found} == {"contradicted"}
    layers = next(claim for claim in found if claim["claim_id"] == "003-layers-qwen-whole")
    assert (layers["value"], layers["measured"], layers["unit"]) == (2018, 1730, "steps")


def test_a_table_one_claim_and_one_that_is_not_there() -> None:
    found = run("claims", "--report", "004", *STORE)
    assert "004-garbage-phi" in found.out and "not testable here" in found.err
    assert "1.34 x 2.62 = 3.511" in run("claims", "002-decomposition", *STORE).out
    assert "Did you mean 002-decomposition" in run("claims", "002-decompositon", *STORE).error


def test_verdicts_are_saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    monkeypatch.setattr(verdicts, "FILE", path)
    monkeypatch.setattr(verdicts.save, "__defaults__", (path,))
    assert run_json("claims", "--save", *STORE)["counts"]["reproduced"] == 27
    assert len(verdicts.load(path).verdicts) == 85
