"""Whatever fails or is killed while a store is written, and many processes at once: it is there whole or not at all."""

from __future__ import annotations

import errno
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import DriftscopeError, StoreError
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging, rewrite_run, sweep, unfinished_ids
from engine.store.store import Store, damaged_parts, keep
from tests.engine.store import stored_runs
from tests.engine.store.crowd import lasting
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import add, assert_whole, begun, published, store_at, written
from tests.support import ROOT, sized


def publish(store: Store) -> bool:
    if not store.has("new"):
        published(Staging.open(store.home, RUN, "new"))
    return store.entry("new").row["samples"] == 4


def group(store: Store) -> bool:
    staging = Staging.open(store.home, RUN, "new")
    assert [group.members for group in staging.groups()][:2] == [(0, 1), (2, 3)]
    add(staging, range(4, 6), steps=True, number=2)
    return len(staging.groups()) == 3


def rewrite(store: Store) -> bool:
    entry = store.entry("old")
    rewrite_run(entry, {"samples": entry.read("samples")}, {"judged": 4})
    return store.entry("old").row["judged"] == 4


def keep_elsewhere(store: Store) -> bool:
    other = store_at(Path(store.home.where) / "other")
    if not other.has("old"):
        keep(store.entry("old"), other.home)
    assert_whole(other)
    return stored_runs.ids(other) == ["old"]


def met(work: Callable[[Store], bool], store: Store) -> BaseException | None:
    try:
        work(store)
    except (DriftscopeError, KeyboardInterrupt) as error:
        return error
    return None


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=type)
@pytest.mark.parametrize("work", [publish, group, rewrite, keep_elsewhere])
def test_whatever_fails_it_is_there_whole_or_not_at_all(
    tmp_path: Path, work: Callable[[Store], bool], error: BaseException
) -> None:
    """The fault comes at the calls of the system in turn; afterwards the same work comes to its end."""
    template = tmp_path / "template"
    staging = begun(Files(template), "new")
    add(staging, range(2), steps=True)
    add(staging, range(2, 4))
    written(Files(template), "old", steps=True)
    failed = 0
    for turn in itertools.count(step=2 if work is publish else 4):
        store = store_at(shutil.copytree(template, tmp_path / str(turn)))
        fault = Fault(raising(error), turn)
        with fault.armed():
            said = met(work, store)
        failed += said is not None
        assert said is None or type(said) is (StoreError if isinstance(error, OSError) else KeyboardInterrupt)
        assert said is None or isinstance(error, KeyboardInterrupt) or "Make room " in str(said)
        assert all("does not name it" in what for what in stored_runs.named(store).values())
        assert store.rows("SELECT count(text) AS n FROM samples WHERE run_id = 'old'") == [{"n": 4}]
        assert work(store)
        assert_whole(store)
        if not fault.is_over:
            break
        shutil.rmtree(store.home.where)
    assert failed > 2 and turn > 6


# --- processes ----------------------------------------------------------------------------------------------------

STRIDE = sized(9, 1)
"""From one call at which a writer is killed to the next."""
WRITERS, READERS, RUNS = sized(4, 20), sized(2, 4), sized(6, 32)


def process(module: str, *arguments: object) -> str:
    command = [sys.executable, "-m", f"tests.engine.store.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.soak
def test_a_writer_that_is_killed_at_any_call_leaves_no_half_run(tmp_path: Path) -> None:
    """Signal 9 before the calls of the system by which a run is written, another removed, a third one annotated."""
    process("killed", tmp_path, STRIDE)
    places = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(places) > 60 // STRIDE
    states = []
    for place in places:
        store = store_at(place)
        assert_whole(store)
        states.append(tuple(stored_runs.ids(store)))
        sweep(store.home, RUN)
        for run_id in unfinished_ids(store.home, RUN):
            staging = Staging.open(store.home, RUN, run_id)
            add(staging, set(range(4)).difference(*(group.members for group in staging.groups())))
            assert published(staging).row["samples"] == 4
        assert_whole(store)
        assert not set(store.home.folders("staging")) - {"new"}
    assert list(dict.fromkeys(states)) == [("kept", "old"), ("kept", "new", "old"), ("kept", "new")]
    assert [store_at(place).entry("kept").row.get("label") for place in (places[0], places[-1])] == [None, "said"]


@pytest.mark.soak
def test_processes_write_while_others_read(tmp_path: Path) -> None:
    """A reader sees a run whole or not at all, whatever is shown, annotated, swept or removed beside it."""
    met = json.loads(process("crowd", tmp_path, WRITERS, READERS, RUNS))
    assert len(met) == READERS
    assert all(one["looks"] >= 2 and one["rows"] >= len(lasting(WRITERS, RUNS)) for one in met)
    found = store_at(tmp_path / "store").found()
    assert found.damages == ()
    assert {entry.id: entry.row["samples"] for entry in found.entries} == lasting(WRITERS, RUNS)
    assert not any(damaged_parts(entry) for entry in found.entries)
    assert {entry.row["label"] for entry in found.entries} == {f"of {writer}" for writer in range(WRITERS)}
    assert list((tmp_path / "store" / "staging").iterdir()) == []
