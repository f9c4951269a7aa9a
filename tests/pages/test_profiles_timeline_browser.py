"""The timeline in a real browser: zoom and pan by wheel, drag and keys, selection, and events of a window on demand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from engine.profile.ingest import add_trace
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.pages.browser import Browser, Server, Visit, expect_harmless, expect_well_in_both_themes, visit
from tests.pages.profile_traces import hostile

pytestmark = pytest.mark.browser


def view(canvas: Locator) -> tuple[float, float]:
    start, end = (canvas.get_attribute("data-view") or "").split()
    return float(start), float(end)


def changed(canvas: Locator, before: tuple[float, float]) -> tuple[float, float]:
    expect(canvas).not_to_have_attribute("data-view", re.compile(f"^{before[0]:g}\\d* {before[1]:g}"))
    return view(canvas)


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
        whole = view(canvas)
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
        assert view(canvas) == whole

        page.mouse.wheel(0, -400)
        zoomed = changed(canvas, whole)
        assert zoomed[1] - zoomed[0] < 0.7 * whole[1]
        assert zoomed[0] + (zoomed[1] - zoomed[0]) / 4 == pytest.approx(whole[1] / 4, rel=0.01)  # about the pointer
        drag(seen, spot, -width / 4)
        dragged = changed(canvas, zoomed)
        assert dragged[0] - zoomed[0] == pytest.approx((zoomed[1] - zoomed[0]) / 4, rel=0.02)
        page.keyboard.press("d")
        panned = changed(canvas, dragged)
        assert panned[0] > dragged[0] and panned[1] - panned[0] == pytest.approx(dragged[1] - dragged[0], rel=0.01)
        for _ in range(5):
            page.keyboard.press("w")

        expect(canvas).to_have_attribute("data-lanes", re.compile("longest pauses, stream 7, stream 20"))
        expect(canvas).to_have_attribute("data-view", re.compile(r"^\d+\.\d{1,3} \d+\.\d{1,3}$"))  # it has rested
        rested = view(canvas)
        expect(page).to_have_url(re.compile("tl_from={}&tl_to={}".format(*rested)))
        expect(page.get_by_text(re.compile(r"^From [\d.,]+ to [\d.,]+ ms: A: work takes"))).to_be_visible()
        assert rested[1] - rested[0] == pytest.approx((panned[1] - panned[0]) / 1.4**5, rel=0.01)
        for row in ("forward", "between", "stream 7"):
            page.keyboard.press("ArrowDown")
            expect(facts).to_contain_text(row)
        expect(facts).to_contain_text(re.compile(r"Event.*Family.*Start[\d.,]+ ms.*Duration[\d.]+ .s.*Lanestream 7"))
        before = facts.inner_text()
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
        ranged = changed(canvas, whole)
        assert ranged == pytest.approx((whole[1] * 0.25, whole[1] * 0.35), rel=0.02)
        page.get_by_role("button", name="Longest pause").click()
        expect(facts).to_contain_text(re.compile(r"Pausebetween x+… and gemm.*B · "))
        expect_harmless(seen)
    with visit(browser, own_server, link, width=1000) as seen:
        canvas = seen.page.locator(".stage > canvas")
        expect(canvas).to_have_attribute("data-lanes", re.compile("stream 7"))
        assert view(canvas) == pytest.approx(rested, rel=1e-6)
        expect_well_in_both_themes(seen)
