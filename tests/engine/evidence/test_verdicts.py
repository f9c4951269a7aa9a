"""Verdicts: those that are saved come out again, and how a check decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engine.errors import FileError
from engine.evidence import checks, claims
from engine.evidence.checks import CHECKS
from engine.evidence.claims import Claim, load_claims
from engine.evidence.verdicts import FILE, Verdict, judge, judge_all, load, save
from engine.store.files import Files
from engine.store.store import DEMO, Store
from engine.text import placeholder
from engine.text.template import DriftSummary, drift_summary
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at

CLAIMS = {claim.id: claim for claim in load_claims()}
SHIPPED = Store(Files(DEMO))


def judged(claim: Claim, store: Store = SHIPPED) -> Verdict:
    return judge([claim], store)[0]


def test_the_saved_verdicts_come_out_again() -> None:
    saved = {verdict.claim_id: verdict for verdict in load().verdicts}
    assert list(saved) == list(CLAIMS) and len(CLAIMS) == 85
    for after in judge_all(SHIPPED).verdicts:
        before = saved[after.claim_id]
        assert (after.verdict, after.unit, after.query) == (before.verdict, before.unit, before.query)
        assert after.measured == pytest.approx(before.measured)
        assert [after.low, after.high] == pytest.approx([before.low, before.high])
        if after.measured is not None and after.low is not None and after.high is not None:
            assert after.low <= after.measured <= after.high


def test_each_molecule_is_embedded_and_tokenised_once_for_all_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded: list[Any] = []
    counted: list[Any] = []
    embed = placeholder.reference_texts

    def texts_of(*of: Any) -> list[str]:
        embedded.append(of)
        return embed(*of)

    def summary(texts: tuple[str, ...], *of: Any) -> DriftSummary:
        counted.append(texts)
        return drift_summary(texts, *of)

    monkeypatch.setattr(placeholder, "reference_texts", texts_of)
    monkeypatch.setattr(checks, "drift_summary", summary)
    placeholder.reference_text.cache_clear()
    checks.summary_of.cache_clear()
    judge([CLAIMS["005-fit"], CLAIMS["005-differ"]], SHIPPED)
    assert len(embedded) == len(set(embedded)) == 64 and {len(texts) for texts in counted} == {1}
    assert len(counted) == len({*counted}) <= 64


def test_a_figure_of_no_molecules_has_no_interval() -> None:
    assert checks.over_molecules(0.0, [], [], "%") is None and checks.over_molecules(2.0, [], [], "x") is None
    assert checks.over_molecules(0.0, [0.0, 0.0], [0.0, 0.0], "%") is None
    found = checks.over_molecules(50.0, [1.0, 0.0, 1.0, 0.0], [1.0] * 4, "% of blocks")
    assert found is not None and found.value == 50.0 and (found.low or 0) < 50 < (found.high or 0)


def test_every_claim_has_a_check_and_every_check_a_claim() -> None:
    assert {claim.check["by"] for claim in CLAIMS.values()} == set(CHECKS)
    assert 60 <= len(CLAIMS) <= 90 and sum(claim.report == "005" for claim in CLAIMS.values()) >= 30


def test_a_verdict_follows_the_claim() -> None:
    assert judged(replace(CLAIMS["001-mask-size"], reported="10.7")).verdict == "contradicted"
    assert judged(replace(CLAIMS["002-2.1-vocabulary-qwen3"], reported="2")).verdict == "contradicted"
    faster = CLAIMS["002-cannot-be-faster"]
    theirs = replace(faster, check={**faster.check, "of_theirs": True})
    assert judged(theirs).verdict == "not shown on these models"


@pytest.mark.parametrize(
    ("reported", "rounded_to", "ends"),
    [("3.51", 0, (3.505, 3.515)), ("about 80", 0, (72, 88)), ("20", 1, (19.5, 20.5)), ("9 or less", 0, (None, 9)),
     ("2,018", 0, (2018, 2018)), ("", 0, (None, None))],
)  # fmt: skip
def test_what_a_figure_may_have_been_rounded_from(reported: str, rounded_to: float, ends: tuple[Any, Any]) -> None:
    claim = replace(CLAIMS["001-mask-size"], reported=reported, rounded_to=rounded_to)
    assert [None if end is None else round(end, 9) for end in claim.ends] == list(ends)


def test_a_run_of_the_reports_own_is_compared(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    about: dict[str, Any] = {"model_family": "Qwen", "device": "cuda:0 (NVIDIA H100)", "origin": "imported"}
    assert judged(CLAIMS["002-time-qwen-lp"], store).verdict == "not testable here"
    write_run(store, "theirs", [sample_row(n) for n in range(1_000)], lp="group-v3.8", wall_s=500.82, **about)
    result = judged(CLAIMS["002-time-qwen-lp"], store)
    assert (result.verdict, result.measured, result.source) == ("reproduced", 500.82, "store")
    assert judged(CLAIMS["002-cannot-be-faster"], store).verdict == "not testable here"


def test_what_is_saved_is_read_again_or_named(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    save(load(), path)
    assert load(path) == load() and path.read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")
    path.write_text(path.read_text().replace('"reproduced"', '"right"'))
    with pytest.raises(FileError, match="holds no verdicts"):
        load(path)
    with pytest.raises(FileError, match="make claims"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["claim = [", '[[claim]]\nid = "a"\nsection = "1"'])
def test_a_damaged_file_of_claims_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "000.toml").write_text(text)
    monkeypatch.setattr(claims, "FOLDER", tmp_path)
    with pytest.raises(FileError, match="000"):
        claims.load_claims.__wrapped__()
