"""Whatever fails or is killed while an entry is written: it is there whole or not at all, and the others stay."""

from __future__ import annotations

import errno
import itertools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from engine.errors import DriftscopeError, StoreError
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import Staging, sweep, unfinished_ids
from engine.store.store import Store
from tests.engine.store import stored_runs
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import add, assert_whole, begun, published, staged, store_at
from tests.support import ROOT, sized


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path)


# --- whatever fails -----------------------------------------------------------------------------------------------


def copy_of(template: Path, place: Path) -> Staging:
    shutil.copytree(template, place)
    return Staging.open(Files(place), RUN, "one")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()], ids=["full disk", "Ctrl-C"]
)
def test_whatever_fails_while_a_run_is_shown_it_is_there_whole_or_not_at_all(
    tmp_path: Path, error: BaseException
) -> None:
    """The fault comes at every call of the system in turn; afterwards the same run can be shown."""
    template = tmp_path / "template"
    staging = begun(Files(template))
    add(staging, range(2), steps=True)
    add(staging, range(2, 4))
    hidden = 0
    for turn in itertools.count():
        store = store_at(tmp_path / str(turn))
        staging = copy_of(template, tmp_path / str(turn))
        fault = Fault(raising(error), turn)
        with fault.armed():
            said = failed(staging)
        assert_whole(store)
        if not fault.is_over:
            assert said is None
            break
        if store.found().entries:
            continue
        hidden += 1
        assert type(said) is (StoreError if isinstance(error, OSError) else KeyboardInterrupt)
        assert isinstance(error, KeyboardInterrupt) or "Make room " in str(said)
        published(Staging.open(store.home, RUN, "one"))
        assert store.entry("one").row["samples"] == 4
        assert_whole(store)
    assert hidden >= 10
    assert turn >= hidden


def failed(staging: Staging) -> BaseException | None:
    try:
        published(staging)
    except (DriftscopeError, KeyboardInterrupt) as error:
        return error
    return None


def test_whatever_fails_while_a_group_is_written_the_others_stay(tmp_path: Path) -> None:
    template = tmp_path / "template"
    add(begun(Files(template)), range(2))
    lost = 0
    for turn in itertools.count():
        staging = copy_of(template, tmp_path / str(turn))
        fault = Fault(raising(OSError(errno.ENOSPC, "No space left on device")), turn)
        with fault.armed():
            try:
                add(staging, range(2, 4), steps=True)
            except StoreError as error:
                assert "No space left on device. Make room there" in str(error)  # noqa: PT017 - it need not come
                lost += 1
        if not fault.is_over:
            break
        assert staging.groups()[0].members == (0, 1)
        add(staging, range(2, 4), number=1)
        published(staging)
        assert store_at(tmp_path / str(turn)).entry("one").row["samples"] == 4
        assert_whole(store_at(tmp_path / str(turn)))
    assert lost >= 8


LIMITED = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from engine.errors import StoreError
from engine.store.files import Files
from tests.engine.store.stored_runs import assert_whole, staged, add, begun, tables
staging = begun(Files(Path(sys.argv[1])))
add(staging, range(2))
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    add(staging, range(2, 20_000))
except StoreError as error:
    print(error)
"""


def test_a_disk_that_takes_no_more(store: Store) -> None:
    """The real thing, as far as a process can limit itself: the system refuses to write on, in the middle of a file."""
    place = store.home.where
    done = subprocess.run([sys.executable, "-c", LIMITED, place], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "samples-0000-00001.parquet' cannot be written: File too large. " in done.stdout
    assert len(done.stdout.splitlines()) == 1
    assert not [path for path in staged(store).rglob("*") if "00001" in path.name]
    staging = Staging.open(store.home, RUN, "one")
    assert [group.members for group in staging.groups()] == [(0, 1)]
    published(staging)
    assert_whole(store)


# --- whoever is killed --------------------------------------------------------------------------------------------

STRIDE = sized(5, 1)
"""From one call at which a writer is killed to the next."""


def killed(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "tests.engine.store.killed", *arguments], cwd=ROOT, check=True, capture_output=True
    )


@pytest.mark.soak
def test_a_writer_that_is_killed_at_any_call_leaves_no_half_run(tmp_path: Path) -> None:
    """Signal 9 before the calls of the system by which a run is written, another removed, a third one annotated."""
    killed("each", str(tmp_path), str(STRIDE))
    places = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(places) > 60 // STRIDE
    states: list[Sequence[str]] = []
    for place in places:
        store = store_at(place)
        assert_whole(store)
        states.append(stored_runs.ids(store))
        sweep(store.home, RUN)
        assert_whole(store)
        for unfinished_id_ in unfinished_ids(store.home, RUN):
            finish(store, unfinished_id_)
        left = set(store.home.folders("staging")) - {"new"}
        assert not left, "swept"
        assert len(list((place / "runs" / "run_id=kept").glob("*.json"))) in (1, 2)
    told = list(dict.fromkeys(map(tuple, states)))
    assert told == [("kept", "old"), ("kept", "new", "old"), ("kept", "new")]
    assert [store_at(place).entry("kept").row.get("label") for place in (places[0], places[-1])] == [None, "said"]


def finish(store: Store, run_id: str) -> None:
    """Every group that counts is whole, and going on behind them makes the run that was asked for."""
    staging = Staging.open(store.home, RUN, run_id)
    groups = staging.groups()
    for group in groups:
        for part in group.tables.values():
            assert pq.ParquetFile(store.home.path(f"{staging.folder}/{part.file}")).metadata.num_rows == part.rows
    add(staging, set(range(4)).difference(*(group.members for group in groups)))
    assert published(staging).row["samples"] == 4
    assert_whole(store)


@pytest.mark.soak
def test_writers_that_are_killed_whenever_leave_no_half_run(tmp_path: Path) -> None:
    killed("whenever", str(tmp_path), str(sized(4, 200)))
    store = store_at(tmp_path)
    assert_whole(store)
    sweep(store.home, RUN)
    for unfinished_id_ in unfinished_ids(store.home, RUN):
        Staging.open(store.home, RUN, unfinished_id_).abandon()
    assert_whole(store)
    left = store.home.folders("staging")
    assert all("run.json" not in store.home.sizes(f"staging/{name}") for name in left)
