"""The app registers the files of ``pages/`` and nothing else."""

from __future__ import annotations

import ast
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from pages._app.listing import FALLBACK_ICON, FOLDER, ORDER, page_files
from tests.pages.browser import Server, free_port, wait_until_healthy
from tests.support import ROOT


def test_known_pages_come_in_their_order_and_others_after_them(tmp_path: Path) -> None:
    for name in ("zebra", "compare", "new_page", "_shared_by_none"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "live.py").write_text(
        'TITLE = "Live"\nICON = ":material/bolt:"\nLEAD = "See it."\nraise SystemExit("imported")\n'
    )
    (tmp_path / "broken.py").write_text('TITLE = "Broken\n')
    (tmp_path / "_shared").mkdir()
    pages = page_files(tmp_path)
    assert [page.path.stem for page in pages] == ["live", "compare", "broken", "new_page", "zebra"]
    assert (pages[0].title, pages[0].icon, pages[0].lead) == ("Live", ":material/bolt:", "See it.")
    assert [(page.title, page.icon) for page in pages[2:4]] == [("Broken", FALLBACK_ICON), ("New page", FALLBACK_ICON)]


def test_what_names_a_page_is_read_as_python_reads_it_without_its_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser fails at times where two threads are in it."""
    read = {path: _assigned(path) for path in FOLDER.glob("*.py")}
    monkeypatch.setattr("builtins.compile", lambda *_, **__: pytest.fail("the parser was called"))
    for page in page_files():
        assert (page.title, page.icon, page.lead) == tuple(map(read[page.path].get, ("TITLE", "ICON", "LEAD")))
        assert page.path.stem in ORDER and page.icon != FALLBACK_ICON and page.lead


REFUSED = "socket.accept() out of system resource"
HEALTH = b"GET /_stcore/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system does not tell another process's limits")
def test_the_server_takes_all_files_that_it_may_and_says_once_that_there_are_no_more(tmp_path: Path) -> None:
    """The bug: under `ulimit -n 256` the loop that takes connections wrote 47 MB of log in 30 s."""
    soft, hard = 120, 300
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true", f"--server.port={port}"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=output,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        )
    try:
        wait_until_healthy(server.pid, Server(f"http://localhost:{port}", log))
        assert resource.prlimit(server.pid, resource.RLIMIT_NOFILE) == (hard, hard)
        with ExitStack() as many:
            for _ in range(hard):
                many.enter_context(socket.create_connection(("localhost", port)))
            while REFUSED not in log.read_text():
                assert server.poll() is None
                time.sleep(0.01)
        with socket.create_connection(("localhost", port), timeout=60) as connection:  # after the loop's look
            connection.sendall(HEALTH)
            assert b"200" in connection.recv(20)
        assert log.read_text().count(REFUSED) == 1
    finally:
        server.kill()
        server.wait()


def _assigned(path: Path) -> dict[str, object]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assigned = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)]
    return {ast.unparse(node.targets[0]): ast.literal_eval(node.value) for node in assigned}
