"""A real browser on a real server, for tests and for pictures: Streamlit in its own process, Debian's Chromium on it.

Nothing outside of the server under test is reachable: such a request is refused and recorded, and a test asserts that
there was none.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from playwright.sync_api import (
    BrowserContext,
    ConsoleMessage,
    Dialog,
    FrameLocator,
    Locator,
    Page,
    Request,
    WebSocket,
    expect,
    sync_playwright,
)

Browser = BrowserContext  # one profile for all visits
ROOT = Path(__file__).resolve().parents[2]
START_LIMIT_S = 60.0
LIMIT_MS = 30_000  # for anything that a test waits for; generous, because a busy machine is no failure
FLAGS = [
    *"--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split(),
    *"--disable-component-update --disable-sync --use-gl=angle --use-angle=swiftshader".split(),
    "--enable-unsafe-swiftshader",
    "--js-flags=--no-opt --no-maglev",  # a visit is over before scripts that are compiled well have paid for it
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost",
]
# Fades and slides cost a browser without a GPU much, and no test looks at them.
AT_ONCE = """document.addEventListener("DOMContentLoaded", () => document.head.insertAdjacentHTML("beforeend",
    "<style>*, ::before, ::after { animation: none !important; transition: none !important; }</style>"))"""
Theme = Literal["light", "dark"]
NOISE = ("GL Driver Message", "Unrecognized feature:", "can escape its sandboxing")


@dataclass(frozen=True, slots=True)
class Server:
    """A running app. ``log`` is all that it wrote, so that a test can ask for warnings and tracebacks."""

    url: str
    log_file: Path

    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")


@contextmanager
def serve(script: Path, *, env: dict[str, str] | None = None) -> Iterator[Server]:
    """``script`` under ``streamlit run``, from the root: a fork of one process that has imported what the app needs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        port, log_file = free_port(), Path(folder) / "streamlit.log"
        log_file.touch()
        server = Server(f"http://localhost:{port}", log_file)
        # The server is killed in the end; what it leaves in the temporary folder goes with this one.
        environment = {**os.environ, "TMPDIR": folder, **(env or {})}
        options = ["--server.headless=true", f"--server.port={port}", "--server.fileWatcherType=none"]
        orders, answers = _launcher().stdin, _launcher().stdout
        assert orders is not None
        assert answers is not None
        order = {"arguments": ["run", str(script), *options], "environment": environment, "log": str(log_file)}
        print(json.dumps(order), file=orders, flush=True)
        process = int(answers.readline())
        try:
            wait_until_healthy(process, server)
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            while not _has_ended(process):
                time.sleep(0.01)


def _has_ended(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return False
    return True


@cache
def _launcher() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.pages.launcher"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(process.communicate)  # the end of its orders is its own
    return process


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def wait_until_healthy(process: int, server: Server) -> None:
    limit = time.monotonic() + START_LIMIT_S
    while time.monotonic() < limit:
        if _has_ended(process):
            raise RuntimeError(f"streamlit ended:\n{server.log()}")
        try:
            with urllib.request.urlopen(f"{server.url}/_stcore/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.02)  # not up yet
    raise RuntimeError(f"streamlit was not healthy within {START_LIMIT_S} s:\n{server.log()}")


@contextmanager
def chromium() -> Iterator[Browser]:
    """One profile for all visits, so that the second page of a server comes with its scripts compiled."""
    path = chromium_path()
    if path is None:
        raise FileNotFoundError("Chromium is not installed (Debian: apt-get install chromium)")
    expect.set_options(timeout=LIMIT_MS)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=path, args=FLAGS, locale="en-GB"
        )
        browser.set_default_timeout(LIMIT_MS)
        browser.add_init_script(AT_ONCE)
        try:
            yield browser
        finally:
            browser.close()


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass(slots=True)
class Visit:
    """One visitor: a page of the app, and what it asked for and said on the way."""

    page: Page
    outside: list[str] = field(default_factory=list)  # requests that were not for the server under test
    console: list[str] = field(default_factory=list)  # errors and warnings
    dialogs: list[str] = field(default_factory=list)  # an alert is a script that ran

    def settle(self) -> None:
        """Wait until the script has run and the page shows its result."""
        self.page.wait_for_function(
            "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
            " && !document.querySelector('[data-stale=true]')",
            polling=30,  # milliseconds; by default each frame, which makes the browser draw frames all the time
        )

    def press(self, name: str) -> None:
        """Click the button, tab or link of that name, or else the words themselves, as a radio's or checkbox's."""
        named = [self.page.get_by_role(role, name=name, exact=True) for role in ("button", "tab", "link")]
        next((spot for spot in named if spot.count()), self.page.get_by_text(name, exact=True)).first.click()
        self.settle()


@contextmanager
def visit(
    browser: Browser, server: Server, path: str = "/", *, theme: Theme = "light", width: int = 1280, height: int = 900
) -> Iterator[Visit]:
    page, others = _spare_tab(browser), list(browser.pages)
    browser.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    _OPEN.append(page)
    page.bring_to_front()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=theme)
    seen = Visit(page)
    try:
        with watched(seen, server.url):
            page.goto(server.url + path)
            page.wait_for_selector("[data-testid=stApp]")
            seen.settle()
            yield seen
    finally:
        _OPEN.remove(page)
        for opened in [tab for tab in browser.pages if tab not in (*others, *_SPARE_TABS)]:
            opened.close()
        if not page.is_closed():
            page.evaluate("sessionStorage.clear()")
            page.goto(f"{server.url}/_stcore/health")  # the session ends, the tab's process stays
            _SPARE_TABS.append(page)
        if _OPEN:
            _OPEN[-1].bring_to_front()
        if len(browser.pages) == len(_SPARE_TABS) + 1:  # beside the browser's own empty one
            browser.clear_cookies()


