"""Numbers of bins: the exact LP admits every bin and nothing else, and no block drifts, with any tokenizer.

The judges are Hugging Face's form of the tokenizers, added tokens among them, and the reader of texts.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer

from engine.chem.enriched import as_decimals, decode
from engine.chem.other_forms import bin_digits
from engine.chem.smiles import parse_smiles, same_graph
from engine.errors import ConstraintError, EnrichedError
from engine.lp.bins import BinNumbers
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.exact import ExactConstraint
from engine.lp.prefixes import BinLeaves, first_prefix
from engine.lp.table import ILLEGAL
from engine.lp_records import LPS, usual_placeholder
from engine.records import GROUP_UNIFORM, BinFormat
from engine.text.blocks import find_blocks, read_block, read_blocks
from engine.text.check import check_sample
from engine.text.template import build_template, needed_by_content
from engine.text.tokenizer_build import NAMES, built_in
from engine.text.tokenizers import TextTokenizer, load_tokenizer, number_ids
from tests.engine.lp.walks import random_answers
from tests.support import sized

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


# --- bare: [C]128130125; ----------------------------------------------------------------------------------------------
EQUAL = BinFormat.equal(-11, 11, 0.104)  # 212 bins
FULL = BinFormat.equal(-13, 13, 0.104)  # 250, of which the last has the number 250
THOUSAND = BinFormat.equal(-21, 21, 0.042)  # four digits
RINGED = (
    "C12C3C4C1C5C2C3C45",
    "[123I]C1CC1",
    "C[N+](C)(C)C",
    "[OH2]->[Na+]<-[OH2]",
    "F/C=C\\F",
    "[Cl-].[13CH3]C#[NH+]",
)
BARE = [("qwen3-bins", GROUP_UNIFORM), ("250", EQUAL), ("llama3", GROUP_UNIFORM), ("llama3", THOUSAND),
        ("qwen3", GROUP_UNIFORM), ("qwen3", THOUSAND)]  # fmt: skip


def short(value: object) -> str:
    return f"{value.bins} bins" if isinstance(value, BinFormat) else str(value)


@functools.cache
def tokenizer_of(name: str) -> TextTokenizer:
    """``250``: Qwen's with the group's earlier tokens, 000 to 249 and the tags, all of them special."""
    if name != "250":
        return load_tokenizer(name)
    backend = Tokenizer.from_str(built_in("qwen3").to_str())
    numbers = [AddedToken(f"{number:03d}", normalized=False, special=True) for number in range(250)]
    backend.add_special_tokens(numbers)
    return TextTokenizer("of 250", backend)


@functools.cache
def exact(name: str, form: BinFormat) -> ExactConstraint:
    return ExactConstraint(tokenizer_of(name), form, 152_000)


@pytest.mark.parametrize(("name", "form"), BARE, ids=short)
def test_what_is_sampled_is_what_the_tokenizer_cuts_and_reads_as_the_molecule(name: str, form: BinFormat) -> None:
    tokenizer, made = tokenizer_of(name), exact(name, form)
    backend = tokenizer.backend if name == "250" else built_in(name)
    molecules = [parse_smiles(smiles) for smiles in RINGED] * sized(4, 40)
    seen: set[str] = set()
    for molecule, answer in zip(molecules, random_answers(made, molecules, tokenizer.end_id or 0), strict=True):
        text = tokenizer.decode(answer[:-1])
        assert backend.encode(text, add_special_tokens=False).ids == answer[:-1]
        assert same_graph(decode(as_decimals(text, form)).mol, molecule.mol)
        readings = read_blocks(find_blocks(text, form), form=form, lp="exact")
        assert check_sample(text, molecule, readings=readings, form=form).clean
        seen.update(number for reading in readings for number in reading.numbers)
    assert seen <= {f"{number:0{form.digits}d}" for number in range(1, form.bins + 1)} and len(seen) > 100


@pytest.mark.parametrize(
    ("name", "form", "tokens"), [(*BARE[0], 3), (*BARE[1], 3), (*BARE[2], 3), (*BARE[4], 9)], ids=short
)
def test_an_atom_is_three_tokens_or_nine(name: str, form: BinFormat, tokens: int) -> None:
    skeleton = "[C]128130125;1=[O]100102098;"
    template = build_template(skeleton, tokenizer_of(name), usual_placeholder(form), form=form)
    assert template.free_per_block.tolist() == [tokens, tokens]


@pytest.mark.parametrize(
    ("name", "form", "number"),
    [("250", FULL, "250"), ("250", GROUP_UNIFORM, "250"), ("qwen3-bins", THOUSAND, "0001")],
    ids=short,
)
def test_a_number_without_a_token_is_named(name: str, form: BinFormat, number: str) -> None:
    with pytest.raises(ConstraintError, match=f"has no token for {number}, one of"):
        exact(name, form)


def test_lps_that_fit_a_length_are_not_for_numbers_of_one_length() -> None:
    parameters, tokenizer = LpParameters(form=GROUP_UNIFORM), load_tokenizer("qwen3-bins")
    for lp in LPS:
        if lp in ("adaptive-placeholder", "truncating"):
            with pytest.raises(ConstraintError, match=f"the LP {lp} is for decimals, not for bins"):
                build_constraint(lp, tokenizer, 151_936, parameters)
        else:
            build_constraint(lp, tokenizer, 151_936, parameters)


# --- what a prefix leaves ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "form"), [BARE[0], BARE[2], BARE[4], BARE[5], ("qwen3", FORMS[0])], ids=short)
def test_each_token_leaves_the_value_of_its_bin(name: str, form: BinFormat) -> None:
    tokenizer, made = tokenizer_of(name), exact(name, form)
    assert isinstance(made.numbers, BinNumbers)
    columns = made.automaton.live.tolist()
    leaves, draws = BinLeaves(made.numbers, columns, form), random.Random(1)
    for _ in range(40):
        triple = [f"{draws.randint(1, form.bins):0{form.digits}d}" for _ in range(3)]
        values = [form.value_ang(number) for number in triple]
        node, prefix, widths = 0, replace(first_prefix(form), is_inside=True), []
        for id_ in tokenizer.encode(form.comma.join(triple)):
            kind, axis, digits = int(made.automaton.classes[id_]), len(prefix.known), prefix.digits
            if tokenizer.piece(id_) != ",":
                low, high = (
                    ends[0, 0] for ends in leaves.of(node, np.array([kind]), digits, np.array([columns.index(id_)]))
                )
                assert low <= values[axis] <= high
                widths.append(high - low)
            node, prefix = int(made.automaton.goto[node, kind]), prefix.read(tokenizer.piece(id_))
            if len(prefix.known) > axis:
                assert widths[-1] == 0 and prefix.known[-1] == values[axis]
        assert prefix.read(f"{form.closing}[C").closed == tuple(values)


def test_digits_of_rings_and_isotopes_are_no_numbers() -> None:
    prefix = replace(first_prefix(GROUP_UNIFORM), is_inside=True)
    for piece in ("128", "130", "125", ";", "123", "[", "123", "I", "]"):
        prefix = prefix.read(piece)
    assert prefix == replace(first_prefix(GROUP_UNIFORM), is_inside=True)
    assert prefix.read("1").digits == 1 and prefix.read("<|endoftext|>").closed is None
