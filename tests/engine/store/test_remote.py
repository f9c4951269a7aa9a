"""A store in an object store: the same content as on a disk, the sheet last, nothing half, and errors in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.request import Request, urlopen

import pyarrow.fs
import pytest
from moto.server import ThreadedMotoServer

from engine.errors import DriftscopeError, RunError, StoreError
from engine.jobs.cluster import Cluster, TaskRun
from engine.jobs.run import Run, begin, molecules_of, resume
from engine.store.entries import Entry
from engine.store.files import LocalFiles, RemoteFiles
from engine.store.schema import RUN
from engine.store.staging import Staging, unfinished_ids
from engine.store.store import Store, damaged_parts, files_at
from tests.cli import run, run_json
from tests.engine.jobs import small_runs
from tests.engine.store.stored_runs import add, begun, ids, named, published, written
from tests.small_models import small_folder

BUCKET = "driftscope-tests"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An S3 of this process, on the loopback."""
    one = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    one.start()
    host, port = one.get_host_and_port()
    yield f"http://{host}:{port}"
    one.stop()


@pytest.fixture(autouse=True)
def place(server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A store of its own, with a blank and a letter of another alphabet in its name."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    bare(server, allow_bucket_creation=True).create_dir(BUCKET)
    return f"s3://{BUCKET}/{tmp_path.name} ö"


def bare(server: str, **options: Any) -> pyarrow.fs.S3FileSystem:
    return pyarrow.fs.S3FileSystem(
        endpoint_override=server.removeprefix("http://"), scheme="http", region="us-east-1", **options
    )


class Spy:
    """Passes all on to a filesystem, and knows what was written and deleted; raises where it is told to."""

    def __init__(self, filesystem: Any, fails_at: str = "nothing") -> None:
        self.filesystem, self.fails_at, self.done = filesystem, fails_at, list[str]()

    def open_output_stream(self, path: str) -> Any:
        if self.fails_at in path:
            raise OSError("the process was killed")
        self.done.append(f"write {path}")
        return self.filesystem.open_output_stream(path)

    def delete_file(self, path: str) -> None:
        self.done.append(f"delete {path}")
        self.filesystem.delete_file(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.filesystem, name)


def spied(place: str, fails_at: str = "nothing") -> tuple[RemoteFiles, Spy]:
    files = RemoteFiles.at(place)
    spy = Spy(files.filesystem, fails_at)
    files.filesystem = spy
    return files, spy


def rows(entry: Entry, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Store(entry.files).rows(f"SELECT * FROM {table} WHERE run_id = ?", [entry.id])
    return found


# --- files --------------------------------------------------------------------------------------------------------


def test_files_are_as_on_a_disk(place: str, tmp_path: Path) -> None:
    told = []
    for files in (RemoteFiles.at(place), LocalFiles(tmp_path / "disk")):
        files.write("a/b/one.json", b"{}")
        files.write("a/b/one.json", b"{} ")
        files.write("a/two é [*]", b"x" * 3)
        with files.writing("a/b/three") as file:
            file.write(b"abc")
            file.write(b"def")
        told.append(
            [files.folders(""), files.folders("a"), files.sizes("a"), files.sizes("a/b"), files.read("a/b/three")]
        )
        told[-1] += [files.folders("nothing"), files.sizes("nothing")]
        files.remove("a/b")
        files.remove("a/two é [*]")
        files.remove("nothing")
        told[-1] += [files.folders("a"), files.sizes("a")]
        with pytest.raises(FileNotFoundError):
            files.read("a/b/three")
    assert told[0] == told[1]
    assert told[0][:2] == [["a"], ["b"]]


@pytest.mark.parametrize("size", [10, 12_000_000])  # one request, and an upload in parts
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_broken_off_is_not_there(place: str, size: int, error: type[BaseException]) -> None:
    files = RemoteFiles.at(place)

    def broken_off() -> None:
        with files.writing("a/half") as file:
            file.write(b"x" * size)
            raise error

    with pytest.raises(error):
        broken_off()
    assert files.sizes("a") == {}


def test_a_folder_goes_sheet_first(place: str) -> None:
    entry = written(RemoteFiles.at(place))
    files, spy = spied(place)
    files.remove(entry.folder)
    assert spy.done == [f"delete {files.path(entry.folder)}/run.json"]
    assert files.sizes(entry.folder) == {}


# --- entries ------------------------------------------------------------------------------------------------------


def test_a_run_is_what_it_is_on_a_disk(place: str, tmp_path: Path) -> None:
    far, near = (written(files, steps=True) for files in (RemoteFiles.at(place), LocalFiles(tmp_path)))
    for table in ("runs", "samples", "blocks", "steps"):
        assert rows(far, table) == rows(near, table)
    assert damaged_parts(far) == []
    assert {name: part.sha256 for name, part in far.parts.items()} == {
        name: part.sha256 for name, part in near.parts.items()
    }


def test_the_sheet_is_written_last(place: str) -> None:
    files, spy = spied(place)
    entry = written(files)
    shown = [one for one in spy.done if entry.folder in one]
    assert shown == [
        f"write {files.path(entry.folder)}/{name}" for name in ("samples.parquet", "blocks.parquet", "run.json")
    ]
    assert files.folders("staging") == []


@pytest.mark.parametrize("fails_at", ["run_id=one/samples", "run_id=one/blocks", "run_id=one/run.json"])
def test_an_attempt_that_was_killed_shows_nothing_and_the_next_one_cleans_up(place: str, fails_at: str) -> None:
    files, _ = spied(place, fails_at)
    staging = begun(files)
    add(staging, range(4))
    with pytest.raises(StoreError, match="was killed"):
        published(staging)
    store = Store(RemoteFiles.at(place))
    store.home.write("runs/run_id=one/steps.parquet", b"of an attempt before")
    assert ids(store) == []
    assert unfinished_ids(store.home, RUN) == ["one"]
    entry = published(Staging.open(store.home, RUN, "one"))
    assert ids(store) == ["one"]
    assert sorted(store.home.sizes(entry.folder)) == ["blocks.parquet", "run.json", "samples.parquet"]
    assert damaged_parts(entry) == []
    assert unfinished_ids(store.home, RUN) == store.home.folders("staging") == []


def test_several_who_show_a_run_at_once_leave_it_whole(place: str) -> None:
    staging = begun(RemoteFiles.at(place))
    add(staging, range(4))
    together = Barrier(4)

    def show(_: int) -> bool:
        own = Staging(RemoteFiles.at(place), RUN, "one", staging.sheet)
        together.wait()
        try:
            published(own)
        except (DriftscopeError, OSError):
            assert own.is_shown
        return own.is_shown

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(show, range(4)))
    store = Store(RemoteFiles.at(place))
    assert damaged_parts(store.entry("one")) == []
    assert store.rows("SELECT count(*) AS n FROM samples") == [{"n": 4}]
    assert store.home.folders("staging") == []


def test_a_run_is_annotated_removed_and_gone(place: str) -> None:
    store = Store(RemoteFiles.at(place))
    written(store.home)
    assert store.annotate("one", label="mine", notes="ö").row["label"] == "mine"
    assert store.rows("SELECT label, notes FROM runs") == [{"label": "mine", "notes": "ö"}]
    store.remove("one")
    assert ids(store) == []
    assert named(store) == {}


def test_runs_far_and_near_are_one_store(place: str, tmp_path: Path) -> None:
    far, near = RemoteFiles.at(place), LocalFiles(tmp_path)
    written(far, "far", steps=True)
    written(near, "near", samples=2)
    for store in (Store(far, (near,)), Store(near, (far,))):
        counted = "SELECT run_id, count(*) AS n FROM samples GROUP BY run_id ORDER BY run_id"
        assert store.rows(counted) == [{"run_id": "far", "n": 4}, {"run_id": "near", "n": 2}]
        with store.console() as console:
            assert console.query(counted).table.to_pylist() == store.rows(counted)
            joined = "SELECT count(*) AS n FROM steps JOIN samples USING (run_id, sample_id)"
            assert console.query(joined).table.to_pylist() == [{"n": 1}]
    with pytest.raises(StoreError, match="is read-only"):
        Store(near, (far,)).remove("far")


def test_what_is_damaged_is_named_and_left_out(place: str) -> None:
    store = Store(RemoteFiles.at(place))
    entry = written(store.home)
    written(store.home, "other")
    content = store.home.read(f"{entry.folder}/samples.parquet")
    store.home.write(f"{entry.folder}/samples.parquet", bytes(len(content)))  # of the same size
    store.home.remove(f"{entry.folder}/blocks.parquet")
    assert named(store) == {f"{entry.folder}/blocks.parquet": "it is missing"}
    (damage,) = damaged_parts(store.entry("one"))
    assert damage.what == "its bytes are not those that were written"
    assert store.rows("SELECT DISTINCT run_id FROM samples") == [{"run_id": "other"}]
    store.home.write(f"{entry.folder}/run.json", b"{")
    assert ids(store) == ["other"]


def test_the_commands_take_a_place_there(place: str, tmp_path: Path) -> None:
    written(files_at(place), label="a label")
    staging = begun(files_at(place), "two", samples=9)
    add(staging, range(4))
    (row,) = run_json("runs", "--store", place)
    assert (row["run_id"], row["label"]) == ("one", "a label")
    (row,) = run_json("runs", "--unfinished", "--store", place)
    assert (row["run_id"], row["samples_done"], row["samples"]) == ("two", 4, 9)
    states = {row["run_id"]: row["state"] for row in run_json("verify", "--store", place)}
    assert states == {"one": "whole", "two": "unfinished"}
    assert run_json("sql", "SELECT count(*) AS n FROM blocks", "--store", place) == [{"n": 12}]
    run_json("rm", "one", "two", "--yes", "--store", place)
    assert run_json("runs", "--store", place) == run_json("runs", "--unfinished", "--store", place) == []


# --- runs ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"))


def test_a_run_is_written_stopped_and_taken_up_there(place: str, folder: Path, tmp_path: Path) -> None:
    whole = small_runs.finished(small_runs.started(tmp_path, folder, 6, keep_steps=2))
    model = small_runs.loaded(folder)
    staging = begin(files_at(place), model, small_runs.molecules(6), small_runs.plan_of(folder, keep_steps=2))
    first = Run(staging, model, molecules_of(staging), small_runs.plan_of(folder, keep_steps=2))
    small_runs.stopped(first)
    with pytest.raises(RunError, match="lacks 2 of 3 groups"):
        first.publish()
    again, plan = resume(files_at(place), staging.id)
    entry = small_runs.finished(Run(again, model, molecules_of(again), plan))
    assert (entry.row["resumed"], entry.row["checked_samples"], entry.row["diverged_samples"]) == (1, 2, 0)
    assert damaged_parts(entry) == []
    for table in ("samples", "blocks", "steps"):
        leave = ("run_id", "decode_s")
        told = [
            [{key: row[key] for key in row if key not in leave} for row in rows(one, table)] for one in (entry, whole)
        ]
        assert told[0] == told[1]


def test_tasks_write_a_run_there(place: str, folder: Path, tmp_path: Path) -> None:
    model = small_runs.loaded(folder)
    staging = begin(files_at(place), model, small_runs.molecules(4), small_runs.plan_of(folder), parts=2)
    tasks = TaskRun(staging, molecules_of(staging), small_runs.plan_of(folder), Cluster("debug", tasks=2))
    tasks.submit(tmp_path)
    assert tasks.publish().row["samples"] == 4


# --- what cannot be -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "variables", "told"),
    [
        ("s3://", {}, "'s3://' names no bucket. Give for example s3://bucket/driftscope"),
        ("s3://no-such-bucket/x", {}, "there is no bucket 'no-such-bucket'. Check the bucket's name"),
        (
            "s3://x",
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
            "s3://x cannot be read: network connection, curlCode: 7",
        ),
        ("s3://x", {"AWS_ENDPOINT_URL": "gopher://x"}, "'s3://x' cannot be reached: Invalid S3 connection scheme"),
        ("s3://x", {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1"}, "s3://x cannot be read: network connection"),
    ],
)
def test_a_place_that_cannot_be_is_one_line(
    wrong: str, variables: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert told in run("runs", "--store", wrong).error


def test_wrong_credentials_are_one_line(server: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checks_from(server, "0")
    try:
        error = run("runs", "--store", place).error
    finally:
        checks_from(server, "inf")
    assert "cannot be read: invalid access key id, The AWS Access Key Id you provided does not exist" in error


def checks_from(server: str, requests: str) -> None:
    """Have the server look at credentials from so many requests on."""
    address = f"{server}/moto-api/reset-auth"
    urlopen(Request(address, requests.encode(), {"Content-Type": "text/plain"}, method="POST")).close()


def test_a_store_that_goes_away_is_told_as_such(place: str) -> None:
    staging = begun(RemoteFiles.at(place))
    staging.files = RemoteFiles(bare("http://127.0.0.1:1"), staging.files.path(""), place)
    with pytest.raises(StoreError, match=r"cannot be written: network connection"):
        add(staging, range(2), number=0)
    with pytest.raises(OSError, match="network connection") as raised:
        staging.files.read("staging/one/run.json")
    assert raised.value.filename == f"{place}/staging/one/run.json"
