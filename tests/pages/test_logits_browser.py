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
from tests.support import of_soak

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


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path_factory.mktemp("none"))}) as started:
        yield started


def legend(seen: Visit) -> Locator:
    return seen.page.locator(".chosen-entries li")


def card(seen: Visit, key: str) -> Locator:
    return seen.page.locator(f".st-key-chart-logit-{key}")


def click_bar(seen: Visit, plot: Locator, bar: Locator, words: str) -> None:
    """Bars are a few pixels wide: the mouse is on the right one when its words are there."""
    bar.scroll_into_view_if_needed()
    box = bar.bounding_box()
    assert box is not None
    for step in (1, 0):
        seen.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 - step)
    expect(plot.locator(".hoverlayer")).to_contain_text(words)
    seen.page.mouse.down()
    seen.page.mouse.up()


def test_logs_are_ticked_swapped_and_let_go_of(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?view=Health&log=again") as seen:
        expect(legend(seen)).to_have_text([re.compile("^A · .*control"), re.compile("No test yet")])
        open_picker(seen)
        click_row(seen, 0, 1)  # newest first: below the long one
        expect(legend(seen).last).to_have_text("B · driftscope · demo · float32")
        click_row(seen, 0, 2)
        expect(legend(seen).last).to_have_text("B · llama.cpp · demo · float32")
        seen.page.get_by_role("combobox", name=re.compile("Control")).click()
        seen.page.get_by_role("option", name=re.compile("llama.cpp · demo")).click()
        expect(legend(seen).last).to_have_text("B · driftscope · demo · float32")  # the oldest of three ticks left
        expect(seen.page).to_have_url(re.compile("log=llama.cpp-demo.*beside=driftscope-demo"))
        seen.page.go_back()
        expect(legend(seen).last).to_have_text("B · llama.cpp · demo · float32")
        seen.press("Clear selection")
        expect(seen.page.get_by_text("Tick logs in the table")).to_be_visible()
        for tab in ("Models", "Health"):
            seen.press(tab)
            assert seen.page.get_by_test_id("stException").count() == 0
        expect_harmless(seen)


@of_soak
def test_a_window_moves_over_ten_thousand_tokens(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?view=Health&log=long") as seen:
        own = card(seen, "map")
        expect(own.get_by_label("From token", exact=True)).to_have_value("4320")
        expect(own.get_by_text("2 values of its 10,000 entries are damaged, the first at token 4,321.")).to_be_visible()
        expect(own.locator(".flag-legend li")).to_have_text([re.compile("nothing wrong"), re.compile("outlier 1")])
        bars = own.locator(".js-plotly-plot").first.locator(".barlayer .point path")
        click_bar(seen, own.locator(".js-plotly-plot").first, bars.nth(9_500 // 84), "tokens 9,492 to 9,575")
        expect(own.get_by_label("From token", exact=True)).to_have_value("9480")
        expect(seen.page).to_have_url(re.compile("token=9480"))
        seen.settle()  # the click on the bar may run the page once more, which would put its own number back
        own.get_by_label("From token", exact=True).fill("42")
        own.get_by_label("From token", exact=True).press("Enter")
        expect(own.locator(".flag-legend li")).to_have_text([re.compile("nothing wrong")])
        expect(seen.page).to_have_url(re.compile("token=42"))
        expect(own.locator(".js-plotly-plot").nth(1).locator(".heatmaplayer image")).to_be_attached()
        expect_harmless(seen)
        link = seen.page.url.removeprefix(server.url)
    with visit(browser, server, link) as seen:
        expect(card(seen, "map").get_by_label("From token", exact=True)).to_have_value("42")


def test_values_are_filtered_and_leave_as_files(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?view=Health&log=again") as seen:
        own = card(seen, "flagged")
        expect(own.get_by_text("45 values in 25 entries.")).to_be_visible()
        own.get_by_role("button", name="zero", exact=True).click()
        expect(own.get_by_text("8 values in 4 entries.")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("flags=zero"))
        with seen.page.expect_download() as started:
            own.get_by_role("button", name="CSV", exact=True).click()
        lines = Path(started.value.path()).read_text().splitlines()
        assert len(lines) == 9 and '"zero"' in lines[1] and "exactly 0" in lines[1]
        with seen.page.expect_download() as started:
            own.get_by_role("button", name="Parquet", exact=True).click()
        assert Path(started.value.path()).read_bytes()[:4] == b"PAR1"
        expect_harmless(seen)


def test_reported_and_measured_stand_apart(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?rule=our+rules&log=freed") as seen:
        charts = seen.page.locator(".st-key-logit-charts")
        expect(charts.locator(".js-plotly-plot")).to_have_count(4)
        first = charts.locator(".js-plotly-plot").first
        expect(first.locator(".legendtext")).to_have_text(["reported", "logs here"])
        expect(first.locator(".textpoint text")).to_have_text(
            ["TinyLlama", "Llama-3-8B", "Qwen2.5-0.5B", "Qwen2.5-0.5B", "GPT-2", "Phi-3-Mini"]
        )
        expect(seen.page.get_by_text("show no link of garbage with vocabulary size")).to_be_visible()
        seen.press("the report's rule")
        expect(seen.page.get_by_text("The logs here, by the report's rule").first).to_be_visible()
        with seen.page.expect_download() as started:
            seen.page.get_by_role("button", name="CSV", exact=True).first.click()
        lines = Path(started.value.path()).read_text().splitlines()
        assert sum(line.startswith('"reported"') for line in lines) == 6 and len(lines) == 19
        expect_harmless(seen)


def test_a_hostile_log_is_text_and_nothing_is_too_wide(browser: Browser, server: Server) -> None:
    for view in ("Models", "Health"):
        with visit(browser, server, f"/logits?view={view}&log=img-src&beside=freed", width=820) as seen:
            expect(legend(seen).first).to_contain_text("A · <img src=x onerror=alert(1)>")
            expect(seen.page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
            assert seen.page.locator("img[src=x]").count() == 0
            expect_well_in_both_themes(seen)


def test_an_empty_store(browser: Browser, empty: Server) -> None:
    with visit(browser, empty, "/logits") as seen:
        expect(seen.page.get_by_text("There is no log in this store yet")).to_be_visible()
        seen.press("Health")
        expect_harmless(seen)
