"""The live page in a real browser: from a click to a kept run, one lane stopped, two readers in turns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, expect

from engine.store.store import Store
from tests.pages.browser import ROOT, Browser, Server, Visit, serve_quietly, visit
from tests.pages.live_pages import MODEL, small_registry
from tests.support import of_soak

pytestmark = pytest.mark.browser
PATIENCE_MS = 90_000  # for what a model has to write first
ENDLESS = "20000"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    env = {"DRIFTSCOPE_MODELS": str(small_registry(place)), "DRIFTSCOPE_STORE": str(place / "store")}
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


def results(seen: Visit) -> Locator:
    return seen.page.get_by_text("Lanes side by side").first


def point_at(spot: Locator, told: Locator, words: str) -> None:
    """Again where the page moved it from under the pointer: on a busy machine tables come later than the lanes."""
    expected = expect(told)
    for patience_ms in (1_000, 2_000, 4_000, 8_000):
        spot.page.mouse.move(0, 0)
        spot.hover()
        with suppress(AssertionError):
            expected.to_have_text(re.compile(words), timeout=patience_ms)
            break
    expected.to_have_text(re.compile(words))


def test_from_a_click_to_a_kept_run_that_a_link_finds(browser: Browser, server: Server, place: Path) -> None:
    with visit(browser, server, path(), width=1440, height=900) as seen:
        generate(seen)
        expect(results(seen)).to_be_visible(timeout=PATIENCE_MS)
        token, shape = (
            lane(seen, 3).locator(".row[data-atom='0'] .step").first,
            seen.page.frame_locator("iframe >> nth=-1"),
        )
        expect(shape.get_by_role("application")).to_be_in_viewport(ratio=0.9)  # it came into view by itself
        point_at(token, seen.page.locator(".molecule .name"), r"^atom 0, \[C\]")
        expect(shape.get_by_role("status")).to_have_text(re.compile(r"^atom 0, \[C\]"))
        expect(seen.page.locator(".atom-selector[aria-selected=true]")).to_have_count(0)
        point_at(seen.page.locator(".atom-selector").nth(1), shape.get_by_role("status"), r"^atom 1, \[C\]")
        expect(lane(seen, 3).locator(".rows .row.lit").first).to_be_attached()
        token.click()
        expect(seen.page.locator(".atom-selector[aria-selected=true]")).to_have_count(1)
        expect(shape.get_by_role("status")).to_contain_text(re.compile(r"^atom 0, \[C\], .*selected$"))
        for view in (seen.page.locator(".molecule .drawing"), shape.get_by_role("application"), token):
            expect(view).to_be_in_viewport(ratio=0.9)
        seen.page.get_by_role("button", name="Save to store").last.click()
        expect(seen.page.get_by_role("button", name="Saved")).to_be_visible()
        (entry,) = Store.open(place / "store").found().entries
        seen.page.get_by_role("button", name="Inspect").last.click()
        expect(seen.page).to_have_url(re.compile(rf"/drift\?.*run={re.escape(entry.id)}"))
        expect(seen.page.get_by_role("heading", name="Drift inspector")).to_be_visible()
        assert seen.outside == [] and seen.dialogs == []
    with visit(browser, server, f"/drift?run={entry.id}&sample=0") as again:
        expect(again.page.get_by_text("CC=O").first).to_be_visible()
        assert again.outside == []


def test_the_browsers_back_button_leads_to_a_page_that_can_generate(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/") as seen:
        field = seen.page.get_by_label("SMILES", exact=True)
        expect(field).not_to_have_value("")
        first = field.input_value()
        seen.press("Drift inspector")
        expect(seen.page.get_by_role("heading", name="Drift inspector")).to_be_visible()
        seen.page.go_back()
        expect(field).to_have_value(first)
        expect(seen.page.get_by_role("button", name="Generate")).to_be_enabled()
        seen.press("Sampling, length, device")
        expect(seen.page.get_by_label("Temperature", exact=True)).to_have_value("0.70")
        assert seen.outside == []


@of_soak
def test_what_was_chosen_in_a_closed_menu_warns_nobody(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(backend2="hf", sampling="greedy", lp3="—", smiles="C")) as seen:
        generate(seen)
        expect(results(seen)).to_be_visible(timeout=PATIENCE_MS)
        expect(seen.page.get_by_text("2 · group-v2.1 · hf").first).to_be_visible()
    assert "Session State API" not in server.log()


@of_soak
def test_lanes_without_room_stand_in_two_rows(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(lp4="truncating", smiles="C"), width=820) as seen:
        generate(seen)
        expect(results(seen)).to_be_visible(timeout=PATIENCE_MS)
        cards = seen.page.locator(".st-key-lanes-0 [data-testid=stColumn]")
        boxes = [card.bounding_box() for card in cards.all()]
        assert len(boxes) == 4 and all(box is not None and box["width"] >= 190 for box in boxes)


@of_soak
def test_one_lane_of_four_is_stopped_and_the_others_are_written(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(lp4="truncating", most_tokens=ENDLESS, smiles="CCO")) as seen:
        generate(seen)
        expect(lane(seen, 1).locator(".rows .step").nth(20)).to_be_attached(timeout=PATIENCE_MS)
        stop = seen.page.get_by_role("button", name="Stop", exact=True)
        cut_off = "node => [...node.querySelectorAll('*')].some(inner => inner.scrollWidth > inner.clientWidth + 1)"
        assert not stop.last.evaluate(cut_off)  # narrow as it is
        stop.first.click()
        expect(seen.page.get_by_text("Stopped", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
        expect(results(seen)).to_be_visible(timeout=PATIENCE_MS)
        expect(lane(seen, 1).locator(".rows .step").nth(20)).to_be_attached()  # what was written stays
        assert seen.outside == []


def test_rows_come_while_a_lane_is_written_and_only_new_ones(browser: Browser, server: Server) -> None:
    with visit(
        browser, server, path(lp1="group-v2.1", lp2="—", lp3="—", smiles="C" * 190, most_tokens=ENDLESS)
    ) as seen:
        generate(seen)
        text = lane(seen, 1)
        expect(text.locator(".rows .row").nth(2)).to_be_attached(timeout=PATIENCE_MS)
        expect(text.locator(".rows")).to_be_in_viewport(ratio=0.98)  # without scrolling
        text.locator(".rows .row").first.evaluate("row => { row.dataset.mine = 'still here' }")
        count = text.locator(".rows .step").count()
        expect(text.locator(".rows .step").nth(count + 20)).to_be_attached(timeout=PATIENCE_MS)
        assert text.locator(".rows .row").first.get_attribute("data-mine") == "still here"
        seen.page.get_by_role("button", name="Stop all").click()
        expect(seen.page.get_by_text("Stopped", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
        expect(text.locator(".rows .step").nth(count)).to_be_attached()  # what was written stays
        assert seen.outside == []


def test_a_grid_of_molecules_is_filtered_and_opens_one(browser: Browser, server: Server) -> None:
    query = path(lp1="exact", lp2="—", lp3="—", smiles="CC=O\nCCO\nCN")
    with visit(browser, server, query, width=1440, height=900) as seen:
        generate(seen)
        cells = seen.page.locator(".grid .cell:visible")
        expect(cells).to_have_count(3, timeout=PATIENCE_MS)
        expect(seen.page.get_by_label("SMILES", exact=True)).not_to_be_visible()  # folded to one line
        expect(cells.first).to_be_in_viewport(ratio=0.9)
        expect(cells.first.locator("img")).to_have_js_property("complete", True)
        seen.page.get_by_role("button", name="Damaged text").click()
        expect(seen.page.get_by_text("No molecule matches.")).to_be_visible()
        seen.page.get_by_role("button", name="All", exact=True).click()
        expect(cells).to_have_count(3)
        cells.filter(has_text="Molecule 3").click()
        expect(seen.page.get_by_label("Molecule (of 3)")).to_have_value("3")
        expect(seen.page.locator(".molecule svg")).to_have_attribute("aria-label", "2D drawing of CN")
        expect(seen.page.locator(".grid .cell[aria-selected=true]")).to_contain_text("Molecule 3")
        expect(seen.page).to_have_url(re.compile("molecule=3"))
        assert seen.outside == [] and seen.dialogs == []


def test_a_refresh_finds_the_lanes_again_and_they_go_on(browser: Browser, server: Server) -> None:
    query = path(lp1="group-v2.1", lp2="—", lp3="—", smiles="C" * 150, most_tokens=ENDLESS)
    with visit(browser, server, query) as seen:
        generate(seen)
        expect(lane(seen, 1).locator(".rows .step").nth(20)).to_be_attached(timeout=PATIENCE_MS)
        expect(seen.page).to_have_url(re.compile("lanes="))
        seen.page.reload()
        expect(lane(seen, 1).locator(".rows .step").nth(21)).to_be_attached(timeout=PATIENCE_MS)
        count = lane(seen, 1).locator(".rows .step").count()
        expect(lane(seen, 1).locator(".rows .step").nth(count + 20)).to_be_attached(timeout=PATIENCE_MS)
        seen.page.get_by_role("button", name="Stop all").click()
        expect(seen.page.get_by_text("Stopped", exact=True).first).to_be_visible(timeout=PATIENCE_MS)
        assert seen.outside == []


@of_soak
def test_a_guarded_lane_is_watched_while_it_draws_blocks_anew(browser: Browser, server: Server) -> None:
    query = path(lp1="guarded", lp2="—", lp3="—", smiles="C[C@H](N)C(=O)O" + "C" * 40, most_tokens=ENDLESS)
    with visit(browser, server, query) as seen:
        generate(seen)
        expect(lane(seen, 1).locator(".rows .row.redrawn").first).to_be_attached(timeout=PATIENCE_MS)
        counted = re.compile(r"^blocks drawn anew [1-9][\d,]* times \(.* tokens thrown away")
        expect(seen.page.get_by_text(counted)).to_be_visible()
        seen.page.get_by_role("button", name="Stop all").click()
        tries = seen.page.get_by_text(re.compile(r"^Tries thrown away \([1-9]"))
        expect(tries).to_be_visible(timeout=PATIENCE_MS)
        expect(seen.page.locator("li s").first).not_to_be_visible()
        tries.click()
        expect(seen.page.locator("li s").first).to_be_visible()
        assert seen.outside == [] and seen.dialogs == []


@of_soak
def test_a_second_reader_waits_for_the_lane_that_is_written(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(lp2="—", lp3="—", smiles="CCN")) as second:
        with visit(browser, server, path(most_tokens=ENDLESS)) as first:
            generate(first)
            expect(lane(first, 1).locator(".rows .step").nth(5)).to_be_attached(timeout=PATIENCE_MS)
            generate(second)
            expect(second.page.get_by_text(re.compile("^Waiting"))).to_be_visible(timeout=PATIENCE_MS)
            first.page.get_by_role("button", name="Stop", exact=True).first.click()
            expect(results(second)).to_be_visible(timeout=PATIENCE_MS)
            assert not results(first).is_visible()  # its next lane comes behind the other reader's
        assert second.outside == []


def test_a_bad_smiles_is_pointed_at_and_nothing_starts(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(smiles="CC(=O<script>alert(1)</script>")) as seen:
        expect(seen.page.get_by_role("alert")).to_have_count(1)
        expect(seen.page.get_by_role("button", name="Generate")).to_be_disabled()
        assert seen.dialogs == [] and seen.outside == []
