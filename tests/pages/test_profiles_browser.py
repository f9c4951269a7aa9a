"""The Profiles page in a real browser: ticking traces, swapping them, its first sections, links and narrow windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from engine.store.files import Files
from engine.store.store import Store
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
from tests.pages.profile_traces import both, hostile, on_gpu
from tools.reported import publish_traces

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(Files(tmp_path_factory.mktemp("profiles") / "store"))
    publish_traces(found)
    hostile(found)
    on_gpu(found)
    both(found)
    return found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(store.home.where)}) as started:
        yield started


def stays_within(seen: Visit, width: int) -> None:
    assert seen.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width
    assert seen.page.get_by_test_id("stException").count() == 0


def test_options_of_cards_are_in_the_address(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/profiles?view=Families") as seen:
        expect(seen.page.get_by_text("in work (9.50 µs to 2.50 µs)")).to_be_visible()
        seen.press("whole traces")
        expect(seen.page.get_by_text("in work (95.0 µs to 50.0 µs)")).to_be_visible()
        expect(seen.page).to_have_url(re.compile(r"per=whole\+traces"))
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
        one, other = chart.evaluate(ranges)
        assert one == pytest.approx(other)
        expect_harmless(seen)


def test_sections_fit_a_narrow_window(browser: Browser, server: Server) -> None:
    for view, pair in (
        ("Families", ""),
        ("Launches", "control=reported-003-llama&test=reported-003-qwen"),
        ("Kernels", "control=img-src"),
    ):
        with visit(browser, server, f"/profiles?view={view}&{pair}", width=820) as seen:
            expect(seen.page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")
            expect(seen.page.get_by_test_id("stDataFrame").last).to_be_visible()
            stays_within(seen, 820)
            expect_well_in_both_themes(seen)
