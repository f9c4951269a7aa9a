"""Reading a store: whole entries are served; what is damaged, foreign or newer is named and left out, file by file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import StoreError
from engine.store.columns import VERSION
from engine.store.entries import Damage, StoreListing, entry_folder
from engine.store.files import Files
from engine.store.schema import RUN
from engine.store.staging import rewrite_run
from engine.store.store import Store, damaged_parts, state_rows
from tests.engine.store.stored_runs import folder_of, ids, named, sheet_of, store_at, written
from tests.strategies import damaged, seeds
from tests.support import sized

Damaging = Callable[[Path], object]
"""Something that is done to the folder of a run."""


def test_entries_and_their_files(store: Store) -> None:
    listing = store.listing()
    assert listing.damages == ()
    assert [entry.id for entry in listing.entries] == ["one", "other"]
    assert [store.entry(said).id for said in ("one", "oth")] == ["one", "other"], "by what only it has"
    entry = listing.entries[0]
    assert set(entry.parts) == {"samples", "blocks", "steps"}
    assert entry.row["samples"] == 4 and entry.row["cut_blocks"] == 4 and entry.row["peak_memory_mb"] == 7.5
    assert entry.row["created_at"].isoformat() == "2026-01-02T03:04:05+00:00"
    assert (entry.version, entry.parts["blocks"].rows) == (VERSION, 12)
    assert damaged_parts(entry) == []


# --- by a part of its name ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("o", r"there are 2 runs like 'o'\. Give more of its name: one, other"),
        ("noe", r"there is no run 'noe'\. Did you mean one or other\?"),
        ("x\ny", r"there is no run 'x\\ny'"),
        ("", r"there is no run ''"),
    ],
)
def test_a_run_that_is_not_told(store: Store, name: str, message: str) -> None:
    with pytest.raises(StoreError, match=message):
        store.entry(name)


def test_a_damaged_run_that_is_asked_for_says_what_is_wrong(store: Store) -> None:
    """And it is not taken for the only other one whose name has this in it."""
    written(store.home, "one-more")
    sheet_of(store).write_text("[]")
    with pytest.raises(StoreError, match=r"run_id=one: run\.json holds no JSON object \(.*\)\. Run `verify`"):
        store.entry("one")
    with pytest.raises(StoreError, match=r"samples\.parquet: it is short"):  # where a page lists only what has samples
        StoreListing((), (Damage("runs/run_id=one/samples.parquet", "it is short", "one"),)).get("one", RUN)


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0" * 128, "20260101-000000-demo-qwen-final-exact-a1b2c3"])
def test_names_that_a_run_may_have(name: str) -> None:
    assert entry_folder(RUN, name) == f"runs/run_id={name}"


@pytest.mark.parametrize("name", ["", "..", "-a", "a b", "a/b", "a\n", "é", "a" * 129, "a=b", "a\0"])
def test_names_that_no_run_may_have(name: str) -> None:
    with pytest.raises(StoreError, match="Letters, digits, dots, hyphens and underscores"):
        entry_folder(RUN, name)


# --- damage -------------------------------------------------------------------------------------------------------


def sheet(change: Callable[[dict[str, Any]], object]) -> Damaging:
    """The sheet after a change, written as the store would write it."""

    def work(folder: Path) -> None:
        path = folder / "run.json"
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return work


def row(name: str, value: Any) -> Damaging:
    return sheet(lambda document: document["row"].update({name: value}))


def part(name: str, value: Any) -> Damaging:
    return sheet(lambda document: document["tables"]["samples"].update({name: value}))


def content(text: bytes, name: str = "run.json") -> Damaging:
    return lambda folder: (folder / name).write_bytes(text)


def replaced(name: str, make: Callable[[Path], object]) -> Damaging:
    """Something else of the same name."""

    def work(folder: Path) -> None:
        (folder / name).unlink()
        make(folder / name)

    return work


def in_place_of(folder: Path, make: Damaging) -> None:
    shutil.rmtree(folder)
    make(folder)


WHOLE_RUN: dict[str, tuple[Damaging, str]] = {
    "no sheet": (lambda folder: (folder / "run.json").unlink(), "run.json: "),
    "empty folder": (partial(in_place_of, make=Path.mkdir), "run.json: "),
    "a list": (content(b"[]"), "run.json holds no JSON object"),
    "NaN": (row("wall_s", float("nan")), "run.json holds no JSON object"),
    "schema 0": (sheet(lambda document: document.update(schema=0)), "schema"),
    "newer schema": (
        sheet(lambda document: document.update(schema=VERSION + 1)),
        f"run.json is of version {VERSION + 1}, this program reads up to {VERSION}",
    ),
    "row list": (sheet(lambda document: document.update(row=[])), "run.json does not fit: "),
    "another's sheet": (row("run_id", "other"), "run.json does not fit: "),
    "no origin": (sheet(lambda document: document["row"].pop("origin")), "`origin`"),
    "far number": (row("samples", 2**63), "$.samples"),
    "part bytes": (part("bytes", "12"), "run.json does not fit: "),
    "pipe as sheet": (replaced("run.json", os.mkfifo), "run.json: "),
    "a file": (partial(in_place_of, make=Path.touch), "it is no folder of runs"),
    "link to itself": (partial(in_place_of, make=lambda folder: folder.symlink_to(folder.name)), "levels of symbolic"),
    "gigabytes": (lambda folder: os.truncate(folder / "run.json", 3 * 2**30), "run.json has 3,221,225,472 bytes, more"),
}


@pytest.mark.parametrize("case", WHOLE_RUN)
def test_a_run_that_is_damaged_is_named_and_the_rest_is_served(store: Store, case: str) -> None:
    damage, expected = WHOLE_RUN[case]
    damage(folder_of(store))
    assert ids(store) == ["other"]
    ((where, reason),) = named(store).items()
    assert where == "runs/run_id=one"
    assert expected in reason and reason.isprintable()
    assert store.rows("SELECT count(*) AS n FROM samples JOIN runs USING (run_id)") == [{"n": 4}]


MISSING, USER = {"blocks.parquet": "it is missing"}, "user.json holds no JSON object"
PARTS: dict[str, tuple[Damaging, dict[str, str]]] = {
    "missing": (lambda folder: (folder / "blocks.parquet").unlink(), MISSING),
    "truncated": (lambda folder: os.truncate(folder / "blocks.parquet", 100), {"blocks.parquet": "it has 100 bytes"}),
    "all": (
        lambda folder: list(map(Path.unlink, folder.glob("*.parquet"))),
        {f"{name}.parquet": "it is missing" for name in ("samples", "blocks", "steps")},
    ),
    "user text": (content(b"{", "user.json"), {"user.json": USER}),
    "user pipe": (lambda folder: os.mkfifo(folder / "user.json"), {"user.json": "it is no plain file"}),
    "user link": (
        lambda folder: (folder / "user.json").symlink_to(folder / "run.json"),
        {"user.json": "it is no plain file"},
    ),
    "user type": (content(b'{"label": 5}', "user.json"), {"user.json": "$.label"}),
}


@pytest.mark.parametrize("case", PARTS)
def test_a_file_that_is_damaged_is_named_and_the_rest_of_its_run_is_served(store: Store, case: str) -> None:
    damage, expected = PARTS[case]
    damage(folder_of(store))
    damages = named(store)
    assert damages.keys() == {f"runs/run_id=one/{name}" for name in expected}
    for name, reason in expected.items():
        assert reason in damages[f"runs/run_id=one/{name}"]
    entry = store.entry("one")
    assert entry.row["samples"] == 4
    assert entry.parts.keys() == {"samples", "blocks", "steps"} - {name.removesuffix(".parquet") for name in expected}
    counts = store.rows("SELECT run_id, count(*) AS n FROM blocks GROUP BY run_id ORDER BY run_id")
    assert counts == [
        {"run_id": name, "n": 12} for name in ("one", "other") if name == "other" or "blocks" in entry.parts
    ]


def test_foreign_things_beside_the_runs_are_named(store: Store) -> None:
    runs = Path(store.home.where) / "runs"
    names = ["one", "run_id=", "run_id=a b", "run_id=é", "RUN_ID=one", "a\nb\x1b[31m"]
    for name in names:
        (runs / name).mkdir()
    (runs / "Thumbs.db").touch()
    (runs / ".hidden").touch()
    reason = "it is not named run_id=<id>, so it is not of this store"
    assert named(store) == {f"runs/{n}": reason for n in names}
    assert [(note.where, note.reason) for note in store.listing().notes] == [
        (str(runs / "Thumbs.db"), "it is no folder of runs")
    ]
    assert ids(store) == ["one", "other"]


def test_files_of_other_programs_in_a_run_are_notes_and_stay(store: Store) -> None:
    """The bug: `verify` called a run damaged in whose folder a file manager or a synchronised disk had put a file, and
    `judge` removed that file."""
    folder = folder_of(store)
    foreign, left = ("Thumbs.db", "samples (conflicted copy).parquet", "user 2.json"), "samples-0123abcd.parquet"
    for name in (*foreign, left):
        content(b"mine", name)(folder)
    (folder / "of somebody").mkdir()
    assert named(store) == {}
    assert [Path(note.where).name for note in store.listing().notes] == sorted([*foreign, "of somebody", left])
    states = [(row["state"], row["id"]) for row in state_rows(store) if row["kind"] == "runs"]
    assert states == [("whole", "one"), ("whole", "other"), *[("note", "one")] * 5]
    entry = store.entry("one")
    rewrite_run(entry, {"samples": entry.read("samples")}, {})
    assert [Path(note.where).name for note in store.listing().notes] == sorted([*foreign, "of somebody"])


def test_a_run_behind_a_link_is_served(store: Store, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "one"
    folder_of(store).rename(elsewhere)
    folder_of(store).symlink_to(elsewhere)
    assert (ids(store), named(store)) == (["one", "other"], {})
    store.remove("one")
    assert ids(store) == ["other"]
    assert (elsewhere / "run.json").is_file()


def test_a_table_that_a_newer_program_wrote_is_left_alone(store: Store) -> None:
    folder = folder_of(store)
    content(b"?", "moods.parquet")(folder)
    newer = {"file": "moods.parquet", "rows": 1, "bytes": 1, "sha256": ""}
    sheet(lambda document: document["tables"].update(moods=newer))(folder)
    assert named(store) == {}
    assert "moods" not in store.entry("one").parts


# --- removed or made anew while it is read ------------------------------------------------------------------------


@pytest.mark.parametrize("is_anew", [False, True], ids=["removed", "made anew"])
@pytest.mark.parametrize(("call", "is_before"), [("sizes", True), ("sizes", False), ("read_object", False)])
def test_what_changes_while_it_is_read_is_not_damage(store: Store, call: str, is_before: bool, is_anew: bool) -> None:
    """Before its files are listed, before its sheet is read, and before the user's words are."""
    store.annotate("one", label="mine")
    plain, done = getattr(Files, call), list[bool]()

    def meanwhile(files: Files, name: str) -> Any:
        answer = None if is_before else plain(files, name)
        if not done and name.startswith("runs/run_id=one"):
            done.append(True)
            store.remove("one")
            if is_anew:
                written(store.home, "one", 9)
        return plain(files, name) if is_before else answer

    with mock.patch.object(Files, call, meanwhile):
        listing = store.listing()
    assert done and listing.damages == ()
    samples = {entry.id: entry.row["samples"] for entry in listing.entries}
    if call == "read_object" and is_anew:
        assert samples in ({"one": 9, "other": 4}, {"one": 4, "other": 4})
    else:
        assert samples == ({"one": 9, "other": 4} if is_anew else {"other": 4})


