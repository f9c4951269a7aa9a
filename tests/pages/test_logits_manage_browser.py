"""Logs in a real browser: uploaded, set side by side, recorded by a model here, deleted; files with any name."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.support import of_soak

pytestmark = pytest.mark.browser

RUN_LIMIT_MS = 180_000
LOGS = "/logits?view=Logs"
RECORD = "&manage=Record&log_of=demo-llama%3Aearly&log_values=6&run_from=SMILES&run_smiles=CC%3DO"


@of_soak
def test_a_log_is_recorded_looked_at_and_deleted(browser: Browser, own_server: Server, own_store: Store) -> None:
    before = {entry.id for entry in own_store.found(LOGIT_LOG).entries}
    with visit(browser, own_server, LOGS + RECORD, width=820) as seen:
        page = seen.page
        expect(page.get_by_text("1 run of 1 molecule")).to_be_visible()
        page.get_by_test_id("stBaseButton-primary").filter(has_text="Record").click()
        expect(page.get_by_text(re.compile(r"1 log in \d+ s"))).to_be_visible(timeout=RUN_LIMIT_MS)
        (entry,) = (one for one in own_store.found(LOGIT_LOG).entries if one.id not in before)
        assert (entry.row["origin"], entry.row["flagged_values"]) == ("measured", 0)
        assert entry.row["values_logged"] == 6 * entry.row["entries"]
        expect(page.get_by_role("link", name="Open log")).to_have_attribute("href", re.compile(entry.id))
        assert page.evaluate("document.documentElement.scrollWidth") <= 820
        page.goto(f"{own_server.url}{LOGS}&manage=One+log&one={entry.id}")
        seen.settle()
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete permanently").click()
        expect(page.get_by_text("Deleted 1 log")).to_be_visible()
        assert {one.id for one in own_store.found(LOGIT_LOG).entries} == before
        expect_harmless(seen)
