"""The store: its places, what a user may change, and how it reads what is damaged or being removed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from engine.errors import StoreError
from engine.paths import DATA
from engine.store import store as store_module
from engine.store.columns import Kind, Table
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import BLOCKS, RUN, SAMPLES
from engine.store.store import (
    Store,
    damaged_parts,
    is_temporary,
    keep,
    temporary_files,
    trim,
    with_temporary,
    without_damage,
)
from engine.store.views import connect
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import add, begun, folder_of, ids, named, published, retype, written
from tests.support import ROOT

# --- its places ---------------------------------------------------------------------------------------------------


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a demo store of the test's own, with a run in each and one that is in both."""
    monkeypatch.delenv(store_module.VARIABLE, raising=False)
    assert [Path(files.where).relative_to(DATA).as_posix() for files in Store.open().locations] == ["store", "demo"]
    home, demo = tmp_path / "home", tmp_path / "demo"
    monkeypatch.setattr(store_module, "HOME", home)
    monkeypatch.setattr(store_module, "DEMO", demo)
    written(Files(home), "mine", lp="exact")
    written(Files(home), "both", lp="mine")
    written(Files(demo), "shipped", steps=True)
    written(Files(demo), "both", lp="shipped")
    return demo


def test_the_demo_store_is_shown_beside_the_users_own_and_only_read(demo: Path) -> None:
    store, before = Store.open(), sorted(demo.rglob("*"))
    assert ids(store) == ["both", "mine", "shipped"]
    assert store.entry("both").row["lp"] == "mine", "the user's own hides the one that ships"
    assert store.rows("SELECT count(*) AS n, count(DISTINCT run_id) AS runs FROM samples") == [{"n": 12, "runs": 3}]
    assert store.rows("SELECT run_id FROM steps") == [{"run_id": "shipped"}]
    for change in (lambda: store.remove("shipped"), lambda: store.annotate("shipped", label="x")):
        with pytest.raises(StoreError, match=r"^shipped is in .*demo, which is read-only\. Export it"):
            change()
    store.remove("both")
    assert store.entry("both").row["lp"] == "shipped"
    assert sorted(demo.rglob("*")) == before


