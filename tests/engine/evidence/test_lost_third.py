"""Documents of the lost third in a store, of which the first place's are shown; and blocks that are misread."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.evidence.lost_third import load_usable
from engine.questions import ask
from engine.store.files import Files
from engine.store.store import DEMO, Store
from tests.engine.inspection.made import DEMO_STORE, block_row, sample_row, write_run


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "Expecting"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"model": "x"}', "lanes"),
        (b" " * 2_000_001, "bytes"),
        (b'{"model": "x", "lanes": [], "fall": null, "reordered": {"cov_r": {"value": 1}}}', "`low` - at `..reordered"),
        (b'{"model": "x", "lanes": [{"lane": "none"}], "fall": null, "reordered": null}', "`words` - at `.*lanes"),
        (b'{"model": "x", "lanes": [], "fall": null, "reordered": {"a": {"value": NaN}}}', "reordered"),
    ],
)
def test_what_is_no_result_is_named(store: Store, content: bytes, why: str) -> None:
    store.home.write("lost_third/x.json", content)
    usable, (error,) = load_usable([Files(DEMO), store.home])
    assert len(usable) == 3 and re.search(f"x.json' is no result of `lost-third`: .*{why}", str(error))


def test_the_first_place_that_has_a_model_is_shown(store: Store, tmp_path: Path) -> None:
    empty: dict[str, Any] = {"lanes": [], "fall": None, "reordered": None}
    other = Files(tmp_path / "beside")
    for model, files in (("b:early", store.home), ("a", other), ("b:early", other)):
        document = {"model": model, "from": files.where, **empty}
        files.write(f"lost_third/{model.replace(':', '-')}.json", json.dumps(document).encode())
    documents, _ = load_usable([store.home, other])
    assert [(document["model"], document["from"]) for document in documents] == [
        ("a", other.where),
        ("b:early", store.home.where),
    ]


# --- blocks that the group's reader misreads, counted in stored runs --------------------------------------------------
def damaged(number: int, text: str, z: float | None, **more: object) -> dict[str, object]:
    return block_row(0, number, text=text, x=1.0, y=2.0, z=z, kinds=["letters"], **more)


def test_only_damage_that_is_taken_for_a_number_counts(store: Store) -> None:
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


def test_misread_blocks_are_told_as_everywhere_and_names_tell_their_runs_apart() -> None:
    answered = ask(DEMO_STORE, "evidence_misread", [])
    assert "by up to 318 Å" in answered.answer
    names = answered.tables["main"]["name"].to_pylist()
    assert len(names) == len(set(names)) == 4 and any("plain descriptors" in name for name in names)
