"""The store: its places, what a user may change, and how it reads what is damaged or being removed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from engine.errors import StoreError
from engine.paths import DATA
from engine.store import store as store_module
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.store import Store, damaged_parts, without_damage
from engine.store.views import connect
from tests.engine.store.faults import Fault, raising
from tests.engine.store.stored_runs import add, begun, folder_of, ids, named, published, store_at, written

# --- its places ---------------------------------------------------------------------------------------------------


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a demo store of the test's own, with a run in each and one that is in both."""
    monkeypatch.delenv(store_module.VARIABLE, raising=False)
    home, demo = tmp_path / "home", tmp_path / "demo"
    monkeypatch.setattr(store_module, "HOME", home)
    monkeypatch.setattr(store_module, "DEMO", demo)
    written(Files(home), "mine", lp="exact")
    written(Files(home), "both", lp="mine")
    written(Files(demo), "shipped", steps=True)
    written(Files(demo), "both", lp="shipped")
    return demo


def test_the_demo_store_is_shown_beside_the_users_own(demo: Path) -> None:
    store = Store.open()
    assert ids(store) == ["both", "mine", "shipped"]
    assert store.entry("both").row["lp"] == "mine", "the user's own hides the one that ships"
    assert store.rows("SELECT count(*) AS n, count(DISTINCT run_id) AS runs FROM samples") == [{"n": 12, "runs": 3}]
    assert store.rows("SELECT run_id FROM steps") == [{"run_id": "shipped"}]


def test_a_place_that_was_asked_for_is_shown_alone(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(Files(tmp_path / "given"), "given")
    assert ids(Store.open(tmp_path / "given")) == ["given"]
    monkeypatch.setenv(store_module.VARIABLE, str(tmp_path / "set"))
    assert ids(Store.open()) == []
    assert ids(Store.open(str(tmp_path / "given"))) == ["given"], "an option goes before the variable"
    monkeypatch.setenv(store_module.VARIABLE, "")
    assert ids(Store.open()) == ["both", "mine", "shipped"]


def test_where_the_store_is_and_what_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(store_module.VARIABLE, raising=False)
    store = Store.open()
    assert [Path(place.where).relative_to(DATA).as_posix() for place in store.places] == ["store", "demo"]


def test_the_demo_store_is_only_read(demo: Path) -> None:
    store, before = Store.open(), sorted(demo.rglob("*"))
    for change in (lambda: store.remove("shipped"), lambda: store.annotate("shipped", label="x")):
        with pytest.raises(StoreError, match=r"^shipped lies in .*demo, which is read-only\. Export it"):
            change()
    store.remove("both")
    assert store.entry("both").row["lp"] == "shipped"
    assert sorted(demo.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("a\0b", "cannot be a store"),
        ("~nobody-of-this-name/x", "cannot be a store"),
        ("caf\udce9", "cannot be a store"),
        ("x" * 300, "File name too long"),
        (__file__, r"cannot be a store: it is no folder\. Give a folder"),
    ],
)
def test_places_that_cannot_be(place: str, told: str) -> None:
    with pytest.raises(StoreError, match=told):
        Store.open(place)


def test_a_relative_place_and_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in ("store", "./store", "~/store"):
        found = Store.open(place)
        monkeypatch.chdir("/")
        assert ids(found) == ["one", "other"], "it stays where it was"
        monkeypatch.chdir(tmp_path)


def test_a_file_where_the_runs_belong(tmp_path: Path) -> None:
    (tmp_path / "runs").touch()
    with pytest.raises(StoreError, match=r"runs cannot be read as a folder: Not a directory"):
        store_at(tmp_path).found()


