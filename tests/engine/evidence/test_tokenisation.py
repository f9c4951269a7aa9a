"""The reports' token figures: the data is sound, the verdicts are computed and come out as they must."""

from dataclasses import replace

import pytest

from engine.errors import FileFormatError
from engine.evidence.tokenisation import QUANTITIES, TokenClaim, findings, load_claims
from engine.text.tokenizers import load_tokenizer


def _of(report: str, section: str) -> list[tuple[str, str, str, int, str]]:
    found = findings([claim for claim in load_claims() if (claim.report, claim.section) == (report, section)])
    return [(f.claim.quantity, f.claim.tokenizer, f.claim.text, f.measured, f.verdict) for f in found]


def test_the_skeleton_of_report_002_is_reproduced() -> None:
    assert {(quantity, tokenizer): measured for quantity, tokenizer, _, measured, _ in _of("002", "2.3")} == {
        ("tokens", "qwen3"): 47,
        ("free", "qwen3"): 40,
        ("copy", "qwen3"): 7,
        ("tokens", "llama3"): 35,
        ("free", "llama3"): 28,
        ("copy", "llama3"): 7,
    }
    assert {verdict for *_, verdict in _of("002", "2.3")} == {"reproduced"}


def test_coordinates_of_report_002_come_out_again() -> None:
    rows = _of("002", "2.2")
    assert [measured for quantity, *_, measured, _ in rows if quantity == "tokens"] == [22, 16, 13, 13, 19, 13, 22, 13]
    assert [measured for quantity, *_, measured, _ in rows if quantity == "drift"] == [9, 3, 3, 3, 0, 3]
    assert {verdict for *_, verdict in rows} == {"reproduced"}


def test_a_negative_x_with_four_decimals_drifts_the_other_way() -> None:
    drift = QUANTITIES["drift"].measure
    assert [drift("<-1.2345,0.6789,2.1234>", load_tokenizer(name)) for name in ("qwen3", "llama3")] == [-1, -1]


def test_llamas_predicted_tokens_are_contradicted() -> None:
    rows = [row for row in _of("001", "Hypothesis") + _of("001", "LLaMA") if row[1] == "llama3"]
    assert [measured for *_, measured, _ in rows] == [14, 14, 12]
    assert {verdict for *_, verdict in rows} == {"contradicted"}


def test_blocked_tokens_are_as_many_for_llama_as_for_qwen() -> None:
    rows = [row for row in _of("001", "Masking") if row[0] == "angle_tokens"]
    blocked = {tokenizer: measured for _, tokenizer, _, measured, _ in rows}
    assert blocked == {"qwen3": 1_147, "llama3": 1_143}


def test_a_verdict_follows_the_figure_and_not_the_file() -> None:
    claim = next(claim for claim in load_claims() if claim.quantity == "tokens" and claim.tokenizer == "qwen3")
    right, wrong = findings([claim, replace(claim, least=claim.least + 1, most=claim.most + 1)])
    assert (right.verdict, right.off_by) == ("reproduced", 0)
    assert (wrong.verdict, wrong.off_by) == ("contradicted", -1)


def test_every_contradicted_figure_has_its_reason_or_a_plain_measure() -> None:
    unexplained = [f.claim for f in findings(load_claims()) if f.verdict == "contradicted" and not f.claim.note]
    # These two are a predicted count against a measured one; the pieces beside them say it all.
    assert [(claim.report, claim.quantity, claim.tokenizer) for claim in unexplained] == [
        ("001", "free", "llama3"),
        ("001", "free", "llama3"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "[[other]]\n",
        '[[claim]]\nreport = "1"\n',
        '[[claim]]\nreport="1"\nsection="a"\nquantity="nonsense"\ntokenizer="qwen3"\nreported=1\n',
        '[[claim]]\nreport="1"\nsection="a"\nquantity="tokens"\ntokenizer="qwen3"\nreported=[2, 1]\n',
        '[[claim]]\nreport="1"\nsection="a"\nquantity="tokens"\ntokenizer="qwen3"\nreported=[1, 2, 3]\n',
    ],
)
def test_a_damaged_file_is_named(tmp_path, text) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFormatError):
        load_claims(path)


def test_every_quantity_is_used() -> None:
    assert {claim.quantity for claim in load_claims()} == set(QUANTITIES)


def test_a_range_reads_as_one() -> None:
    claim = TokenClaim("0", "1", "tokens", "qwen3", "x", 1_000, 2_000, "")
    assert (claim.reported, replace(claim, most=1_000).reported) == ("1,000 to 2,000", "1,000")


def test_several_has_no_upper_end() -> None:
    several = next(claim for claim in load_claims() if (claim.quantity, claim.tokenizer) == ("digit_tokens", "llama3"))
    (finding,) = findings([several])
    assert (several.reported, finding.measured, finding.verdict) == ("2 or more", 3, "reproduced")
