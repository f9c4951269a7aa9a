"""Logs read after the next call: told by a second log of the same texts, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.logits.health import health
from engine.logits.health_words import health_sentences
from engine.logits.late_reads import late_in_store, late_read
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import DEMO, Store
from tests.engine.logits.logs import Rows, clean, new_log, objects, write
from tests.engine.store.stored_runs import store_at


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def added(store: Store, folder: Path, name: str, rows: Rows, model: str = "m") -> Entry:
    return new_log(store, write(folder / f"{name}.jsonl", objects(rows, team=name, model=model)))


def test_the_engines_own_logs_of_late_reads() -> None:
    """llama.cpp's buffer, read after the next call, of both models; every other log is of its own tokens."""
    store = Store.open(DEMO)
    late = {entry.row["engine"] for entry in store.found(LOGIT_LOG).entries if late_in_store(store, entry)}
    assert late == {"llama.cpp read after the next call"}
    for entry in store.found(LOGIT_LOG).entries:
        if entry.row["engine"] in late:
            found = late_in_store(store, entry)
            assert found is not None and found.nearer == found.entries >= 24
            answer, *_, shares = health_sentences(health(store, entry), found)
            assert answer.startswith("Probably read late") and answer.endswith("No value is damaged by itself.")
            assert shares.endswith("0 % of the entries are garbage, by ours 0 %."), "which the answer explains"


def test_values_of_the_next_token(store: Store, tmp_path: Path) -> None:
    rows = clean(30, 12)
    right = added(store, tmp_path, "right", rows[:-1])
    late = added(store, tmp_path, "late", rows[1:] + 1e-4)
    assert late_in_store(store, right) is None
    found = late_in_store(store, late)
    assert found is not None and (found.other, found.engine, found.nearer) == (right.id, "right", 28)


@pytest.mark.parametrize("kind", ["same", "noise", "short", "another model", "alone"])
def test_what_is_no_late_read(store: Store, tmp_path: Path, kind: str) -> None:
    rows = clean(30, 12)
    if kind != "alone":
        added(store, tmp_path, "right", rows[:5] if kind == "short" else rows[:-1])
    late = {"same": rows[:-1] + 1e-4, "noise": clean(29, 12, seed=4)}.get(kind, rows[1:])
    log = added(store, tmp_path, "log", late, "n" if kind == "another model" else "m")
    assert late_in_store(store, log) is None
    words = health_sentences(health(store, log))[0]
    assert words.startswith("No sign of damage") and "A late read" in words  # not ruled out


def test_a_damaged_log_shows_nothing(store: Store, tmp_path: Path) -> None:
    rows = clean(30, 12)
    garbled = rows[:-1].copy()
    garbled[:, 0] = np.float32(1e30)
    other = added(store, tmp_path, "garbled", garbled)
    log = added(store, tmp_path, "late", rows[1:])
    assert late_read(store, log, [other]) is None and late_in_store(store, other) is None


def test_entries_of_one_token_do_not_meet_each_with_each(store: Store, tmp_path: Path) -> None:
    """4,000 of them would be 16 million pairs of entries; the last token that a log may have is none's predecessor."""
    for name in ("a", "b"):
        lines = [entry | {"token_idx": 0} for entry in objects(clean(4_000, 12), team=name, model="m")]
        new_log(store, write(tmp_path / f"{name}.jsonl", lines))
        last = [entry | {"token_idx": 2**31 - 1} for entry in objects(clean(1, 12), team=name, model="n")]
        new_log(store, write(tmp_path / f"{name} last.jsonl", last))
    logs = store.found(LOGIT_LOG).entries
    assert len(logs) == 4 and [late_in_store(store, log) for log in logs] == 4 * [None]
