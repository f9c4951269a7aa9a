"""The regex of a molecule: it takes what ``exact`` writes and nothing of another molecule; and how far a text holds."""

from __future__ import annotations

import random
import re
from typing import Any
from unittest.mock import Mock

import pytest

from engine.chem.smiles import parse_smiles
from engine.decode.plan import Plan
from engine.errors import ConstraintError
from engine.lp.canonical import random_ids
from engine.lp_records import lp_choices
from engine.records import GROUP_UNIFORM, TRIMMED4, NumberFormat
from engine.text.tokenizer_build import QWEN_BINS
from tests.engine.decode.reference import made

FORMS = [TRIMMED4, NumberFormat(0, 3, 2), NumberFormat(4, 4, 1)]
SMILES = ("C", "C[C@H](N)C(=O)[O-]", "F/C=C\\Cl", "C1CC%10C1C%10")


@pytest.mark.parametrize(
    ("tokenizer", "form"),
    [*(("qwen3", form) for form in FORMS), ("llama3", TRIMMED4), (QWEN_BINS, GROUP_UNIFORM)],
    ids=str,
)
def test_what_exact_writes_and_each_beginning_of_it(tokenizer: str, form: NumberFormat) -> None:
    loaded, exact = made("exact", tokenizer, form=form)
    grammar: Any = made("grammar", tokenizer, form=form)[1]
    molecules = list(map(parse_smiles, SMILES))
    for molecule in molecules:
        program = exact.compile(molecule)
        for seed in range(4):
            text = loaded.decode(random_ids(exact.automaton, program, random.Random(seed))[:-1])
            for other in molecules:
                is_own = other is molecule
                assert (re.fullmatch(grammar.pattern(other), text) is not None) is is_own
                assert grammar.holds(other, text, is_whole=True) is is_own
            cut = random.Random(seed).randrange(len(text))
            assert grammar.holds(molecule, text[:cut], is_whole=False)
            assert not grammar.holds(molecule, text[:cut], is_whole=True)
            assert not grammar.holds(molecule, f"{text[:cut]}?", is_whole=False)


@pytest.mark.parametrize(
    ("number", "fits"),
    [("0.5", True), ("-12.25", True), ("0", False), ("01.5", False), ("1.", False), ("1.23456", False),
     ("1000.5", False), ("1,5", False), ("--1.5", False), ("-0.0", True)],
)  # fmt: skip
def test_numbers(number: str, fits: bool) -> None:
    molecule = parse_smiles("C")
    grammar: Any = made("grammar", form=TRIMMED4)[1]
    text = f"[CONFORMER][C]<{number},0.5,-1.25>[/CONFORMER]"
    assert (re.fullmatch(grammar.pattern(molecule), text) is not None) is fits
    assert grammar.holds(molecule, text, is_whole=True) is fits


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    ("number", "fits"),
    [("", True), ("-", True), ("1", True), ("1.", True), ("-0.", True), ("1.2", True), ("9.125", True), ("--", False),
     ("-.", False), (".", False), ("01", False), ("1..", False), ("1.2.", False), ("1-", False), ("1.23456", False),
     ("1234", False), ("1.2345,1.", None), ("1.2345,--", False)],
)  # fmt: skip
def test_numbers_that_are_cut(form: NumberFormat, number: str, fits: bool | None) -> None:
    molecule = parse_smiles("C")
    grammar: Any = made("grammar", form=form)[1]
    expected = form.most_decimals == 4 if fits is None else fits
    assert grammar.holds(molecule, f"[CONFORMER][C]<{number}", is_whole=False) is expected
    assert not grammar.holds(molecule, f"[CONFORMER][C]<{number}", is_whole=True)


def test_it_acts_at_a_server_alone() -> None:
    for backend in ("auto", "fast", "hf"):
        with pytest.raises(ConstraintError, match="acts at a server alone"):
            Plan(lp="grammar", backend=backend)
    assert Plan(lp="grammar", backend="server").lp == "grammar"
    assert "grammar" not in lp_choices() and "grammar" in lp_choices(has_server=True)


@pytest.mark.parametrize("is_special", [False, True])
def test_special_tags_are_named(is_special: bool) -> None:
    grammar: Any = made("grammar")[1]
    assert grammar.warning == ""  # the built-in tokenizers' are not
    added = {7: Mock(special=is_special)}
    grammar.tokenizer = Mock(id_of=lambda tag: 7, backend=Mock(get_added_tokens_decoder=lambda: added))
    grammar.tokenizer.name = "another"
    try:
        assert ("special tokens" in grammar.warning) is is_special
    finally:
        made.cache_clear()
