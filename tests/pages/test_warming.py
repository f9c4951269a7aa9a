"""What a server makes ready before its first reader."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages._app.chart_module import ChartModule
from pages._kit.components.charts_ready import drawing_module
from pages._live import session

ROOT = Path(__file__).resolve().parents[2]
ASKED = """
import sys
from engine.logits import pairs
from engine.lp.constraint import build_constraint
from engine.lp.numbers import number_automaton
from engine.lp.vocabulary import vocabulary_of
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._logits.logs import default_choice
from pages._app.warming import warm

list(warm())
misses = vocabulary_of.cache_info().misses
for name in BUILT_IN:
    vocabulary_of(load_tokenizer(name))
print(vocabulary_of.cache_info().misses - misses)
tables = number_automaton.cache_info().misses
for name in BUILT_IN:
    build_constraint("exact", load_tokenizer(name), load_tokenizer(name).vocab_size)
print(number_automaton.cache_info().misses - tables)
pairs._table = None
store = Store.open().snapshot()
chosen = default_choice(store.listing(LOGIT_LOG).entries)
print([pairs.late_read(store, log) for log in chosen].count(None))
print("engine.chem.conformers" in sys.modules and sys.modules["engine.chem.conformers"].EMBEDDER._process is not None)
for name in ("engine.questions.compare_time", "plotly.graph_objs._heatmap", "torch"):
    print(name in sys.modules)
"""


def test_tokenizers_tables_logs_parts_of_pages_and_plotly_are_ready_and_torch_is_left_to_its_worker() -> None:
    answer = subprocess.run([sys.executable, "-c", ASKED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["0", "0", "2", "False", "True", "True", "False"]


def test_torch_is_left_alone_until_a_reader_of_the_live_page_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # as pages in a browser have it
    submitted: list[object] = []
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now

    class Idle:
        @property
        def is_unused(self) -> bool:
            return not submitted

        def submit(self, owner: str, work: object) -> None:
            submitted.append(work)

        def owners(self) -> int:
            return 0

    monkeypatch.setattr(session, "service", Idle)
    monkeypatch.setattr(session, "time", clock)
    app = AppTest.from_file(str(ROOT / "pages" / "live.py"), default_timeout=60)
    for clock.now, count in ((0.0, 0), (session.STAYS_S - 1, 0), (session.STAYS_S, 1), (99.0, 1)):
        assert not app.run().exception
        assert len(submitted) == count


def test_a_server_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = os.umask(0o077)
    app = importlib.import_module("app")
    os.umask(mask)
    began = threading.Event()
    monkeypatch.setattr(app, "_warm", began.set)
    monkeypatch.setattr(app.st, "get_option", lambda _: True)

    async def start() -> None:
        async with app._opened(app.app):
            assert await asyncio.to_thread(began.wait, 30)

    with ThreadPoolExecutor(1) as pool:  # a thread of browser tests may have a loop that runs
        pool.submit(asyncio.run, start()).result()


@pytest.mark.parametrize(
    ("address", "has_chart"),
    [
        ("/profiles", True),
        ("/base/logits", True),
        ("/evidence", True),
        ("/compare?view=Charts", True),
        ("/compare", False),
        ("/drift", False),
        ("/drift?view=none", False),
        ("/profiles?view=SQL", False),
        ("/live", False),
        ("/", False),
    ],
)
def test_a_visit_of_a_view_that_opens_with_a_chart_names_the_module_that_draws_it(
    address: str, has_chart: bool
) -> None:
    async def page(scope: object, receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def nothing() -> Any:
        return None

    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    path, _, query = address.partition("?")
    scope = {"type": "http", "path": path, "query_string": query.encode()}
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, ChartModule(page)(scope, nothing, keep)).result()
    link = (b"link", f"<{drawing_module()}>; rel=modulepreload".encode())
    assert sent[0]["headers"] == ([link] if has_chart else [])


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's heaps")
def test_threads_share_two_heaps() -> None:
    code = (
        "import ctypes, threading\n"
        "import app\n"
        "libc, met = ctypes.CDLL(None), threading.Barrier(20)\n"
        "threads = [threading.Thread(target=lambda: (libc.malloc(99_999), met.wait())) for _ in range(20)]\n"
        "[thread.start() for thread in threads], [thread.join() for thread in threads]\n"
        "libc.malloc_stats()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stderr.count("Arena ") == 2


def test_a_server_that_ends_ends_its_warming_first() -> None:
    """Python ended the thread in the middle of an import, and the process aborted."""
    ending = (
        "import sys, threading, time\n"
        "import app\n"
        "class Warming:\n"
        "    warm = staticmethod(lambda: (time.sleep(0.01) for _ in iter(int, 1)))\n"
        "sys.modules['pages._app.warming'] = Warming\n"
        "warming = threading.Thread(target=app._warm, daemon=True)\n"
        "warming.start()\n"
        "app._end(warming)\n"
        "print(warming.is_alive())\n"
    )
    answer = subprocess.run([sys.executable, "-c", ending], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split()[-1] == "False"
