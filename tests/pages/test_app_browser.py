"""The whole app in a real browser: its navigation, links to a page, untrusted text, and nothing asked of others."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from pages._shared.listing import page_files
from tests.pages.browser import ROOT, Browser, Visit, expect_harmless, serve, serve_quietly, visit
from tests.pages.error_demo import TEXTS

pytestmark = pytest.mark.browser

TITLES = [page.title for page in page_files()]


def links(seen: Visit) -> list[str]:
    expect(seen.page.get_by_test_id("stSidebarNavLink")).to_have_count(len(TITLES))
    return [link.inner_text().split("\n")[-1] for link in seen.page.get_by_test_id("stSidebarNavLink").all()]


def test_a_link_works_for_the_servers_first_visitor_and_every_page_opens(browser: Browser) -> None:
    """Streamlit would show its own navigation, with the entry `app`, as the folder is called `pages`."""
    last = page_files()[-1]
    with (
        serve_quietly(ROOT / "app.py", fresh=True) as server,
        visit(browser, server, f"/{last.path.stem}?chosen=1") as seen,
    ):
        expect(seen.page).to_have_title(f"{last.title} · Driftscope")
        assert links(seen) == TITLES and "chosen=1" in seen.page.url
        for title in TITLES:
            seen.page.get_by_test_id("stSidebarNavLink").filter(has_text=title).click()
            expect(seen.page).to_have_title(f"{title} · Driftscope")
            seen.settle()
            assert seen.page.get_by_test_id("stException").count() == 0
        expect_harmless(seen)


def test_untrusted_text_is_shown_as_it_was_written(browser: Browser) -> None:
    with serve(ROOT / "tests/pages/error_demo.py") as server, visit(browser, server) as seen:
        for number, text in enumerate(TEXTS):
            message = seen.page.locator(f".st-key-text-{number} [data-testid=stMarkdownContainer]")
            shown = message.inner_text().replace("\u2060", "").replace("\u00a0", " ")
            # Streamlit strips a message, no-break spaces too, before Markdown sees it.
            assert [line.rstrip() for line in shown.split("\n")] == [line.rstrip() for line in text.strip().split("\n")]
            assert message.locator("a, img, code, b, strong, em, del, li, h1, table, .katex, span[style]").count() == 0
        icon = seen.page.locator("link[rel='shortcut icon']").get_attribute("href")
        assert icon is not None and icon.startswith("data:image/svg+xml")
        expect_harmless(seen)
