"""The check of a sample, the reports' issues and rule and ours; and cleanup, which strips and invents no number."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from engine.chem.enriched import decode, split_as_group
from engine.chem.other_forms import OTHER_WORDS
from engine.chem.smiles import parse_smiles
from engine.errors import EnrichedError
from engine.records import TRIMMED4, Check, Molecule
from engine.text.blocks import find_blocks, read_block
from engine.text.check import (
    MISMATCH,
    NO_CONFORMER,
    NO_COORDINATES,
    NOT_CLOSED,
    NOT_PARSED,
    answer_of,
    check_sample,
    clean_up,
    decode_with,
    extract_smiles,
    find_answer,
)
from tests.report_examples import QWEN_EXAMPLES
from tests.strategies import JUNK, Written, any_text, damaged, enriched_texts, molecules, seeds

ACETALDEHYDE = parse_smiles("CC=O")
B = "<1.0,-2.0,0.5>"
GOOD = f"[C]{B}[C]{B}=[O]{B}"
ALANINE = parse_smiles("C[C@H](N)C(=O)O")
PROMPT = "[SMILES]CC=O[/SMILES]"

ISSUES = (*OTHER_WORDS.values(), NO_CONFORMER, NOT_CLOSED, NOT_PARSED, MISMATCH, NO_COORDINATES)


def answer(smiles_with_gaps: str) -> str:
    return smiles_with_gaps.replace("]", f"]{B}")


@pytest.mark.parametrize(
    ("text", "prompt", "issues", "clean"),
    [
        (f"[CONFORMER]{GOOD}[/CONFORMER]", ACETALDEHYDE, (), True),
        (f"{PROMPT}[CONFORMER]{GOOD}[/CONFORMER]<|im_end|><|endoftext|>", ACETALDEHYDE, (), True),
        # nothing to look at
        ("", ACETALDEHYDE, (NO_CONFORMER,), False),
        (f"{PROMPT}[CONFORMER]CC=O[/CONFORMER]", ACETALDEHYDE, (NO_CONFORMER,), False),
        # never closed
        (f"[CONFORMER]{GOOD}", ACETALDEHYDE, (NOT_CLOSED,), False),
        # not a SMILES
        (f"[C]{B}[Qq]{B}=[O]{B}", ACETALDEHYDE, (NOT_PARSED,), False),
        # another molecule
        (f"[C]{B}[C]{B}[O]{B}", ACETALDEHYDE, (MISMATCH,), False),
        (answer("[C][C@@H]([N])[C](=[O])[O]"), ALANINE, (MISMATCH,), False),
        # the same molecule, written in another way
        (answer("[N][C@@H]([C])[C](=[O])[O]"), ALANINE, (), True),
        # blocks that do not say where an atom is
        (GOOD.replace(B, "<0.0,0.0,0.0>"), ACETALDEHYDE, (NO_COORDINATES,), False),
        (f"C{B}C{B}=O{B}", ACETALDEHYDE, (OTHER_WORDS["legacy"],), False),
        (GOOD.replace(B, "<512,498,501>"), ACETALDEHYDE, (OTHER_WORDS["binned"],), False),
        # neither *no conformer* nor *missing z*: nothing of it is read
        ("[CONFORMER][C]121129129;[C]100102098;=[O]1;[/CONFORMER]", ACETALDEHYDE, (OTHER_WORDS["bins"],), False),
        ("[CONFORMER][C]<123>(=<45>[O]<678>)<9>[C]<4000>", ACETALDEHYDE, (OTHER_WORDS["codes"],), False),
        ("[C]<0.0,0.0,0.0>", parse_smiles("C"), (), True),  # a lone atom belongs at the origin
        # junk passes, by the reports' rule
        (GOOD.replace("0.5>", "0.5amen>"), ACETALDEHYDE, (), False),
        (f"[C]{B}[C]{B}=[O]<1.0,2.0", ACETALDEHYDE, (), False),
        (f"[C]{B}[C]=[O]{B}", ACETALDEHYDE, (), False),  # a block too few
    ],
)
def test_issues_passed_and_clean(text: str, prompt: Molecule, issues: tuple[str, ...], clean: bool) -> None:
    check = check_sample(text, prompt)
    assert check.issues == issues
    assert check.passed == (not issues)
    assert check.clean == clean
    unread = {NO_CONFORMER, OTHER_WORDS["bins"], OTHER_WORDS["codes"]}
    assert check.parsed == (NOT_PARSED not in issues) or unread & set(issues)


def test_a_stray_angle_bracket_is_in_its_block_as_the_groups_reader_has_it() -> None:
    text = "[C]<1.0,2.0,<3.0>[C]<0.1,0.2,0.3>=[O]<1.1,2.2,3.3>"
    check = check_sample(text, ACETALDEHYDE)
    assert (check.decodes, check.why_not_clean) == (True, ("block 0 is punctuation: '1.0,2.0,<3.0'",))
    assert [block.content for block in find_blocks(text)] == split_as_group(text)[1]
    with pytest.raises(EnrichedError, match="which is no number"):
        decode(text)


def test_all_of_a_good_answer() -> None:
    check = check_sample(f"[CONFORMER]{GOOD}[/CONFORMER]", ACETALDEHYDE)
    assert all((check.passed, check.decodes, check.clean, check.parsed, check.same_graph, check.exact_match))
    assert (check.extracted_smiles, check.generated_smiles) == ("CC=O", "CC=O")
    assert (check.issues, check.parse_error, check.has_real_coordinates) == ((), None, True)
    assert (check.blocks, check.unverified_blocks) == (3, 0)
    other = check_sample(answer("[O]=[CH][CH3]"), ACETALDEHYDE)
    assert (other.same_graph, other.exact_match) == (True, False)
    assert (other.extracted_smiles, other.generated_smiles) == ("O=[CH][CH3]", "CC=O")


def test_under_a_position_lp_blocks_are_unverified_and_may_be_clean() -> None:
    check = check_sample(GOOD, ACETALDEHYDE, lp="group-v2.1")
    assert (check.passed, check.clean, check.unverified_blocks) == (True, True, 3)
    for content, _, _ in QWEN_EXAMPLES:  # junk of the reports
        check = check_sample(f"[CONFORMER][C]<{content}>[C]{B}=[O]{B}[/CONFORMER]", ACETALDEHYDE, lp="group-v2.1")
        assert (check.passed, check.clean, check.exact_match) == (True, False, True)
    readings = [read_block(block.content, lp="group-v2.1") for block in find_blocks(GOOD)]
    settled = [*readings[:2], read_block("1.0,-2.0,0.", lp="group-v2.1")]
    better = check_sample(GOOD, ACETALDEHYDE, lp="group-v2.1", readings=settled)
    assert (better.clean, better.unverified_blocks) == (False, 2)  # an alignment knew more than the text


def test_a_smiles_that_rdkit_cannot_free_of_hydrogens_is_an_issue() -> None:
    """``~`` between aromatic atoms once ended the check with RDKit's exception."""
    text = "O=Cc1~ccc2nocc2c1".translate({ord(atom): f"[{atom}]{B}" for atom in "OCcno"})
    assert check_sample(text, parse_smiles("O=Cc1ccc2nocc2c1")).issues == (NOT_PARSED,)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (GOOD, GOOD),
        (f"{PROMPT}[CONFORMER]{GOOD}[/CONFORMER]<|im_end|>", GOOD),
        (f"[CONFORMER]{GOOD}<|endoftext|>[/CONFORMER]", GOOD),  # what follows an end token is padding
        (f"<|endoftext|> <|endoftext|>{GOOD}<|endoftext|>", GOOD),
        (f"[CONFORMER]{GOOD}[/CONFORMER][CONFORMER][C]<9.0", GOOD),  # what a model adds behind its answer
        ("", ""),
    ],
)
def test_the_answer_is_what_stands_in_the_tags(text: str, inside: str) -> None:
    assert answer_of(text) == inside


