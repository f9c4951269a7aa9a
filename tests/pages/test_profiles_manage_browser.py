"""The Profiles page's whole way in a real browser: a run captured without an LP and with one, its traces read, compared
in every section; and traces that come in as files.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from engine.store.schema import TRACE
from engine.store.store import Store
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.support import of_soak

pytestmark = pytest.mark.browser

RUN_LIMIT_MS = 180_000
TRACES = "/profiles?view=Traces"
CAPTURE = "&manage=Record&profile_model=demo-llama%3Aearly&run_from=SMILES&run_smiles=CC%3DO%0ACCO&profile_steps=12"


@of_soak
def test_a_run_is_captured_without_and_with_an_lp_and_compared(
    browser: Browser, own_server: Server, own_store: Store
) -> None:
    with visit(browser, own_server, TRACES + CAPTURE) as seen:
        page = seen.page
        expect(page.get_by_text("2 runs of 2 molecules")).to_be_visible()
        page.get_by_test_id("stBaseButton-primary").filter(has_text="Record").click()
        expect(page.get_by_text(re.compile("running for"))).to_be_visible()
        expect(page.get_by_text(re.compile(r"2 traces in \d+ s"))).to_be_visible(timeout=RUN_LIMIT_MS)
        traces = {str(entry.row["label"]): entry for entry in own_store.found(TRACE).entries}
        assert list(traces) == ["demo-llama:early, none", "demo-llama:early, exact"]
        none, exact = traces.values()
        assert all(one.row["origin"] == "measured" and one.row["forward_passes"] <= 12 for one in (none, exact))
        compare = page.get_by_role("link", name="Compare traces")
        expect(compare).to_have_attribute("href", f"profiles?control={none.id}&test={exact.id}")
        page.goto(f"{own_server.url}/{compare.get_attribute('href')}")
        seen.settle()
        expect(page.get_by_role("tab", name="Families")).to_have_attribute("aria-selected", "true")
        for name in ("Launches", "Kernels", "Timeline"):
            seen.press(name)
            expect(page.get_by_role("tab", name=name)).to_have_attribute("aria-selected", "true")
            expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)
        expect_harmless(seen)
