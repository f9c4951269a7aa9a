"""The exact LP admits a text if and only if it is the tokenizer's own cut of a well-formed answer.

An independent judge of it is llguidance, which admits the same texts, and cuts them in more ways.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from engine.chem.enriched import decode, fill_blocks
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles, read_text_order, same_graph
from engine.errors import ConstraintError, TokenizerError
from engine.lp.driver import LOST, Tables
from engine.lp.exact import ExactConstraint
from engine.records import FIXED4, SHORTEST4, TRIMMED4, Molecule, NumberFormat
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.engine.lp.grammars import AnswerGrammar
from tests.engine.lp.walks import random_answers
from tests.small_tokenizers import small_byte_level
from tests.support import sized

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FORMATS = (SHORTEST4, FIXED4, NumberFormat(1, 2, 1), NumberFormat(3, 7, 5))
# A minus sign after `++]` changes the token before it; a segment may begin with `><-`, or end the text with a digit.
MOLECULES = (
    replace(parse_smiles("[Ca+2]"), smiles="[Ca++]", descriptors=("[Ca++]",)),
    *map(parse_smiles, ("CC=O", "C1CC1", "[OH2]->[Na+]<-[OH2]", "F/C=C\\F", "C[N+](C)(C)C", "[Cl-].[13CH3]C#[NH+]")),
)
each = pytest.mark.parametrize("name", NAMES)


@functools.cache
def exact(name: str, form: NumberFormat) -> ExactConstraint:
    return ExactConstraint(load_tokenizer(name), form, ROWS[name])


def tables(name: str, form: NumberFormat, molecule: Molecule) -> Tables:
    made = exact(name, form)
    return Tables.of(made.automaton, [made.compile(molecule)])


def end_of(name: str) -> int:
    return load_tokenizer(name).end_id or 0


@functools.cache
def matcher(name: str, form: NumberFormat, molecule: Molecule) -> LLMatcher:
    rules = AnswerGrammar.of(molecule, form, load_tokenizer(name)).lark()
    judge = LLMatcher(judging(name), f'%llguidance {{"no_forcing": true}}\n{rules}', log_level=0)
    assert not judge.is_error(), judge.get_error()
    return judge


@functools.cache
def judging(name: str) -> LLTokenizer:
    tokenizer = load_tokenizer(name)
    return LLTokenizer(tokenizer.backend.to_str(), n_vocab=ROWS[name], eos_token=tokenizer.end_id, slices=[])


def is_number(form: NumberFormat, text: str) -> bool:
    """Whether a model with this format may write the number."""
    match = re.fullmatch(r"-?(0|[1-9][0-9]*)(?:\.([0-9]+))?", text)
    if match is None or re.fullmatch(r"-0(\.0*)?", text):
        return False
    decimals = len(match[2] or "")
    return len(match[1]) <= form.most_integer_digits and form.least_decimals <= decimals <= form.most_decimals


def verdicts(name: str, form: NumberFormat, molecule: Molecule, text: str) -> tuple[bool, bool]:
    """What the exact LP and llguidance say of a text, as the tokenizer cuts it."""
    ids = [*load_tokenizer(name).encode(text), end_of(name)]
    ours = tables(name, form, molecule)
    state = ours.start()
    for id_ in ids:
        state = ours.step(state, torch.tensor([id_]))
    return int(state.cell) != LOST, matcher(name, form, molecule).validate_tokens(ids) == len(ids)


def answer(molecule: Molecule, contents: Sequence[str]) -> str:
    return f"[CONFORMER]{fill_blocks(molecule.smiles, molecule.descriptors, list(contents))}[/CONFORMER]"


@st.composite
def numbers(draw: st.DrawFn, form: NumberFormat) -> str:
    whole = draw(st.integers(0, 10 ** draw(st.integers(1, form.most_integer_digits)) - 1))
    decimals = draw(st.text("0123456789", min_size=form.least_decimals, max_size=form.most_decimals))
    sign = draw(st.sampled_from(("", "-"))) if whole or decimals.strip("0") else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


@st.composite
def answers(draw: st.DrawFn) -> tuple[NumberFormat, Molecule, str]:
    form, molecule = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(MOLECULES))
    drawn = [[draw(numbers(form)) for _ in "xyz"] for _ in range(molecule.atoms)]
    return form, molecule, answer(molecule, [",".join(triple) for triple in drawn])


@pytest.mark.soak
@each
@settings(max_examples=sized(12, 500))
@given(drawn=answers(), data=st.data())
def test_both_accept_every_answer_and_agree_on_one_with_a_change(
    name: str, drawn: tuple[NumberFormat, Molecule, str], data: st.DataObject
) -> None:
    """A character put in, taken out or replaced: right now and then, wrong as a rule."""
    form, molecule, text = drawn
    assert verdicts(name, form, molecule, text) == (True, True)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(start + 1, len(text))))
    put = data.draw(st.sampled_from(["", *"0123456789.,-<>[]()=#+CNOe \n"]))
    ours, theirs = verdicts(name, form, molecule, text[:start] + put + text[end:])
    assert ours == theirs


RIGHT = "1.0,-2.5,3.0"


@each
@pytest.mark.parametrize(
    "contents",
    [
        *(["01.0,2.0,3.0", RIGHT], [RIGHT, "1.0,-02.0,3.0"]),  # a leading zero
        *(["1.00001,2.0,3.0", RIGHT], [RIGHT, "1.0,2.0,3.12345"], ["1.,2.0,3.0", RIGHT]),  # decimals
        *(["-0.0,2.0,3.0", RIGHT], [RIGHT, "1.0,-0.0000,3.0"], [RIGHT, "1.0,2.0,-0.00"]),  # a negative zero
        *(["1234.0,2.0,3.0", RIGHT], ["1,2.0,3.0", RIGHT], [RIGHT, ".5,2.0,3.0"]),
        *(["1.0,2.0", RIGHT], [RIGHT, "1.0,,3.0"], [RIGHT, ""], [RIGHT, "1.0,2.0,"]),  # a number is missing
        *(["1.0,2.0,3.0,4.0", RIGHT], ["1.0,2.0,3.0>[C]<" + RIGHT, RIGHT], [RIGHT, "1.0,2.0,3.0amen"]),
        *(["1.0, 2.0,3.0", RIGHT], ["+1.0,2.0,3.0", RIGHT], ["--1.0,2.0,3.0", RIGHT], ["１.0,2.0,3.0", RIGHT]),
    ],
    ids=lambda contents: " ".join(contents).replace(RIGHT, "~"),
)
def test_both_refuse_a_broken_number(name: str, contents: list[str]) -> None:
    molecule = parse_smiles("C=O")
    assert verdicts(name, TRIMMED4, molecule, answer(molecule, contents)) == (False, False)


@pytest.mark.soak
@each
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_whatever_is_drawn_is_well_formed_and_canonical(name: str, form: NumberFormat) -> None:
    tokenizer, count = load_tokenizer(name), sized(24, 1000 if form == SHORTEST4 else 100)
    drawn = [parse_smiles(entry.smiles) for entry in load_molecule_set(count)]
    drawn.sort(key=lambda molecule: molecule.atoms)  # batches end together
    batches = [drawn[start : start + 250] for start in range(0, len(drawn), 250)]
    answers = [ids for batch in batches for ids in random_answers(exact(name, form), batch, end_of(name))]
    for molecule, ids in zip(drawn, answers, strict=True):
        text = tokenizer.decode(ids[:-1])
        assert tokenizer.encode(text) == ids[:-1]
        decoded = decode(text)
        assert same_graph(decoded.mol, read_text_order(molecule.smiles))
        assert all(is_number(form, number) for row in decoded.numbers for number in row)


@each
def test_where_the_sign_changes_the_token_it_is_chosen_there(name: str) -> None:
    tokenizer, plus = load_tokenizer(name), MOLECULES[0]
    plain, signed, zero = (answer(plus, [f"{x},2.0,3.0"]) for x in ("1.0", "-1.0", "-0.0"))
    pieces = [{tokenizer.piece(id_) for id_ in tokenizer.encode(text)} for text in (plain, signed)]
    assert [piece & {"<", "<-"} for piece in pieces] == [{"<"}, {"<-"}]
    assert [verdicts(name, TRIMMED4, plus, text)[0] for text in (plain, signed, zero)] == [True, True, False]


@each
def test_few_ids_are_ever_legal_and_every_node_leads_on(name: str) -> None:
    """The head, the softmax and the sampler run on these and on two symbols alone."""
    automaton = exact(name, TRIMMED4).automaton
    assert len(automaton.live) == {"qwen3": 13, "llama3": 1_113}[name]
    assert automaton.legal.any(axis=1).all()
    with pytest.raises((ConstraintError, TokenizerError)):  # digits of the one share tokens with other characters
        ExactConstraint(TextTokenizer("small", small_byte_level()), TRIMMED4, 400)
