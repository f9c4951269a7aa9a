"""Several runs ticked, tagged, deleted and put back in a real browser, until the page is left."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.store.store import Store
from engine.store.trash import in_trash
from tests.engine.store.stored_runs import ids, written
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.pages.canvas_clicks import click_row

pytestmark = pytest.mark.browser


def test_ticked_runs_are_deleted_and_can_be_put_back_until_the_page_is_left(
    browser: Browser, own_server: Server, own_store: Store
) -> None:
    for run_id in ("a", "b", "c"):
        written(own_store.home, run_id)
    with visit(browser, own_server, "/compare?view=Manage&manage=Several+runs", width=1000) as seen:
        page = seen.page
        undo, deleted = page.get_by_role("button", name="Undo"), page.get_by_text("Deleted 2 runs with 8 samples.")
        for is_last in (False, True):
            click_row(seen, 0, 0)
            click_row(seen, 0, 2)
            page.get_by_role("button", name="Delete 2 runs").click()
            expect(page.get_by_text("This deletes 2 runs with 8 samples")).to_be_visible()
            page.get_by_role("button", name="Delete", exact=True).click()
            expect(deleted).to_be_visible()
            expect(page).not_to_have_url(re.compile("tick=."))
            assert ids(own_store) == ["b"]
            if not is_last:
                undo.click()
                expect(undo).to_have_count(0)
                assert ids(own_store) == ["a", "b", "c"]
        seen.press("Side by side")
        seen.press("Manage")
        expect(undo).to_be_visible()
        page.get_by_role("link", name="Evidence").click()
        expect(page.get_by_role("heading", name="Evidence").first).to_be_visible()
        seen.settle()
        page.get_by_role("link", name="Compare runs").click()
        expect(page.get_by_role("tab", name="Manage")).to_be_visible()
        seen.press("Manage")
        expect(undo).to_have_count(0)
        assert ids(own_store) == ["b"] and in_trash(own_store.home) == []
        expect_harmless(seen)