@pytest.mark.soak
@given(enriched_texts(form=TRIMMED4), st.booleans())
def test_what_the_codec_writes_is_clean(enriched: Written, tags: bool) -> None:
    prompt = f"[SMILES]{enriched.molecule.smiles}[/SMILES]"
    text = f"{prompt}[CONFORMER]{enriched.text}[/CONFORMER]<|endoftext|>" if tags else enriched.text
    assert extract_smiles(answer_of(text)) == enriched.molecule.smiles
    check = check_sample(text, enriched.molecule)
    at_origin = enriched.molecule.atoms > 1 and not any(float(n) for triple in enriched.numbers for n in triple)
    assert check.issues == ((NO_COORDINATES,) if at_origin else ())
    assert check.clean != at_origin
    assert (check.exact_match, check.same_graph, check.blocks) == (True, True, enriched.molecule.atoms)


def check_consistent(check: Check) -> None:
    assert check.passed == (not check.issues)
    assert check.clean <= check.passed
    assert check.clean <= check.decodes <= check.same_graph
    issues = [issue.removeprefix(f"conformer {n}: ") for n in range(1, 1 + check.conformers) for issue in of(check, n)]
    assert set(issues) <= set(ISSUES)  # and in this order
    assert check.conformers > 1 or issues == sorted(check.issues, key=ISSUES.index)
    assert check.parsed == (check.parse_error is None) == (check.generated_smiles is not None)
    assert check.same_graph <= check.parsed
    assert check.exact_match <= check.same_graph
    assert check.parse_error is None or (check.parse_error and len(check.parse_error) < 400)
    if check.generated_smiles is not None:
        assert Chem.MolFromSmiles(check.generated_smiles) is not None


