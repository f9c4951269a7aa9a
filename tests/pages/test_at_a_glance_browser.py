"""A first visit answers a view's task in the first screen, from the demo store."""

from __future__ import annotations

import re

import pytest

from tests.pages.browser import Browser, Server, expect_harmless, expect_in_first_screen, visit

pytestmark = pytest.mark.browser
MOST_WORDS = 350


@pytest.mark.parametrize("width", [1440, 1000])
def test_which_claims_fell(browser: Browser, demo_server: Server, width: int) -> None:
    """And how the first ones: their figures next to the reports'. The view is short, without what is folded."""
    with visit(browser, demo_server, "/evidence", width=width, height=700) as seen:
        expect_in_first_screen(seen, seen.page.get_by_text(re.compile("^26 of 85 claims fell")))
        texts = seen.page.locator(".st-key-card-evidence_figures .textpoint text")
        for figure in ("11.1 %", "3.80 %"):
            expect_in_first_screen(seen, texts.filter(has_text=figure).first)
        words = seen.page.get_by_test_id("stMainBlockContainer").inner_text().split()
        assert len(words) <= MOST_WORDS
        expect_harmless(seen)
