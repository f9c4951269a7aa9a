"""The Profiles page in a real browser: ticking traces, swapping them, its first sections, links and narrow windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from engine.profile.reported import publish_reported
from engine.store.files import LocalFiles
from engine.store.store import DEMO, Store
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
from tests.pages.profile_traces import HOSTILE, both, hostile, on_gpu
from tests.support import of_soak

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(LocalFiles(tmp_path_factory.mktemp("profiles") / "store"))
    publish_reported(found)
    hostile(found)
    on_gpu(found)
    both(found)
    return found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(store.home.where)}) as started:
        yield started


def legend(seen: Visit) -> Locator:
    return seen.page.locator(".chosen-entries li")


def stays_within(seen: Visit, width: int) -> None:
    assert seen.page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth") <= width
    assert seen.page.get_by_test_id("stException").count() == 0


@of_soak
def test_two_traces_are_ticked_swapped_and_left(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/profiles") as seen:
        expect(legend(seen).last).to_have_text("B · tiny:final · exact")
        open_picker(seen)
        click_row(seen, 0, 2)  # newest first: the GPU's comes last, and the oldest tick makes room
        expect(seen.page.get_by_text("At most 2 traces, so this leaves out A · tiny:final · none.")).to_be_visible()
        expect(legend(seen).last).to_have_text("B · a GPU · imported")
        expect(seen.page.get_by_text("Not comparable: one is work of a device").first).to_be_visible()
        click_row(seen, 0, 1)
        expect(legend(seen).first).to_have_text("A · a GPU · imported (control)")
        click_row(seen, 0, 0)
        expect(legend(seen).last).to_have_text("B · tiny:final · exact")
        seen.page.get_by_role("combobox", name=re.compile("Control")).click()
        seen.page.get_by_role("option", name=re.compile("exact")).click()
        expect(legend(seen).last).to_have_text("B · tiny:final · none")
        expect(seen.page.get_by_text("by the clock (15.3 µs to 30.5 µs)")).to_be_visible()
        expect_harmless(seen)
        link = seen.page.url.removeprefix(server.url)
    with visit(browser, server, link) as seen:
        expect(legend(seen).last).to_have_text("B · tiny:final · none")
        open_picker(seen)
        seen.press("Clear selection")
        expect(seen.page.get_by_text("Tick traces in the table.")).to_be_visible()
        seen.page.go_back()
        expect(legend(seen)).to_have_count(2)
        expect_harmless(seen)


def test_the_way_from_one_time_to_the_other(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/profiles?view=Families") as seen:
        expect(seen.page.get_by_text("Work goes from 9.50 µs to 2.50 µs per token")).to_be_visible()
        seen.press("whole traces")
        expect(seen.page.get_by_text("Work goes from 95.0 µs to 50.0 µs")).to_be_visible()
        figure = seen.page.locator(".st-key-chart-waterfall .js-plotly-plot")
        expect(figure.get_by_text("−60.0 µs")).to_be_visible()
        expect(seen.page).to_have_url(re.compile(r"per=whole\+traces"))
        seen.press("of the span")
        expect(seen.page.get_by_text("of the span from first to last event in A")).to_be_visible()
        families = seen.page.get_by_role("region", name=re.compile("Families of work"))
        expect(families.get_by_role("rowheader", name="gemm")).to_be_visible()
        expect(families.get_by_role("row", name=re.compile("^all "))).to_contain_text("0.526×")
        with seen.page.expect_download() as download:
            seen.press("CSV")
        assert Path(download.value.path()).read_text().startswith("side,family,calls_control")
        expect_harmless(seen)


def test_a_newcomer_reads_where_the_time_goes_on_the_first_screen(browser: Browser) -> None:
    """Of the shipped traces, without a click: how much faster, what makes it, and why."""
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(DEMO)}) as demo,
        visit(browser, demo, "/profiles", width=1440, height=900) as seen,
    ):
        says = seen.page.locator(".st-key-families-say")
        for words in (
            r"Per token, B is [\d.]+× faster",
            r"matrix products, gemm",
            "1,118 of the vocabulary's 128,330 tokens",
        ):
            sentence = says.get_by_text(re.compile(words)).first
            expect(sentence).to_be_visible()
            expect(sentence).to_be_in_viewport(ratio=1)
        expect(seen.page.get_by_text(re.compile("Per pass, .* the forward pass itself"))).to_be_visible()
        stays_within(seen, 1440)


@pytest.mark.parametrize("width", [1440, 1000])
def test_the_table_of_families_has_room(browser: Browser, server: Server, width: int) -> None:
    with visit(browser, server, "/profiles?view=Families", width=width, height=900) as seen:
        frame = seen.page.get_by_role("region", name=re.compile("Families of work"))
        expect(frame.get_by_role("rowheader", name="gemm")).to_be_visible()
        assert frame.evaluate("frame => frame.scrollWidth <= frame.clientWidth")


def test_one_operation_whole(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/profiles?view=Kernels&control=img-src") as seen:
        expect(seen.page.get_by_text("Tick a row for its full name")).to_be_visible()
        click_row(seen, 0, 1)
        expect(seen.page.get_by_test_id("stCode")).to_have_text("x" * 10_000)
        expect(seen.page).to_have_url(re.compile("operation=[0-9a-f]{12}"))
        seen.fill("Contains", "onerror")
        expect(seen.page.get_by_test_id("stCode")).to_have_count(0)
        click_row(seen, 0, 0)
        expect(seen.page.get_by_test_id("stCode")).to_have_text(HOSTILE)
        stays_within(seen, 1280)
        expect_harmless(seen)
        link = seen.page.url.removeprefix(server.url)
    with visit(browser, server, link) as seen:
        expect(seen.page.get_by_test_id("stCode")).to_have_text(HOSTILE)


def test_sections_fit_a_narrow_window(browser: Browser, server: Server) -> None:
    for view, pair in (
        ("Families", ""),
        ("Launches", "control=reported-003-llama&test=reported-003-qwen"),
        ("Kernels", "control=a-GPU"),
    ):
        with visit(browser, server, f"/profiles?view={view}&{pair}", width=820) as seen:
            expect(seen.page.get_by_role("tab", name=view, exact=True)).to_have_attribute("aria-selected", "true")
            expect(seen.page.locator(".st-key-profile-cards").first).to_be_visible()
            expect_well_in_both_themes(seen)
