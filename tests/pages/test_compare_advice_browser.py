"""The Compare page's advice in a real browser: links, choices in the address, hostile names, a probe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.store.store import Store
from tests.engine.evidence.advice_runs import MANY, MODEL, add
from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, visit
from tests.pages.drift_stores import store_at
from tests.small_models import use_small_model
from tests.support import of_soak

pytestmark = pytest.mark.browser

PATH = f"/compare?view=Advice&control=none&advice_model={MODEL}"
PROBE_LIMIT_MS = 120_000
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("advice")
    store = store_at(folder / "store")
    add(store, "none", 1.0)
    add(store, "group-v4.3", 0.1, clean=0, passed=len(MANY), cut=len(MANY))
    add(store, "exact", 0.25)
    add(store, HOSTILE, 1.0, run_id="hostile-lp")
    add(store, "exact", 1.0, run_id="hostile-sampling", sampling=HOSTILE)
    add(store, "exact", 1.0, run_id="small-exact", model_alias="small", model_step="final")
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        use_small_model(patch)
        with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(place / "store")}) as started:
            yield started


def box(seen: Visit, key: str) -> str:
    return seen.page.locator(f".st-key-{key}").inner_text()


def test_a_choice_changes_the_advice_and_the_address(browser: Browser, server: Server) -> None:
    with visit(browser, server, PATH) as seen:
        expect(seen.page.get_by_role("heading", name="Use exact")).to_be_visible()
        expect(seen.page.locator(".st-key-advice-reports")).to_contain_text("does not agree")
        expect(seen.page.locator(".st-key-chart-advice-cost .js-plotly-plot")).to_be_visible()
        assert "never →" in box(seen, "chart-advice-cost")
        seen.press("Passed")
        expect(seen.page.get_by_role("heading", name="Use group-v4.3")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("advice_want=Passed"))
        compared = seen.page.locator(".st-key-compared-runs")  # which may be another model's
        expect(compared).not_to_be_visible()
        seen.press("Manage")
        expect(compared).to_be_visible()
        expect_harmless(seen)


def test_a_link_restores_it(browser: Browser, server: Server) -> None:
    path = f"{PATH}&advice_want=Passed&advice_molecules=60&advice_lps=none&advice_lps=exact"
    with visit(browser, server, path) as seen:
        expect(seen.page.get_by_role("heading", name="Use exact")).to_be_visible()
        seen.press("LPs, setting, molecules")
        expect(seen.page.get_by_role("spinbutton", name="Molecules to write")).to_have_value("60")
        expect(seen.page.locator(".st-key-advice-sentence")).to_contain_text("a passed conformer takes 0.250 s")
        expect_harmless(seen)


def test_hostile_names_are_text(browser: Browser, server: Server) -> None:
    with visit(browser, server, PATH) as seen:
        seen.page.get_by_text("Why: the rule").click()
        expect(seen.page.get_by_text(f"1 run of {HOSTILE}, which is not a candidate")).to_be_visible()
        expect(seen.page.get_by_text(f"sampling {HOSTILE}, not qwen3")).to_be_visible()
        expect_harmless(seen)


@of_soak
def test_a_probe_is_started_from_the_page(browser: Browser, server: Server, place: Path) -> None:
    """A model of random weights: what matters is that its runs come, and the advice with them."""
    store = Store(store_at(place / "store").home)
    path = "/compare?view=Advice&advice_model=small:final&advice_lps=group-v4.3&advice_lps=exact&advice_probe=8"
    with visit(browser, server, path) as seen:
        assert "One LP was measured" in box(seen, "advice-sentence")
        seen.page.get_by_role("button", name="Probe now").click()
        expect(seen.page.get_by_text("2 runs in")).to_be_visible(timeout=PROBE_LIMIT_MS)
        expect(seen.page.locator(".st-key-advice-sentence")).to_contain_text("8 molecules", timeout=PROBE_LIMIT_MS)
        assert [entry.row.get("label") for entry in store.found().entries].count("probe") == 2
        expect_harmless(seen)