def test_a_place_that_was_asked_for_is_shown_alone(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(Files(tmp_path / "given"), "given")
    monkeypatch.setenv(store_module.VARIABLE, str(tmp_path / "set"))
    assert ids(Store.open()) == []
    assert ids(Store.open(str(tmp_path / "given"))) == ["given"], "an option goes before the variable"
    monkeypatch.setenv(store_module.VARIABLE, "")
    assert ids(Store.open()) == ["both", "mine", "shipped"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("given", "./given", "~/given"):
        store = Store.open(path)
        with monkeypatch.context() as elsewhere:
            elsewhere.chdir("/")
            assert ids(store) == ["given"], "it stays where it was"


@pytest.mark.parametrize("path", ["a\0b", "~nobody-of-this-name/x", "caf\udce9", "x" * 300, __file__, "s3://bucket/x"])
def test_places_that_cannot_be(path: str) -> None:
    with pytest.raises(StoreError, match=r"cannot be a store: .*Give a folder"):
        Store.open(path)


ODD_NAMES = [
    "with space 的🙂", 'quote\'s "double"', "[a-z]*?", "per%20cent%#$", "new\nline\\", "~tilde", "run_id=x", "{braces}",
    "s3:",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_place_of_any_name(tmp_path: Path, whole: Path, name: str) -> None:
    """Written, read by DuckDB and by pyarrow, checked, annotated and removed: no name is a pattern or a URL."""
    store = Store.open(tmp_path / name / "store")
    shutil.copytree(whole / "runs", Path(store.home.where) / "runs")
    staging = begun(store.home, "new")
    staging.lock()
    add(staging, range(4), steps=True)
    published(staging)
    assert (ids(store), named(store)) == (["new", "one", "other"], {})
    assert store.rows("SELECT run_id, count(*) AS n FROM samples GROUP BY ALL ORDER BY ALL") == [
        {"run_id": run_id, "n": 4} for run_id in ("new", "one", "other")
    ]
    assert not any(damaged_parts(entry) for entry in store.listing().entries)
    assert store.annotate("one", label="said").row["label"] == "said"
    store.remove("one")
    assert ids(store) == ["new", "other"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


READ_ONLY = r"cannot be (written: Read-only file system\.|removed \(Read-only file system\): it is kept\.) .*room"


def test_a_store_that_cannot_be_written_is_read_all_the_same(store: Store) -> None:
    """As root no right is missing and no disk read-only, so the calls of the system say so here."""
    before = sorted(path.name for path in Path(store.home.where).rglob("*"))
    with Fault(raising(OSError(errno.EROFS, os.strerror(errno.EROFS)))).armed():
        assert ids(store) == ["one", "other"]
        assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 24}]
        for change in (
            lambda: begun(store.home, "new"),
            lambda: store.annotate("one", label="x"),
            lambda: store.remove("one"),
        ):
            with pytest.raises(StoreError, match=READ_ONLY):
                change()
    assert sorted(path.name for path in Path(store.home.where).rglob("*")) == before
    assert (ids(store), named(store)) == (["one", "other"], {})


def test_the_newest_run_comes_last(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for name, made in {"a": "2026-03-01", "b": None, "c": "2025-01-01T00:00:00+02:00", "d": "2026-03-01"}.items():
        written(files, name, created_at=made)
    assert ids(Store(files)) == ["b", "c", "a", "d"]


def test_a_snapshot_reads_its_sheets_once_and_sees_what_it_changes_itself(store: Store) -> None:
    snapshot = store.snapshot()
    assert len(snapshot.listing().entries) == 2
    written(store.home, "three")
    assert len(snapshot.listing().entries) == 2 and len(store.listing().entries) == 3
    assert snapshot.annotate("one", label="mine").row["label"] == "mine"
    assert len(snapshot.listing().entries) == 3
    snapshot.remove("one")
    assert {entry.id for entry in snapshot.listing().entries} == {"other", "three"}
    store.remove("other")
    assert snapshot.rows("SELECT count(DISTINCT run_id) AS runs FROM samples") == [{"runs": 1}]


# --- what a user says ---------------------------------------------------------------------------------------------


def test_an_entry_of_a_whole_id_is_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question listed the whole store for each id that it was asked of."""
    store = Store(Files(tmp_path / "store"))
    for number in range(4):
        written(store.home, f"r{number}", label=f"label {number}")
    listed = store.listing().get("r2", RUN)
    sheets = list[str]()
    read = Files.read_object

    def noted(files: Files, name: str) -> Any:
        sheets.append(name)
        return read(files, name)

    monkeypatch.setattr(Files, "read_object", noted)
    assert store.entry("r2") == listed and sheets == ["runs/run_id=r2/run.json"]
    assert store.entry("label 2") == listed and len(sheets) == 5  # by its label: all are read


def test_label_notes_and_tags_may_change_and_nothing_else_does(store: Store) -> None:
    sheet = (folder_of(store) / "run.json").read_bytes()
    store.annotate("one", notes="zwei\nZeilen 的 \udce9")
    assert store.annotate("one", label="mine", add=["slow  disk ", "a", "", "a"]).row["tags"] == ["a", "slow disk"]
    for run_id in ("one", "other"):
        store.annotate(run_id, add=["b"], take=["slow disk", "never there"])
    assert store.rows("SELECT run_id, label, notes, tags FROM runs ORDER BY run_id") == [
        {"run_id": "one", "label": "mine", "notes": "zwei\nZeilen 的 ?", "tags": ["a", "b"]},
        {"run_id": "other", "label": None, "notes": None, "tags": ["b"]},
    ]
    assert (folder_of(store) / "run.json").read_bytes() == sheet and damaged_parts(store.entry("one")) == []
    assert store.annotate("one", take=["a", "b"]).row["tags"] is None
    written(store.home, "named", label="old", notes="slow disk")
    row = store.annotate("named", label="").row
    assert (row["label"], row["notes"]) == (None, "slow disk")
    for texts, message in (({"notes": "x" * 10_001}, "At most 10,000"), ({"lp": "x"}, "lp of 1 characters cannot be")):
        with pytest.raises(StoreError, match=message):
            store.annotate("one", RUN, **texts)
    store.annotate("one", add=map(str, range(20)))
    for tags, message in ((["x" * 41], "41 characters"), (["more"], "21 in all")):
        with pytest.raises(StoreError, match=f"{message}.*At most 20 of 40"):
            store.annotate("one", add=tags)


def test_tags_that_many_add_at_once_are_all_kept(store: Store) -> None:
    """Ten `annotate --tag` at once lost four: each wrote what it had read before."""
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda tag: Store(store.home).annotate("one", add=[f"tag {tag}"]), range(10)))
    assert store.entry("one").row["tags"] == [f"tag {tag}" for tag in range(10)]


# --- removing -----------------------------------------------------------------------------------------------------


def test_a_run_is_removed_by_a_part_of_its_name_and_a_damaged_one_by_all_of_it(store: Store) -> None:
    store.remove("oth")
    assert ids(store) == ["one"]
    (folder_of(store) / "run.json").write_text("{")
    for missing in ("on", "one"):
        with pytest.raises(StoreError, match=f"there is no run '{missing}'"):
            store.remove(missing)
        if missing == "on":
            store.remove("one")
    assert (ids(store), named(store)) == ([], {})
    assert list((Path(store.home.where) / "staging").iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "a\0", "run_id=one"])
def test_nothing_else_can_be_removed(store: Store, name: str) -> None:
    (Path(store.home.where) / "runs" / "run_id=").mkdir()
    with pytest.raises(StoreError):
        store.remove(name)
    assert ids(store) == ["one", "other"]


# --- reading what is damaged, or removed meanwhile ----------------------------------------------------------------

COUNTS = "SELECT run_id, count(*) AS n FROM samples GROUP BY run_id ORDER BY run_id"


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 255  # of the magic word at its end
    path.write_bytes(content)


def test_damaged_files_of_the_right_size_are_left_out_and_named(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    flipped(folder_of(store) / "samples.parquet")
    assert named(store) == {}, "its size does not tell"
    assert store.rows(COUNTS) == [{"run_id": "other", "n": 4}]
    assert caplog.messages == ["one: left out are samples.parquet; see `verify`"]
    assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 24}], "its other tables are served"
    (damage,) = damaged_parts(store.entry("one"))
    assert damage.where.endswith("run_id=one/samples.parquet")
    assert damage.reason == "its bytes are not those that were written"
    assert without_damage(store.entry("one")).parts.keys() == {"blocks", "steps"}
    flipped(folder_of(store, "other") / "blocks.parquet")
    assert [len(damaged_parts(entry)) for entry in store.listing().entries] == [1, 1]
    assert store.rows(COUNTS) == [{"run_id": "other", "n": 4}]
    entry = store.entry("one")
    shutil.rmtree(folder_of(store))
    assert [damage.reason for damage in damaged_parts(entry)] == ["it cannot be read (No such file or directory)"] * 3


def test_a_column_whose_name_is_no_text(store: Store) -> None:
    """One flipped bit; the bug: DuckDB raises a bare RuntimeError then, and no run was served any more."""
    path = folder_of(store) / "samples.parquet"
    path.write_bytes(path.read_bytes().replace(b"generation", b"generatio" + bytes([ord("n") ^ 0x80])))
    assert {row["run_id"] for row in store.rows("SELECT * FROM samples")} == {"other"}


@pytest.mark.parametrize("table", [SAMPLES, BLOCKS])
def test_a_column_of_another_type_is_damage(store: Store, whole: Path, table: Table) -> None:
    """The bug: `verify` called the run whole, and what read the column ended unforeseen and pointed to `verify`."""
    for column in table:
        retype(store, table.name, column.name)
        (damage,) = damaged_parts(store.entry("one"))
        assert damage.where == str(folder_of(store) / f"{table.name}.parquet")
        assert damage.reason.startswith(f"its column {column.name} has the type ")
        assert damage.reason.endswith(f", not {column.type}")
        assert store.rows(f"SELECT DISTINCT run_id FROM {table.name}") == [{"run_id": "other"}]
        with pytest.raises(StoreError, match=f"its column {column.name} has the type"):
            store.entry("one").read(table.name, ["run_id"])
        shutil.rmtree(folder_of(store))
        shutil.copytree(whole / "runs/run_id=one", folder_of(store))
    assert damaged_parts(store.entry("one")) == []


def test_runs_that_are_removed_while_they_are_read(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt meets another removal; what is left in the end is the answer, and nothing was damaged."""
    left = [f"r{number}" for number in range(5)]
    for name in left:
        written(store.home, name)

    def ask(entries: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[tuple]:
        with connect(entries) as connection:
            if left:
                store.remove(left.pop())
            return connection.sql("SELECT count(*) FROM samples").fetchall()

    assert store.reading(ask) == [(8,)]
    assert (left, caplog.messages) == ([], [])


def test_a_store_that_never_holds_still(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def ask(entries: Sequence[tuple[Kind, Sequence[Entry]]]) -> None:
        store.remove(store.listing().entries[0].id)
        written(store.home, f"r{next(numbers)}", samples=2)
        raise OSError(errno.ENOENT, "No such file")

    monkeypatch.setattr(store_module, "MOST_TRIES", 10)
    with pytest.raises(StoreError, match=r"changes faster than it can be read\. Try again"):
        store.reading(ask)
    assert next(numbers) == 10


def test_what_no_damage_explains_is_told(store: Store) -> None:
    with pytest.raises(StoreError, match=r"^the store cannot be read: .*moods.*\. Run `verify` for details$") as caught:
        store.rows("SELECT * FROM moods")
    assert isinstance(caught.value.__cause__, duckdb.Error)


def test_answers_with_parameters(store: Store) -> None:
    wanted = "SELECT run_id, sample_id FROM samples WHERE run_id = $run AND sample_id >= $least ORDER BY ALL"
    assert store.rows(wanted, {"run": "one", "least": 2}) == [{"run_id": "one", "sample_id": n} for n in (2, 3)]
    assert store.table("SELECT ? AS a, ? AS b", (1, "x")).to_pylist() == [{"a": 1, "b": "x"}]


# --- runs that are not saved --------------------------------------------------------------------------------------


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    files = Files(tmp_path / "temporary")
    monkeypatch.setattr(store_module, "temporary_files", lambda: files)
    return files


def test_a_temporary_run_is_shown_beside_the_store_and_kept_on_request(temporary: Files, tmp_path: Path) -> None:
    written(temporary, "live", steps=True)
    home = Files(tmp_path / "store")
    combined = with_temporary(Store(home))
    entry = combined.entry("live")
    assert is_temporary(entry)
    with pytest.raises(StoreError, match="which is read-only"):
        combined.annotate("live", label="mine")
    kept = keep(entry, home, "mine")
    before, after = Store(temporary), Store(home)
    assert (kept.id, kept.row["label"], damaged_parts(kept)) == ("live", "mine", [])
    for table in ("samples", "blocks", "steps"):
        assert after.rows(f"SELECT * FROM {table}") == before.rows(f"SELECT * FROM {table}") != []
    assert {**after.entry("live").row, "label": None} == {**before.entry("live").row, "label": None}
    assert not is_temporary(combined.entry("live"))  # the kept one is found first
    with pytest.raises(StoreError, match="live is there already"):
        keep(entry, home)
    after.remove("live")
    temporary.remove(entry.folder)
    with pytest.raises(StoreError, match=r"^live is gone\. Generate it again"):
        keep(entry, home)
    assert (ids(after), home.folders("staging")) == ([], [])


def test_a_kept_run_takes_its_branches_along_and_a_branch_its_parent(temporary: Files, tmp_path: Path) -> None:
    of = {"1-lane": None, "2-branch": "1-lane/0", "3-other": None, "4-branch": "2-branch/1", "5-branch": "1-lane/0"}
    for name, parent in of.items():
        written(temporary, name, branch_of=parent, branch_at=None if parent is None else 7)
    before = Store(temporary)
    for number, name in enumerate(("1-lane", "4-branch")):
        home = Files(tmp_path / f"home{number}")
        kept = keep(before.entry(name), home, "mine")
        assert ids(Store(home)) == [run for run in of if run != "3-other"] and kept.row["label"] == "mine"
    keep(before.entry("3-other"), home)
    assert ids(Store(home)) == list(of)
    trim(temporary, 1)
    assert temporary.folders("runs") == ["run_id=1-lane", "run_id=5-branch"], "what the newest was branched from stays"


def test_the_oldest_temporary_runs_go_first_and_the_place_with_its_process(temporary: Files) -> None:
    for name in ("20260101-a", "20260103-c", "20260102-b"):
        written(temporary, name)
    trim(temporary, 2)
    assert temporary.folders("runs") == ["run_id=20260102-b", "run_id=20260103-c"]
    script = "from engine.store.store import temporary_files as f; f().write('a/b', b'c'); print(f().where)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() and not Path(done.stdout.strip()).exists()
    assert str(temporary_files().where) != done.stdout.strip()