def of(check: Check, conformer: int) -> list[str]:
    """Its issues; of several conformers those of one."""
    return [issue for issue in check.issues if check.conformers == 1 or issue.startswith(f"conformer {conformer}: ")]


@pytest.mark.soak
def test_any_answer_has_a_check(capfd: pytest.CaptureFixture[str]) -> None:
    @given(enriched_texts(), seeds(), any_text(), st.sampled_from(("none", "group-v2.1")))
    def check(enriched: Written, seed: int, text: str, lp: str) -> None:
        check_consistent(check_sample(damaged(enriched.text, seed, 6), enriched.molecule, lp=lp))
        check_consistent(check_sample(text, enriched.molecule, lp=lp))
        check_consistent(check_sample(f"[CONFORMER][C]<{text}>{text}", enriched.molecule, lp=lp))
        twice = f"[CONFORMER]{damaged(enriched.text, seed, 2)}[/CONFORMER][CONFORMER]{text}"
        check_consistent(check_sample(twice, enriched.molecule, lp=lp))

    check()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("[C]<1.0,2.0,3.00001>", "[C]<1.0,2.0,3.0000>"),
        ("[C]<1.0,2.0,3.0,>[O]<1.0,2.0,3.0,4.0>", "[C]<1.0,2.0,3.0>[O]<1.0,2.0,3.0>"),
        ("[C]<1,-2,3>[C]<1,-2,3amen>", "[C]<1,-2,3>[C]<1,-2,3>"),
        ("[C]<1.0,2a.0,3.0>", "[C]<1.0,2a.0,3.0>"),  # 2.0 is not what was written
        ("[C]<1.0,2.0,3.0amen", "[C]<1.0,2.0,3.0amen"),  # no end to strip up to
    ],
)
def test_only_complete_triples_are_mended(text: str, cleaned: str) -> None:
    assert clean_up(text) == cleaned


@pytest.mark.soak
@given(enriched_texts(molecules(shipped=60), TRIMMED4), st.lists(st.sampled_from(JUNK), min_size=1, max_size=5))
def test_junk_behind_every_triple_is_stripped(enriched: Written, junk: list[str]) -> None:
    contents = iter([",".join(triple) + junk[index % len(junk)] for index, triple in enumerate(enriched.numbers)])
    text = re.sub(r"(?<=\])<[^<>]*>", lambda _: f"<{next(contents)}>", enriched.text)
    assert clean_up(text) == enriched.text


@pytest.mark.soak
@given(st.one_of(any_text(120), st.builds(lambda whole, seed: damaged(whole.text, seed, 8), enriched_texts(), seeds())))
def test_no_number_is_invented_and_nothing_else_is_touched(text: str) -> None:
    cleaned = clean_up(text)
    before, after = find_blocks(text), find_blocks(cleaned)
    for old, new in zip(before, after, strict=True):
        if new.content != old.content:
            assert not read_block(old.content).is_clean_triple
            assert read_block(new.content).is_clean_triple
            assert old.content.startswith(new.content)  # so each number is one that was written, or its beginning
    assert between(text, [(block.start, block.end) for block in before]) == between(
        cleaned, [(block.start, block.end) for block in after]
    )
    assert clean_up(cleaned) == cleaned


