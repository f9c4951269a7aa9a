"""Does disagreement with the LP grow along the text, and go with RMSD: toys with known answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine.inspection.lp_cost import Disagreement, RunCost, cost_of_run
from engine.inspection.runs import run_facts
from engine.questions.drift_lp_cost import sentences
from engine.store.store import Store
from tests.engine.inspection.made import sample_row, step_row, write_run

MOLECULES, SAMPLES = 6, 4
END = "<|endoftext|>"


def made(
    store: Store,
    cost_nat: Callable[[int, int, int], float],
    rmsd_ang: Callable[[int, int], float | None] = lambda molecule, sample: None,
    end_nat: float = 0.0,
) -> RunCost:
    """Molecule m has m + 2 blocks; ``cost_nat`` of molecule, sample and block is split before and inside the block."""
    steps: list[dict[str, Any]] = []
    samples = []
    for number in range(MOLECULES * SAMPLES):
        molecule, sample = divmod(number, SAMPLES)
        pieces = [("[C]", cost_nat(molecule, sample, block) / 2, block) for block in range(molecule + 2)]
        told = [
            (piece, nat) for _, nat, _ in pieces for piece, nat in (("[C]", nat), ("<", 0), ("1,2,3", nat), (">", 0))
        ]
        for pos, (piece, nat) in enumerate([*told, (END, end_nat)]):
            known = {"ln_p": -nat, "ln_p_tempered": -nat, "ln_mass": -nat, "ln_q": 0.0}
            steps.append(step_row(number, pos, piece=piece, forced=True, **known))
        about = {"smiles": "C" * (molecule + 2), "stop_reason": "end", "rmsd_ang": rmsd_ang(molecule, sample)}
        samples.append(sample_row(number, **about))
    write_run(store, "one", samples, (), steps, lp="exact")
    return cost_of_run(store, run_facts(store, "one"))


def of(cost: RunCost) -> Disagreement:
    return cost.disagreement


def test_the_slope_is_that_of_blocks_within_samples(store: Store) -> None:
    """Each sample has a level of its own, long molecules the lowest: blocks without their samples would fall."""
    found = of(made(store, lambda molecule, sample, block: 50.0 - 5 * molecule + sample + 0.25 * block))
    assert found.slope is not None
    assert found.slope.value == pytest.approx(0.25)
    assert found.slope.ends == pytest.approx((0.25, 0.25))
    assert found.blocks == SAMPLES * sum(range(2, MOLECULES + 2))
    assert found.rmsd is None


def test_what_follows_the_last_block_is_no_block(store: Store) -> None:
    found = of(made(store, lambda *_: 1.0, end_nat=100.0))
    assert found.slope is not None and found.slope.value == pytest.approx(0)


def test_rmsd_is_ranked_within_molecules(store: Store) -> None:
    """RMSD rises with -log w in each molecule, and falls with it from molecule to molecule."""
    cost = made(
        store,
        lambda molecule, sample, block: 10.0 - molecule + 0.1 * sample,
        lambda molecule, sample: molecule + sample,
    )
    assert of(cost).rmsd is not None
    assert of(cost).rmsd.value == pytest.approx(1)  # type: ignore[union-attr]
    assert (of(cost).rmsd_samples, of(cost).rmsd_molecules) == (24, 6)
    assert "higher (rank correlation 1.00" in " ".join(sentences(cost, "exact"))


def test_half_of_the_molecules_the_other_way_is_no_relation(store: Store) -> None:
    cost = made(
        store,
        lambda molecule, sample, block: 1.0 + sample,
        lambda molecule, sample: (-1) ** molecule * sample + 9.0 if sample else None,
    )
    found = of(cost)
    assert found.rmsd is not None and found.rmsd.ends is not None
    assert found.rmsd.value == pytest.approx(0)
    assert found.rmsd.ends[0] < -0.5 and found.rmsd.ends[1] > 0.5
    assert (found.rmsd_samples, found.rmsd_molecules) == (18, 6)
    assert "no relation shown" in " ".join(sentences(cost, "exact"))


def test_one_sample_per_molecule_tells_nothing_of_rmsd(store: Store) -> None:
    found = of(made(store, lambda m, s, b: 1.0 + m + s, lambda m, sample: None if sample else 1.0 + m))
    assert (found.rmsd, found.rmsd_samples, found.rmsd_molecules) == (None, 0, 0)
