"""Histograms of drift, by what blocks have in common and by axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from engine.inspection.axes import AXES, axis_drifts, axis_tokens
from engine.inspection.molecules import BYS, By, DriftBin, members
from engine.inspection.runs import run_facts, runs_with_samples
from engine.questions import ask
from engine.questions.drift_histogram import CUT
from engine.records import BinFormat
from engine.store.store import Store
from engine.text.template import needed_by_content
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, write_run

RUNS = [run.run_id for run in runs_with_samples(DEMO_STORE)]


def counted(store: Store, by: By, *runs: str) -> dict[tuple[str, int | None], int]:
    rows = ask(store, "drift_histogram", runs or ["one"], {"by": by}).tables["main"].to_pylist()
    drifts = [None if row["bin"] == CUT else int(row["bin"].rpartition("~")[2]) for row in rows]
    return {(row["group"], drift): row["blocks"] for row, drift in zip(rows, drifts, strict=True)}


def samples_in(store: Store, run_ids: Sequence[str], drift_bin: DriftBin) -> set[tuple[str, int]]:
    return members(store, [run for run in store.listing().entries if run.id in run_ids], drift_bin)


@pytest.fixture
def two(store: Store) -> Store:
    for name, tokenizer, lp in (("one", "qwen3", "none"), ("two", None, None)):
        blocks = [
            block_row(0, 0, element="C", drift=-1),
            block_row(0, 1, element="N", drift=2),
            block_row(1, 0, element="C", drift=2),
            block_row(1, 1, element=None, kinds=["cut"]),
            block_row(1, 2, kinds=["unverified"]),
            block_row(1, 3, kinds=["missing_z"]),
        ]
        write_run(store, name, [sample_row(0), sample_row(1)], blocks, tokenizer=tokenizer, lp=lp)
    return store


def test_both_signs_and_cut_blocks_are_counted_by_group(two: Store) -> None:
    assert counted(two, "element") == {("C", -1): 1, ("C", 2): 1, ("N", 2): 1, ("unknown", None): 1}
    of_run = ((None, 1), (-1, 1), (2, 2))
    assert counted(two, "run", "one", "two") == {(run, n): c for run in ("one", "two") for n, c in of_run}
    assert counted(two, "tokenizer", "one", "two") == {(t, n): c for t in ("qwen3", "unknown") for n, c in of_run}
    assert counted(two, "lp", "two") == {("unknown", n): c for n, c in of_run}
    answered = ask(two, "drift_histogram", ["one"], {"by": "run", "bin": "run~one~2"})
    rows = answered.tables["main"].to_pylist()
    assert [(row["drift"], row["sign"]) for row in rows] == [(d, "hypothetical") for d in ("cut", "−1", "+2")]
    assert [(row["share"], row["is_faint"]) for row in rows] == [(1 / 6, True), (1 / 6, True), (2 / 6, False)]


def test_samples_of_a_bar(two: Store) -> None:
    assert samples_in(two, ["one", "two"], DriftBin("element", "C", 2)) == {("one", 1), ("two", 1)}
    assert samples_in(two, ["one"], DriftBin("tokenizer", "qwen3", 2)) == {("one", 0), ("one", 1)}
    assert samples_in(two, ["two"], DriftBin("tokenizer", "unknown", -1)) == {("two", 0)}
    assert samples_in(two, ["one"], DriftBin("axis", "w", 0)) == set()


@pytest.mark.parametrize("by", BYS)
def test_bars_of_the_demo_have_their_samples(by: By) -> None:
    assert samples_in(DEMO_STORE, ["gone"], DriftBin(by, "x", 0)) == set()
    for (group, drift), blocks in list(counted(DEMO_STORE, by, *RUNS).items())[::40]:
        if drift is not None:
            assert 1 <= len(samples_in(DEMO_STORE, RUNS, DriftBin(by, group, drift))) <= blocks


# --- by axis ------------------------------------------------------------------------------------------------------
def test_axes_by_hand() -> None:
    """Qwen cuts each digit apart: x has 6 tokens, y and z one more for the comma before them."""
    tokenizer = load_tokenizer("qwen3")
    tokens = axis_tokens([("[C]", "0.0000,0.0000,0.0000"), ("[C]", "-1.5,-12.25,3.1")], tokenizer)
    assert tokens.tolist()[0] == [6, 7, 7]
    assert tokens.tolist()[1] == [4, 6, 4]  # ",-" is one token, of the axis that it begins


@pytest.mark.parametrize("name", BUILT_IN)
def test_axes_add_up_to_the_block(name: str) -> None:
    tokenizer = load_tokenizer(name)
    numbers = list(map(",".join, itertools.product(("0.0", "-0.5", "12.3456", "-123.4"), repeat=3)))
    blocks = [(at, content) for at in ("[C]", "[N+]", "[C@@H]") for content in numbers]
    assert axis_tokens(blocks, tokenizer).sum(axis=1).tolist() == needed_by_content(blocks, tokenizer)


def test_axes_of_bins_have_their_digits() -> None:
    blocks = [("[C]", "128130125"), ("[Ca+2]", "001002003")]
    bare = BinFormat.equal(-13, 13, 0.104)
    for name, each in (("qwen3", 3), ("llama3", 1)):
        assert axis_tokens(blocks, load_tokenizer(name), bare).tolist() == [[each] * 3] * 2
    older = axis_tokens([("[C]", "0512,0498,0501")], load_tokenizer("qwen3"), BinFormat.in_brackets(0.042, 21))
    assert older.tolist() == [[4, 5, 5]]


@pytest.mark.parametrize("run_id", [demo_run("qwen", "group-v2.1"), demo_run("llama", "none")])
def test_axes_of_the_demo_add_up_to_the_stored_drift(run_id: str) -> None:
    drifts = axis_drifts(DEMO_STORE, run_facts(DEMO_STORE, run_id))
    of_run = "FROM blocks WHERE run_id = $1 AND drift IS NOT NULL ORDER BY sample_id, block"
    rows = DEMO_STORE.rows(f"SELECT sample_id, drift {of_run}", [run_id])
    assert sum(drifts[axis].to_numpy() for axis in AXES).tolist() == [row["drift"] for row in rows]
    assert drifts["sample_id"].to_pylist() == [row["sample_id"] for row in rows]
    drawn = counted(DEMO_STORE, "axis", run_id)
    assert [sum(n for (name, _), n in drawn.items() if name == axis) for axis in AXES] == [len(rows)] * 3
