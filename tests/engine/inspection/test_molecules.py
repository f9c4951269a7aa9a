"""The table of samples: its columns, its filters, its order."""

from __future__ import annotations

from typing import Any

import pytest

from engine.inspection.molecules import JUDGED, SHOWS, sample_table
from engine.inspection.runs import runs_with_samples
from engine.questions import ask
from engine.store.store import Store
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, step_row, write_run


def ids(store: Store, *runs: str, **wanted: Any) -> list[tuple[str, int]]:
    table = sample_table(store, runs or ["one"], **wanted)
    return list(zip(table["run_id"].to_pylist(), table["sample_id"].to_pylist(), strict=True))


USABLE = {"usable": True, "geometry_right": True, "failed": []}
MIRRORED = {"check": "stereo", "atoms": [2], "detail": "mirrored"}
STEREO = {"usable": False, "stereo_right": False, "failed": [MIRRORED] * 2}
UNREAD = {"usable": False, "failed": [{"check": "loaded", "atoms": [0], "detail": "no number"}]}
CLASH = {"geometry_right": False, "failed": [{"check": "internal_steric_clash", "atoms": [0, 1], "detail": "0.8 Å"}]}


@pytest.fixture
def mixed(store: Store) -> Store:
    """A clean sample, one with junk, one cut, one that failed, one unverified, one without blocks."""
    write_run(
        store,
        "one",
        [
            sample_row(0, **USABLE, drift=0, rmsd_ang=0.5, tokens=9, forced_tokens=3, blocks=2),
            sample_row(1, smiles="c1ccccc1", clean=False, **STEREO, bad_blocks=1, drift=2, blocks=2, tokens=9),
            sample_row(2, smiles="CN", decodes=False, clean=False, bad_blocks=1, cut_blocks=1, blocks=2, **UNREAD),
            sample_row(3, smiles="CC", decodes=False, clean=False, passed=False, issues=["SMILES mismatch"]),
            sample_row(4, smiles="CF", usable=False, **CLASH, blocks=1, drift=-3),
            sample_row(5, smiles="C"),
        ],
        [
            block_row(0, 0, drift=0),
            block_row(0, 1, drift=0),
            block_row(1, 0, drift=2, kinds=["letters", "punctuation"], junk_text="x>", junk_tokens=2),
            block_row(1, 1, element="N"),
            block_row(2, 0, kinds=["cut"]),
            block_row(2, 1, kinds=["missing_z"]),
            block_row(4, 0, drift=-3, kinds=["unverified"]),
        ],
        [step_row(1, 0), step_row(1, 1)],
        lp="exact",
        model_step="final",
        tokenizer="qwen3",
    )
    return store


def test_a_row_says_what_its_sample_run_and_blocks_say(mixed: Store) -> None:
    rows = sample_table(mixed, ["one"]).to_pylist()
    assert [row["sample_id"] for row in rows] == [0, 1, 2, 3, 4, 5]
    first, junk, cut, failed, unverified, bare = rows
    assert (first["model"], first["lp"], first["tokenizer"]) == ("toy:final", "exact", "qwen3")
    assert first["forced_share"] == pytest.approx(1 / 3)
    assert (junk["junk_blocks"], junk["junk_tokens"], junk["drifts"]) == (1, 2, [2, None])
    assert (junk["drift"], junk["drift_min"], junk["drift_max"]) == (2, 2, 2)
    assert (junk["has_steps"], junk["has_ids"], cut["has_steps"], cut["has_ids"]) == (True, True, False, False)
    assert (cut["cut_blocks"], cut["junk_blocks"], cut["junk_tokens"]) == (1, 0, None)
    assert [row["checks"] for row in rows] == ["", "stereo", "loaded", None, "internal_steric_clash", None]
    assert failed["issues"] == ["SMILES mismatch"]
    assert unverified["unverified_blocks"] == 1
    assert (bare["drifts"], bare["blocks"], bare["junk_blocks"]) == ([], 0, 0)


def test_what_is_shown(mixed: Store) -> None:
    shown = {show: [sample for _, sample in ids(mixed, show=show)] for show in ("", *SHOWS, *JUDGED)}
    assert shown == {
        "": [0, 1, 2, 3, 4, 5],
        "With junk": [1],
        "Cut": [2],
        "Failed": [3],
        "Does not decode": [2, 3],
        "Unverified": [4],
        "Clean": [0, 4, 5],
        "Usable": [0],
        "Molecule wrong": [1, 4],
        "Stereo wrong": [1],
        "Geometry wrong": [4],
        "Clash": [4],
    }


def test_the_smiles_is_plain_text(mixed: Store) -> None:
    assert ids(mixed, smiles="c1") == [("one", 1)]
    assert [sample for _, sample in ids(mixed, smiles="C")] == [0, 2, 3, 4, 5]
    assert ids(mixed, smiles="' OR 1=1 --") == []
    assert ids(mixed, smiles="%") == []


