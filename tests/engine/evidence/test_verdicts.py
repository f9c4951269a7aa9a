"""Verdicts: those that are saved come out again, and how a check decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from engine.errors import FileFormatError
from engine.evidence.arithmetic import ARITHMETIC
from engine.evidence.checks import CHECKS, is_asked
from engine.evidence.claims import Claim, load_claims
from engine.evidence.formula import Range, said
from engine.evidence.verdicts import FILE, Verdict, document, judge, judge_all, load, save, why_outdated
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.stored_runs import store_at

CLAIMS = {claim.id: claim for claim in load_claims()}
SHIPPED = Store(LocalFiles(DEMO))
SAVED = load() or pytest.fail("no verdicts are saved")


def made(id_: str, **changes: Any) -> Claim:
    arguments = changes.pop("arguments", None)
    claim = replace(CLAIMS[id_], **changes)
    return claim if arguments is None else replace(claim, arguments=MappingProxyType(arguments))


def judged(claim: Claim, store: Store = SHIPPED) -> Verdict:
    return judge([claim], store)[0]


def test_the_saved_verdicts_come_out_again() -> None:
    saved = load()
    assert saved is not None and len(saved.verdicts) == len(CLAIMS) == 90
    now = judge_all(SHIPPED)
    for before, after in zip(saved.verdicts, now.verdicts, strict=True):
        assert (after.claim_id, after.verdict, after.unit) == (before.claim_id, before.verdict, before.unit)
        assert after.measured == pytest.approx(before.measured)


@pytest.mark.parametrize(
    ("id_", "verdict", "measured"),
    [
        ("000-junk-share", "internally inconsistent", 3.8),
        ("000-truncation-possible", "reproduced", 3),
        ("001-hypothesis-tokens-block-llama3", "contradicted", 14),
        ("001-mask-size", "reproduced", 9.728),
        ("001-retrying-is-slower", "contradicted", 446.28 / 0.994),
        ("002-cannot-be-faster", "contradicted", 4.401143),
        ("002-decomposition", "reproduced", 1.34 * 2.62),
        ("002-junk-cannot-be-eliminated", "contradicted", 0),
        ("002-least-drift-qwen", "contradicted", -1),
        ("002-time-qwen-lp", "not testable here", None),
        ("003-calls-by-tokens", "contradicted", 1_730 / 1_292),
        ("003-layers-qwen-whole", "contradicted", 1_730),
        ("003-steps-llama", "contradicted", 1_292),
        ("004-architectures-3", "internally inconsistent", 4),
        ("005-cov-r-lp", "not testable here", None),
        ("005-failures-no-cause", "reproduced", 100 * 569 / (2 * 197_694)),
        ("005-fit", "contradicted", 0),
        ("005-loss", "reproduced", 100 * (1 - 44.0 / 68.1)),
        ("005-shift", "not shown on these models", 0),
    ],
)
def test_a_verdict(id_: str, verdict: str, measured: float | None) -> None:
    found = SAVED.of(id_)
    assert found is not None and found.verdict == verdict
    assert found.measured == (None if measured is None else pytest.approx(measured, rel=1e-5))


def test_every_claim_has_a_check_and_every_check_and_function_a_claim() -> None:
    assert {claim.check for claim in CLAIMS.values()} == set(CHECKS)
    assert {claim.id for claim in CLAIMS.values() if claim.check == "arithmetic"} == set(ARITHMETIC)
    assert 60 <= len(CLAIMS) <= 90 and sum(claim.report == "005" for claim in CLAIMS.values()) >= 30


def test_a_verdict_follows_the_claim() -> None:
    assert judged(made("001-mask-size", value=10.7, least=10.65, most=10.75)).verdict == "contradicted"
    assert judged(made("002-2.1-vocabulary-qwen3", least=1, most=2)).verdict == "contradicted"
    theirs = made("002-cannot-be-faster", arguments={**CLAIMS["002-cannot-be-faster"].arguments, "of_theirs": True})
    assert judged(theirs).verdict == "not shown on these models"


def test_a_run_of_the_reports_own_is_compared(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    about: dict[str, Any] = {"model_family": "Qwen", "device": "cuda:0 (NVIDIA H100)", "origin": "imported"}
    assert judged(CLAIMS["002-time-qwen-lp"], store).verdict == "not testable here"
    write_run(store, "theirs", [sample_row(n) for n in range(1_000)], lp="group-v3.8", wall_s=500.82, **about)
    found = judged(CLAIMS["002-time-qwen-lp"], store)
    assert (found.verdict, found.measured, found.source) == ("reproduced", 500.82, "store")
    assert judged(CLAIMS["002-cannot-be-faster"], store).verdict == "not testable here"
    assert is_asked(store.entry("theirs").row) and not is_asked({"origin": "reported", "device": "H100"})


def test_what_is_saved_is_read_again_or_named(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.json"
    assert load(path) is None
    saved = load()
    assert saved is not None
    save(saved, path)
    assert load(path) == saved and path.read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")
    path.write_text(path.read_text().replace('"reproduced"', '"right"'))
    with pytest.raises(FileFormatError, match="holds no verdicts"):
        load(path)


def test_verdicts_are_outdated_where_the_claims_changed() -> None:
    saved = load()
    assert saved is not None
    words = why_outdated(replace(saved, claims_sha256="0"), SHIPPED)
    assert words is not None and "the claims" in words


def test_a_document_has_the_claim_and_its_verdict() -> None:
    found = document(CLAIMS["005-cov-r-lp"], SAVED.of("005-cov-r-lp"))
    assert (found["report"], found["value"], found["verdict"]) == ("005", 44.0, "not testable here")
    assert document(CLAIMS["005-cov-r-lp"], None)["verdict"] is None


def test_ranges_meet_and_figures_are_said() -> None:
    assert Range(1, 2, 3).meets(Range(3, 4, 5)) and not Range(1, 2, 3).meets(Range.exact(3.1))
    with pytest.raises(ValueError, match="does not lie"):
        Range(2, 1, 3)
    assert [said(value) for value in (48_440.0, 2.3432, 0.0, 1e16)] == [
        "48,440",
        "2.343",
        "0",
        "10,000,000,000,000,000",
    ]


@pytest.mark.parametrize("text", ["sections = [", 'sections = ["1"]\n[[claim]]\nid = "a"\nsection = "1"'])
def test_a_damaged_file_of_claims_is_named(tmp_path: Path, text: str) -> None:
    for report in ("000", "001", "002", "003", "004", "005"):
        (tmp_path / f"{report}.toml").write_text(text)
    with pytest.raises(FileFormatError, match="000"):
        load_claims(tmp_path)
