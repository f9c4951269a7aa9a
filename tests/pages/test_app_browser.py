"""The whole app in a real browser: its navigation, links to a page, and that it asks for nothing outside."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from pages._shared.listing import page_files
from tests.pages.browser import ROOT, Browser, Server, Visit, serve_quietly, visit

pytestmark = pytest.mark.browser


@pytest.fixture
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", fresh=True) as started:
        yield started


TITLES = [page.title for page in page_files()]
SHOWN = TITLES if len(TITLES) > 1 else []  # Streamlit shows no navigation for a single page


def links(seen: Visit) -> list[str]:
    expect(seen.page.get_by_test_id("stSidebarNavLink")).to_have_count(len(SHOWN))
    return [link.inner_text().split("\n")[-1] for link in seen.page.get_by_test_id("stSidebarNavLink").all()]


def test_a_link_to_a_page_works_for_the_servers_first_visitor(browser: Browser, server: Server) -> None:
    """Streamlit would show its own navigation, with the entry `app`, as the folder is called `pages`."""
    last = page_files()[-1]
    with visit(browser, server, f"/{last.path.stem}?chosen=1") as seen:
        expect(seen.page).to_have_title(f"{last.title} · Driftscope")
        assert links(seen) == SHOWN
        assert "chosen=1" in seen.page.url
        assert seen.outside == []
        assert seen.console == []


def test_every_page_opens_from_the_navigation(browser: Browser, server: Server) -> None:
    with visit(browser, server) as seen:
        assert links(seen) == SHOWN
        for title in [*SHOWN[1:], *SHOWN[:1]]:  # a click on the page that is open shows nothing
            seen.page.get_by_test_id("stSidebarNavLink").filter(has_text=title).click()
            expect(seen.page).to_have_title(f"{title} · Driftscope")
            seen.settle()
            assert seen.page.get_by_test_id("stException").count() == 0
        assert seen.outside == []
        assert seen.console == []
