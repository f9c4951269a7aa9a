"""A run searched for the tokens that lost its molecules: its table, what is stored, and what is gone on with."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import RunError, StoreError
from engine.inspection import lost_runs
from engine.inspection.judging import judge_run
from engine.inspection.lost_runs import is_searched, lost_run, searched_of
from engine.inspection.sample import inspect_sample
from engine.store.files import Files
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.cli import run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.stored_runs import assert_whole

RIGHT = "[CONFORMER][C]<0.0,0.0,0.0>[O]<1.4,0.0,0.0>[/CONFORMER]"
FAR, NEAR = RIGHT.replace("1.4", "3.4"), RIGHT.replace("1.4", "0.2")
TEXTS = (RIGHT, FAR, RIGHT + NEAR, "[CONFORMER][C]<0.0,", "", NEAR, RIGHT, FAR)


def write(store: Store, *texts: str, **about: Any) -> None:
    rows = [sample_row(number, text=text, decodes=True) for number, text in enumerate(texts)]
    write_run(store, "one", rows, tokenizer="qwen3", **about)


def rows_of(store: Store) -> list[tuple[int, int, int, str]]:
    sql = 'SELECT sample_id, conformer, atom, "check" FROM lost ORDER BY ALL'
    return [tuple(row.values()) for row in store.rows(sql)]


LOST = [(1, 1, 1, "bond_lengths"), (2, 2, 1, "bond_lengths"), (5, 1, 1, "bond_lengths"), (7, 1, 1, "bond_lengths")]


@pytest.mark.parametrize("is_judged", [False, True])
def test_a_runs_lost_blocks_are_a_table_of_it(store: Store, is_judged: bool) -> None:
    write(store, *TEXTS)
    if is_judged:
        judge_run(store, "one", workers=1)
    assert not is_searched(store.entry("one"))
    seen: list[tuple[int, int]] = []
    found = lost_run(store, "one", progress=lambda done, samples: seen.append((done, samples)))
    assert (found.samples, found.lost_samples, found.is_stored) == (8, 4, True)
    assert seen == [(done, 8) for done in range(1, 9)] and rows_of(store) == LOST
    entry = store.entry("one")
    assert is_searched(entry) and (entry.row["lost_searched"], entry.row["lost_samples"]) == (8, 4)
    assert_whole(store)
    assert lost_run(store, "one").samples == 0 and lost_run(store, "one", again=True).samples == 8
    (row,) = store.rows("SELECT * FROM lost WHERE sample_id = 1")
    assert (row["axis"], row["piece"], row["digit"], row["tokens_by"]) == ("x", "3", 0, "retokenised")
    assert (row["is_alone"], row["is_certain"], row["is_ring_closure"]) == (True, True, False)


def test_a_search_that_was_stopped_goes_on_behind_what_it_stored(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_runs, "GROUP", 3)
    write(store, *TEXTS)

    def stop(done: int, samples: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lost_run(store, "one", progress=stop)
    assert searched_of(store.entry("one")) == 3 and rows_of(store) == LOST[:2] and not is_searched(store.entry("one"))
    first: list[int] = []
    assert lost_run(store, "one", progress=lambda done, samples: first.append(done)).samples == 5
    assert first == [4, 5, 6, 7, 8] and rows_of(store) == LOST


def test_a_run_that_is_only_read_is_searched_and_not_stored(store: Store) -> None:
    write(store, *TEXTS)
    other = Store(Files(store.home.root / "own"), (store.home,))
    found = lost_run(other, "one")
    assert not found.is_stored and found.lost_samples == 4 and not rows_of(store)


def test_what_has_no_decimals_or_no_texts_is_refused_in_one_line(store: Store) -> None:
    write_run(store, "none", [sample_row(0, text=None)])
    with pytest.raises(RunError, match="none has no texts"):
        lost_run(store, "none")
    binned = "[CONFORMER][C]<0512,0498,0501>[O]<0512,0498,0520>[/CONFORMER]"
    write_run(store, "binned", [sample_row(0, text=binned)])
    with pytest.raises(RunError, match="in decimals and in bins that are known, not in other texts"):
        lost_run(store, "binned")
    with pytest.raises(StoreError, match="no samples to search"):
        lost_run(beside(store), "reported-000-qwen-lp-64")


def test_checks_that_the_verdict_leaves_out_are_left_out(store: Store) -> None:
    ring = "".join(
        f"[C]<{x},{y},0.0>" + ("1" if number in (0, 5) else "")
        for number, (x, y) in enumerate(
            [(1.5, 0.0), (0.75, 1.299), (-0.75, 1.299), (-1.5, 0.0), (-0.75, -1.299), (0.75, -1.299)]
        )
    )
    for settings, checks in (("mol_fast", {"non-aromatic_ring_non-flatness"}), ("group", set())):
        row = sample_row(0, text=f"[CONFORMER]{ring}[/CONFORMER]", smiles="C1CCCCC1")
        write_run(store, settings, [row], judged_with=f"posebusters 0.6.5, {settings}, rdkit 2025")
        found = {check for check in lost_run(store, settings).lost["check"].to_pylist() if "ring" in check}
        assert found == checks


def test_the_command_prints_what_it_found(store: Store) -> None:
    write(store, *TEXTS)
    document = run_json("lost", "one", "--store", str(store.home.root))
    keys = ("run_id", "stored", "searched", "lost_samples", "lost_blocks")
    assert [document[key] for key in keys] == ["one", True, 8, 4, 4]
    assert document["lost"][0]["why"].startswith("atom 0, to which it is bonded, is then at least 3.00 Å away")


def beside(store: Store) -> Store:
    """The demo store is only read."""
    return Store(store.home, DEMO_STORE.locations)


def test_a_sample_that_is_looked_into_has_its_marks_at_its_tokens(store: Store) -> None:
    run_id = demo_run("qwen", "exact")
    rows = lost_run(beside(store), run_id).lost.to_pylist()
    for sample_id in sorted({row["sample_id"] for row in rows})[:4]:
        inspected = inspect_sample(DEMO_STORE, run_id, sample_id)
        stored = [(row["block"], row["pos"], row["why"]) for row in rows if row["sample_id"] == sample_id]
        assert [(mark.block, mark.token, mark.why) for mark in inspected.lost] == stored
        for mark in inspected.lost:
            piece = load_tokenizer("qwen3").piece(inspected.sample["token_ids"][mark.token])
            assert mark.by == "written" and piece == mark.piece
