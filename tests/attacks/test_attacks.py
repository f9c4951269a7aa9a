"""Each attack of the list is refused or harmless: nothing leaks, nothing is written, and what follows is answered."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.store.console import Console, Limits
from tests.attacks.attacks import SECRET, files, make_file, paths, statements
from tests.pages.browser import ROOT, Server, serve_quietly
from tests.support import of_soak

pytestmark = pytest.mark.soak
LEAST, MOST_SECONDS, MOST_MB, GIVEN_UP = 150, 30, 1_500, 300
"""Seconds are a processor's, so that other work on the machine does not count; what waits is given up after 300."""


def test_the_list_is_long_and_has_nothing_twice() -> None:
    sql, given, links = statements(), [str(attack) for attack in files()], paths()
    assert len({*sql, *given, *links}) == len(sql) + len(given) + len(links) >= LEAST


# --- statements -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the console's process stands, with a file that no statement may read."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "secret.csv").write_text(f"a\n{SECRET}\n")
    with contextlib.chdir(folder):
        yield folder


@pytest.fixture(scope="module")
def console(folder: Path) -> Iterator[Console]:
    with Console({"t": pa.table({"a": [1, 2, 3]})}, limits=Limits(seconds=2, memory_mb=64, answer_mb=8)) as console:
        yield console


@pytest.mark.parametrize("sql", statements(), ids=lambda sql: ascii(sql[:60]))
def test_a_statement(console: Console, folder: Path, sql: str) -> None:
    try:
        answer = console.query(sql)
        output = str(answer.table.slice(0, 100).to_pylist())
        assert answer.table.nbytes <= 8 << 20
    except SqlError as error:
        output = str(error)
        assert output.isprintable() and len(output) < 5_000
    assert SECRET not in output
    assert [path.name for path in folder.iterdir()] == ["secret.csv"]
    assert console.query("SELECT sum(a) AS a FROM t").table.to_pylist() == [{"a": 6}]


# --- files ----------------------------------------------------------------------------------------------------------


@of_soak
@pytest.mark.parametrize(("reader", "name", "damage"), files(), ids=str)
def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: list[str], name: str, damage: str) -> None:
    """Read by a process of its own, whose peak memory, with that of its children, the system tells."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_file(Path(name), damage)
    Path("victim").touch()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DRIFTSCOPE_STORE": str(tmp_path / "store")}
    with open(tmp_path / "told", "w+") as log:  # noqa: PTH123 - one file for both streams
        command = [sys.executable, "-m", "engine", *reader, name]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        stop = threading.Timer(GIVEN_UP, process.kill)
        stop.start()
        _, status, used = os.wait4(process.pid, 0)
        stop.cancel()
        log.seek(0)
        process.returncode = os.waitstatus_to_exitcode(status)
        (line,) = log.read().splitlines()
    assert process.returncode == 2
    assert used.ru_utime + used.ru_stime < MOST_SECONDS
    assert used.ru_maxrss < MOST_MB * 1024
    assert line.isprintable() and SECRET not in line and "Traceback" not in line
    assert not list((tmp_path / "store").glob("*/*=*")), "nothing of it is in the store"
    assert {path.name for path in Path().iterdir()} == {name, "victim"}


# --- links ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py") as started:
        yield started


def test_paths_lead_to_no_file_outside(server: Server) -> None:
    inside = [
        (ROOT / name).read_bytes()[:60] for name in ("pyproject.toml", ".streamlit/config.toml", "engine/errors.py")
    ]
    outside = [*inside, (ROOT / "data/models.toml").read_bytes()[:60], b"root:x:0"]
    for path in paths():
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        connection.putrequest("GET", path, skip_accept_encoding=True)
        connection.endheaders()
        body = connection.getresponse().read()
        connection.close()
        assert not any(start in body for start in outside), path
