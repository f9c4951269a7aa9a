"""The live page in a real browser: the stored lanes, from a click to a kept run, a text as it is written, the grid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, expect

from engine.store.store import Store
from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, shape, shape_words, visit
from tests.pages.canvas_clicks import again
from tests.pages.live_pages import MODEL, small_registry

pytestmark = pytest.mark.browser
PATIENCE_MS = 90_000  # for what a model has to write first
ENDLESS = "20000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    env = {"DRIFTSCOPE_MODELS": str(small_registry(folder)), "DRIFTSCOPE_STORE": str(folder / "store")}
    with serve_quietly(ROOT / "app.py", env=env) as started:
        yield started


def path(**query: str) -> str:
    return "/live?" + urlencode({"model": MODEL, "smiles": "CC=O", "most_tokens": "200", **query})


def lane(seen: Visit, number: int) -> Locator:
    """The card of a lane, by its rows."""
    rows = seen.page.locator(f'.atoms .rows[aria-label="Lane {number}"]')
    return seen.page.locator("[data-testid=stVerticalBlock]").filter(has=rows).last


def generate(seen: Visit) -> None:
    seen.page.get_by_role("button", name="Generate").click()


def point_at(spot: Locator, label: Locator, words: str) -> None:
    """Again where the page moved it from under the pointer: on a busy machine tables come later than the lanes."""

    def at_it() -> None:
        spot.page.mouse.move(0, 0)
        spot.hover()

    again(at_it, lambda limit_ms: expect(label).to_have_text(re.compile(words), timeout=limit_ms))


def test_a_folded_corner_says_on_hover_what_was_struck(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(lp1="shaped", lp2="—", lp3="—"), width=1440, height=900) as seen:
        generate(seen)
        expect(seen.page.get_by_text("Lanes side by side").first).to_be_visible(timeout=PATIENCE_MS)
        tip = lane(seen, 1).locator(".tip")
        point_at(lane(seen, 1).locator(".step.struck").first, tip, "struck here: .+ — .+")
        expect(tip.locator("code").first).to_have_text(re.compile(r"^[-,.<>\d]+"))
        point_at(lane(seen, 1).locator(".step:not(.struck)").first, tip, "^((?!struck here).)*$")
        expect_harmless(seen)


def test_stored_lanes_are_level_and_on_a_phone_each_is_swiped_to_with_its_view(
    browser: Browser, server: Server
) -> None:
    with visit(browser, server, "/live", width=1440, height=900) as seen:
        columns = seen.page.locator(".st-key-lanes [data-testid=stColumn]")
        expect(columns.locator("iframe")).to_have_count(3)
        for part in ("iframe", ".text"):
            tops = [columns.nth(place).locator(part).bounding_box() for place in range(3)]
            assert len({round(box["y"]) for box in tops if box}) == 1, "at one height"
        expect(seen.page.get_by_text("faster than lane 1").last).to_be_in_viewport()
        expect(seen.page.get_by_role("button", name="Generate")).to_be_in_viewport(ratio=0.9)
        seen.page.set_viewport_size({"width": 400, "height": 800})
        row = seen.page.locator(".st-key-lanes [data-testid=stHorizontalBlock]").first
        row.scroll_into_view_if_needed()
        third = columns.nth(2)
        expect(third.locator("iframe")).not_to_be_in_viewport()
        row.evaluate("row => row.scrollBy({ left: 2 * row.clientWidth - 150, behavior: 'instant' })")
        expect(third.get_by_text("faster than lane 1")).to_be_in_viewport(ratio=0.9)
        expect(third.locator("iframe")).to_be_in_viewport(ratio=0.9)  # its verdict with its view
        expect(columns.first.locator("iframe")).not_to_be_in_viewport()
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
        expect_harmless(seen)


def test_from_a_click_to_a_kept_run_and_back(browser: Browser, server: Server, folder: Path) -> None:
    with visit(browser, server, path(), width=1440, height=900) as seen:
        generate(seen)
        expect(seen.page.get_by_text("Lanes side by side").first).to_be_visible(timeout=PATIENCE_MS)
        token = lane(seen, 3).locator(".row[data-atom='0'] .step").first
        expect(shape(seen)).to_be_in_viewport(ratio=0.9)  # without scrolling
        point_at(token, seen.page.locator(".molecule .name"), r"^atom 0, \[C\]")
        expect(shape_words(seen)).to_have_text(re.compile(r"^atom 0, \[C\]"))
        expect(seen.page.locator(".atom-selector[aria-selected=true]")).to_have_count(0)
        point_at(seen.page.locator(".atom-selector").nth(1), shape_words(seen), r"^atom 1, \[C\]")
        expect(lane(seen, 3).locator(".rows .row.lit").first).to_be_attached()
        token.click()
        expect(seen.page.locator(".atom-selector[aria-selected=true]")).to_have_count(1)
        expect(shape_words(seen)).to_contain_text(re.compile(r"^atom 0, \[C\], .*selected$"))
        drawing = seen.page.locator(".molecule .drawing")
        drawing.evaluate("drawing => drawing.scrollIntoView({ block: 'start' })")
        for view in (drawing, shape(seen), token):
            expect(view).to_be_in_viewport(ratio=0.9)
        save, saved = (seen.page.get_by_role("button", name=name) for name in ("Save to store", "Saved"))
        again(save.last.click, lambda limit_ms: expect(saved).to_be_visible(timeout=limit_ms))  # the page may scroll on
        (entry,) = Store.open(folder / "store").listing().entries
        seen.page.get_by_role("button", name="Inspect").last.click()
        expect(seen.page).to_have_url(re.compile(rf"/drift\?.*run={re.escape(entry.id)}"))
        expect(seen.page.get_by_role("heading", name="Drift inspector")).to_be_visible()
        seen.page.go_back()
        expect(seen.page.get_by_label("SMILES", exact=True)).not_to_have_value("")
        expect(seen.page.get_by_role("button", name="Generate")).to_be_enabled()
        assert seen.outside == [] and seen.dialogs == []


def test_only_new_text_comes_while_a_lane_is_written_and_a_refresh_finds_it(browser: Browser, server: Server) -> None:
    query = path(lp1="group-v2.1", lp2="—", lp3="—", smiles="C" * 190, most_tokens=ENDLESS)
    with visit(browser, server, query) as seen:
        generate(seen)
        steps = lane(seen, 1).locator(".text [data-column]")
        first = lane(seen, 1).locator(".text > span").first
        expect(lane(seen, 1).locator(".text > span").nth(2)).to_be_attached(timeout=PATIENCE_MS)
        expect(lane(seen, 1).locator(".text")).to_be_in_viewport(ratio=0.98)  # without scrolling
        assert lane(seen, 1).locator(".text .forced").count() > 0
        first.evaluate("part => { part.dataset.mine = 'still here' }")
        expect(steps.nth(steps.count() + 20)).to_be_attached(timeout=PATIENCE_MS)
        assert first.get_attribute("data-mine") == "still here"
        expect(seen.page).to_have_url(re.compile("lanes="))
        seen.page.reload()
        expect(steps.first).to_be_attached(timeout=PATIENCE_MS)
        count = steps.count()
        expect(steps.nth(count + 20)).to_be_attached(timeout=PATIENCE_MS)
        seen.page.get_by_role("button", name="Stop all").click()
        expect(seen.page.get_by_text(re.compile("Stopped$")).first).to_be_visible(timeout=PATIENCE_MS)
        expect(steps.nth(count)).to_be_attached()  # what was written stays
        assert seen.outside == []


def test_a_grid_of_molecules_is_filtered_and_opens_one(browser: Browser, server: Server) -> None:
    query = path(lp1="exact", lp2="—", lp3="—", smiles="CC=O\nCCO\nCN")
    with visit(browser, server, query, width=1440, height=900) as seen:
        generate(seen)
        cells = seen.page.locator(".molecules .cell:visible")
        expect(cells).to_have_count(3, timeout=PATIENCE_MS)
        expect(seen.page.get_by_label("SMILES", exact=True)).not_to_be_visible()  # folded to one line
        expect(cells.first).to_be_in_viewport(ratio=0.9)
        expect(cells.first.locator("img")).to_have_js_property("complete", True)
        seen.page.get_by_placeholder("Type to filter").fill("text damaged")
        expect(cells).to_have_count(0)
        seen.page.get_by_placeholder("Type to filter").fill("")
        expect(cells).to_have_count(3)
        cells.filter(has_text="Molecule 3").click()
        expect(seen.page.get_by_label("Molecule (of 3)")).to_have_value("3")
        expect(seen.page.locator(".molecule svg")).to_have_attribute("aria-label", "2D drawing of CN")
        expect(seen.page.locator(".molecules .cell[aria-selected=true]")).to_contain_text("Molecule 3")
        expect(seen.page).to_have_url(re.compile("molecule=3"))
        seen.page.go_back()
        expect(seen.page.get_by_label("Molecule (of 3)")).to_have_value("1")
        expect(seen.page.locator(".molecules .cell[aria-selected=true]")).to_contain_text("Molecule 1")
        seen.page.go_forward()
        expect(seen.page.locator(".molecules .cell[aria-selected=true]")).to_contain_text("Molecule 3")
        assert seen.outside == [] and seen.dialogs == []
