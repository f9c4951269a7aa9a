"""The Logit health page in a real browser: logs are ticked, windows move, files leave, and links restore it all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.engine.logits.logs import clean
from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Visit,
    expect_harmless,
    expect_well_in_both_themes,
    serve_quietly,
    visit,
)
from tests.pages.canvas_clicks import click_row, open_picker
from tests.pages.logit_logs import add, add_all, add_hostile, store_at

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest log is a long one: ten thousand tokens, damaged now and then."""
    folder = tmp_path_factory.mktemp("logits")
    store = store_at(folder)
    add_hostile(store, folder)
    add_all(store, folder)
    rows = clean(10_000, 30, seed=2)
    rows[[4_321, 9_500], 0] = 1e30
    add(store, folder, "long", rows, model="long", precision="Q4_K_M", shape="[151936]")
    return folder


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(place / "store")}) as started:
        yield started


def legend(seen: Visit) -> Locator:
    return seen.page.locator(".chosen-entries li")


def test_logs_are_ticked_swapped_and_let_go_of(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?view=Health&log=again") as seen:
        expect(legend(seen)).to_have_text([re.compile(".*control"), re.compile("No test yet")])
        open_picker(seen)
        click_row(seen, 0, 1)  # newest first: below the long one
        expect(legend(seen).last).to_have_text("driftscope (demo, float32)")
        click_row(seen, 0, 2)
        expect(legend(seen).last).to_have_text("llama.cpp (demo, float32)")
        seen.page.get_by_role("combobox", name=re.compile("Control")).click()
        seen.page.get_by_role("option", name=re.compile(r"llama.cpp \(demo")).click()
        expect(legend(seen).last).to_have_text("driftscope (demo, float32)")  # the oldest of three ticks left
        expect(seen.page).to_have_url(re.compile("log=llama.cpp-demo.*beside=driftscope-demo"))
        seen.page.go_back()
        expect(legend(seen).last).to_have_text("llama.cpp (demo, float32)")
        seen.press("Clear selection")
        expect(seen.page.get_by_text("Tick logs in the table")).to_be_visible()
        for tab in ("Models", "Health"):
            seen.press(tab)
            assert seen.page.get_by_test_id("stException").count() == 0
        expect_harmless(seen)


def test_a_hostile_log_is_text_and_nothing_is_too_wide(browser: Browser, server: Server) -> None:
    for view in ("Models", "Health"):
        with visit(browser, server, f"/logits?view={view}&log=img-src&beside=freed", width=820) as seen:
            expect(legend(seen).first).to_contain_text("<img src=x onerror=alert(1)>")
            expect(seen.page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
            assert seen.page.locator("img[src=x]").count() == 0
            expect_well_in_both_themes(seen)