def between(text: str, spans: list[tuple[int, int]]) -> list[str]:
    ends = [0, *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


# --- prompts, examples and several conformers (tests/own_files has whole answers) -------------------------------------

TAGGED = f"[CONFORMER]{GOOD}[/CONFORMER]"
ETHANOL = f"[SMILES]CCO[/SMILES][CONFORMER][C]{B}[C]{B}[O]{B}[/CONFORMER]"


@pytest.mark.parametrize(
    ("text", "asked", "before", "conformers", "further"),
    [
        (f"{ETHANOL}{PROMPT}{TAGGED}", ACETALDEHYDE, f"{ETHANOL}{PROMPT}", 1, None),
        (f"{ETHANOL}{PROMPT}{TAGGED}{TAGGED}", None, f"{ETHANOL}{PROMPT}", 2, None),
        (f"{ETHANOL}[SMILES]O=CC[/SMILES]{TAGGED}", ACETALDEHYDE, f"{ETHANOL}[SMILES]O=CC[/SMILES]", 1, None),
        (f"{PROMPT}{TAGGED}{ETHANOL}", ACETALDEHYDE, PROMPT, 1, "CCO"),  # it went on with another prompt
        (f"{PROMPT}{TAGGED}{PROMPT}{TAGGED}", ACETALDEHYDE, PROMPT, 1, "CC=O"),  # or with its own
        (f"{PROMPT}{TAGGED}{ETHANOL}{PROMPT}{TAGGED}", ACETALDEHYDE, f"{PROMPT}{TAGGED}{ETHANOL}{PROMPT}", 1, None),
        (f"{ETHANOL}{PROMPT}", ACETALDEHYDE, f"{ETHANOL}{PROMPT}", 1, None),  # nothing was written
        (f"{ETHANOL}{PROMPT}", None, "[SMILES]CCO[/SMILES]", 1, "CC=O"),
        (f"{TAGGED}{ETHANOL}", None, "", 1, "CCO"),  # as answers are stored: it begins with the answer
        (f"{GOOD}{PROMPT}{TAGGED}", ACETALDEHYDE, "", 1, "CC=O"),
        (f"{TAGGED}<|im_end|>{TAGGED}", None, "", 1, None),  # padding
    ],
)
def test_the_answer_is_behind_the_prompt_of_its_molecule(
    text: str, asked: Molecule | None, before: str, conformers: int, further: str | None
) -> None:
    answer = find_answer(text, asked)
    assert text[: answer.start] == before
    assert (len(answer.bodies), answer.further) == (conformers, further)


@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_both_readers_read_the_first_of_several_conformers(between: str) -> None:
    """The bug: with a line end between them an answer was clean, and the strict reader refused it."""
    text = f"{TAGGED}{between}{TAGGED.replace('0.5>', '2.5>')}"
    assert check_sample(text, ACETALDEHYDE).clean
    by_strict, by_group = decode_with("strict", text), decode_with("group", text)
    assert by_strict.numbers == by_group.numbers == decode_with("strict", TAGGED).numbers


def test_readings_go_to_the_conformer_that_their_blocks_are_of() -> None:
    text = f"{ETHANOL}{PROMPT}{TAGGED}{TAGGED}"
    readings = [read_block(block.content) for block in find_blocks(text)]
    readings[7] = read_block("1.0,-2.0,0.", lp="group-v2.1")  # an alignment knew that it was cut
    check = check_sample(text, ACETALDEHYDE, readings=readings)
    assert (check.conformers, check.blocks, check.clean) == (2, 6, False)
    assert check.why_not_clean == ("conformer 2: block 1 is trailing_mark, cut: '1.0,-2.0,0.'",)


@given(any_text(), st.integers(0, 3))
def test_any_text_has_an_answer(text: str, tags: int) -> None:
    pieces = [PROMPT, TAGGED, text, "[CONFORMER]", "[/CONFORMER]", "<|im_end|>"]
    for asked in (None, ACETALDEHYDE):
        answer = find_answer("".join(pieces[tags:] + pieces[:tags]), asked)
        assert len(answer.conformers) >= 1
        assert all(answer.start <= start <= end <= answer.end for start, end in answer.bodies)
