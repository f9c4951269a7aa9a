"""The Profiles page in a real browser: traces ticked, an option in the address, a zoom of both timelines at once."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from engine.store.files import Files
from engine.store.schema import TRACE
from engine.store.store import Store
from tests.pages.browser import ROOT, Browser, Server, expect_harmless, legend, serve_quietly, visit
from tests.pages.canvas_clicks import click_row, open_picker
from tests.pages.profile_traces import both, on_gpu

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(Files(tmp_path_factory.mktemp("profiles") / "store"))
    on_gpu(found)
    both(found)
    return found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(store.home.where)}) as started:
        yield started


def test_two_traces_are_ticked_and_compared_by_an_option(browser: Browser, server: Server, store: Store) -> None:
    none, exact = (f"made.json · {entry.id}" for entry in store.found(TRACE).entries if entry.row.get("run_id"))
    with visit(browser, server, "/profiles?view=Families") as seen:
        expect(legend(seen)).to_have_text([f"{none} (control)", exact])
        seen.press("whole traces")
        expect(seen.page.get_by_text("in work (95.0 µs to 50.0 µs)")).to_be_visible()
        expect(seen.page).to_have_url(re.compile(r"per=whole\+traces"))
        open_picker(seen)
        click_row(seen, 0, 2)  # newest first: the GPU's comes last, and the oldest tick makes room
        expect(legend(seen)).to_have_text(["made.json (control)", "a GPU · imported"])
        seen.page.go_back()
        expect(legend(seen)).to_have_text([f"{none} (control)", exact])
        expect_harmless(seen)


def test_the_timeline_zooms_both_traces_at_once(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/profiles?view=Timeline") as seen:
        chart = seen.page.locator(".js-plotly-plot")
        expect(chart).to_be_visible()
        ranges = "plot => [plot.layout.xaxis.range, plot.layout.xaxis3.range].map(ends => ends[1] - ends[0])"
        before = chart.evaluate(ranges)
        chart.locator(".nsewdrag").first.hover()
        seen.page.mouse.wheel(0, -400)
        seen.page.wait_for_function(
            "before => { const p = document.querySelector('.js-plotly-plot').layout;"
            " return p.xaxis.range[1] - p.xaxis.range[0] < before }", arg=before[0],
        )  # fmt: skip
        first, other = chart.evaluate(ranges)
        assert first == pytest.approx(other)
        expect_harmless(seen)
