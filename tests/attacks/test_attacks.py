"""Each attack of the list is refused or harmless: nothing leaks, nothing is written, and what follows is answered."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from engine.errors import SqlError
from engine.store.sql.child import Limits
from engine.store.sql.guard import Console
from tests.attacks.attacks import SECRET, TABLES, files, make_file, paths, some, statements
from tests.cli import run
from tests.pages.browser import ROOT, Server, serve_quietly

pytestmark = pytest.mark.soak
LEAST = 500


def test_the_list_is_long_and_has_nothing_twice() -> None:
    sql, given, asked = statements(), [str(attack) for attack in files()], paths()
    assert len({*sql, *given, *asked}) == len(sql) + len(given) + len(asked) >= LEAST
    assert len(sql) >= LEAST and len(given) == len(TABLES["files"]["readers"]) * len(TABLES["files"]["damages"])


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
    with Console({"t": pa.table({"a": [1, 2, 3]})}, limits=Limits(seconds=5, memory_mb=64, answer_mb=8)) as console:
        yield console


@pytest.mark.parametrize("sql", some(statements()), ids=lambda sql: ascii(sql[:60]))
def test_a_statement(console: Console, folder: Path, sql: str) -> None:
    try:
        answer = console.query(sql)
        told = str(answer.table.slice(0, 100).to_pylist())
        assert answer.table.nbytes <= 8 << 20
    except SqlError as error:
        told = str(error)
        assert told.isprintable() and len(told) < 5_000
    assert SECRET not in told
    assert [path.name for path in folder.iterdir()] == ["secret.csv"]
    assert console.query("SELECT sum(a) AS a FROM t").table.to_pylist() == [{"a": 6}]


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reader", "name", "damage"), some(files()), ids=str)
def test_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: list[str], name: str, damage: str) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_file(Path(name), damage)
    result = run(*reader, name)
    assert SECRET not in result.out + result.err and "Traceback" not in result.err
    assert result.error
    assert not list((tmp_path / "store").glob("*/*=*")), "nothing of it is in the store"
    assert [path.name for path in Path().iterdir()] == [name]


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
    for path in some(paths()):
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        connection.putrequest("GET", path, skip_accept_encoding=True)
        connection.endheaders()
        body = connection.getresponse().read()
        connection.close()
        assert not any(start in body for start in outside), path