ODD_NAMES = [
    "with space", "ünï 的🙂", 'quote\'s "double"', "[brackets]", "[a-z]", "[!a]", "star*", "a?b", "**", "per%20cent%",
    "new\nline", "tab\t", "back\\slash", "-dash", "~tilde", "a=b", "run_id=x", "{braces}", "$HOME",
    "a]b", "#hash", "a&b;c", ".hidden", "_under", "s3:", "file:", "\u202eRTL", "\x1b[31m",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_place_of_any_name(tmp_path: Path, whole: Path, name: str) -> None:
    """Written, read by DuckDB and by pyarrow, checked, annotated and removed: no name is a pattern or a URL."""
    store = Store.open(tmp_path / name / "store")
    for one in ("one", "other"):
        shutil.copytree(whole / "runs" / f"run_id={one}", folder_of(store, one))
    staging = begun(store.home, "new")
    staging.lock()
    assert staging.is_being_written
    add(staging, range(4), steps=True)
    published(staging)
    assert (ids(store), named(store)) == (["new", "one", "other"], {})
    assert store.rows("SELECT run_id, count(*) AS n FROM samples GROUP BY ALL ORDER BY ALL") == [
        {"run_id": one, "n": 4} for one in ("new", "one", "other")
    ]
    assert not any(damaged_parts(entry) for entry in store.found().entries)
    assert store.annotate("one", label="said").row["label"] == "said"
    store.remove("one")
    assert ids(store) == ["new", "other"]
    assert [path.name for path in tmp_path.iterdir()] == [name]


# --- a store that cannot be written -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_store_that_cannot_be_written_is_read_all_the_same(store: Store, number: int) -> None:
    """As root no right is missing and no disk read-only, so the calls of the system say so here."""
    before = sorted(path.name for path in Path(store.home.where).rglob("*"))

    with Fault(raising(OSError(number, os.strerror(number)))).armed():
        assert ids(store) == ["one", "other"]
        assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 24}]
        assert damaged_parts(store.entry("one")) == []
        changes = (
            lambda: begun(store.home, "new"),
            lambda: store.annotate("one", label="x"),
            lambda: store.remove("one"),
        )
        for change in changes:
            with pytest.raises(StoreError, match=rf"cannot be written: {os.strerror(number)}\. .*(place|room) "):
                change()
    assert sorted(path.name for path in Path(store.home.where).rglob("*")) == before
    assert (ids(store), named(store)) == (["one", "other"], {})


@pytest.mark.skipif(os.geteuid() == 0, reason="no right is missing to root")
def test_a_folder_without_the_right_to_write(store: Store) -> None:
    place = Path(store.home.where)
    place.chmod(0o555)
    try:
        with pytest.raises(StoreError, match=r"Permission denied\. Ask for the right to write there"):
            begun(store.home, "new")
        assert ids(store) == ["one", "other"]
    finally:
        place.chmod(0o755)


# --- what a user says ---------------------------------------------------------------------------------------------


def test_label_and_notes_may_change_and_nothing_else_does(store: Store) -> None:
    sheet = (folder_of(store) / "run.json").read_bytes()
    assert store.annotate("one", label="mine").row["label"] == "mine"
    assert store.annotate("one", notes="zwei\nZeilen 的").row["label"] == "mine"
    row = store.entry("one").row
    assert (row["label"], row["notes"]) == ("mine", "zwei\nZeilen 的")
    assert store.rows("SELECT label, notes FROM runs WHERE run_id = 'one'") == [
        {"label": "mine", "notes": row["notes"]}
    ]
    assert store.entry("other").row.get("label") is None
    assert (folder_of(store) / "run.json").read_bytes() == sheet
    assert damaged_parts(store.entry("one")) == []


def test_an_empty_label_takes_it_away(store: Store) -> None:
    written(store.home, "named", label="old", notes="slow disk")
    assert store.annotate("named", label="").row["label"] is None
    assert store.entry("named").row["notes"] == "slow disk"


def test_what_nobody_may_say(store: Store) -> None:
    with pytest.raises(StoreError, match="At most 10,000"):
        store.annotate("one", notes="x" * 10_001)
    with pytest.raises(StoreError, match="lp of 1 characters cannot be"):
        store.annotate("one", lp="x")
    assert store.annotate("one", notes="half \udce9").row["notes"] == "half ?"


# --- removing -----------------------------------------------------------------------------------------------------


def test_a_run_is_removed_by_a_part_of_its_name_and_a_damaged_one_by_all_of_it(store: Store) -> None:
    store.remove("oth")
    assert ids(store) == ["one"]
    (folder_of(store) / "run.json").write_text("{")
    with pytest.raises(StoreError, match="there is no run 'on'"):
        store.remove("on")
    store.remove("one")
    assert (ids(store), named(store)) == ([], {})
    with pytest.raises(StoreError, match="there is no run 'one'"):
        store.remove("one")
    assert list((Path(store.home.where) / "staging").iterdir()) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a\0", "run_id=one"])
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


