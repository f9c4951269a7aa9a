"""The exact LP under tokenizers of other kinds than the field's two: it writes what Hugging Face's ``tokenizers`` make
of the text, or it says why it cannot."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, normalizers

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import ConstraintError, TokenizerError
from engine.lp import exact
from engine.lp.canonical import random_ids
from engine.lp.exact import ExactConstraint
from engine.lp.numbers import Numbers
from engine.lp.prefixes import Leaves
from engine.records import SHORTEST4, Molecule, NumberFormat
from engine.text.tokenizers import TextTokenizer, load_tokenizer, number_ids
from tests.small_tokenizers import small_byte_fallback, small_byte_level, small_metaspace, small_word_level
from tests.tiny_checkpoints import TAGS, byte_tokenizer, spaced_tokenizer

SMILES = ("C[N+](C)(C)C", "C[C@@H](O)[C@H](N)C(=O)[O-]", "c1cc[nH]c1", "C/C=C\\C", "OB(O)C1CC1")


def molecules() -> list[Molecule]:
    return [*map(parse_smiles, SMILES), *map(parse_smiles, load_run_set(20))]


def spaced_behind_tags() -> Tokenizer:
    """As the first conversions of LLaMA 2 and Mistral have it: ``▁`` before the first word and behind each tag."""
    tokenizer = Tokenizer.from_str(spaced_tokenizer())
    tokenizer.pre_tokenizer = None
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


def apart() -> Tokenizer:
    """A comma and a minus are two tokens."""
    return with_tags(small_byte_fallback())


def with_tags(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
    if tokenizer.token_to_id("</s>") is None:
        tokenizer.add_special_tokens(["</s>"])
    return tokenizer


KINDS = {
    "bytes": lambda: Tokenizer.from_str(byte_tokenizer()),
    "spaced": lambda: Tokenizer.from_str(spaced_tokenizer()),
    "spaced behind tags": spaced_behind_tags,
    "comma and minus apart": apart,
    "every character a word": lambda: with_tags(small_word_level()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_texts_have_the_ids_that_hugging_face_gives_them(kind: str) -> None:
    backend = KINDS[kind]()
    tokenizer = TextTokenizer(kind, backend)
    constraint = ExactConstraint(tokenizer, SHORTEST4, tokenizer.vocab_size)
    draw, seen = random.Random(0), set[str]()
    known = set("".join(tokenizer.piece(id_) for id_ in tokenizer.pieces))
    for molecule in molecules():
        if kind == "every character a word" and not set(molecule.smiles) <= known:
            continue
        program = constraint.compile(molecule)
        for _ in range(10):
            ids = random_ids(constraint.automaton, program, draw)[:-1]
            text = tokenizer.decode(ids)
            assert backend.encode(text, add_special_tokens=False).ids == ids
            assert text.startswith("[CONFORMER][") and text.count("<") >= molecule.atoms
            seen |= set(text)
    assert set("0123456789.,-<>[]()=") <= seen
    assert (number_ids(tokenizer).comma_minus is None) == (kind in list(KINDS)[3:])


def test_where_a_comma_leaves_the_sign_open_so_do_the_values_behind_it() -> None:
    tokenizer = TextTokenizer("apart", apart())
    ids, form = number_ids(tokenizer), NumberFormat(1, 2, 1)
    numbers = ExactConstraint(tokenizer, form, tokenizer.vocab_size).numbers
    assert isinstance(numbers, Numbers)
    leaves = Leaves(numbers, ids, [ids.comma, ids.minus], form)
    at = next(node for node, place in enumerate(numbers.places) if (place.axis, place.decimals) == (0, 2))
    comma, sign = numbers.kinds.index("comma"), numbers.kinds.index("sign")
    low, high = leaves.of(at, np.array([comma]), 0, np.array([0]))
    assert (low[0, 0], high[0, 0]) == (-9.99, 9.99)
    behind = int(numbers.automaton.goto[at, comma])
    low, high = leaves.of(behind, np.array([sign]), 0, np.array([1]))
    assert (low[0, 0], high[0, 0]) == (-9.99, -0.01)


REFUSED = {
    "digits in pairs": (lambda: with_tags(small_byte_level()), "does not cut digits from the left"),
    "digits with a mark": (lambda: with_tags(small_metaspace()), "joins '0' with '.' in one token"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_tokenizer_without_an_exact_form_is_refused_by_the_reason(kind: str) -> None:
    made, reason = REFUSED[kind]
    tokenizer = TextTokenizer(kind, made())
    with pytest.raises(TokenizerError, match=reason) as caught:
        ExactConstraint(tokenizer, SHORTEST4, tokenizer.vocab_size)
    assert "\n" not in str(caught.value)


def test_a_text_that_is_cut_otherwise_as_a_whole_is_refused_before_it_is_written() -> None:
    """A tokenizer whose one odd token spans a digit and what follows: no probe of digits and marks sees it."""
    document = json.loads(byte_tokenizer())
    document["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {"Regex": r"7>|\p{N}|[^\p{N}\s]+|\s+"}
    document["model"]["vocab"]["7>"] = 600
    document["model"]["merges"].append(["7", ">"])
    tokenizer = TextTokenizer("odd", Tokenizer.from_str(json.dumps(document)))
    constraint = ExactConstraint(tokenizer, SHORTEST4, 700)
    with pytest.raises(ConstraintError, match=r"the tokenizer odd cuts .*7.* otherwise in a whole text"):
        list(map(constraint.compile, molecules()))


def test_the_fields_own_tokenizers_are_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "check_canonical", None)
    tokenizer = load_tokenizer("qwen3")
    assert len(ExactConstraint(tokenizer, SHORTEST4, tokenizer.vocab_size).compile(parse_smiles("CC=O"))) > 3
