"""Blocks that the group's reader misreads, counted in stored runs."""

from __future__ import annotations

from pathlib import Path

from engine.questions import ask
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.inspection.made import block_row, sample_row, write_run


def damaged(number: int, text: str, z: float | None, **more: object) -> dict[str, object]:
    return block_row(0, number, text=text, x=1.0, y=2.0, z=z, kinds=["letters"], **more)


def test_only_damage_that_is_taken_for_a_number_counts(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    blocks = [
        damaged(0, "1.0,2.0,3.0(cc6", 3.0),
        damaged(1, "1.0,2.0,3.0amen", 3.0),  # taken as it is meant
        damaged(2, "1.0,2.0,abra", None),  # refused
        damaged(3, "1.0,2.0,abra7", None),  # states no z: counted, without a distance
        block_row(0, 4, text="1.0,2.0,3.0", x=1.0, y=2.0, z=3.0),
    ]
    write_run(store, "some", [sample_row(0)], blocks, lp="group-v2.1", model_alias="a", bad_blocks=4)
    write_run(store, "nowhere", [sample_row(0)], [blocks[3]], bad_blocks=1)
    write_run(store, "none", [sample_row(0)], [blocks[1]], bad_blocks=1)
    write_run(store, "known", [sample_row(0)], [blocks[0]], bad_blocks=1, misread_blocks=0)
    rows = ask(store, "evidence_misread", []).tables["main"].to_pylist()
    assert [(row["run_id"], row["misread"], row["blocks"], row["most_ang"]) for row in rows] == [
        ("nowhere", 1, 1, None),
        ("some", 2, 5, 3.0),
    ]
