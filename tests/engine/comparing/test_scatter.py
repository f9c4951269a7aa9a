"""Points of a control against a test."""

from __future__ import annotations

import pytest

from engine.comparing.measures import COLUMNS
from engine.comparing.scatter import POINTS, scatter
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run


def test_points_lead_to_their_samples(store: Store) -> None:
    write_run(
        store,
        "control",
        [
            sample_row(0, smiles="N", tokens=5),
            sample_row(1, smiles="CO", tokens=7, generation=1),
            sample_row(2, smiles="C"),
            sample_row(3, smiles="O", tokens=9),
        ],
    )
    write_run(
        store,
        "test",
        [
            sample_row(4, smiles="C", tokens=3),
            sample_row(5, smiles="CO", tokens=8, generation=1),
            sample_row(6, smiles="N", tokens=4),
        ],
    )
    found = scatter(store, "control", "test", "tokens")
    assert [tuple(row.values()) for row in found.points.to_pylist()] == [("N", 0, 0, 6, 5, 4), ("CO", 1, 1, 5, 7, 8)]
    assert (found.shared, found.unknown, found.control_alone, found.test_alone) == (3, 1, 1, 0)
    assert (found.above, found.below, found.measure) == (1, 1, COLUMNS["tokens"])


@pytest.mark.parametrize("column", COLUMNS)
def test_every_measure_can_be_shown(column: str) -> None:
    found = scatter(DEMO_STORE, demo_run("qwen", "none"), demo_run("qwen", "exact"), column)
    assert found.points.schema == POINTS and found.points.num_rows + found.unknown == found.shared == 64


def test_runs_without_samples_have_no_points() -> None:
    found = scatter(DEMO_STORE, demo_run("qwen", "none"), "reported-002-qwen-lp-64", "tokens")
    assert (found.points.num_rows, found.shared, found.control_alone, found.test_alone) == (0, 0, 64, 0)
    assert (found.above, found.below) == (0, 0)


def test_a_column_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match="a scatter shows wall_part_s, tokens"):
        scatter(DEMO_STORE, demo_run("qwen", "none"), demo_run("qwen", "exact"), "sample_id")
