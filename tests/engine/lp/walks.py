"""Random walks through a constraint: what a model with random scores would write under it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.lp.constraint import Constraint
from engine.lp.driver import LOST, State, Tables
from engine.lp.table import NO_ID
from engine.records import Molecule


def random_answers(
    constraint: Constraint, molecules: Sequence[Molecule], end: int, seed: int = 0, most: int = 4_000
) -> list[list[int]]:
    """One answer a molecule, the end token included. Each token is drawn evenly among the classes of legal ones."""
    tables = Tables.of(constraint.automaton, [constraint.compile(molecule) for molecule in molecules])
    generator = torch.Generator().manual_seed(seed)
    state, done = tables.start(), torch.zeros(len(molecules), dtype=torch.bool)
    drawn = []
    while not done.all():
        token = draw(tables, state, generator)
        state = tables.step(state, token)
        assert (state.cell != LOST).all()
        drawn.append(torch.where(done, NO_ID, token))
        done |= token == end
        assert len(drawn) < most, "it does not end"
    return [[id_ for id_ in row if id_ != NO_ID] for row in torch.stack(drawn, 1).tolist()]


def draw(tables: Tables, state: State, generator: torch.Generator) -> torch.Tensor:
    """A legal token for each row, from the live ids and the symbols."""
    live, symbols, allowed = tables.live_mask(state)
    ids = torch.cat([tables.live.expand(len(live), -1), symbols], dim=1)
    legal = torch.cat([live, allowed], dim=1)
    forced = tables.forced_id(state)
    assert (legal.any(dim=1) | (forced != NO_ID)).all(), "a dead end"
    weight = torch.rand(legal.shape, generator=generator)
    weight[:, -2:] += 0.5  # closing a block, or a sign, is one choice beside a thousand numbers
    drawn = ids.gather(1, (weight * legal).argmax(dim=1, keepdim=True)).squeeze(1)
    return torch.where(forced != NO_ID, forced, drawn)
