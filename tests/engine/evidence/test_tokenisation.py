"""The reports' token figures: the data is sound, the verdicts are computed and come out as they must."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import FileFormatError
from engine.evidence.claims import TOKENS_FILE, Claim, token_claims
from engine.evidence.tokenisation import QUANTITIES
from engine.text.tokenizers import load_tokenizer


def _judged(claim: Claim) -> tuple[str, str, str, int, str]:
    """Quantity, tokenizer, text, and what the tokenizer gives, with the verdict."""
    name, tokenizer, text = (claim.arguments[key] for key in ("quantity", "tokenizer", "text"))
    measured = QUANTITIES[name].measure(text, load_tokenizer(tokenizer))
    is_right = QUANTITIES[name].agrees(measured, claim.least, claim.most)
    return name, tokenizer, text, measured, "reproduced" if is_right else "contradicted"


def _of(report: str, section: str) -> list[tuple[str, str, str, int, str]]:
    return [_judged(claim) for claim in token_claims() if (claim.report, claim.section) == (report, section)]


def _first(quantity: str, tokenizer: str) -> Claim:
    wanted = {"quantity": quantity, "tokenizer": tokenizer}.items()
    return next(claim for claim in token_claims() if wanted <= claim.arguments.items())


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
    claim = _first("tokens", "qwen3")
    assert claim.least is not None
    assert _judged(claim)[-1] == "reproduced"
    assert _judged(replace(claim, least=claim.least + 1, most=claim.least + 1))[-1] == "contradicted"
    assert _judged(replace(claim, least=claim.least - 1, most=claim.least - 1))[-1] == "contradicted"


def test_a_rounded_figure_may_be_a_twentieth_off() -> None:
    blocked = QUANTITIES["angle_tokens"]
    assert [blocked.agrees(count, 1_000, 1_100) for count in (949, 950, 1_150, 1_151)] == [False, True, True, False]


def test_every_contradicted_figure_has_its_reason_or_a_plain_measure() -> None:
    unexplained = [claim for claim in token_claims() if not claim.note and _judged(claim)[-1] == "contradicted"]
    # These two are a predicted count against a measured one; the pieces beside them say it all.
    assert [(claim.report, *_judged(claim)[:2]) for claim in unexplained] == [
        ("001", "free", "llama3"),
        ("001", "free", "llama3"),
    ]


def _write(folder: Path, text: str) -> None:
    (folder / TOKENS_FILE).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        "not toml [",
        "[[other]]\n",
        '[[claim]]\nreport = "1"\n',
        '[[claim]]\nid="1-a"\nreport="1"\nsection="a"\nquantity="nonsense"\ntokenizer="qwen3"\nreported=1\n',
        '[[claim]]\nid="1-a"\nreport="1"\nsection="a"\nquantity="tokens"\ntokenizer="qwen3"\nreported=[2, 1]\n',
        '[[claim]]\nid="1-a"\nreport="1"\nsection="a"\nquantity="tokens"\ntokenizer="qwen3"\nreported=[1, 2, 3]\n',
    ],
)
def test_a_damaged_file_is_named(tmp_path, text) -> None:
    _write(tmp_path, text)
    with pytest.raises(FileFormatError):
        token_claims(tmp_path)


def test_every_quantity_is_used() -> None:
    assert {claim.arguments["quantity"] for claim in token_claims()} == set(QUANTITIES)


def test_a_range_reads_as_one(tmp_path) -> None:
    table = '[[claim]]\nid="1-a"\nreport="1"\nsection="a"\nquantity="tokens"\ntokenizer="qwen3"\ntext="x"\n'
    _write(tmp_path, f"{table}reported=[1000, 2000]\n{table}reported=1000\n")
    assert [claim.reported for claim in token_claims(tmp_path)] == ["1,000 to 2,000", "1,000"]


def test_several_has_no_upper_end() -> None:
    several = _first("digit_tokens", "llama3")
    assert (several.reported, *_judged(several)[3:]) == ("2 or more", 3, "reproduced")
