"""The Tokenizer lab in a real browser: its story from a first visit on, links, hostile input, nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.browser import ROOT, Browser, Server, Visit, serve_quietly, visit
from tests.pages.canvas_clicks import again

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py") as started:
        yield started


def token_rows(seen: Visit) -> Locator:
    return seen.page.locator(".atoms")


def test_an_example_a_placeholder_and_a_token_by_keyboard(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/tokenizer_lab") as seen:
        expect(token_rows(seen)).to_have_count(2)
        expect(token_rows(seen).first.get_by_text("41 FREE with junk in 2 blocks")).to_be_visible()
        seen.press("Junk of a report")
        expect(token_rows(seen).first.locator(".step.junk", has_text="amen")).to_be_visible()
        first = token_rows(seen).first.locator(".row").first
        detail = token_rows(seen).first.locator(".tip")

        def step() -> None:
            first.focus()
            seen.page.keyboard.press("ArrowRight")

        again(step, lambda limit_ms: expect(detail).to_contain_text("id ", timeout=limit_ms))
        assert seen.outside == [] and seen.console == []


def test_a_link_holds_every_choice(browser: Browser, server: Server) -> None:
    text = quote("[C]<-1.2034,-0.5100,0.0000>")
    with visit(browser, server, f"/tokenizer_lab?text={text}&placeholder=-0.0000,0.0000,0.0000") as seen:
        expect(seen.page.get_by_label("Coordinate, enriched text or SMILES", exact=True)).to_have_value(
            "[C]<-1.2034,-0.5100,0.0000>"
        )
        expect(token_rows(seen).first.get_by_text("drift exact")).to_be_visible()
        assert "not seem to exist" not in seen.page.content()
        assert seen.outside == [] and seen.console == []


def test_hostile_text_is_text(browser: Browser, server: Server) -> None:
    hostile = (
        "[C]<1.0,2.0,3.0<img src=x onerror=alert(1)>>[C]<1.0,</script><script>alert(2)</script>\u202e[x](http://a.b)"
    )
    with visit(browser, server, "/tokenizer_lab") as seen:
        seen.fill("Coordinate, enriched text or SMILES", hostile)
        expect(token_rows(seen).first.locator(".step", has_text="alert").first).to_be_visible()
        assert seen.page.locator("img[src=x]").count() == 0
        assert seen.dialogs == []
        assert seen.outside == [] and seen.console == []


def test_a_molecule_in_two_and_three_dimensions(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/tokenizer_lab?text=CC%3DO") as seen:
        expect(seen.page.get_by_text("A reference conformer against this template")).to_be_visible()
        frame = seen.page.frame_locator("iframe").first
        expect(frame.locator("canvas").first).to_be_visible(timeout=60_000)
        assert seen.outside == []


def test_a_molecule_set_and_the_reports_figures(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/tokenizer_lab?view=A+molecule+set&count=10", theme="dark") as seen:
        expect(seen.page.locator(".js-plotly-plot")).to_be_visible()
        chosen = seen.page.get_by_text("Four decimals", exact=True).locator("xpath=ancestor::button")
        chosen.hover()
        expect(chosen).to_have_attribute("data-hovered", "true")
        for writing in (chosen, seen.page.get_by_test_id("stSliderThumbValue").last):  # 4.5:1 on the dark ground
            expect(writing).to_have_css("color", "rgb(95, 195, 205)")
        seen.press("The reports' figures")
        expect(seen.page.get_by_text("No drift in the reports is negative")).to_be_visible()
        assert "view=The" in seen.page.url
        assert seen.outside == [] and seen.console == []


def test_a_bad_placeholder_is_one_clear_message(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/tokenizer_lab?placeholder=0%3C0") as seen:
        expect(seen.page.get_by_role("alert")).to_have_count(1)
        expect(seen.page.get_by_role("alert")).to_contain_text("placeholder")
