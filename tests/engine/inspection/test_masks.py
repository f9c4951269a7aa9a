"""Sizes of masks: the reports' counts, and what the driver really forbids, position by position."""

from __future__ import annotations

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.inspection.masks import dense_mask_bytes, mask_sizes, mask_sizes_of_run
from engine.lp.constraint import build_constraint
from engine.lp.driver import Tables
from engine.lp.table import NO_ID
from engine.lp_records import LPS
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.lp.walks import draw

BY_POSITION = [name for name, info in LPS.items() if info.placeholder and name != "truncating"]
ROWS = {"qwen3": 151_936, "llama3": 128_330}


@pytest.mark.parametrize(("tokenizer", "free"), [("qwen3", 40), ("llama3", 28)])
def test_the_reports_free_positions(tokenizer: str, free: int) -> None:
    """Of two atoms, as report 002 counts them in its section 2.3."""
    loaded = load_tokenizer(tokenizer)
    constraint = build_constraint("group-v2.1", loaded, loaded.vocab_size)
    found = mask_sizes(constraint, [parse_smiles("C=O")], tokenizer)
    (size,) = found.molecules
    assert (size.free_positions, size.positions, size.atoms) == (free, "fixed", 2)
    marks = size.forbidden_most - size.forbidden_least  # that may not come at a block's last position
    assert marks == 34 and size.masked == free * size.forbidden_least + 2 * marks
    assert (found.vocabulary, found.tokenizer, found.lp) == (loaded.vocab_size, tokenizer, "group-v2.1")
    assert found.longest == size.cells and found.dense_bytes(2) == 2 * size.cells * loaded.vocab_size


def test_the_reports_dense_mask() -> None:
    """32 answers of 2,000 positions and 152,000 entries: its 9.7 GB are a byte an entry."""
    assert round(dense_mask_bytes(32, 2_000, 152_000) / 1e9, 1) == 9.7


@pytest.mark.parametrize("name", LPS)
@pytest.mark.parametrize("tokenizer", ROWS)
def test_counts_are_what_the_driver_forbids(name: str, tokenizer: str) -> None:
    constraint = build_constraint(name, load_tokenizer(tokenizer), ROWS[tokenizer])
    molecule = parse_smiles("C[NH+]=O")
    (size,) = mask_sizes(constraint, [molecule]).molecules
    tables, generator = (
        Tables.of(constraint.automaton, [constraint.compile(molecule)]),
        torch.Generator().manual_seed(1),
    )
    state = tables.start()
    forbidden: list[int] = []
    end = load_tokenizer(tokenizer).end_id
    token = torch.tensor([NO_ID])
    while token.item() != end and len(forbidden) < 60:
        if int(tables.here(state)[0, 0]) == NO_ID:
            forbidden.append(ROWS[tokenizer] - int(tables.mask(state).sum()))
        token = draw(tables, state, generator)
        state = tables.step(state, token)
    assert forbidden and size.forbidden_least <= min(forbidden) and max(forbidden) <= size.forbidden_most
    if name in BY_POSITION:
        assert (len(forbidden), sum(forbidden)) == (size.free_positions, size.masked)
    if name == "truncating":
        assert size.positions == "at most" and size.masked is not None and sum(forbidden) <= size.masked
    if name in ("none", "exact"):
        assert (size.positions, size.free_positions, size.masked) == ("open", None, None)


def test_without_an_lp_only_rows_without_a_token_are_masked() -> None:
    loaded = load_tokenizer("qwen3")
    found = mask_sizes(build_constraint("none", loaded, ROWS["qwen3"]), [parse_smiles("CO")])
    (size,) = found.molecules
    assert (size.cells, size.forbidden_least, size.forbidden_most) == (1, *[ROWS["qwen3"] - loaded.vocab_size] * 2)
    assert (found.longest, found.dense_bytes(32)) == (None, None)


def test_a_run_has_its_own_lp_and_placeholder() -> None:
    found = mask_sizes_of_run(DEMO_STORE, demo_run("qwen", "group-v2.1"), most=5)
    assert (found.lp, found.tokenizer, found.reason) == ("group-v2.1", "qwen3", "")
    assert [molecule.free_positions for molecule in found.molecules] == [
        20 * molecule.atoms for molecule in found.molecules
    ]
    short = mask_sizes_of_run(DEMO_STORE, demo_run("qwen", "group-v2.1"), "group-v4.3", most=5)
    assert [molecule.free_positions for molecule in short.molecules] == [
        17 * molecule.atoms for molecule in short.molecules
    ]
    assert (len(short.molecules), short.left_out) == (5, 59)
    assert short.longest is not None and found.longest is not None
    assert short.longest < found.longest


def test_what_cannot_be_counted_says_why(store: Store) -> None:
    write_run(store, "no-tokenizer", [sample_row(0)])
    write_run(store, "strange", [sample_row(0)], tokenizer="qwen3", lp="nobody's")
    write_run(store, "odd", [sample_row(0, smiles="not a molecule"), sample_row(1)], tokenizer="qwen3", lp="exact")
    assert mask_sizes_of_run(store, "no-tokenizer").reason == "The run does not name its tokenizer."
    assert mask_sizes_of_run(store, "strange").reason.startswith("Its LP cannot be made here: there is no LP")
    odd = mask_sizes_of_run(store, "odd")
    assert ([molecule.smiles for molecule in odd.molecules], odd.left_out) == (["CO"], 1)