def test_a_damaged_file_of_the_right_size_is_left_out_and_named(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    flipped(folder_of(store) / "samples.parquet")
    assert named(store) == {}, "its size does not tell"
    assert store.rows(COUNTS) == [{"run_id": "other", "n": 4}]
    assert caplog.messages == ["one: left out are samples.parquet; see `verify`"]
    assert store.rows("SELECT count(*) AS n FROM blocks") == [{"n": 24}], "its other tables are served"
    (damage,) = damaged_parts(store.entry("one"))
    assert damage.where.endswith("run_id=one/samples.parquet")
    assert damage.what == "its bytes are not those that were written"
    entry = without_damage(store.entry("one"))
    assert entry.parts.keys() == {"blocks", "steps"}


def test_a_column_whose_name_is_no_text(store: Store) -> None:
    """One flipped bit; the bug: DuckDB raises a bare RuntimeError then, and no run was served any more."""
    path = folder_of(store) / "samples.parquet"
    content = path.read_bytes()
    for name in (b"generation", b"text"):
        path.write_bytes(content.replace(name, name[:-1] + bytes([name[-1] ^ 0x80])))
        assert {row["run_id"] for row in store.rows("SELECT * FROM samples")} == {"other"}


def test_several_damaged_files(store: Store) -> None:
    flipped(folder_of(store) / "samples.parquet")
    flipped(folder_of(store, "other") / "blocks.parquet")
    written(store.home, "third")
    assert store.rows(COUNTS) == [{"run_id": "other", "n": 4}, {"run_id": "third", "n": 4}]
    assert [len(damaged_parts(entry)) for entry in store.found().entries] == [1, 1, 0]


def test_runs_that_are_removed_while_they_are_read(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt meets another removal; what is left in the end is the answer, and nothing was damaged."""
    for number in range(5):
        written(store.home, f"r{number}")
    left = [f"r{number}" for number in range(5)]

    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[tuple]:
        with connect(found) as connection:
            if left:
                store.remove(left.pop())
            return connection.sql("SELECT count(*) FROM samples").fetchall()

    assert store.reading(ask) == [(8,)]
    assert left == []
    assert caplog.messages == []


def test_a_store_that_never_holds_still(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> None:
        for _, entries in found:
            for entry in entries:
                store.remove(entry.id)
        number[0] += 1
        shutil.copytree(template, folder_of(store, f"r{number[0]}"))
        sheet = folder_of(store, f"r{number[0]}") / "run.json"
        sheet.write_text(sheet.read_text().replace('"run_id": "one"', f'"run_id": "r{number[0]}"'))
        raise OSError(errno.ENOENT, "No such file")

    template, number = shutil.copytree(folder_of(store), Path(store.home.where) / "template"), [0]
    monkeypatch.setattr(store_module, "MOST_TRIES", 10)
    with pytest.raises(StoreError, match=r"changes faster than it can be read\. Try again"):
        store.reading(ask)
    assert number[0] == 10


def test_what_no_damage_explains_is_told(store: Store) -> None:
    with pytest.raises(StoreError, match=r"^the store cannot be read: .*moods.*\. Run `verify` for details$") as caught:
        store.rows("SELECT * FROM moods")
    assert isinstance(caught.value.__cause__, duckdb.Error)


def test_answers_with_parameters(store: Store) -> None:
    wanted = "SELECT run_id, sample_id FROM samples WHERE run_id = $run AND sample_id >= $least ORDER BY ALL"
    assert store.rows(wanted, {"run": "one", "least": 2}) == [{"run_id": "one", "sample_id": n} for n in (2, 3)]
    assert store.table("SELECT ? AS a, ? AS b", (1, "x")).to_pylist() == [{"a": 1, "b": "x"}]


# --- verifying ----------------------------------------------------------------------------------------------------


def test_a_part_that_vanished(store: Store) -> None:
    entry = store.entry("one")
    shutil.rmtree(folder_of(store))
    assert [damage.what for damage in damaged_parts(entry)] == ["it cannot be read (No such file or directory)"] * 3


def test_the_newest_run_comes_last(tmp_path: Path) -> None:
    files = Files(tmp_path)
    for name, made in {"a": "2026-03-01", "b": None, "c": "2025-01-01T00:00:00+02:00", "d": "2026-03-01"}.items():
        written(files, name, created_at=made)
    assert ids(Store(files)) == ["b", "c", "a", "d"]
    assert [entry.id for entry in Store(files).found(RUN).entries] == ["b", "c", "a", "d"]


def test_a_snapshot_reads_its_sheets_once_and_sees_what_it_changes_itself(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for name in ("one", "two"):
        written(store.home, name)
    snapshot = store.snapshot()
    assert {entry.id for entry in snapshot.found().entries} == {"one", "two"}
    written(store.home, "three")
    assert len(snapshot.found().entries) == 2 and len(store.found().entries) == 3
    assert snapshot.annotate("one", label="mine").row["label"] == "mine"
    assert len(snapshot.found().entries) == 3
    snapshot.remove("one")
    assert {entry.id for entry in snapshot.found().entries} == {"two", "three"}
    store.remove("two")
    assert snapshot.rows("SELECT count(DISTINCT run_id) AS runs FROM samples") == [{"runs": 1}]
