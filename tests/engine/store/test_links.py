"""What is no plain file in a store: links lead out of it and are never written through, pipes are never waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.comparing.array_files import read_arrays, write_arrays
from engine.comparing.queries import own_queries, save_query
from engine.errors import RunError, StoreError
from engine.store.schema import BLOCKS, RUN
from engine.store.staging import Staging, rewrite_run, write_entry
from engine.store.store import Store
from tests.engine.store.stored_runs import add, begun, folder_of, staged, tables
from tests.support import ROOT

Write = Callable[[Store], object]


def as_link(place: Path, target: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    place.symlink_to(target)


def open_again(store: Store) -> Staging:
    return Staging.open(store.home, RUN, "stopped")


def add_again(store: Store) -> None:
    add(open_again(store), range(4), number=0)


def rewrite(store: Store) -> None:
    rewrite_run(store.entry("one"), {BLOCKS.name: tables("one", range(4))[BLOCKS.name]}, {})


def copy_trace(store: Store) -> None:
    with store.home.writing("traces/files/x.json.gz") as file:  # as an import keeps a trace's file
        file.write(b"{}")


def write_matrix(store: Store) -> None:
    path = Path(store.home.path("ab/matrix.arrays"))
    write_arrays(path, {"a": 1}, {})
    assert read_arrays(path)[0] == {"a": 1}


SHEET = "runs/run_id=one/run.json"
WRITERS: dict[str, Write] = {
    "runs/run_id=one/user.json": lambda store: store.annotate("one", add=["x"]),
    SHEET: rewrite,
    "staging/stopped/group-0000-00000.json": add_again,
    "staging/stopped/samples-0000-00000.parquet": add_again,
    "staging/new/run.json": lambda store: begun(store.home, "new"),
    "queries.json": lambda store: save_query(store.home, "mine", "SELECT 1"),
    "traces/files/x.json.gz": copy_trace,
    "ab/matrix.arrays": write_matrix,
}


CASES = [
    (name, is_dangling) for name in WRITERS for is_dangling in (False, True) if not (is_dangling and name == SHEET)
]


@pytest.mark.parametrize(("name", "is_dangling"), CASES)
def test_a_file_takes_the_place_of_a_link(store: Store, tmp_path: Path, name: str, is_dangling: bool) -> None:
    """The bug: `annotate` exited 0, and had overwritten the file that `user.json` was a link to."""
    add(begun(store.home, "stopped"), range(4))
    victim, place = tmp_path / "victim", Path(store.home.path(name))
    content = place.read_bytes() if place.exists() else b'{"version": 1, "queries": []}'
    if not is_dangling:
        victim.write_bytes(content)
    as_link(place, victim)
    WRITERS[name](store)
    assert place.is_file() and not place.is_symlink()
    assert (victim.read_bytes() == content) if victim.exists() else is_dangling


@pytest.mark.parametrize("name", ["runs/run_id=one", "runs", "staging", "staging/stopped", "references"])
def test_nothing_is_written_or_removed_in_a_folder_that_is_a_link(store: Store, tmp_path: Path, name: str) -> None:
    """One line that names it; the store itself may be a link."""
    begun(store.home, "stopped")
    victim, place = tmp_path / "elsewhere", Path(store.home.path(name))
    if place.exists():
        place.rename(victim)
    else:
        victim.mkdir()
    (victim / "_removed-01234567").mkdir()
    place.symlink_to(victim)
    before = sorted(str(path.relative_to(victim)) for path in victim.rglob("*"))
    message = f"{place}' is a link, where the store has a folder. Remove it, or make a link of the whole store"
    attempts: dict[str, list[Callable[[], Any]]] = {
        "runs/run_id=one": [lambda: store.annotate("one", add=["x"]), lambda: rewrite(store)],
        "runs": [lambda: store.annotate("one", add=["x"]), lambda: store.remove("one")],
        "staging": [lambda: begun(store.home, "new"), lambda: add_again(store), lambda: store.remove("other")],
        "staging/stopped": [lambda: add_again(store), lambda: open_again(store).lock()],
        "references": [lambda: store.home.write("references/reference_set=x/references.json", b"")],
    }
    for attempt in attempts[name]:
        with pytest.raises(StoreError) as caught:
            attempt()
        assert message in str(caught.value)
    assert sorted(str(path.relative_to(victim)) for path in victim.rglob("*")) == before


def test_a_store_that_is_a_link_is_written_to(store: Store, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store.home.root)
    linked = Store.open(tmp_path / "link")
    assert linked.annotate("one", add=["x"]).row["tags"] == ["x"]
    assert save_query(linked.home, "mine", "SELECT 1") in own_queries(store.home)


@pytest.mark.parametrize("is_pipe", [False, True])
def test_what_is_in_place_of_a_lock_is_neither_followed_nor_waited_for(
    store: Store, tmp_path: Path, is_pipe: bool
) -> None:
    """`run --resume` made an empty file where a dangling link led to."""
    staging, place = begun(store.home, "stopped"), staged(store, "stopped") / ".lock-0000"
    if is_pipe:
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"\.lock-0000' cannot be the lock of stopped: .*Remove it if it is a link"):
        staging.lock()
    import_left = staged(store, "import") / ".lock-0000"
    as_link(import_left, tmp_path / "elsewhere")
    with pytest.raises(RunError, match="cannot be the lock of import"):
        write_entry(store.home, RUN, "import", {}, [])
    assert not (tmp_path / "elsewhere").exists()


COMMANDS = """
import sys
from engine.cli.main import main
for words in (["verify"], ["runs", "--unfinished"], ["annotate", "one", "--tag", "x"]):
    print(main([*words, "--json"]))
"""


def test_pipes_in_a_store_make_no_command_wait(store: Store) -> None:
    begun(store.home, "stopped")
    for place in (staged(store, "stopped") / ".lock-0000", folder_of(store) / "user.json", store.home.root / "a"):
        os.mkfifo(place)
    env = {**os.environ, "DRIFTSCOPE_STORE": store.home.where, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", COMMANDS], capture_output=True, text=True, env=env, timeout=60)
    assert [line for line in done.stdout.splitlines() if line.isdigit()] == ["2", "0", "0"], done  # named
    assert (folder_of(store) / "user.json").is_file() and '"tags": ["x"]' in done.stdout
