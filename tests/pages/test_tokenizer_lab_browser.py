"""The Tokenizer lab in a real browser: an example, a token by keyboard, the conformer, the dark theme's colours."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.pages.canvas_clicks import again

pytestmark = pytest.mark.browser


def test_a_link_an_example_a_token_by_keyboard_and_a_conformer(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, "/tokenizer_lab?text=CC%3DO") as seen:
        expect(seen.page.frame_locator("iframe").first.locator("canvas").first).to_be_visible(timeout=60_000)
        seen.press("Junk of a report")
        tokens = seen.page.locator(".atoms")
        expect(tokens).to_have_count(2)
        expect(tokens.first.locator(".step.junk", has_text="amen")).to_be_visible()
        first = tokens.first.locator(".row").first

        def step() -> None:
            first.focus()
            seen.page.keyboard.press("ArrowRight")

        again(step, lambda limit_ms: expect(tokens.first.locator(".tip")).to_contain_text("id ", timeout=limit_ms))
        assert seen.outside == []


def test_what_is_chosen_can_be_read_in_the_dark(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, "/tokenizer_lab?view=A+molecule+set&count=10", theme="dark") as seen:
        chosen = seen.page.get_by_text("Four decimals", exact=True).locator("xpath=ancestor::button")
        chosen.hover()
        expect(chosen).to_have_attribute("data-hovered", "true")
        for writing in (chosen, seen.page.get_by_test_id("stSliderThumbValue").last):  # 4.5:1 on the dark ground
            expect(writing).to_have_css("color", "rgb(95, 195, 205)")
        expect_harmless(seen)
