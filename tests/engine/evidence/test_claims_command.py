"""``claims`` on a terminal."""

import pytest

from engine.evidence import verdicts
from engine.store.store import DEMO
from tests.cli import run, run_json

STORE = ("--store", str(DEMO))


def test_claims_of_a_report_with_a_verdict() -> None:
    found = run_json("claims", "--report", "003", "--verdict", "contradicted", *STORE)
    assert {one["report"] for one in found} == {"003"}
    assert {one["verdict"] for one in found} == {"contradicted"}
    layers = next(one for one in found if one["claim_id"] == "003-layers-qwen")
    assert (layers["value"], layers["measured"], layers["unit"]) == (24, 28, "layers")


def test_a_table_and_a_count() -> None:
    found = run("claims", "--report", "004", *STORE)
    assert found.code == 0
    assert "004-garbage-phi" in found.out
    assert "claims:" in found.err and "not testable here" in found.err


def test_one_claim_at_length() -> None:
    found = run("claims", "002-decomposition", *STORE)
    assert "1.34 * 2.62 = 3.511; the report has 3.51 x." in found.out
    assert "by: {002-tokens-ratio} * {002-token-ms-ratio}" in found.out


def test_a_claim_that_is_not_there_is_named() -> None:
    assert "Did you mean 002-decomposition" in run("claims", "002-decompositon", *STORE).error


@pytest.mark.parametrize("is_json", [True, False])
def test_verdicts_are_kept(monkeypatch, tmp_path, is_json) -> None:
    path = tmp_path / "verdicts.json"
    monkeypatch.setattr(verdicts, "FILE", path)
    monkeypatch.setattr(verdicts.save, "__defaults__", (path,))
    if is_json:
        assert run_json("claims", "--save", *STORE)["counts"]["reproduced"] > 100
    else:
        assert str(path) in run("claims", "--save", *STORE).out
    kept = verdicts.load(path)
    assert kept is not None
    assert len(kept.verdicts) > 300
