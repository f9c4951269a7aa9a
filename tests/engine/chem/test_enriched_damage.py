"""Enriched text that is damaged: a molecule or a named error, never anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import decode, why_not_a_triple
from engine.errors import DriftscopeError, EnrichedError
from engine.records import WIDEST, NumberFormat
from engine.text.blocks import read_block
from tests.strategies import Written, any_text, damaged, enriched_texts, random_triples, seeds

B = "<1.0000,-2.0000,0.5000>"


@pytest.mark.parametrize(
    ("text", "block", "position", "reason"),
    [
        ("", None, None, "there is nothing in it"),
        ("[C]", 0, 3, "atom '[C]' has no block"),
        (f"[C]<1.0,2.0,3.0[O]{B}", 0, 3, "the block is not closed by '>'"),
        ("[C]<1.026,0.6438,-0.4296[c>", 0, 3, "z is '-0.4296[c', which is no number"),  # an example of the reports
        (f"[C]{B}[O]<1.0,2.0>", 1, 29, "2 numbers instead of three"),
        ("[C]<1.0,2.,3.0>", 0, 3, "y is '2.', which is no number"),
        ("[C]<01.0,2.0,3.0>", 0, 3, "x is '01.0', which is no number"),
        ("[C]<1234567.0,2.0,3.0>", 0, 3, "x is '1234567.0'"),
        (f"[C{B}", None, 0, "'[' begins no atom"),
        (f"C[C]{B}", None, 0, "'C' begins no atom in brackets"),
        (f"[C]{B}{B}", None, 26, "'<' begins no atom"),
        (f"[C]{B}[Q]{B}", None, None, "its SMILES is not a molecule: syntax error"),
        (f"[C]{B}=[F]{B}", 1, None, "its SMILES is not a molecule: Explicit valence"),
        (f"[C]{B}[*]{B}", 1, None, "the atom is a wildcard"),
        (f"  [CONFORMER] [C]{B}[O]<1.0> [/CONFORMER]", 1, 43, "1 numbers instead of three"),
        ("[C]<1.0,2.0,3.0>" * 20_000, None, None, "320,000 characters, the limit is 200,000"),
    ],
)
def test_damage_is_named_with_block_position_and_reason(
    text: str, block: int | None, position: int | None, reason: str
) -> None:
    with pytest.raises(EnrichedError) as caught:
        decode(text)
    assert caught.value.reason.startswith(reason)
    assert (caught.value.block, caught.value.position) == (block, position)
    assert caught.value.reason in str(caught.value)


@pytest.mark.parametrize("around", ["{}", "\n [CONFORMER]\n{}\n[/CONFORMER]\t", "[CONFORMER]{}"])
def test_tags_and_white_space_around_are_allowed(around: str) -> None:
    assert decode(around.format(f"[C]{B}")).coordinates == [[1.0, -2.0, 0.5]]


def check_decodes_or_says_why(text: str) -> None:
    try:
        decoded = decode(text)
    except DriftscopeError as error:
        message = str(error)
    else:
        message = ""
        assert len(decoded.numbers) == decoded.mol.GetNumAtoms() == len(decoded.coordinates) > 0
        assert np.isfinite(decoded.coordinates).all()
    assert message.isprintable() and len(message) < 600


@pytest.mark.soak
def test_damaged_texts_decode_or_name_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    @given(enriched_texts(), seeds())
    def check(written: Written, seed: int) -> None:
        check_decodes_or_says_why(damaged(written.text, seed))

    check()
    assert capfd.readouterr() == ("", "")


@given(any_text())
def test_any_text_decodes_or_names_an_error(text: str) -> None:
    check_decodes_or_says_why(text)
    check_decodes_or_says_why(f"[C]<{text}>")
    check_decodes_or_says_why(f"[{text}]{B}")


def damaged_triple(seed: int) -> str:
    (triple,) = random_triples(1, seed, NumberFormat(1, 12, 6))
    return damaged(",".join(triple), seed, edits=1)


@pytest.mark.soak
@given(st.one_of(any_text(), st.text("0123456789.,-", max_size=30), seeds().map(damaged_triple)))
def test_the_codec_and_the_reader_of_blocks_agree_on_triples(content: str) -> None:
    """``why_not_a_triple`` and ``read_block`` know the number format each on its own; they must know the same."""
    is_clean = read_block(content, form=WIDEST).is_clean_triple
    assert (why_not_a_triple(content) is None) == is_clean
    if not {"<", "[", ">"} & set(content):  # those may end or begin something else
        try:
            decode(f"[C]<{content}>")
        except EnrichedError:
            assert not is_clean
        else:
            assert is_clean
