"""Blocks that the group's reader misreads, counted in stored runs."""

from __future__ import annotations

from pathlib import Path

from engine.inspection.misread import misread_by_run
from engine.store.files import LocalFiles
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, block_row, sample_row, write_run


def damaged(number: int, text: str, z: float | None, **more: object) -> dict[str, object]:
    return block_row(0, number, text=text, x=1.0, y=2.0, z=z, kinds=["letters"], **more)


def test_the_runs_that_ship_have_some_and_their_farthest_is_named() -> None:
    (first, *_) = misread_by_run(DEMO_STORE, DEMO_STORE.found().entries)
    assert (first.model, first.lp, first.misread, first.blocks) == ("demo-llama:final", "position-blocklist", 8, 818)
    assert (first.most_ang, first.text) == (9.0, "3.1839,0.396,0.0(O9")


def test_only_damage_that_is_taken_for_a_number_counts(tmp_path: Path) -> None:
    store = Store(LocalFiles(tmp_path))
    blocks = [
        damaged(0, "1.0,2.0,3.0(cc6", 3.0),
        damaged(1, "1.0,2.0,3.0amen", 3.0),  # taken as it is meant
        damaged(2, "1.0,2.0,abra", None),  # refused
        damaged(3, "1.0,2.0,abra7", None),  # states no z: counted, without a distance
        block_row(0, 4, text="1.0,2.0,3.0", x=1.0, y=2.0, z=3.0),
    ]
    write_run(store, "some", [sample_row(0)], blocks, lp="position-blocklist", model_alias="a", bad_blocks=4)
    write_run(store, "nowhere", [sample_row(0)], [blocks[3]], bad_blocks=1)
    write_run(store, "none", [sample_row(0)], [blocks[1]], bad_blocks=1)
    write_run(store, "known", [sample_row(0)], [blocks[0]], bad_blocks=1, misread_blocks=0)
    found = misread_by_run(store, store.found().entries)
    assert [(run.run_id, run.misread, run.blocks, run.most_ang) for run in found] == [
        ("nowhere", 1, 1, None),
        ("some", 2, 5, 3.0),
    ]
