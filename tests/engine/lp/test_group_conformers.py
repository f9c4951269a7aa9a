"""The group's control of several conformers, held against its words written out, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.errors import ConstraintError
from engine.lp.constraint import LpParameters, build_constraint
from engine.lp.driver import Tables
from engine.lp_records import LPS
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.support import sized

NAMES = ("group-conformers", "group-conformers-open", "group-conformers-grpo")
STEPS_EACH, AT_ONCE = sized(100, 10_000 // 6), 40
MOLECULE = parse_smiles("CC=O")


def ids_of(tokenizer: TextTokenizer) -> list[int]:
    found = map(tokenizer.id_of, ("[CONFORMER]", "[/CONFORMER]", "[SMILES]", "[/SMILES]"))
    return [id_ for id_ in found if id_ is not None]


def legal_by_the_words(
    variant: str, tokenizer: TextTokenizer, rows: int, written: Sequence[int], *, target: int, before: int
) -> np.ndarray:
    """Counts the start and end tags, those of the prompt's examples too. Forces ``[CONFORMER]`` at the start and behind
    every ``[/CONFORMER]`` until the target is reached; bans it inside a conformer, and always ``[SMILES]``,
    ``[/SMILES]``, padding, and the end before the target. One variant forces the end at the target, one never does, and
    the one of training bans ``[SMILES]`` and padding alone. In these tokenizers the end token pads."""
    opens, closes, asks, asked = ids_of(tokenizer)
    legal = np.arange(rows) < tokenizer.vocab_size
    if pad := tokenizer.id_of("<|finetune_right_pad_id|>"):
        legal[pad] = False
    legal[asks] = False
    if variant == "group-conformers-grpo":
        return legal
    legal[asked] = False
    tags = [id_ for id_ in written if id_ in (opens, closes)]
    ended = before + tags.count(closes)
    is_inside = tags[-1:] == [opens]
    only = None
    if ended < target:
        legal[tokenizer.end_id] = False
        only = None if is_inside else opens
    elif variant == "group-conformers":
        only = tokenizer.end_id
    if is_inside:
        legal[opens] = False
    return legal if only is None else np.arange(rows) == only


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tokenizer", ["qwen3", "llama3"])
def test_it_allows_what_the_groups_words_allow(name: str, tokenizer: str) -> None:
    """Of 10,000 random steps in all (in soak), each with every token of the vocabulary."""
    loaded, draws = load_tokenizer(tokenizer), np.random.default_rng(5)
    rows = loaded.vocab_size + 3
    tags = ids_of(loaded)
    steps = 0
    while steps < STEPS_EACH:
        target, before = int(draws.integers(1, 5)), int(draws.integers(0, 4))
        constraint = build_constraint(name, loaded, rows, LpParameters(conformers=target, conformers_before=before))
        tables = Tables.of(constraint.automaton, [constraint.compile(MOLECULE)])
        state, written = tables.start(), list[int]()
        for _ in range(AT_ONCE):
            expected = legal_by_the_words(name, loaded, rows, written, target=target, before=before)
            found = tables.mask(state)[0].numpy()
            assert (found == expected).all(), (written, np.flatnonzero(found != expected)[:5])
            forced = int(tables.forced_id(state)[0])
            assert forced == (int(np.flatnonzero(expected)[0]) if expected.sum() == 1 else -1)
            steps += 1
            likely = [tag for tag in tags if expected[tag]]  # a tag often: of 150,000 tokens they are four
            id_ = int(draws.choice(likely if likely and draws.random() < 0.4 else np.flatnonzero(expected)))
            if id_ == loaded.end_id:
                break
            written.append(id_)
            state = tables.step(state, torch.tensor([id_]))


def test_examples_of_the_prompt_use_up_the_target() -> None:
    """As in the group's code: with as many before, an answer is the end token."""
    loaded = load_tokenizer("qwen3")
    constraint = build_constraint("group-conformers", loaded, 151_936, LpParameters(conformers=2, conformers_before=2))
    assert constraint.compile(MOLECULE).forced.tolist() == [loaded.end_id]


@pytest.mark.parametrize("name", [record.name for record in LPS.values() if not record.several])
def test_other_lps_refuse_several_conformers_in_one_line(name: str) -> None:
    with pytest.raises(ConstraintError, match="writes one conformer per answer"):
        build_constraint(name, load_tokenizer("qwen3"), 151_936, LpParameters(conformers=2))