_SPARE_TABS: list[Page] = []
_OPEN: list[Page] = []  # by visits; the last is in front: one behind another draws a frame a second


def _spare_tab(browser: Browser) -> Page:
    """The tab of an earlier visit: its process has the app's scripts compiled."""
    while _SPARE_TABS:
        tab = _SPARE_TABS.pop()
        if tab in browser.pages:
            return tab
    return browser.new_page()


@contextmanager
def watched(seen: Visit, address: str) -> Iterator[None]:
    """Only localhost has an address for this browser; what is asked of others fails, and is noted."""
    own = re.escape(address) + "|" + re.escape(address.replace("http", "ws", 1))
    foreign = re.compile(rf"^(?!(?:{own})(?:/|$))(?:https?|wss?):")

    def note(request: Request | WebSocket) -> None:
        if foreign.match(request.url):
            seen.outside.append(request.url)

    def note_message(message: ConsoleMessage) -> None:
        if _counts(message):
            seen.console.append(message.text)

    def note_dialog(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    listeners: dict[Any, Callable[[Any], None]] = {
        "request": note,
        "websocket": note,
        "console": note_message,
        "pageerror": lambda error: seen.console.append(str(error)),
        "dialog": note_dialog,
    }
    for event, listener in listeners.items():
        seen.page.on(event, listener)
    try:
        yield
    finally:
        for event, listener in listeners.items():
            seen.page.remove_listener(event, listener)


def _counts(said: ConsoleMessage) -> bool:
    """Errors and warnings, not Streamlit's search for its server below a page's path, nor frames' and WebGL's own."""
    if said.type not in ("error", "warning") or re.search(r"/\w+/_stcore/", said.location["url"]):
        return False
    return not any(noise in said.text for noise in NOISE)


@contextmanager
def serve_quietly(script: Path, *, env: dict[str, str] | None = None) -> Iterator[Server]:
    """``serve``, and in the end nothing in the log that a user should not meet there."""
    with serve(script, env=env) as started:
        yield started
        for word in ("Traceback", "deprecat", "already registered", "Session State API"):
            assert word not in started.log()


@pytest.fixture(scope="module")
def window(browser: Browser, server: Server) -> Iterator[Visit]:
    """One window for all tests of a file: another visit takes seconds, the more with WebGL and no GPU."""
    with visit(browser, server) as opened:
        yield opened


def expect_harmless(seen: Visit) -> None:
    """Nothing from outside, no script that ran, a clean console."""
    assert seen.outside == []
    assert seen.dialogs == []
    assert seen.console == []


def expect_in_first_screen(seen: Visit, element: Locator) -> None:
    expect(element).to_be_visible()
    box, screen = element.bounding_box(), seen.page.viewport_size
    assert box is not None and screen is not None
    assert box["y"] + box["height"] <= screen["height"] and box["x"] + box["width"] <= screen["width"]


def expect_outline(seen: Visit, title: str) -> None:
    """What who hears the page is told of it: one heading of level 1, none of a level that was skipped, no symbols."""
    expect(seen.page.get_by_role("heading", level=1)).to_have_count(1)
    expect(seen.page.get_by_role("heading", level=1, name=title, exact=True)).to_be_visible()
    levels = seen.page.locator("h1, h2, h3, h4, h5, h6").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1 and all(deeper - level <= 1 for level, deeper in pairwise(levels)), levels
    symbols = seen.page.get_by_role("img", name=re.compile(" icon$"))
    assert symbols.count() == 0, symbols.first.get_attribute("aria-label")


def shape(seen: Visit) -> Locator:
    """The last 3D view's ground, on which it draws."""
    return _frame(seen).get_by_role("application")


def shape_words(seen: Visit) -> Locator:
    """What the last 3D view says of its atom."""
    return _frame(seen).get_by_role("status")


def _frame(seen: Visit) -> FrameLocator:
    return seen.page.frame_locator("iframe").last


def legend(seen: Visit) -> Locator:
    """The chosen entries of a page that compares."""
    return seen.page.locator(".chosen-entries li")


def theme_settings(theme: Theme) -> dict[str, Any]:
    settings: dict[str, Any] = tomllib.loads((ROOT / ".streamlit/config.toml").read_text(encoding="utf-8"))
    return dict(settings["theme"][theme])


def rgb(colour: str) -> str:
    """``#15252b`` as a browser computes it."""
    return f"rgb{tuple(bytes.fromhex(colour[1:]))}"


def expect_well_in_both_themes(seen: Visit) -> None:
    """No exception, nothing wider than the window, nothing harmful, in light and then in dark."""
    size = seen.page.viewport_size
    assert size is not None
    for theme in get_args(Theme):
        seen.page.emulate_media(color_scheme=theme)
        ground = rgb(theme_settings(theme)["backgroundColor"])
        expect(seen.page.get_by_test_id("stApp")).to_have_css("background-color", ground)
        seen.settle()
        assert seen.page.get_by_test_id("stException").count() == 0
        assert seen.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= size["width"]
        expect_harmless(seen)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium for the whole session. Without it browser tests are skipped, but never in CI, which installs it."""
    if chromium_path() is None and not os.environ.get("CI"):
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with chromium() as started:
        yield started
