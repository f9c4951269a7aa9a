"""Work on the store in a real browser: runs started, watched, compared, renamed, deleted; uploads with any name."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import FilePayload, expect

from engine.store.store import Store
from tests.engine.store.reports.documents import document
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.pages.canvas_clicks import click_row
from tests.support import of_soak

pytestmark = pytest.mark.browser

RUN_LIMIT_MS = 180_000
MANAGE = "/compare?view=Manage"
TWO_BY_TWO = "&run_model=demo-llama%3Aearly&run_lp=none&run_lp=exact&run_from=SMILES&run_smiles=CC%3DO%0ACCO"
HOSTILE = "<img src=x onerror=alert(1)>[a](http://b.c).json"


@of_soak
def test_two_molecules_under_two_lps_from_start_to_end(browser: Browser, own_server: Server, own_store: Store) -> None:
    with visit(browser, own_server, MANAGE + TWO_BY_TWO) as seen:
        page = seen.page
        expect(page.get_by_text("2 runs of 2 molecules: 4 samples in all")).to_be_visible()
        seen.press("Start")
        expect(page.get_by_text(re.compile("running for"))).to_be_visible()
        expect(page.get_by_role("progressbar").first).to_be_visible()
        expect(page.get_by_text(re.compile(r"2 runs in \d+ s"))).to_be_visible(timeout=RUN_LIMIT_MS)
        none, exact = [entry.id for entry in own_store.found().entries]
        compare = page.get_by_test_id("stMain").get_by_role("link", name="Compare runs")
        expect(compare).to_have_attribute("href", f"compare?control={none}&test={exact}")
        page.goto(f"{own_server.url}/{compare.get_attribute('href')}")
        seen.settle()
        expect(page.get_by_role("tab", name="Side by side")).to_have_attribute("aria-selected", "true")
        seen.press("Manage")
        seen.press("Runs")
        form = page.get_by_test_id("stForm")  # the view before has a label, too
        form.get_by_label("Label", exact=True).fill("named here")
        seen.press("Save label and notes")
        expect(page.get_by_test_id("stToast").get_by_text("Saved", exact=True)).to_be_visible()
        seen.settle()
        labels = {entry.id: entry.row.get("label") for entry in own_store.found().entries}
        assert labels == {none: "named here", exact: None}
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename == f"{none}.json.gz"
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete permanently").click()
        expect(page).to_have_url(re.compile(f"test={exact}"))
        expect(page).not_to_have_url(re.compile(none))
        assert [entry.id for entry in own_store.found().entries] == [exact]
        expect_harmless(seen)


@of_soak
def test_a_job_of_two_runs_is_stopped_and_its_begun_run_resumed(
    browser: Browser, own_server: Server, own_store: Store
) -> None:
    before = [entry.id for entry in own_store.found().entries]
    job = f"{MANAGE}&run_model=demo-llama%3Aearly&run_lp=exact&run_lp=guarded&run_first=2000"
    with visit(browser, own_server, job) as seen:
        page = seen.page
        resume, stop = (page.get_by_role("button", name=name) for name in ("Resume", "Stop"))
        seen.press("Start")
        expect(page.get_by_text(re.compile(r"\d+ of 2,000 samples"))).to_be_visible(timeout=RUN_LIMIT_MS)
        seen.press("Runs")
        click_row(seen, 0, 0)
        expect(resume).to_be_disabled()
        stop.click()
        expect(page.get_by_text("0 of 2 done, 1 begun, 1 not begun")).to_be_visible(timeout=RUN_LIMIT_MS)
        expect(resume).to_be_enabled()
        resume.click()
        expect(page.get_by_text(re.compile("Resume .*demo-llama-early-exact")).first).to_be_visible()
        stop.click()
        expect(stop).to_have_count(0, timeout=RUN_LIMIT_MS)
        page.get_by_role("button", name="Delete").click()
        expect(page.get_by_text("This deletes 1 run permanently")).to_be_visible()  # the begun one, not the control
        page.get_by_role("button", name="Delete permanently").click()
        expect(page.get_by_text("Deleted 1 run", exact=True)).to_be_visible()
        assert [entry.id for entry in own_store.found().entries] == before
        expect_harmless(seen)


def test_uploads_come_in_once(browser: Browser, own_server: Server, own_store: Store) -> None:
    content = json.dumps(document()).encode()
    with visit(browser, own_server, f"{MANAGE}&manage=Import") as seen:
        page = seen.page
        files: list[FilePayload] = [
            {"name": name, "mimeType": "application/json", "buffer": body}
            for name, body in (("one.json", content), (HOSTILE, content), ("torn.json", b"{"))
        ]
        page.locator("input[type=file]").set_input_files(files)
        seen.settle()
        expect(page.get_by_test_id("stBaseButton-primary").filter(has_text="Import")).to_be_enabled()
        seen.press("Import")
        expect(page.get_by_text(re.compile("1 run, 1 already in the store, 1 left out in"))).to_be_visible()
        expect(page.get_by_text(re.compile(r"torn\.json, left out"))).to_be_visible()
        assert sum(entry.row["origin"] == "imported" for entry in own_store.found().entries) == 1
        expect_harmless(seen)
