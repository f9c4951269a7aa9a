"""The exact LP admits a text if and only if it is the tokenizer's own cut of a well-formed answer."""

from __future__ import annotations

import random
import re
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
from tests.engine.lp.walks import random_answers
from tests.small_tokenizers import small_byte_level
from tests.support import sized

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FORMATS = [SHORTEST4, FIXED4, NumberFormat(1, 2, 1), NumberFormat(3, 7, 5)]
DOUBLE_PLUS = replace(parse_smiles("[Ca+2]"), smiles="[Ca++]", descriptors=("[Ca++]",))

each = pytest.mark.parametrize("name", NAMES)


def constraint(name: str, form: NumberFormat = TRIMMED4) -> ExactConstraint:
    return ExactConstraint(load_tokenizer(name), form, ROWS[name])


def molecules(count: int) -> list[Molecule]:
    return [parse_smiles(entry.smiles) for entry in load_molecule_set(count)]


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


def is_in(form: NumberFormat, number: str) -> bool:
    found = re.fullmatch(r"(-?)(0|[1-9]\d*)(?:\.(\d+))?", number, re.ASCII)
    if not found or (found[1] and not float(number)):
        return False
    decimals = len(found[3] or "")
    return len(found[2]) <= form.most_integer_digits and form.least_decimals <= decimals <= form.most_decimals


@pytest.mark.soak
@each
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_whatever_is_drawn_is_well_formed_and_canonical(name: str, form: NumberFormat) -> None:
    tokenizer, drawn = load_tokenizer(name), molecules(sized(24, 2000 if form == SHORTEST4 else 200))
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
        assert all(is_in(form, number) for row in decoded.numbers for number in row)


@pytest.mark.soak
@each
@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_every_well_formed_text_is_accepted(name: str, form: NumberFormat) -> None:
    made, tokenizer, rng = constraint(name, form), load_tokenizer(name), random.Random(0)

    def number() -> str:
        whole = str(rng.randrange(10 ** rng.randint(1, form.most_integer_digits)))
        digits = "".join(rng.choice("0019") for _ in range(rng.randint(form.least_decimals, form.most_decimals)))
        text = f"{whole}.{digits}" if digits else whole
        return f"-{text}" if rng.random() < 0.5 and float(text) else text

    for molecule in [*molecules(sized(12, 120)), DOUBLE_PLUS]:
        contents = [",".join(number() for _ in range(3)) for _ in range(molecule.atoms)]
        assert is_accepted(made, molecule, ids_of(tokenizer, molecule, contents)), (molecule.smiles, contents)


@each
@pytest.mark.parametrize(
    "content",
    [
        *("", "1.0", "1.0,2.0", "1.0,2.0,3.0,4.0", "1,2.0,3.0", "1.0,2.0,3", "1.0,2.0,3."),
        *("01.0,2.0,3.0", "1.0,00.5,3.0", "-0.0,1.0,1.0", "1.0,-0.0000,1.0", "1.0,1.0,-0.00"),
        *("1.00000,2.0,3.0", "1.0,2.0,3.12345", "1234.0,2.0,3.0", "+1.0,2.0,3.0", "--1.0,2.0,3.0"),
        *("1.0, 2.0,3.0", "1.0,2.0,3.0 ", ".5,2.0,3.0", "1.0,2.0,3.0amen", "1e5,2.0,3.0", "１.0,2.0,3.0"),
    ],
)
def test_no_other_text_is(name: str, content: str) -> None:
    molecule, tokenizer = parse_smiles("C"), load_tokenizer(name)
    assert not is_accepted(constraint(name), molecule, ids_of(tokenizer, molecule, [content]))


@each
@pytest.mark.parametrize(
    "content", ["-0,1,1", "1,-0,1", "1.,2,3", "1,2,3.", "01,2,3", "1,2", "1,2,3,4", "1,2,-", "1.25000,2,3"]
)
def test_no_other_text_is_where_integers_are_numbers(name: str, content: str) -> None:
    molecule, tokenizer = parse_smiles("C"), load_tokenizer(name)
    assert is_accepted(constraint(name, SHORTEST4), molecule, ids_of(tokenizer, molecule, ["0,-2,0.25"]))
    assert not is_accepted(constraint(name, SHORTEST4), molecule, ids_of(tokenizer, molecule, [content]))


@each
def test_another_cut_of_a_right_text_is_not(name: str) -> None:
    """The same characters in other tokens would not be what the tokenizer gives back."""
    tokenizer, molecule, made = load_tokenizer(name), parse_smiles("CC=O"), constraint(name)
    ids = ids_of(tokenizer, molecule, ["1.125,-2.5,0.0", "-0.5,1.0,12.25", "0.0,0.0,-1.0"])
    assert is_accepted(made, molecule, ids)
    split = {",-": (",", "-"), ">=[": (">", "=["), "125": ("12", "5"), "]<": ("]", "<")}
    for place, id_ in enumerate(ids):
        for part in [split[tokenizer.piece(id_)]] if tokenizer.piece(id_) in split else []:
            other = [found for text in part for found in tokenizer.encode(text)]
            assert not is_accepted(made, molecule, [*ids[:place], *other, *ids[place + 1 :]])


@each
def test_where_the_sign_changes_the_token_it_is_chosen_there(name: str) -> None:
    tokenizer, made = load_tokenizer(name), constraint(name)
    plain, signed = (ids_of(tokenizer, DOUBLE_PLUS, [content]) for content in ("1.0,2.0,3.0", "-1.0,2.0,3.0"))
    assert tokenizer.piece(plain[plain.index(tokenizer.encode("1")[0]) - 1]) == "<"
    assert any(tokenizer.piece(id_) == "<-" for id_ in signed)
    assert is_accepted(made, DOUBLE_PLUS, plain)
    assert is_accepted(made, DOUBLE_PLUS, signed)
    assert not is_accepted(made, DOUBLE_PLUS, ids_of(tokenizer, DOUBLE_PLUS, ["-0.0,2.0,3.0"]))


@each
def test_few_ids_are_ever_legal(name: str) -> None:
    """The head, the softmax and the sampler run on these and on two symbols alone."""
    assert len(constraint(name).automaton.live) == {"qwen3": 13, "llama3": 1_113}[name]


@each
def test_every_node_can_be_finished_from(name: str) -> None:
    automaton = constraint(name).automaton
    assert automaton.legal.any(axis=1).all()
    assert len(set(automaton.rules)) > 10


def test_a_tokenizer_that_does_not_fit_is_refused() -> None:
    with pytest.raises((ConstraintError, TokenizerError)):
        ExactConstraint(TextTokenizer("small", small_byte_level()), TRIMMED4, 400)
