"""The driver: rows do not know of each other, errors show, and nothing in it needs the host."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.lp.constraint import Constraint, build_constraint
from engine.lp.driver import LOST, State, Tables
from engine.lp.table import DEAD, ILLEGAL, NO_ID, Automaton
from engine.text.tokenizers import load_tokenizer
from tests.engine.lp.walks import draw
from tests.support import of_soak

MOLECULES = [parse_smiles(smiles) for smiles in ("CC=O", "C", "c1ccccc1[N+](=O)[O-]", "C[C@H](N)C(=O)O")]
ROWS = 151_936
NAMES = ("none", "group-v2.1", "group-v4.3", "truncating", "exact")
STEPS = 40
"""So many that the shortest answer ends."""


@functools.cache
def constraint(name: str) -> Constraint:
    return build_constraint(name, load_tokenizer("qwen3"), ROWS)


def tables(name: str, count: int = len(MOLECULES), device: str = "cpu") -> Tables:
    made = constraint(name)
    return Tables.of(made.automaton, [made.compile(molecule) for molecule in MOLECULES[:count]], device)


def steps(made: Tables, count: int, seed: int = 0) -> Iterator[tuple[State, torch.Tensor]]:
    state, generator = made.start(), torch.Generator().manual_seed(seed)
    for _ in range(count):
        token = draw(made, state, generator)
        yield state, token
        state = made.step(state, token)


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_alone_what_it_is_in_a_batch(name: str) -> None:
    batch, made = tables(name), constraint(name)
    alone = [Tables.of(made.automaton, [made.compile(molecule)]) for molecule in MOLECULES]
    states = [single.start() for single in alone]
    for state, token in steps(batch, STEPS):
        forced, live = batch.forced_id(state), batch.live_mask(state)
        for row, single in enumerate(alone):
            own = states[row]
            assert int(single.forced_id(own)[0]) == int(forced[row])
            assert all(torch.equal(a[0], b[row]) for a, b in zip(single.live_mask(own), live, strict=True))
            states[row] = single.step(own, token[row : row + 1])


@pytest.mark.parametrize("name", NAMES)
def test_the_mask_is_the_live_ids_and_the_symbols_or_the_forced_token_and_the_few(name: str) -> None:
    made = tables(name)
    for state, _ in list(steps(made, STEPS))[::3]:
        (live, symbols, allowed), forced = made.live_mask(state), made.forced_id(state)
        expected = torch.zeros((len(MOLECULES), ROWS), dtype=torch.bool)
        for row in range(len(MOLECULES)):
            if forced[row] != NO_ID:
                expected[row, forced[row]] = True
            else:
                expected[row, made.live] = live[row]
                expected[row, symbols[row][allowed[row]]] = True
        assert torch.equal(made.mask(state), expected)
        ids, legal = made.few(state)
        few = torch.zeros_like(expected, dtype=torch.int8).scatter_reduce(1, ids, legal.to(torch.int8), "amax")
        assert torch.equal(few.bool(), expected)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_a_token_that_is_not_legal_loses_its_row_alone(name: str) -> None:
    made = tables(name)
    for state, token in steps(made, 12):
        wrong = token.clone()
        wrong[1] = 27  # `<`, which is never legal by itself
        _, count, after = made.advance(state, wrong, 8)
        assert int(count[1]) == 1
        for lost in (after, made.step(state, wrong)):
            assert (lost.cell == LOST).tolist() == [False, True, False, False]
        assert int(made.step(after, token).cell[1]) == LOST
        assert int(made.forced_id(after)[1]) == NO_ID
        assert not made.mask(after)[1].any()
        assert not any(part[1].any() for part in made.live_mask(after)[::2])


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_on_the_meta_device(name: str) -> None:
    """Nothing asks for a value: no item, no branch on data, no copy to the host."""
    made = tables(name, device="meta")
    state = made.start()
    token = torch.zeros(len(MOLECULES), dtype=torch.int64, device="meta")
    for _ in range(2):
        made.forced_id(state), made.live_mask(state), made.mask(state), made.few(state), made.here(state)
        state = made.step(state, token)
        _, _, state = made.advance(state, token, 4)
    assert state.cell.device.type == "meta"


@of_soak
def test_it_is_one_graph() -> None:
    """``fullgraph`` refuses a graph break."""
    made = tables("exact")

    def step(cell: torch.Tensor, node: torch.Tensor, token: torch.Tensor) -> tuple[torch.Tensor, ...]:
        after = made.step(State(cell, node), token)
        tokens, count, then = made.advance(State(cell, node), token, 4)
        taken = after.cell, after.node, tokens, count, then.cell, then.node
        return *taken, made.forced_id(after), *made.live_mask(after), *made.few(after)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for state, token in steps(made, 20):
        expected = step(state.cell, state.node, token)
        assert all(torch.equal(a, b) for a, b in zip(compiled(state.cell, state.node, token), expected, strict=True))


@pytest.mark.parametrize(
    ("rules", "classes", "goto", "message"),
    [
        ((), [DEAD, 1], [0], "0 rules"),
        (("anything",), [0, 9], [0], "classes 0 to 9 of 2"),
        (("anything",), [DEAD, 1], [0, 0], "lets a dead token pass"),
        (("anything",), [DEAD, 1], [5], "leads nowhere"),
    ],
)
def test_an_automaton_checks_itself(rules: tuple[str, ...], classes: list[int], goto: list[int], message: str) -> None:
    nodes = np.full((1, 4), ILLEGAL, dtype=np.int16)
    nodes[0, 2 - len(goto) : 2] = goto
    with pytest.raises(ValueError, match=message):
        Automaton(np.array(classes, dtype=np.int16), nodes, np.zeros((1, 4), dtype=np.int8), rules)


@pytest.mark.parametrize("run", [0, 8])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_appended_is_what_single_steps_force(name: str, run: int) -> None:
    """Tokens, counts and states of `advance` are those of taking the token and then what is forced, one by one."""
    made = tables(name)
    state, generator = made.start(), torch.Generator().manual_seed(run)
    for _ in range(STEPS):
        token = draw(made, state, generator)
        tokens, count, after = made.advance(state, token, run)
        assert int(count.max()) <= 2 + run
        slow = made.step(state, token)
        assert torch.equal(tokens[:, 0], token)
        for column in range(1, 2 + run):
            forced, is_meant = made.forced_id(slow), count > column
            assert torch.equal(tokens[is_meant, column], forced[is_meant])
            then = made.step(slow, forced.clamp(min=0))
            slow = State(torch.where(is_meant, then.cell, slow.cell), torch.where(is_meant, then.node, slow.node))
        assert torch.equal(slow.cell, after.cell) and torch.equal(slow.node, after.node)
        state = after


def test_a_row_is_given_another_program_and_rows_are_kept() -> None:
    made, batch = constraint("exact"), tables("exact")
    longest = max(len(made.compile(molecule)) for molecule in MOLECULES)
    small = Tables.of(made.automaton, [made.compile(MOLECULES[1])] * 2, cells=longest)
    small.put(1, made.compile(MOLECULES[2]))
    kept = batch.keep(torch.tensor([1, 2]))
    for (state, token), (other, _) in zip(steps(kept, 40), steps(small, 40), strict=True):
        assert torch.equal(state.cell, other.cell)
        assert torch.equal(kept.mask(state), small.mask(other))
        assert len(token) == 2
