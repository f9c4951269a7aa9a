"""The group's decoder, by a table that was derived from its description in FORMATS.md, and what it misreads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from engine.chem.enriched import BAD_FLOAT, BAD_TRIPLET, decode, misread_ang, numbers_taken, why_not_taken
from engine.chem.smiles import parse_smiles
from engine.errors import EnrichedError
from engine.records import TRIMMED4
from engine.text.blocks import read_block
from engine.text.check import check_sample, decode_as_group
from tests.strategies import Written, enriched_texts

INF = math.inf
METHANE, ACETALDEHYDE = parse_smiles("C"), parse_smiles("CC=O")
T, F = BAD_TRIPLET, BAD_FLOAT

CONTENTS: list[tuple[str, tuple[float, float, float] | str, str]] = [
    # numbers as models write them
    ("1.6656,-0.2551,0.0000", (1.6656, -0.2551, 0.0), "the fixed writer"),
    ("-0.0000,0.0,0.0", (-0.0, 0.0, 0.0), "a negative zero is a number"),
    # forms of a float that no writer uses
    ("1.,2.,3.", (1.0, 2.0, 3.0), "a point without decimals"),
    ("007.5,00.0,01", (7.5, 0.0, 1.0), "leading zeros"),
    ("1e2,1.5E-1,2e+0", (100.0, 0.15, 2.0), "exponents, with and without a sign"),
    ("1e999,0.0,0.0", (INF, 0.0, 0.0), "float makes an infinity of it, and no exception"),
    # the last number of a part
    ("-0.2623(cc6,0.0,0.0", (6.0, 0.0, 0.0), "the description's own example"),
    ("0.8415amen7,0.0,0.0", (7.0, 0.0, 0.0), "junk that ends in a digit"),
    # white space, and other scripts
    ("\u0661\u0662.\u0665,0.0,0.0", (12.5, 0.0, 0.0), "Arabic-Indic digits are digits to the expression and to float"),
    # not three parts
    ("", T, "nothing: one part"),
    ("1.0,2.0", T, "z is missing"),
    # a part without a number
    ("1.0,2.0,abra", F, "letters alone"),
    ("nan,0.0,0.0", F, "float would take it, the expression does not"),
]


@pytest.mark.parametrize(("content", "expected", "why"), CONTENTS)
def test_what_the_decoder_takes_of_a_block(content: str, expected: tuple[float, float, float] | str, why: str) -> None:
    sample = check_sample(f"[CONFORMER][C]<{content}>[/CONFORMER]", METHANE)
    if isinstance(expected, str):
        assert why_not_taken(content) == expected, why
        assert not sample.decodes
        with pytest.raises(EnrichedError, match=f"block 0: {expected}"):
            decode_as_group(f"[C]<{content}>")
        return
    assert why_not_taken(content) is None, why
    assert tuple(map(float, numbers_taken(content))) == expected, why
    assert sample.decodes
    assert decode_as_group(f"[C]<{content}>").coordinates == [list(expected)]


B = "<1.0,-2.0,0.5>"
GOOD = f"[C]{B}[C]{B}=[O]{B}"
TAGGED = f"[CONFORMER]{GOOD}[/CONFORMER]"
TEXTS: list[tuple[str, bool, str]] = [
    (TAGGED, True, "as a model writes it"),
    (f"[SMILES]CC=O[/SMILES]{TAGGED}<|im_end|><|endoftext|>", True, "with its prompt and padding"),
    (f"[CONFORMER][C]{B} [C]{B}=[O]{B}[/CONFORMER]", False, "a space between atoms is no SMILES"),
    (TAGGED.replace(B, "<0.0,0.0,0.0>"), True, "zeros alone: none of the runner's issues"),
    ("[CONFORMER]CC=O[/CONFORMER]", False, "no block, though the SMILES is there"),
    (f"[CONFORMER]{GOOD}", False, "no conformer block: its end is missing"),
    (TAGGED.replace("[O]", "[N]"), False, "another graph"),
    (f"[CONFORMER][O]{B}=[C]{B}[C]{B}[/CONFORMER]", True, "the same graph from its other end"),
    (f"[CONFORMER][C]{B}[C]{B}([H]{B})=[O]{B}[/CONFORMER]", True, "a hydrogen with a block of its own"),
    (f"[CONFORMER][C]{B}{B}[C]{B}=[O]{B}[/CONFORMER]", False, "a block too many"),
    (TAGGED.replace("[/CONF", "<unk>[/CONF"), False, "an unknown token"),
    (f"[CONFORMER]C{B}C{B}=O{B}[/CONFORMER]", True, "legacy text: bare atoms spell the same SMILES"),
    (TAGGED.replace(",0.5>[/", ",-0.2623(cc6>[/"), True, "taken, and 6 angstrom off"),
]


@pytest.mark.parametrize(("text", "decodes", "why"), TEXTS)
def test_which_answers_decode(text: str, decodes: bool, why: str) -> None:
    check = check_sample(text, ACETALDEHYDE)
    assert check.decodes == decodes, why
    if decodes:
        decode_as_group(text)


@given(enriched_texts(form=TRIMMED4))
def test_text_without_damage_reads_the_same_in_both_decoders(one: Written) -> None:
    theirs, ours = decode_as_group(one.text), decode(one.text)
    assert (theirs.smiles, theirs.numbers) == (ours.smiles, ours.numbers)
    assert all(misread_ang(",".join(triple), list(map(float, triple))) is None for triple in ours.numbers)


@pytest.mark.parametrize(
    ("content", "misread", "by"),
    [
        ("1.0,2.0,-0.2623(cc6", True, 6.2623),
        ("1.0,2.0,0.5a0.511", True, 0.011),
        ("1.0,2.0,0.5e999", True, INF),
        ("1.0,2.0,abra", False, None),  # refused: nothing is misread
        ("1.0,2.0,abra6", True, None),  # a number taken where none is stated
        ("1.0,2.0,1e3", True, None),  # no number of the format
    ],
)
def test_what_the_decoder_misreads(content: str, misread: bool, by: float | None) -> None:
    numbers = [float(number) for number in read_block(content, form=TRIMMED4).numbers]
    stated = [*numbers, *[None] * (3 - len(numbers))]
    found = misread_ang(content, stated)
    assert (found is not None) == misread
    if by is not None:
        assert found == pytest.approx(by, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("[C]<0,0,0>(" * 20_000, "220,000 characters"),  # before RDKit reads it
        ("[C]<0,0,0>(" * 6_000, "6,000 blocks, the limit is 5,000"),
        ("[C]<0,0,0>([C]<0,0,0>", "not a molecule"),
        ("[C]<0,0,0>C", "2 atoms but 1 blocks"),
        (f"[C]{B}[C]<1.0,2.0", "block 1"),
        ("CC", "no block"),
    ],
)
def test_texts_that_are_refused(text: str, error: str) -> None:
    with pytest.raises(EnrichedError, match=error):
        decode_as_group(text)
