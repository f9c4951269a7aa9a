"""What a tokenizer alone decides of the reports' figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.evidence.claims import Claim, token_claims
from engine.evidence.tokenisation import QUANTITIES
from engine.text.tokenizers import load_tokenizer


def judged(claim: Claim) -> tuple[float, bool]:
    given = claim.arguments
    quantity = QUANTITIES[given["quantity"]]
    measured = quantity.measure(given.get("text", ""), load_tokenizer(given["tokenizer"]))
    return measured, quantity.agrees(measured, claim.least, claim.most)


@pytest.mark.parametrize(
    ("id_", "measured", "agrees"),
    [
        ("001-hypothesis-tokens-block-llama3", 14, False),
        ("001-masking-angles-llama3", 1_143, False),
        ("001-masking-vocabulary-qwen3", 151_673, False),
        ("002-2.2-tokens-placeholder-qwen3", 22, True),
        ("002-2.2-tokens-placeholder-llama3", 16, True),
        ("002-2.3-tokens-skeleton-qwen3", 47, True),
    ],
)
def test_a_figure_with_the_real_tokenizers(id_: str, measured: int, agrees: bool) -> None:
    (claim,) = [claim for claim in token_claims() if claim.id == id_]
    assert judged(claim) == (measured, agrees)
    assert judged(replace(claim, least=measured, most=measured))[1]


def test_a_negative_x_with_four_decimals_drifts_the_other_way() -> None:
    drift = QUANTITIES["drift"].measure
    assert [drift("<-1.2345,0.6789,2.1234>", load_tokenizer(name)) for name in ("qwen3", "llama3")] == [-1, -1]


def test_a_rounded_figure_may_be_a_twentieth_off() -> None:
    blocked = QUANTITIES["angle_tokens"]
    assert [blocked.agrees(count, 1_000, 1_100) for count in (949, 950, 1_150, 1_151)] == [False, True, True, False]
