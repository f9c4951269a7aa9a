"""An independent judge of the exact LP: llguidance admits the same texts, and cuts them in more ways.

The exact LP admits just those tokens that llguidance admits and that begin the tokenizer's own cut of some answer.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import fill_blocks
from engine.chem.smiles import parse_smiles
from engine.lp.driver import LOST, Tables
from engine.lp.exact import ExactConstraint
from engine.records import FIXED4, SHORTEST4, TRIMMED4, Molecule, NumberFormat
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.grammars import AnswerGrammar, Judge
from tests.engine.lp.walks import random_answers
from tests.support import sized

if importlib.util.find_spec("llguidance") is None and not os.environ.get("CI"):
    pytest.skip("llguidance is not installed (requirements-dev.txt)", allow_module_level=True)

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


@functools.cache
def judge(name: str) -> Judge:
    return Judge(load_tokenizer(name), ROWS[name])


def grammar(name: str, form: NumberFormat, molecule: Molecule) -> AnswerGrammar:
    return AnswerGrammar.of(molecule, form, load_tokenizer(name))


def tables(name: str, form: NumberFormat, molecule: Molecule) -> Tables:
    made = exact(name, form)
    return Tables.of(made.automaton, [made.compile(molecule)])


def end_of(name: str) -> int:
    return load_tokenizer(name).end_id or 0


def verdicts(name: str, form: NumberFormat, molecule: Molecule, text: str) -> tuple[bool, bool]:
    """What the exact LP and llguidance say of a text, as the tokenizer cuts it."""
    ids = [*load_tokenizer(name).encode(text), end_of(name)]
    ours = tables(name, form, molecule)
    state = ours.start()
    for id_ in ids:
        state = ours.step(state, torch.tensor([id_]))
    return int(state.cell) != LOST, judge(name).accepts(grammar(name, form, molecule), ids)


def answer(molecule: Molecule, contents: Sequence[str]) -> str:
    return f"[CONFORMER]{fill_blocks(molecule.smiles, molecule.descriptors, list(contents))}[/CONFORMER]"


@st.composite
def numbers(draw: st.DrawFn, form: NumberFormat) -> str:
    whole = draw(st.integers(0, 10 ** draw(st.integers(1, form.most_integer_digits)) - 1))
    decimals = draw(st.text("0019", min_size=form.least_decimals, max_size=form.most_decimals))
    sign = draw(st.sampled_from(("", "-"))) if whole or decimals.strip("0") else ""
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


@st.composite
def answers(draw: st.DrawFn) -> tuple[NumberFormat, Molecule, str]:
    form, molecule = draw(st.sampled_from(FORMATS)), draw(st.sampled_from(MOLECULES))
    drawn = [[draw(numbers(form)) for _ in "xyz"] for _ in range(molecule.atoms)]
    return form, molecule, answer(molecule, [",".join(triple) for triple in drawn])


@pytest.mark.soak
@each
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


@each
@pytest.mark.parametrize(
    ("old", "new"),
    [
        *(("[O]", "[N]"), ("[O]", "[O-]"), ("[C]", "[c]"), ("[C]", "C"), ("=", ""), ("=", "-"), ("=[O]", "[C]=[O]")),
        *((">[/CONFORMER]", ">1[/CONFORMER]"), (">[/CONFORMER]", "[/CONFORMER]"), ("[/CONFORMER]", "")),
        *(("[CONFORMER]", ""), ("[CONFORMER]", "[SMILES]"), ("[CONFORMER]", "[CONFORMER] "), ("<", "(")),
    ],
)
def test_both_refuse_another_molecule(name: str, old: str, new: str) -> None:
    molecule = parse_smiles("C=O")
    text = answer(molecule, [RIGHT, RIGHT])
    assert old in text
    assert verdicts(name, TRIMMED4, molecule, text.replace(old, new, 1)) == (False, False)


@pytest.mark.soak
@each
@pytest.mark.parametrize("form", FORMATS[:: sized(2, 1)], ids=str)
@pytest.mark.parametrize("molecule", MOLECULES[: sized(4, len(MOLECULES))], ids=lambda molecule: molecule.smiles)
def test_what_llguidance_admits_beyond_ours_is_another_cut(name: str, form: NumberFormat, molecule: Molecule) -> None:
    """Step by step: our mask is llguidance's, without the tokens that no canonical cut goes on with."""
    spoken, ours, rng = grammar(name, form, molecule), tables(name, form, molecule), random.Random(0)
    (ids,) = random_answers(exact(name, form), [molecule], end_of(name), seed=1)
    matcher, state = judge(name).matcher(spoken), ours.start()
    for place, id_ in enumerate(ids):
        mine, theirs = ours.mask(state)[0].numpy(), judge(name).mask(matcher)
        assert not (mine & ~theirs).any()
        for alike in shapes(name, np.flatnonzero(theirs).tolist()):
            told = {bool(mine[one]) for one in alike}
            assert told == {is_canonical(name, spoken, [*ids[:place], rng.choice(alike)])}, (ids[:place], alike[:9])
        state = ours.step(state, torch.tensor([id_]))
        assert matcher.consume_token(id_)


def shapes(name: str, ids: Sequence[int]) -> list[list[int]]:
    """The ids in groups that are alike: digits but zero can stand for each other."""
    found: dict[str, list[int]] = {}
    for id_ in ids:
        piece = load_tokenizer(name).piece(id_)
        found.setdefault(piece.translate(str.maketrans("23456789", "1" * 8)), []).append(id_)
    return list(found.values())


def is_canonical(name: str, spoken: AnswerGrammar, ids: list[int]) -> bool:
    """Whether some answer's ids, as the tokenizer cuts it, begin with these."""
    tokenizer, end = load_tokenizer(name), [end_of(name)]
    text = tokenizer.decode(ids[:-1] if ids[-1:] == end else ids)
    return any([*tokenizer.encode(whole), *end][: len(ids)] == ids for whole in spoken.endings(text))
