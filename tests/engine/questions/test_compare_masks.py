"""Sizes of masks: the reports' counts, and what the driver really forbids, position by position."""

from __future__ import annotations

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.lp.constraint import build_constraint
from engine.lp.driver import Tables
from engine.lp.table import NO_ID
from engine.questions.compare_masks import mask_rows, masks_of_run
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.lp.walks import draw


@pytest.mark.parametrize(("tokenizer", "free"), [("qwen3", 40), ("llama3", 28)])
def test_the_reports_free_positions(tokenizer: str, free: int) -> None:
    """Of two atoms, as report 002 counts them in its section 2.3."""
    loaded = load_tokenizer(tokenizer)
    (row,) = mask_rows(build_constraint("group-v2.1", loaded, loaded.vocab_size), [parse_smiles("C=O")])
    assert (row["free_positions"], row["positions"], row["atoms"]) == (free, "fixed", 2)
    marks = row["legal_most"] - row["legal_least"]  # that may not come at a block's last position
    assert marks == 34 and row["masked"] == free * (loaded.vocab_size - row["legal_most"]) + 2 * marks


@pytest.mark.parametrize("name", ["none", "group-v2.1", "group-v4.3", "truncating", "exact"])
@pytest.mark.parametrize(("tokenizer", "size"), [("qwen3", 151_936), ("llama3", 128_330)])
def test_counts_are_what_the_driver_forbids(name: str, tokenizer: str, size: int) -> None:
    constraint, molecule = build_constraint(name, load_tokenizer(tokenizer), size), parse_smiles("C=O")
    (row,) = mask_rows(constraint, [molecule])
    tables = Tables.of(constraint.automaton, [constraint.compile(molecule)])
    generator, state = torch.Generator().manual_seed(1), tables.start()
    legal: list[int] = []
    end = load_tokenizer(tokenizer).end_id
    token = torch.tensor([NO_ID])
    while token.item() != end and len(legal) < 60:
        if int(tables.here(state)[0, 0]) == NO_ID:
            legal.append(int(tables.mask(state).sum()))
        token = draw(tables, state, generator)
        state = tables.step(state, token)
    masked = sum(size - count for count in legal)
    assert legal and row["legal_least"] <= min(legal) and max(legal) <= row["legal_most"]
    if name.startswith("group"):
        assert (len(legal), masked) == (row["free_positions"], row["masked"])
    elif name == "truncating":
        assert row["positions"] == "at most" and masked <= row["masked"]
    else:
        assert (row["positions"], row["free_positions"], row["masked"]) == ("open", None, None)


def test_a_run_has_its_own_lp_and_placeholder() -> None:
    for lp, free in (("group-v2.1", 20), ("group-v4.3", 17)):
        rows, left_out, why = masks_of_run(DEMO_STORE, DEMO_STORE.entry(demo_run("qwen", lp)))
        assert (len(rows), left_out, why) == (64, 0, "")
        assert [row["free_positions"] for row in rows] == [free * row["atoms"] for row in rows]


def test_what_cannot_be_counted_says_why(store: Store) -> None:
    write_run(store, "no-tokenizer", [sample_row(0)])
    write_run(store, "strange", [sample_row(0)], tokenizer="qwen3", lp="nobody's")
    write_run(store, "odd", [sample_row(0, smiles="not a molecule"), sample_row(1)], tokenizer="qwen3", lp="exact")
    assert masks_of_run(store, store.entry("no-tokenizer")) == ([], 0, "The run does not name its tokenizer.")
    assert masks_of_run(store, store.entry("strange"))[2].startswith("Its LP cannot be made here: there is no LP")
    rows, left_out, _ = masks_of_run(store, store.entry("odd"))
    assert ([row["smiles"] for row in rows], left_out) == (["CO"], 1)
