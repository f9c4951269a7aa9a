"""One row followed on the host is where the driver's batch is: the same forced tokens, the same token that is lost."""

from __future__ import annotations

import random

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.lp.canonical import random_ids
from engine.lp.driver import LOST, Tables
from engine.lp.follower import AutomatonRows, Follower
from engine.lp.table import NO_ID, Automaton, Program
from tests.engine.decode.reference import made


def by_driver(automaton: Automaton, program: Program, ids: list[int]) -> list[tuple[int, bool]]:
    """What is forced before each token, and whether the row is lost behind it."""
    tables = Tables.of(automaton, [program])
    state, seen = tables.start(), []
    for id_ in ids:
        forced = int(tables.forced_id(state))
        state = tables.step(state, torch.tensor([id_]))
        seen.append((forced, bool(state.cell == LOST)))
    return seen


@pytest.mark.parametrize("lp", ["none", "exact", "truncating", "group-v2.1", "group-v4.3", "group-conformers"])
@pytest.mark.parametrize("tokenizer", ["qwen3", "llama3"])
def test_as_the_driver(lp: str, tokenizer: str) -> None:
    _, constraint = made(lp, tokenizer)
    rows, exact = AutomatonRows(constraint.automaton), made("exact", tokenizer)[1]
    for smiles in ("C", "C[C@H](N)C(=O)O", "[NH4+].[Cl-]"):
        molecule, draw = parse_smiles(smiles), random.Random(smiles)
        program = constraint.compile(molecule)
        ids = random_ids(exact.automaton, exact.compile(molecule), draw)
        if lp not in ("none", "group-conformers"):
            ids = random_ids(constraint.automaton, program, draw)
        wrong = draw.randrange(len(ids))
        for answer in (ids, [*ids[:wrong], draw.randrange(1_000), *ids[wrong:]]):
            follower, seen = Follower(rows, program), list[tuple[int, bool]]()
            for id_ in answer:
                forced, allowed = follower.forced_id, follower.allows(id_)
                assert follower.take(id_) is (allowed and forced != NO_ID)
                assert allowed is not follower.is_lost
                seen.append((forced, follower.is_lost))
            assert seen == by_driver(constraint.automaton, program, answer)
            at_once = Follower(rows, program)
            assert at_once.follow(answer) == sum(not is_lost for _, is_lost in seen)
            if not at_once.is_lost:
                assert (at_once.cell, at_once.node) == (follower.cell, follower.node)