# --- whatever bytes -----------------------------------------------------------------------------------------------


@pytest.mark.soak
@settings(max_examples=sized(12, 150))
@given(seed=seeds(), edits=st.integers(1, 8))
def test_whatever_the_bytes_of_a_sheet_it_is_served_or_named(shared: Store, seed: int, edits: int) -> None:
    path = sheet_of(shared)
    whole = path.read_bytes()
    try:
        path.write_bytes(damaged(whole.decode(), seed, edits).encode("utf-8", "replace"))
        listing = shared.listing()
        served = {entry.id for entry in listing.entries}
        assert "other" in served
        assert "one" in served or "runs/run_id=one" in named(shared)
        assert not any(damaged_parts(entry) for entry in listing.entries if entry.id == "other")
        assert {row["run_id"] for row in shared.rows("SELECT * FROM runs")} == served
    finally:
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, whole: Path) -> Store:
    """For all examples of a property, which leave it as it was."""
    return store_at(shutil.copytree(whole, tmp_path_factory.mktemp("shared") / "store"))


@pytest.mark.soak
@settings(max_examples=sized(12, 100))
@given(offset=st.integers(0, 10**9), bit=st.integers(0, 7))
def test_a_flipped_bit_of_a_table_is_found_and_raises_nothing_unforeseen(shared: Store, offset: int, bit: int) -> None:
    """Its size is right, so only reading it tells; the queries answer, with or without the file."""
    path = folder_of(shared) / "samples.parquet"
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[offset % len(changed)] ^= 1 << bit
    try:
        path.write_bytes(changed)
        (damage,) = damaged_parts(shared.entry("one"))
        assert damage.reason == "its bytes are not those that were written"
        assert len(shared.rows("SELECT * FROM samples WHERE run_id = 'other'")) == 4
    finally:
        path.write_bytes(whole)