def test_the_worst_is_what_lost_most_and_not_what_has_most_blocks_that_lost_nothing(store: Store) -> None:
    """Eight cuts of which seven moved nothing came before two that put atoms off, and both before what is unusable."""
    cut, wrong = {"usable": False, "clean": False, "blocks": 9}, {"usable": False, "passed": False}
    samples = [
        sample_row(0, bad_blocks=8, cut_blocks=8, **cut),
        sample_row(1, bad_blocks=1, cut_blocks=0, **cut),  # `-0.26(cc6` is 6 to the group's reader
        sample_row(2, bad_blocks=2, cut_blocks=2, **cut),
        sample_row(3, usable=True, bad_blocks=1, cut_blocks=1, clean=False),
        sample_row(4, **wrong),
        sample_row(5, rmsd_ang=9.0, drift=7),
    ]
    kinds, whole = {"kinds": ["cut"]}, "1.0,2.0,3.0000"
    blocks = [block_row(0, n, text="1.0,2.0,3.0", x=1.0, y=2.0, z=3.0, continued_text=whole, **kinds) for n in range(8)]
    blocks.append(block_row(1, 0, text="1.0,2.0,-0.26(cc6", x=1.0, y=2.0, z=-0.26, kinds=["letters"], junk_text="(cc6"))
    blocks += [block_row(2, n, text="1.0,2.0,3", continued_text="1.0,2.0,3.5", **kinds) for n in range(2)]
    blocks.append(block_row(3, 0, text="1.0,2.0,3.0", continued_text="1.0,2.0,3.5", **kinds))
    write_run(store, "one", samples, blocks)
    table = sample_table(store, ["one"], is_worst_first=True)
    assert table["sample_id"].to_pylist() == [1, 0, 2, 4, 3, 5]
    assert table["lost_ang"].to_pylist() == [pytest.approx(6.26), 0.0, None, None, 0.5, None]


def test_runs_stand_in_the_order_given(mixed: Store) -> None:
    write_run(mixed, "another", [sample_row(1), sample_row(0)])
    expected = [("one", n) for n in range(6)] + [("another", 0), ("another", 1)]
    assert ids(mixed, "one", "another") == expected
    assert ids(mixed, "another", "one") == expected[6:] + expected[:6]
    assert ids(mixed, "another", "another", "gone") == expected[6:]
    assert sample_table(mixed, ["gone"]).schema == sample_table(mixed, ["one"]).schema


def test_the_demo_adds_up() -> None:
    runs = runs_with_samples(DEMO_STORE)
    table = sample_table(DEMO_STORE, [run.run_id for run in runs])
    assert table.num_rows == 64 * len(runs)
    of_run = table.group_by("run_id").aggregate([("bad_blocks", "sum"), ("cut_blocks", "sum"), ("junk_tokens", "sum")])
    sums = {row["run_id"]: row for row in of_run.to_pylist()}
    for run in runs:
        assert sums[run.run_id]["bad_blocks_sum"] == run.bad_blocks
        assert sums[run.run_id]["cut_blocks_sum"] == DEMO_STORE.entry(run.run_id).row["cut_blocks"]
    junk = [sums[demo_run("qwen", lp)]["junk_tokens_sum"] for lp in ("group-v2.1", "exact")]
    assert junk[0] > junk[1] == 0
    for row in table.to_pylist():
        drifts = [drift for drift in row["drifts"] if drift is not None]
        assert len(row["drifts"]) == row["blocks"]
        assert row["drift"] == (sum(drifts) if drifts else None)
        assert row["drift_max"] == max(drifts, default=None)


# --- judged samples by the worst that their text has ----------------------------------------------------------------
def judged(number: int, right: bool, stereo: bool | None = None, **more: object) -> dict[str, object]:
    return sample_row(number, usable=right, geometry_right=right, stereo_right=stereo, **more)


def test_where_nothing_was_judged_there_is_no_table(store: Store) -> None:
    unread = [sample_row(0, usable=False), sample_row(1, usable=False)]
    write_run(store, "one", unread)
    assert not ask(store, "drift_damage", ["one"]).tables["main"].num_rows
    write_run(store, "two", [*unread, judged(2, True)])
    found = ask(store, "drift_damage", ["two"]).tables["main"]
    assert found.column("judged").to_pylist() == [0, 1] and found.column("samples").to_pylist() == [3, 3]


def test_a_sample_counts_once_under_the_worst_of_its_text(store: Store) -> None:
    samples = [
        judged(0, True, True),
        judged(1, False, False),
        judged(2, True, clean=False),
        judged(3, False, clean=False),
        judged(4, True),
        judged(5, True, clean=False),
        sample_row(6),
    ]
    blocks = [
        block_row(2, 0, kinds=["letters", "cut"], junk_text="x"),
        block_row(3, 0, kinds=["cut"]),
        block_row(3, 1, kinds=["unverified"]),
        block_row(4, 0, kinds=["unverified"]),
    ]
    write_run(store, "one", samples, blocks)
    answered = ask(store, "drift_damage", ["one"])
    rows = {(row["text"], row["what"].split()[0]): row for row in answered.tables["main"].to_pylist()}
    assert [(text, rows[text, "geometry"]["samples"]) for text, check in rows if check == "geometry"] == [
        ("junk", 1),
        ("cut", 1),
        ("unverified", 1),
        ("clean", 2),
        ("other", 1),
    ]
    clean = rows["clean", "geometry"]
    assert clean["share"] == rows["clean", "stereo"]["share"] == 0.5
    assert (clean["low"], clean["high"]) == pytest.approx((0.0945, 0.9055), abs=1e-3)
    assert {text: row["judged"] for (text, check), row in rows.items() if check == "stereo"} == {
        "junk": 0,
        "cut": 0,
        "unverified": 0,
        "clean": 2,
        "other": 0,
    }
