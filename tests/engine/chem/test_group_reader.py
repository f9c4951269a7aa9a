"""The group's decoder, by a table that was derived from its description in FORMATS.md, and what it misreads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from engine.chem.enriched import decode
from engine.chem.group_reader import (
    BAD_FLOAT,
    BAD_TRIPLET,
    decode_parts,
    misread_ang,
    numbers_taken,
    why_not_taken,
)
from engine.chem.smiles import parse_smiles
from engine.errors import EnrichedError
from engine.records import TRIMMED4
from engine.text.blocks import read_block
from engine.text.check import check_sample, decode_as_group, decode_with
from tests.strategies import Written, enriched_texts

INF = math.inf
METHANE, ACETALDEHYDE = parse_smiles("C"), parse_smiles("CC=O")
T, F = BAD_TRIPLET, BAD_FLOAT

CONTENTS: list[tuple[str, tuple[float, float, float] | str, str]] = [
    # numbers as models write them
    ("1.6656,-0.2551,0.0000", (1.6656, -0.2551, 0.0), "the fixed writer"),
    ("1.6656,-0.255,0.0", (1.6656, -0.255, 0.0), "one decimal left"),
    ("1.6656,0,-2", (1.6656, 0.0, -2.0), "the trimmed writer's integers"),
    ("12.5,-103.25,0.1", (12.5, -103.25, 0.1), "more integer digits"),
    ("-0.0000,0.0,0.0", (-0.0, 0.0, 0.0), "a negative zero is a number"),
    # forms of a float that no writer uses
    ("1.,2.,3.", (1.0, 2.0, 3.0), "a point without decimals"),
    (".5,-.5,+.5", (0.5, -0.5, 0.5), "decimals without an integer digit"),
    ("+1.0,+2.0,+3.0", (1.0, 2.0, 3.0), "a plus"),
    ("007.5,00.0,01", (7.5, 0.0, 1.0), "leading zeros"),
    ("1e2,1.5E-1,2e+0", (100.0, 0.15, 2.0), "exponents, with and without a sign"),
    ("1.e1,.5e1,0", (10.0, 5.0, 0.0), "an exponent behind a point, and without an integer digit"),
    ("1e999,0.0,0.0", (INF, 0.0, 0.0), "float makes an infinity of it, and no exception"),
    ("-1e999,0.0,0.0", (-INF, 0.0, 0.0), "and of the other sign"),
    ("1e-999,0.0,0.0", (0.0, 0.0, 0.0), "an underflow is zero"),
    ("0.12345678901234567890,0,0", (0.12345678901234568, 0.0, 0.0), "any number of decimals"),
    ("1e,2e+,3e-", (1.0, 2.0, 3.0), "an exponent that is only begun is no part of the number"),
    ("1.0e2.5,0,0", (0.5, 0.0, 0.0), "'1.0e2', then '.5': the last"),
    # the last number of a part
    ("-0.2623(cc6,0.0,0.0", (6.0, 0.0, 0.0), "the description's own example"),
    ("0.8415amen,0.0,0.0", (0.8415, 0.0, 0.0), "junk behind a number, without a digit"),
    ("0.8415amen7,0.0,0.0", (7.0, 0.0, 0.0), "junk that ends in a digit"),
    ("abc1.5,0.0,0.0", (1.5, 0.0, 0.0), "junk before a number"),
    ("1.5C2.5,0.0,0.0", (2.5, 0.0, 0.0), "two numbers in one part"),
    ("1.0-2.0,0.0,0.0", (-2.0, 0.0, 0.0), "a comma that is missing makes two numbers of one part ..."),
    ("1.0 2.0,3.0,4.0", (2.0, 3.0, 4.0), "... so does a space"),
    ("1..5,0.0,0.0", (0.5, 0.0, 0.0), "'1.', then '.5'"),
    ("1.2.3,0.0,0.0", (0.3, 0.0, 0.0), "'1.2', then '.3'"),
    ("--1.5,0.0,0.0", (-1.5, 0.0, 0.0), "the first sign is junk"),
    ("+-1.5,0.0,0.0", (-1.5, 0.0, 0.0), "the sign next to the digits counts"),
    ("-+1.5,0.0,0.0", (1.5, 0.0, 0.0), "and hides the minus before it"),
    ("- 1.5,0.0,0.0", (1.5, 0.0, 0.0), "a sign apart from its digits is lost"),
    ("1.5-,0.0,0.0", (1.5, 0.0, 0.0), "a mark behind"),
    ("1.5},0.0),0.0]", (1.5, 0.0, 0.0), "brackets behind"),
    ('"1.5","0.0","0.0"', (1.5, 0.0, 0.0), "quotes around"),
    ("x=1.5,y=0.5,z=-0.5", (1.5, 0.5, -0.5), "names before"),
    ("1.5e0e5,0.0,0.0", (5.0, 0.0, 0.0), "'1.5e0', then '5'"),
    ("1_000.5,0.0,0.0", (0.5, 0.0, 0.0), "'1', '000.5': no underscores in a match"),
    ("0x1F,0.0,0.0", (1.0, 0.0, 0.0), "'0', '1': no hexadecimals"),
    ("0x10e1,0.0,0.0", (100.0, 0.0, 0.0), "'0', '10e1'"),
    # white space, and other scripts
    (" 1.0 , 2.0 , 3.0 ", (1.0, 2.0, 3.0), "spaces"),
    ("1.0,\n2.0,\t3.0", (1.0, 2.0, 3.0), "line breaks and tabs"),
    ("1.0\u00a0,2.0,3.0", (1.0, 2.0, 3.0), "a space without a break"),
    ("\u0661\u0662.\u0665,0.0,0.0", (12.5, 0.0, 0.0), "Arabic-Indic digits are digits to the expression and to float"),
    ("\uff11.\uff15,0.0,0.0", (1.5, 0.0, 0.0), "full-width digits too"),
    ("\u0967.\u096b,-\u0968,0", (1.5, -2.0, 0.0), "Devanagari digits"),
    ("1.5\u0968,0.0,0.0", (1.52, 0.0, 0.0), "scripts may be mixed in one number"),
    ("\u00bd5,0.0,0.0", (5.0, 0.0, 0.0), "a fraction is a numeral, and no digit"),
    ("1.5\u00b2,0.0,0.0", (1.5, 0.0, 0.0), "nor is a superscript"),
    ("\u22121.5,0.0,0.0", (1.5, 0.0, 0.0), "a typographic minus is no sign"),
    ("1\uff0e5,0.0,0.0", (5.0, 0.0, 0.0), "a full-width point is no point"),
    ("1.5\uff08,0.0,0.0", (1.5, 0.0, 0.0), "a full-width bracket behind"),
    # not three parts
    ("", T, "nothing: one part"),
    ("1.0", T, "one number"),
    ("1.0,2.0", T, "z is missing"),
    ("1.0,2.0,3.0,4.0", T, "a fourth number"),
    ("1.0,2.0,3.0,", T, "an empty fourth part"),
    (",1.0,2.0,3.0", T, "an empty first part"),
    ("1.0,,2.0,3.0", T, "an empty part between"),
    ("1.0;2.0;3.0", T, "other separators"),
    ("1.0\uff0c2.0\uff0c3.0", T, "a full-width comma is no comma"),
    ("1,0,2,0,3,0", T, "decimal commas"),
    ("1.0-2.0,3.0", T, "a comma is missing"),
    # a part without a number
    (",,", F, "three empty parts"),
    ("1.0,2.0,", F, "z was not begun"),
    (",2.0,3.0", F, "x is empty"),
    ("1.0, ,3.0", F, "y is a space"),
    ("1.0,2.0,-", F, "a sign alone"),
    ("1.0,2.0,.", F, "a point alone"),
    ("1.0,2.0,abra", F, "letters alone"),
    ("nan,0.0,0.0", F, "float would take it, the expression does not"),
    ("inf,0.0,0.0", F, "the same"),
    ("1.0,2.0,e5e", (1.0, 2.0, 5.0), "'e5' is no exponent without a number before it; 5 is one"),
    ("\u2460,0.0,0.0", F, "an encircled one is no digit"),
    ("\u516d,0.0,0.0", F, "a number as a word"),
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
    (GOOD, True, "without its tags, as decoders that leave special tokens out return it"),
    (f"[SMILES]CC=O[/SMILES]{TAGGED}<|im_end|><|endoftext|>", True, "with its prompt and padding"),
    (f"[SMILES]O=CC[/SMILES]{TAGGED}", True, "the prompt in another spelling is no other molecule"),
    (f"[SMILES]CCO[/SMILES]{TAGGED}", False, "another SMILES block"),
    (f"[SMILES]C(C[/SMILES]{TAGGED}", False, "a SMILES block that is no SMILES"),
    (f"  \n{TAGGED}\n", True, "white space around"),
    (f"[CONFORMER] {GOOD} [/CONFORMER]", True, "white space inside the tags"),
    (f"[CONFORMER][C]{B} [C]{B}=[O]{B}[/CONFORMER]", False, "a space between atoms is no SMILES"),
    (
        TAGGED.replace(B, "<0.0,0.0,0.0>"),
        True,
        "zeros alone: ours about real coordinates is none of the runner's issues",
    ),
    ("[C]<0.0,0.0,0.0>[C]<0.0,0.0,0.0>=[O]<0,0,0>", True, "zeros as integers"),
    ("", False, "nothing"),
    ("I cannot do that.", False, "no block"),
    ("[CONFORMER]CC=O[/CONFORMER]", False, "no block, though the SMILES is there"),
    (f"[CONFORMER]{GOOD}", False, "no conformer block: its end is missing"),
    (TAGGED.replace("0.5>[/", "0.5[/"), False, "a block never closed, at the end"),
    (GOOD.removesuffix(">"), False, "the same without tags"),
    (TAGGED.replace("0.5>[C]", "0.5[C]"), False, "a block never closed, between atoms"),
    (TAGGED.replace("[O]", "[N]"), False, "another graph"),
    (TAGGED.replace("=", ""), False, "another bond"),
    (f"[CONFORMER][O]{B}=[C]{B}[C]{B}[/CONFORMER]", True, "the same graph from its other end"),
    (f"[CONFORMER][CH3]{B}[CH]{B}=[O]{B}[/CONFORMER]", True, "hydrogens written inside brackets"),
    (f"[CONFORMER][C]{B}[C]{B}([H]{B})=[O]{B}[/CONFORMER]", True, "a hydrogen with a block of its own"),
    (f"[CONFORMER][C]{B}[C]{B}([H])=[O]{B}[/CONFORMER]", False, "an atom without a block"),
    (f"[CONFORMER][C]{B}[C]=[O]{B}[/CONFORMER]", False, "the same"),
    (f"[CONFORMER][C]{B}{B}[C]{B}=[O]{B}[/CONFORMER]", False, "a block too many"),
    (f"[CONFORMER][C]{B}[Qq]{B}=[O]{B}[/CONFORMER]", False, "an unknown element"),
    (TAGGED.replace("[/CONF", "<unk>[/CONF"), False, "an unknown token"),
    (TAGGED.replace("[C]", "[UNK]", 1), False, "another spelling of it"),
    (f"[CONFORMER]C{B}C{B}=O{B}[/CONFORMER]", True, "legacy text: bare atoms spell the same SMILES"),
    (TAGGED.replace(B, "<0512,0498,0501>"), True, "binned coordinates are numbers, and read as angstrom"),
    (TAGGED.replace("0.5>[/", "0.5amen>[/"), True, "junk that leaves a number"),
    (TAGGED.replace(",0.5>[/", ">[/"), False, "a cut that took z"),
    (TAGGED.replace("0.5>[/", "0.>[/"), True, "a cut inside z"),
    (TAGGED.replace(",0.5>[/", ",-0.2623(cc6>[/"), True, "taken, and 6 angstrom off"),
]


@pytest.mark.parametrize(("text", "decodes", "why"), TEXTS)
def test_which_answers_decode(text: str, decodes: bool, why: str) -> None:
    check = check_sample(text, ACETALDEHYDE)
    assert check.decodes == decodes, why
    if decodes:
        decode_as_group(text)


def test_the_table_has_at_least_sixty_texts() -> None:
    assert len({content for content, _, _ in CONTENTS}) == len(CONTENTS) >= 60


@given(enriched_texts(form=TRIMMED4))
def test_text_without_damage_reads_the_same_in_both_decoders(one: Written) -> None:
    theirs, ours = decode_as_group(one.text), decode(one.text)
    assert (theirs.smiles, theirs.numbers) == (ours.smiles, ours.numbers)
    assert all(misread_ang(",".join(triple), list(map(float, triple))) is None for triple in ours.numbers)


@pytest.mark.parametrize(
    ("content", "misread", "by"),
    [
        ("1.0,2.0,-0.2623(cc6", True, 6.2623),
        ("1.0,2.0,0.5amen", False, None),  # taken as it is meant
        ("1.0,2.0,0.5a0.51", False, None),  # not over a hundredth
        ("1.0,2.0,0.5a0.511", True, 0.011),
        ("1.0,2.0,0.5e999", True, INF),
        ("1.0,2.0,abra", False, None),  # refused: nothing is misread
        ("1.0,2.0", False, None),
        ("1.0,2.0,3.0,4.0", False, None),
        ("1.0,2.0,abra6", True, None),  # a number taken where none is stated
        ("1.0,2.0,3", False, None),  # three plain numbers, whoever wrote them
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


def test_each_reader_by_its_name() -> None:
    damaged = TAGGED.replace("0.5>[/", "-0.2623(cc6>[/")
    assert decode_with("group", damaged).coordinates[2] == [1.0, -2.0, 6.0]
    with pytest.raises(EnrichedError, match="which is no number"):
        decode_with("strict", damaged)
    assert decode_with("strict", TAGGED).numbers == decode_with("group", TAGGED).numbers
    with pytest.raises(EnrichedError, match="block 2: a coordinate is not finite"):
        decode_with("group", TAGGED.replace("0.5>[/", "1e999>[/"))


@pytest.mark.parametrize(
    ("text", "error"),
    [("[C]<0,0,0>(" * 20_000, "220,000 characters"), ("[C]<0,0,0>(" * 6_000, "6,000 blocks, the limit is 5,000")],
)
def test_texts_without_end_are_refused_before_rdkit_reads_them(text: str, error: str) -> None:
    with pytest.raises(EnrichedError, match=error):
        decode_as_group(text)


def test_errors_of_a_rebuilt_molecule() -> None:
    with pytest.raises(EnrichedError, match="not a molecule"):
        decode_parts("C(", ["0,0,0"])
    with pytest.raises(EnrichedError, match="2 atoms but 1 blocks"):
        decode_parts("CC", ["0,0,0"])
    with pytest.raises(EnrichedError, match="block 1"):
        decode_as_group(f"[C]{B}[C]<1.0,2.0")
    with pytest.raises(EnrichedError, match="no block"):
        decode_as_group("CC")
