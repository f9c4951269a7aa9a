"""Fixtures of the page tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
from streamlit.components.v2 import manifest_scanner

from engine.jobs import slurm
from engine.store.store import DEMO
from pages._live import session
from tests.pages.browser import ROOT, Server, browser, serve_quietly, window
from tests.pages.live_pages import live, live_registry, live_service

__all__ = ["browser", "live", "live_registry", "live_service", "window"]


@pytest.fixture(autouse=True)
def nothing_is_warmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that a test draws in its own process begins no work behind it: the next test would meet torch's import
    half done. Pages in a browser have a server of their own, and warm up as always."""
    monkeypatch.setattr(session, "warm", lambda *args: None)


@pytest.fixture(autouse=True)
def there_is_no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "slurm_jobs", lambda: None)
    monkeypatch.setattr(slurm, "KEPT", slurm.KeptAnswer())


@pytest.fixture
def demo_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages show the store that ships."""
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO))


@pytest.fixture(scope="session", autouse=True)
def packages_are_scanned_once() -> Iterator[None]:
    """Each AppTest reads the metadata of all that is installed, for components: half of what a small page takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        yield


@pytest.fixture(scope="session")
def demo_server() -> Iterator[Server]:
    """The app over the store that ships, for tests that write nothing."""
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(DEMO)}) as started:
        yield started
