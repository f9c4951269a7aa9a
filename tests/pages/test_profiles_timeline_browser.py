"""The timeline in a real browser: zoom and pan by wheel, drag and keys, selection, and events of a window on demand."""

from __future__ import annotations

import math
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, expect

from engine.profile.ingest import add_trace
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.pages.browser import Browser, Server, Visit, expect_harmless, expect_well_in_both_themes, visit
from tests.pages.profile_traces import hostile

pytestmark = pytest.mark.browser


Window = tuple[float, float]
IS_NEAR = """([canvas, ends, near]) =>
    canvas.dataset.view.split(" ").every((end, place) => Math.abs(end - ends[place]) <= near)"""


def expect_view(canvas: Locator, window: Window) -> None:
    """To a pixel or two: it is rounded when it rests."""
    near = (window[1] - window[0]) / 300
    canvas.page.wait_for_function(IS_NEAR, arg=[canvas.element_handle(), list(window), near], polling=30)


def zoomed(window: Window, factor: float, place: float) -> Window:
    """``place`` stays where it is: 0 is the left end, 1 the right one."""
    width = window[1] - window[0]
    start = window[0] + place * width * (1 - factor)
    return start, start + width * factor


def panned(window: Window, share: float) -> Window:
    by = share * (window[1] - window[0])
    return window[0] + by, window[1] + by


def in_address(url: str) -> Window:
    names = parse_qs(urlsplit(url).query)
    return float(names.get("tl_from", ["0"])[0]), float(names.get("tl_to", ["0"])[0])


def drag(seen: Visit, start: tuple[float, float], by: float) -> None:
    mouse = seen.page.mouse
    mouse.move(*start)
    mouse.down()
    mouse.move(start[0] + by / 2, start[1])
    mouse.move(start[0] + by, start[1])
    mouse.up()


def test_a_reader_zooms_pans_and_selects_as_in_perfetto(
    browser: Browser, own_server: Server, own_store: Store, tmp_path: Path
) -> None:
    write_trace(tmp_path / "made.json", 40_000)
    made, other = add_trace(own_store, tmp_path / "made.json", with_events=True), hostile(own_store)
    link = f"/profiles?view=Timeline&control={made.id}&test={other.id}"
    with visit(browser, own_server, link, height=1000) as seen:
        page = seen.page
        canvas, facts = page.locator(".stage > canvas"), page.locator(".facts")
        expect(canvas).to_have_attribute("data-lanes", re.compile("events"))  # too many to read
        whole = 0.0, made.row["span_us"] / 1000
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        left, width = box["x"] + 124, box["width"] - 124
        spot = (left + width / 4, box["y"] + 160)  # low in the shares of A

        page.mouse.move(*spot)
        page.mouse.wheel(0, -200)  # scrolls the page, as nothing was clicked
        page.mouse.click(*spot)
        expect(facts).to_contain_text("Share of the time")
        expect(facts).to_contain_text("gemm")
        expect_view(canvas, whole)

        page.mouse.wheel(0, -400)
        window = zoomed(whole, math.exp(-0.8), 0.25)  # about the pointer
        expect_view(canvas, window)
        drag(seen, spot, -width / 8)
        window = panned(window, 1 / 8)
        expect_view(canvas, window)
        page.keyboard.press("d")
        window = panned(window, 0.15)
        expect_view(canvas, window)
        page.mouse.move(left + width / 2, spot[1])
        for _ in range(5):
            page.keyboard.press("w")
        window = zoomed(window, 1.4**-5, 0.5)
        expect_view(canvas, window)

        page.wait_for_url(lambda url: in_address(url) == pytest.approx(window, abs=0.1))
        expect(canvas).to_have_attribute("data-lanes", re.compile("longest pauses, stream 7, stream 20"))
        expect(page.get_by_text(re.compile(r"^From [\d.,]+ to [\d.,]+\sms: A: work takes"))).to_be_visible()
        for row in ("forward", "between", "stream 7"):
            page.keyboard.press("ArrowDown")
            expect(facts).to_contain_text(row)
        expect(facts).to_contain_text(re.compile(r"Event.*Family.*Start[\d.,]+ ms.*Duration[\d.]+ .s.*Lanestream 7"))
        before = facts.text_content() or ""
        page.keyboard.press("n")
        expect(facts).not_to_have_text(before)
        page.keyboard.press("Escape")
        expect(facts).to_contain_text("Click a column")
        link = page.url.removeprefix(own_server.url)

        page.mouse.dblclick(*spot)
        expect(page).not_to_have_url(re.compile(r"tl_(from|to)=\d"))
        page.keyboard.down("Shift")
        drag(seen, spot, width / 10)
        page.keyboard.up("Shift")
        expect_view(canvas, (whole[1] * 0.25, whole[1] * 0.35))
        page.get_by_role("button", name="Longest pause").click()
        expect(facts).to_contain_text(re.compile(r"Pausebetween x+… and gemm.*B · "))
        expect_harmless(seen)
    with visit(browser, own_server, link, width=1000) as seen:
        canvas = seen.page.locator(".stage > canvas")
        expect(canvas).to_have_attribute("data-lanes", re.compile("stream 7"))
        expect_view(canvas, window)
        expect_well_in_both_themes(seen)
