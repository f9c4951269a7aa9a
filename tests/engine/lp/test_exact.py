"""The exact LP admits a text if and only if it is the tokenizer's own cut of a well-formed answer."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from engine.chem.enriched import decode, fill_blocks
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import parse_smiles, read_text_order, same_graph
from engine.errors import ConstraintError, TokenizerError
from engine.lp.driver import LOST, Tables
from engine.lp.exact import ExactConstraint
from engine.records import FIXED4, SHORTEST4, TRIMMED4, Molecule, NumberFormat
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.engine.lp.grammars import is_number
from tests.engine.lp.walks import random_answers
from tests.small_tokenizers import small_byte_level
from tests.support import sized

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FORMATS = [SHORTEST4, FIXED4, NumberFormat(1, 2, 1), NumberFormat(3, 7, 5)]
DOUBLE_PLUS = replace(parse_smiles("[Ca+2]"), smiles="[Ca++]", descriptors=("[Ca++]",))

each = pytest.mark.parametrize("name", NAMES)


def constraint(name: str, form: NumberFormat = TRIMMED4) -> ExactConstraint:
    return ExactConstraint(load_tokenizer(name), form, ROWS[name])


def is_accepted(made: ExactConstraint, molecule: Molecule, ids: list[int]) -> bool:
    tables = Tables.of(made.automaton, [made.compile(molecule)])
    state = tables.start()
    for id_ in ids:
        state = tables.step(state, torch.tensor([id_]))
        if int(state.cell) == LOST:
            return False
    return True


def ids_of(tokenizer: TextTokenizer, molecule: Molecule, contents: list[str]) -> list[int]:
    text = fill_blocks(molecule.smiles, molecule.descriptors, contents)
    assert tokenizer.end_id is not None
    return [*tokenizer.encode(f"[CONFORMER]{text}[/CONFORMER]"), tokenizer.end_id]


@pytest.mark.soak
@each
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_whatever_is_drawn_is_well_formed_and_canonical(name: str, form: NumberFormat) -> None:
    tokenizer, count = load_tokenizer(name), sized(24, 1000 if form == SHORTEST4 else 100)
    drawn = [parse_smiles(entry.smiles) for entry in load_molecule_set(count)]
    drawn.sort(key=lambda molecule: molecule.atoms)  # batches end together
    made, end = constraint(name, form), tokenizer.end_id
    assert end is not None
    batches = [drawn[start : start + 250] for start in range(0, len(drawn), 250)]
    answers = [ids for batch in batches for ids in random_answers(made, batch, end)]
    for molecule, ids in zip(drawn, answers, strict=True):
        text = tokenizer.decode(ids[:-1])
        assert tokenizer.encode(text) == ids[:-1]
        decoded = decode(text)
        assert same_graph(decoded.mol, read_text_order(molecule.smiles))
        assert all(is_number(form, number) for row in decoded.numbers for number in row)


@each
def test_where_the_sign_changes_the_token_it_is_chosen_there(name: str) -> None:
    tokenizer, made = load_tokenizer(name), constraint(name)
    plain, signed = (ids_of(tokenizer, DOUBLE_PLUS, [content]) for content in ("1.0,2.0,3.0", "-1.0,2.0,3.0"))
    assert tokenizer.piece(plain[plain.index(tokenizer.encode("1")[0]) - 1]) == "<"
    assert any(tokenizer.piece(id_) == "<-" for id_ in signed)
    assert is_accepted(made, DOUBLE_PLUS, plain) and is_accepted(made, DOUBLE_PLUS, signed)
    assert not is_accepted(made, DOUBLE_PLUS, ids_of(tokenizer, DOUBLE_PLUS, ["-0.0,2.0,3.0"]))


@each
def test_few_ids_are_ever_legal_and_every_node_leads_on(name: str) -> None:
    """The head, the softmax and the sampler run on these and on two symbols alone."""
    automaton = constraint(name).automaton
    assert len(automaton.live) == {"qwen3": 13, "llama3": 1_113}[name]
    assert automaton.legal.any(axis=1).all()
    with pytest.raises((ConstraintError, TokenizerError)):  # digits of the one share tokens with other characters
        ExactConstraint(TextTokenizer("small", small_byte_level()), TRIMMED4, 400)
