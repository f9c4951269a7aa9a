"""Reading a store while others change it, and after any byte of it has changed: nothing raises but what is meant to."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.store.files import Files
from engine.store.store import Store, damaged_parts
from tests.engine.store.stored_runs import folder_of, named, sheet_of, store_at, written
from tests.support import sized

Damaging = Callable[[Path], object]
"""Something that is done to the folder of a run."""


# --- removed or made anew while it is read ------------------------------------------------------------------------


class Meanwhile(Files):
    """Something happens between two looks at a run."""

    def __init__(self, root: Path, work: Callable[[], object], at: str) -> None:
        super().__init__(root)
        self.work, self.at, self.done = work, at, False

    def _maybe(self, name: str, at: str) -> None:
        if not self.done and name.startswith("runs/run_id=one") and self.at == at:
            self.done = True
            self.work()

    def sizes(self, name: str) -> dict[str, int]:
        self._maybe(name, "before its files are listed")
        found = super().sizes(name)
        self._maybe(name, "before its sheet is read")
        return found

    def read_object(self, name: str) -> dict[str, Any]:
        found = super().read_object(name)
        self._maybe(name, "before the user's words are read")
        return found


MOMENTS = ["before its files are listed", "before its sheet is read", "before the user's words are read"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("is_anew", [False, True], ids=["removed", "made anew"])
def test_what_changes_while_it_is_read_is_not_damage(store: Store, moment: str, is_anew: bool) -> None:
    store.annotate("one", label="mine")

    def work() -> None:
        store.remove("one")
        if is_anew:
            written(store.home, "one", 9)

    files = Meanwhile(Path(store.home.where), work, moment)
    found = Store(files).found()
    assert files.done
    assert found.damages == ()
    samples = {entry.id: entry.row["samples"] for entry in found.entries}
    if moment == "before the user's words are read" and is_anew:
        assert samples in ({"one": 9, "other": 4}, {"one": 4, "other": 4})
    else:
        assert samples == ({"one": 9, "other": 4} if is_anew else {"other": 4})


# --- whatever bytes -----------------------------------------------------------------------------------------------


def damaged_bytes(text: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    changed = bytearray(text)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        place = rng.randrange(len(changed) + 1)
        edit = rng.random()
        if edit < 0.6 and place < len(changed):
            changed[place] = rng.randrange(256)
        elif edit < 0.75:
            changed[place:place] = rng.choice((b'"', b"{", b"]", b"9", b"-", b"e5", b"null", b"\\ud800", b"\xff", b","))
        elif edit < 0.95:
            del changed[place : place + rng.choice((1, 2, 20))]
        else:
            del changed[place:]
    return bytes(changed)


@pytest.mark.soak
@settings(max_examples=sized(12, 300))
@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=3))
def test_whatever_the_bytes_of_a_sheet_it_is_served_or_named(shared: Store, seeds: list[int]) -> None:
    path = sheet_of(shared)
    whole = path.read_bytes()
    try:
        for seed in seeds:
            path.write_bytes(damaged_bytes(whole, seed))
            found = shared.found()
            served = {entry.id for entry in found.entries}
            assert "other" in served
            assert "one" in served or "runs/run_id=one" in named(shared)
            for entry in found.entries:
                damaged_parts(entry)
        assert {row["run_id"] for row in shared.rows("SELECT * FROM runs")} == served
    finally:
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, whole: Path) -> Store:
    """For all examples of a property, which leave it as it was."""
    return store_at(shutil.copytree(whole, tmp_path_factory.mktemp("shared") / "store"))


@pytest.mark.soak
@settings(max_examples=sized(12, 250))
@given(place=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_table_is_found_and_raises_nothing_unforeseen(shared: Store, place: int, bit: int) -> None:
    """Its size is right, so only reading it tells; the queries answer, with or without the file."""
    path = folder_of(shared) / "samples.parquet"
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[place % len(changed)] ^= 1 << bit
    try:
        path.write_bytes(changed)
        (damage,) = damaged_parts(shared.entry("one"))
        assert damage.what == "its bytes are not those that were written"
        assert len(shared.rows("SELECT * FROM samples WHERE run_id = 'other'")) == 4
    finally:
        path.write_bytes(whole)
