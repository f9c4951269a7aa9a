"""Binned numbers: the exact LP admits every bin and nothing else, and no block drifts, with any tokenizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.chem.enriched import as_decimals, decode
from engine.chem.other_forms import bin_digits
from engine.chem.smiles import parse_smiles
from engine.errors import EnrichedError
from engine.lp.exact import ExactConstraint
from engine.lp.table import ILLEGAL
from engine.records import BinFormat
from engine.text.blocks import read_block
from engine.text.check import check_sample
from engine.text.template import needed_by_content
from engine.text.tokenizer_build import NAMES
from engine.text.tokenizers import load_tokenizer, number_ids
from tests.engine.lp.walks import random_answers

ROWS = {"qwen3": 151_936, "llama3": 128_330}
FORMS = [BinFormat.in_brackets(0.042, 21), BinFormat.in_brackets(0.05, 9.0)]

each = pytest.mark.parametrize("name", NAMES)
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.words)


def admitted(made: ExactConstraint, node: int, digits: dict[int, str], left: int, text: str = "") -> Iterator[str]:
    """All numbers that the automaton writes from a node on."""
    if not left:
        yield text
        return
    for id_, piece in digits.items():
        after = int(made.automaton.goto[node, made.automaton.classes[id_]])
        if after != ILLEGAL:
            yield from admitted(made, after, digits, left - len(piece), text + piece)


@each
@every_form
def test_every_bin_can_be_written_and_nothing_else(name: str, form: BinFormat) -> None:
    tokenizer = load_tokenizer(name)
    made, ids = ExactConstraint(tokenizer, form, ROWS[name]), number_ids(tokenizer)
    pieces = {id_: f"{value:0{width}d}" for width, row in enumerate(ids.digits, 1) for value, id_ in enumerate(row)}
    assert sorted(admitted(made, 0, pieces, form.digits)) == [f"{k:0{form.digits}d}" for k in range(1, form.bins + 1)]
    molecules = [parse_smiles(smiles) for smiles in ("C[NH3+]", "CC(=O)Oc1ccccc1C(=O)O")]
    assert tokenizer.end_id is not None
    for molecule, answer in zip(molecules, random_answers(made, molecules, tokenizer.end_id), strict=True):
        text = tokenizer.decode(answer[:-1])
        assert tokenizer.encode(text) == answer[:-1]
        assert decode(as_decimals(text, form)).mol.GetNumAtoms() == molecule.atoms
        readings = [read_block(",".join(triple), form=form) for triple in _triples(text)]
        check = check_sample(text, molecule, readings=readings, form=form)
        assert check.clean and not check_sample(text, molecule).clean


def _triples(text: str) -> list[list[str]]:
    return [part.partition(">")[0].split(",") for part in text.split("<")[1:]]


@each
@every_form
def test_no_bin_drifts(name: str, form: BinFormat) -> None:
    """The proof: digits share tokens with nothing else, and a run of so many has so many tokens. Here, all numbers."""
    tokenizer, zero = load_tokenizer(name), "0" * form.digits
    numbers = [f"{k:0{form.digits}d}" for k in range(1, form.bins + 1)]
    contents = [
        content for k in numbers for content in (f"{k},{zero},{zero}", f"{zero},{k},{zero}", f"{zero},{zero},{k}")
    ]
    (needed,) = set(needed_by_content([("[C]", content) for content in contents], tokenizer))
    assert needed_by_content([("[C]", f"{zero},{zero},{zero}"), ("[Ca++]", contents[0])], tokenizer) == [needed, needed]
    if name == "qwen3":  # padded to three digits alone, one of four drifts
        assert needed_by_content([("[C]", "999,001,001"), ("[C]", "1000,001,001")], tokenizer) == [11, 12]


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("[N]<694,443,790>", 0),  # whole numbers of ångström, which `exact` may write
        ("[C]<512,498,501>[O]<522,498,501>[C]<531,498,501>", 3),
        ("[C]<0512,0498,0501>", 4),
        ("[C]<0512,0498,0501>[O]<1.0,2.0,3.0>", 0),
    ],
)
def test_whole_numbers_of_a_small_molecule_are_no_bins(text: str, digits: int) -> None:
    assert bin_digits(text) == digits


def test_what_is_no_number_of_bins_is_refused() -> None:
    assert read_block("0512,498,0501", form=BinFormat.in_brackets(0.042, 21)).kinds == ("integer",)
    assert read_block("0512,0498,05012", form=BinFormat.in_brackets(0.042, 21)).kinds == ("extra_digit",)
    assert read_block("0512,0498,05", form=BinFormat.in_brackets(0.042, 21), lp="group-v2.1").kinds == ("cut",)
    with pytest.raises(EnrichedError, match="a number is not one of 1,000 bins"):
        as_decimals("[C]<0512,1001,0501>", BinFormat.in_brackets(0.042, 21))
