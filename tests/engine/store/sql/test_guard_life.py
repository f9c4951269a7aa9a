"""A console from its start to its end: what it is given, threads, cancelling, processes that go, and what stays out."""

from __future__ import annotations

import gc
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engine.errors import SqlError
from engine.sandbox import Answer, Sandbox
from engine.store.console import Console, Limits

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", "x"]})
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r"
DEAF = "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"
ROOMY = Limits(seconds=100, memory_mb=2000)


def one(console: Console, sql: str) -> object:
    ((value,),) = [row.values() for row in console.query(sql).table.to_pylist()]
    return value


def process_of(console: Console) -> subprocess.Popen[bytes]:
    one(console, "SELECT 1")
    assert console._child._process is not None
    return console._child._process


class Asking(threading.Thread):
    """A statement in a thread of its own, and the error that it met."""

    def __init__(self, console: Console, sql: str) -> None:
        super().__init__(daemon=True)
        self.console, self.sql = console, sql
        self.error: SqlError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.console.query(self.sql)
        except SqlError as error:
            self.error = error


@pytest.mark.parametrize("sql", [ENDLESS, DEAF], ids=["endless", "deaf"])
def test_cancel_stops_what_is_running(sql: str) -> None:
    with Console({"t": TABLE}, limits=ROOMY) as console:
        asking = Asking(console, sql)
        while asking.is_alive():  # as a user who presses until it stops: it has no effect before it runs
            console.cancel()
            asking.join(0.01)
        assert str(asking.error) == "the statement was stopped"
        assert one(console, "SELECT sum(a) FROM t") == 6


def test_a_cancel_that_comes_after_the_answer_spoils_no_later_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = Sandbox.receive
    with Console({}) as console:

        def receive_and_cancel(child: Sandbox) -> Answer | None:
            found = receive(child)
            console.cancel()
            return found

        console.cancel()
        with monkeypatch.context() as patched:
            patched.setattr(Sandbox, "receive", receive_and_cancel)
            assert one(console, "SELECT 1") == 1
        assert one(console, "SELECT 2") == 2


def test_close_stops_what_is_running_and_is_final() -> None:
    console = Console({}, limits=ROOMY)
    asking = Asking(console, ENDLESS)
    while not console._child.is_busy:
        asking.join(0.01)
    console.close()
    asking.join()
    assert "stopped" in str(asking.error) or "closed" in str(asking.error)
    console.close()
    with pytest.raises(SqlError, match="the console is closed"):
        console.query("SELECT 1")


def test_statements_of_several_threads_wait_for_each_other_and_a_process_that_went_is_replaced() -> None:
    with Console({"t": TABLE}) as console, ThreadPoolExecutor(8) as pool:
        for _ in range(2):
            found = pool.map(lambda n: one(console, f"SELECT {n} + count(*) FROM t"), range(8))
            assert list(found) == [n + 3 for n in range(8)]
            before = process_of(console)
            before.send_signal(signal.SIGSEGV)
            before.wait()


def test_a_console_that_is_forgotten_takes_its_process_along() -> None:
    console = Console({})
    process = process_of(console)
    del console
    gc.collect()
    assert process.returncode is not None


# --- what it is given -----------------------------------------------------------------------------------------------


def parquet(folder: Path, files: int = 3) -> ds.Dataset:
    for number in range(files):
        path = folder / f"run={number}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"a": list(range(10 * number, 10 * number + 10))}), path)
    return ds.dataset(folder, partitioning="hive")


def test_a_dataset_is_read_and_does_not_tell_where_it_lies(tmp_path: Path) -> None:
    files = parquet(tmp_path / "store")
    united = ds.dataset([files, ds.dataset(tmp_path / "store/run=0", schema=files.schema)])
    with Console({"files": files, "united": united, "nothing": TABLE.schema.empty_table()}) as console:
        assert one(console, "SELECT sum(a) FROM files WHERE run = 1") == 145
        assert one(console, "SELECT count(*) FROM united") == 40
        assert one(console, "SELECT count(*) FROM nothing") == 0
        for column in ("filename", "__filename", "file_name", "rowid"):
            with pytest.raises(SqlError, match=f'"{column}" not found'):
                console.query(f"SELECT {column} FROM files")
        (tmp_path / "store/run=1/part.parquet").unlink()
        with pytest.raises(SqlError, match=r"run=1/part\.parquet' cannot be read\. It was removed or is damaged"):
            console.query("SELECT sum(a) FROM files")
        assert one(console, "SELECT count(*) FROM files WHERE run = 2") == 10


# --- what stays out -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM (SELECT random() AS r, repeat('x', 100) || range AS a FROM range(3000000)) ORDER BY r",
        "SELECT count(*) FROM (SELECT range, random() FROM range(20000000) GROUP BY ALL)",
    ],
)
def test_what_does_not_fit_into_memory_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with Console({}, limits=Limits(seconds=60, memory_mb=64)) as console:
        with pytest.raises(SqlError, match="ran out of memory"):
            console.query(sql)
        assert not list(tmp_path.iterdir())


def test_time_runs_out() -> None:
    with Console({}, limits=Limits(seconds=0.2)) as console:
        for sql in (ENDLESS, DEAF):
            with pytest.raises(SqlError, match=r"ran for over 0\.2 s and was stopped\. Ask for less|out of memory"):
                console.query(sql)
            assert console.query("SELECT 1").table.num_rows == 1
