"""A first visit answers a view's task in the first screen, from the demo store."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.pages.browser import Browser, Server, expect_harmless, expect_in_first_screen, visit

pytestmark = pytest.mark.browser
MOST_WORDS = 350


@pytest.mark.parametrize("width", [1440, 1000])
def test_which_claims_fell(browser: Browser, demo_server: Server, width: int) -> None:
    """And by how much: figures next to the reports'. The view is short, apart from folds; a mark opens its claim."""
    with visit(browser, demo_server, "/evidence", width=width, height=700) as seen:
        expect_in_first_screen(seen, seen.page.get_by_text(re.compile("^26 of 85 claims fell")))
        texts = seen.page.locator(".st-key-card-evidence_figures .textpoint text")
        for figure in ("11.1 %", "3.80 %"):
            expect_in_first_screen(seen, texts.filter(has_text=figure).first)
        words = seen.page.get_by_test_id("stMainBlockContainer").inner_text().split()
        assert len(words) <= MOST_WORDS
        chart = seen.page.locator(".st-key-card-evidence_figures .js-plotly-plot")
        box = chart.locator(".point").nth(1).bounding_box()
        assert box is not None
        spot = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        seen.page.mouse.move(spot[0] - 3, spot[1])
        seen.page.mouse.move(*spot)
        expect(chart.locator(".hoverlayer .hovertext")).to_be_visible()
        seen.page.mouse.down()
        seen.page.mouse.up()
        expect(seen.page).to_have_url(re.compile("view=All[+]claims&claim=003-calls-by-tokens"))
        expect_harmless(seen)


@pytest.mark.parametrize("width", [1440, 1000])
def test_where_does_the_time_go(browser: Browser, demo_server: Server, width: int) -> None:
    with visit(browser, demo_server, "/profiles", width=width, height=700) as seen:
        answer = seen.page.locator(".st-key-answer-profiles_families")
        for part in ("faster by the clock", "most by matrix products"):
            expect_in_first_screen(seen, answer.get_by_text(part))
        expect_harmless(seen)


@pytest.mark.parametrize("width", [1440, 1000])
def test_is_this_log_healthy(browser: Browser, demo_server: Server, width: int) -> None:
    """Each chosen one; and of the store, how many are not."""
    with visit(browser, demo_server, "/logits", width=width, height=700) as seen:
        for engine in ("driftscope", "llama.cpp"):
            words = re.compile(f"^{engine}.*: no sign of damage in")
            verdict = seen.page.get_by_role("listitem").filter(has_text=words)
            expect_in_first_screen(seen, verdict)
        expect_in_first_screen(seen, seen.page.locator(".st-key-answer-logits_models").get_by_text("3 with garbage"))
        expect_harmless(seen)


@pytest.mark.parametrize("width", [1440, 1000])
def test_why_is_the_worst_molecule_of_a_run_wrong(browser: Browser, demo_server: Server, width: int) -> None:
    """By its sentence, and in the list, which says how far it is off and with how much junk."""
    with visit(browser, demo_server, "/drift", width=width, height=700) as seen:
        words = re.compile(r"Worst of 64: atoms off by ≈ \d+\.\d\d Å in all, \d+ of \d+ blocks damaged")
        expect_in_first_screen(seen, seen.page.get_by_text(words))
        chosen = seen.page.locator(".molecules .cell[aria-selected=true]")
        expect_in_first_screen(seen, chosen.filter(has_text=re.compile(r"\d+\.\d\d Å\s*\d+ junk")))
        expect_harmless(seen)


@pytest.mark.parametrize("width", [1440, 1000])
def test_what_does_the_lp_cost(browser: Browser, demo_server: Server, width: int) -> None:
    with visit(browser, demo_server, "/drift?view=What+the+LP+did", width=width, height=700) as seen:
        answer = seen.page.locator(".st-key-answer-drift_lp_cost")
        expect_in_first_screen(seen, answer.get_by_text(re.compile(r"log w (is )?−\d+")).first)
        expect_harmless(seen)
