"""Generated blocks: found in any text, of every kind, with the exact span of their junk; and their number format."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import format_number
from engine.records import FIXED4, SHORTEST4, TRIMMED4, BinFormat, Kind, NumberFormat
from engine.text.blocks import (
    ENOUGH,
    KINDS,
    NUMERIC,
    BlockReading,
    CloseMass,
    count_junk,
    displacement_ang,
    find_blocks,
    found_form,
    has_letter,
    has_nonnumeric,
    read_block,
)
from tests.alignments import CLOSED_BY_MODEL, LP_NAMES
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.strategies import JUNK, Written, any_text, damaged, enriched_texts, formats, random_triples, seeds

POSITION = "group-v2.1"

# --- the reports ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("content", "kinds", "junk"), QWEN_EXAMPLES + LLAMA_EXAMPLES)
def test_the_examples_of_the_reports(content: str, kinds: tuple[Kind, ...], junk: str) -> None:
    for lp in LP_NAMES:
        reading = read_block(content, lp=lp)
        assert (reading.kinds, reading.junk_text) == (kinds, junk)
        assert reading.numbers == tuple(content.removesuffix(junk).split(","))
    (block,) = find_blocks(f"[C]<{content}>=[O]")
    assert (block.content, block.descriptor, block.closed) == (content, "[C]", True)


def test_both_counts_of_the_reports_on_one_text() -> None:
    """61 (3.8 %) and 180 (11.1 %) of the same 1,619 blocks: one counts letters, the other anything non-numeric."""
    lettered = [content for content, kinds, _ in QWEN_EXAMPLES if "letters" in kinds]
    marked = [content for content, kinds, _ in QWEN_EXAMPLES if "letters" not in kinds]
    contents = [lettered[i % len(lettered)] for i in range(61)] + [marked[i % len(marked)] for i in range(119)]
    contents += ["1.234,-5.678,9.012"] * (1_619 - 180)
    text = "".join(f"[C]<{content}>" for content in contents)
    count = count_junk([read_block(block.content, lp=POSITION) for block in find_blocks(text)])
    assert (count.blocks, count.letters, count.nonnumeric, count.not_triples) == (1_619, 61, 180, 180)
    assert (count.by_kind["letters"], count.by_kind["unverified"]) == (61, 1_439)


# --- kinds ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "free", "forced", "junk", "numbers"),
    [
        # kinds where the model closed the block, kinds where a position LP did, junk, complete numbers
        ("1.0,2.0,3", "exact", "unverified", "", "1.0 2.0 3"),  # 1.0,2.0,3.0 is below
        ("", "missing_z", "missing_z cut", "", ""),
        ("1.0,2.0,", "trailing_mark missing_z", "trailing_mark missing_z cut", "", "1.0 2.0"),
        ("1,2", "missing_z", "missing_z cut", "", "1"),  # the 2 may be the beginning of 2.5
        ("1.0,2.0,3.", "trailing_mark", "trailing_mark cut", "", "1.0 2.0"),
        ("1.0,2.0,3.0,", "trailing_mark", "trailing_mark", ",", "1.0 2.0 3.0"),
        ("1.0,2.0,3.0,4.0", "fourth_number", "fourth_number", ",4.0", "1.0 2.0 3.0"),
        ("1.0,2.0,3.00001", "extra_digit", "extra_digit", "1", "1.0 2.0 3.0000"),
        ("1.0-2.0,3.0", "missing_comma", "missing_comma", "", "1.0 -2.0 3.0"),
        ("1.0,,2.0,3.0", "punctuation", "punctuation", ",", "1.0 2.0 3.0"),
        ("1.0 2.0 3.0", "punctuation missing_z", "punctuation missing_z cut", " 2.0 3.0", "1.0"),
        ("x-123.4567,-123.4567,-123.4567", "letters", "letters", "x", "-123.4567 -123.4567 -123.4567"),
        ("1.0,2.0abc5,3.0", "letters", "letters", "abc5", "1.0 2.0 3.0"),  # not 2.05, which nobody wrote
        ("1.0,2.0,3.0的", "letters", "letters", "的", "1.0 2.0 3.0"),
        ("\u0661.0,2.0,3.0", "punctuation missing_z", "punctuation missing_z cut", "\u0661.0,2.0,3.0", ""),
        ("1" * 400 + ".0,1.0,2.0", "extra_digit", "extra_digit", "", ""),  # would be infinite as a float
    ],
)
def test_kinds_junk_and_numbers(content: str, free: str, forced: str, junk: str, numbers: str) -> None:
    for lp in LP_NAMES:
        reading = read_block(content, lp=lp)
        expected = free if lp in CLOSED_BY_MODEL else forced
        assert set(reading.kinds) == set(expected.split())
        if junk or len(content) < 100:
            assert reading.junk_text == junk
        assert reading.numbers == tuple(numbers.split())


@pytest.mark.parametrize(
    ("cut", "whole", "expected"),
    [("1.5,-2.0,3.1", "1.5,-2.0,3.125", 0.025), ("1,0,7", "1,0,7", 0.0), ("1,0", "1,0,7", None)],
)
def test_how_far_a_cut_is_off(cut: str, whole: str, expected: float | None) -> None:
    assert displacement_ang(cut, whole) == (None if expected is None else pytest.approx(expected))


def test_an_integer_is_a_number_where_the_format_allows_it() -> None:
    for content in ("1.0,2.0,3", "1.0,2,3.0", "1,2,3"):
        assert read_block(content, form=SHORTEST4).kinds == ("exact",)
        assert read_block(content, form=TRIMMED4).kinds == ("integer",)
    assert read_block("1.0,2.0,3", form=TRIMMED4, lp=POSITION).kinds == ("cut",)  # who knows what would have followed
    assert read_block("1.0,2,3.0", form=TRIMMED4, lp=POSITION).kinds == ("integer",)
    assert read_block("1.0,2,3.0amen", form=TRIMMED4).kinds == ("letters", "integer")
    assert read_block("1.0,2,3.0", form=TRIMMED4).numbers == ("1.0",)


@pytest.mark.parametrize(
    ("closing", "going_on", "kind"), [(0.51, 0.0, "exact"), (0.2, 0.51, "cut"), (0.0, 0.0, "unverified")]
)
def test_the_mass_of_the_model_decides_under_a_position_lp(closing: float, going_on: float, kind: Kind) -> None:
    mass = CloseMass(closing, going_on)
    for lp in LP_NAMES:
        reading = read_block("1.0,2.0,3.0", lp=lp, mass=mass)
        assert reading.kinds == (("exact",) if lp in CLOSED_BY_MODEL else (kind,))
        assert read_block("1.0,2.0,3.0amen", lp=lp, mass=mass).kinds == ("letters",)
        assert read_block("1.0,2.0,3.0", lp=lp, mass=mass, closed=False).kinds == ("cut",)


def test_fewer_decimals_than_the_model_has_are_a_cut() -> None:
    assert read_block("1.0000,2.0000,3.00", form=FIXED4, lp=POSITION).kinds == ("cut",)
    assert read_block("1.0000,2.0000,3.00", form=FIXED4, lp="none").kinds == ("exact",)
    assert read_block("1.0000,2.0000,3.00", form=TRIMMED4, lp=POSITION).kinds == ("unverified",)
    wanted_to_close = CloseMass(0.9, 0.0)
    assert read_block("1.0000,2.0000,3.00", form=FIXED4, lp=POSITION, mass=wanted_to_close).kinds == ("exact",)


@pytest.mark.parametrize(
    ("content", "form", "kind"),
    [
        ("0.0,0.0,0.0590", TRIMMED4, "unverified"),
        ("0.0,0.0,0.0590", SHORTEST4, "unverified"),
        ("0.1000,0.2000,0.3000", FIXED4, "unverified"),
        ("0.0,0.0,0.059", TRIMMED4, "cut"),
        ("0.0,0.0,0.05", NumberFormat(0, 2), "unverified"),
        ("0512,0498,0501", BinFormat.in_brackets(0.042, 21), "unverified"),
        ("0.0,0.0,0.05901", TRIMMED4, "extra_digit"),
    ],
)
def test_a_z_with_the_most_decimals_is_never_cut(content: str, form: NumberFormat, kind: Kind) -> None:
    for lp in set(LP_NAMES) - set(CLOSED_BY_MODEL):
        assert read_block(content, form=form, lp=lp, mass=CloseMass(0.0, 0.99)).kinds == (kind,)


def test_a_continuation_that_is_the_text_itself_lost_nothing() -> None:
    """The mass of ten digits may be above half where the likeliest token closes the block all the same."""
    for continued, kind in (("1.0,2.0,3.5", "exact"), ("1.0,2.0,3.51", "cut"), ("", "cut")):
        mass = CloseMass(0.4, 0.6, continued)
        assert read_block("1.0,2.0,3.5", form=TRIMMED4, lp=POSITION, mass=mass).kinds == (kind,)
    unclosed = read_block("1.0,2.0,3.5", lp=POSITION, mass=CloseMass(0.4, 0.6, "1.0,2.0,3.5"), closed=False)
    assert unclosed.kinds == ("cut",)


def contents() -> st.SearchStrategy[str]:
    triple = seeds().map(lambda seed: ",".join(random_triples(1, seed, TRIMMED4)[0]))
    return st.one_of(
        triple,
        st.builds(damaged, triple, seeds(), st.just(2)),
        st.builds("{}{}".format, triple, st.sampled_from(JUNK)),
        st.text("0123456789.,-", max_size=24),
        any_text(),
    )


@pytest.mark.soak
@given(contents(), formats(), st.sampled_from(LP_NAMES), st.booleans())
def test_every_content_has_a_reading(content: str, form: NumberFormat, lp: str, closed: bool) -> None:
    reading = read_block(content, form=form, lp=lp, closed=closed)
    assert reading.kinds
    assert list(reading.kinds) == sorted(set(reading.kinds), key=KINDS.index)
    check_clean(reading, lp, closed)
    assert 0 <= reading.junk_start <= reading.junk_end <= len(content)
    assert reading.junk_text == content[reading.junk_start : reading.junk_end]
    assert ("letters" in reading.kinds) == has_letter(content) == any(char.isalpha() for char in content)
    foreign = [char for char in content if char not in NUMERIC]
    assert has_nonnumeric(content) == bool(foreign)
    assert bool(foreign) <= bool({"letters", "punctuation"} & set(reading.kinds))
    if any(not char.isalpha() for char in foreign):
        assert "punctuation" in reading.kinds
    assert len(reading.numbers) <= 3
    assert all(math.isfinite(float(number)) for number in reading.numbers)
    other = read_block(content, form=form, lp=POSITION if lp in CLOSED_BY_MODEL else "none", closed=closed)
    by_lp = {"exact", "unverified", "cut", "integer"}  # who closed the block makes no other difference
    assert set(reading.kinds) - by_lp == set(other.kinds) - by_lp
    by_model, forced = (reading, other) if lp in CLOSED_BY_MODEL and closed else (other, reading)
    assert ("integer" in by_model.kinds) >= ("integer" in forced.kinds)  # the last number may have been cut
    assert (reading.junk_text, reading.numbers) == (other.junk_text, other.numbers)


def check_clean(reading: BlockReading, lp: str, closed: bool) -> None:
    finished = {"exact", "unverified"} & set(reading.kinds)
    if reading.is_clean_triple:
        assert len(reading.kinds) == 1
        assert bool(finished) <= closed
        assert reading.junk_text == ""
        assert reading.numbers == tuple(reading.content.split(","))
    else:
        assert not finished
    assert "unverified" not in reading.kinds or lp not in CLOSED_BY_MODEL


@pytest.mark.soak
@given(seeds(), st.sampled_from(JUNK), formats())
def test_junk_behind_a_triple_is_found_to_the_character(seed: int, junk: str, form: NumberFormat) -> None:
    clean = ",".join(random_triples(1, seed, form)[0])
    reading = read_block(clean + junk, form=form, lp=POSITION)
    assert reading.junk_text == junk
    assert reading.numbers == tuple(clean.split(","))
    assert set(reading.kinds) <= {"letters", "punctuation"}


@pytest.mark.parametrize("piece", [".", "1.0,", "-1", "[C]<", "[SMILES][/SMILES]<"])
def test_huge_texts_are_read_in_bounded_time(piece: str) -> None:
    content = piece * (100_000 // len(piece))
    assert len(find_blocks(f"<{content}<")) <= content.count("<") + 2
    assert read_block(content).kinds
    assert read_block(f"1.0,2.0,3.0{content}").kinds
    assert read_block(f"{content}1.0,2.0,3.0").kinds


# --- where blocks stand ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("[C]<1.0,2.0,3.0>=[O]<4.0,5.0,6.0>", ["1.0,2.0,3.0", "4.0,5.0,6.0"]),
        ("[C]<>", [""]),
        # bonds, in enriched text and in plain SMILES
        ("[Na+]<1.0,2.0,3.0><-[OH2]<4.0,5.0,6.0>", ["1.0,2.0,3.0", "4.0,5.0,6.0"]),
        ("[SMILES][Fe]<-N.[Fe]<-[NH3][/SMILES][CONFORMER][Fe]<1.0,2.0,3.0>", ["1.0,2.0,3.0"]),
        # blocks that were never closed
        ("[C]<1.0,2.0[O]<4.0,5.0,6.0>", ["1.0,2.0", "4.0,5.0,6.0"]),
        ("[C]<1.0,2.0[/CONFORMER]<|endoftext|><|endoftext|>", ["1.0,2.0"]),
        ("[C]<1.0,2.0,<|endoftext|>", ["1.0,2.0,"]),
        ("[Na+]<1.0,2.0,3.0<-[OH2]<4.0,5.0,6.0>", ["1.0,2.0,3.0", "4.0,5.0,6.0"]),
        # a stray "<" in a block
        ("[C]<1.0,2.0,<3.0>[C]<0.1,<0.2,<0.3>", ["1.0,2.0,<3.0", "0.1,<0.2,<0.3"]),
        # special tokens
        ("<|begin_of_text|>[CONFORMER]<|eot_id|>[C]<1.0,2.0,3.0>[O]<|end_of_text|>", ["1.0,2.0,3.0"]),
        # blocks without an atom
        ('<1.0,2.0,0.5204"1>\n<4.432,0.567,1.2637icineC>', ['1.0,2.0,0.5204"1', "4.432,0.567,1.2637icineC"]),
        ("[C]<1.0,2.0,3.0>[/CONFORMER]<br>", ["1.0,2.0,3.0"]),  # a tag is no atom
        ("1 < 2 and 3 > 2", []),
    ],
)
def test_blocks_are_found_in_any_text(text: str, contents: list[str]) -> None:
    assert [block.content for block in find_blocks(text)] == contents


def test_found_blocks_know_their_atom() -> None:
    blocks = find_blocks("[CONFORMER][C@@H]<1.0>([N+]<2.0>)<3.0,1>[C]<[O]<5.0")
    assert [block.descriptor for block in blocks] == ["[C@@H]", "[N+]", "", "[C]", "[O]"]
    assert [block.closed for block in blocks] == [True, True, True, False, False]


@pytest.mark.soak
@given(enriched_texts(), st.sampled_from(JUNK))
def test_all_blocks_of_an_enriched_text_are_found(enriched: Written, junk: str) -> None:
    expected = [",".join(triple) for triple in enriched.numbers]
    tagged = f"[SMILES]{enriched.molecule.smiles}[/SMILES][CONFORMER]{enriched.text}[/CONFORMER]<|im_end|>"
    for text in (enriched.text, tagged):
        blocks = find_blocks(text)
        assert [block.content for block in blocks] == expected
        assert [block.descriptor for block in blocks] == list(enriched.molecule.descriptors)
        assert all(block.closed for block in blocks)
    with_junk = enriched.text.replace(">[", f"{junk}>[")
    assert len(find_blocks(with_junk)) == len(expected)


def texts_of(form: NumberFormat, blocks: int = ENOUGH) -> list[str]:
    """As models write, but for one x in twenty, which is a whole number."""
    rng = random.Random(0)
    texts = []
    for _ in range(blocks):
        values = [rng.gauss(0.0, 3.0) for _ in range(3)]
        if rng.random() < 0.05:
            values[0] = round(values[0])
        texts.append(f"[C]<{','.join(format_number(value, form) for value in values)}>")
    return texts


@pytest.mark.parametrize("form", [FIXED4, TRIMMED4, SHORTEST4, NumberFormat(1, 2), NumberFormat(0, 3)], ids=str)
@pytest.mark.parametrize("forced_close", [False, True])
def test_each_writer_is_known_by_its_texts(form: NumberFormat, forced_close: bool) -> None:
    counted = ENOUGH * (2 if forced_close else 3)
    assert found_form(texts_of(form), forced_close=forced_close) == (form, counted)
    assert found_form(texts_of(form, ENOUGH // 2 - 1), forced_close=True) == (None, ENOUGH - 2)  # too few


def test_damage_is_outvoted() -> None:
    damaged = ["[C]<1.5,2,0.5>", "[C]<1.25amen,2.0", "[C]<0512,0498,0501>", "[C]<>"]
    assert found_form([*texts_of(FIXED4), *damaged], forced_close=False)[0] == FIXED4
    assert found_form([*texts_of(TRIMMED4), "[C]<1.5,2,0.5>"], forced_close=False)[0] == TRIMMED4
