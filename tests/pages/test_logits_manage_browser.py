"""Logs in a real browser: uploaded, set side by side, recorded by a model here, deleted; files with any name."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import FilePayload, expect

from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from tests.engine.logits.logs import clean, objects, text
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.support import of_soak

pytestmark = pytest.mark.browser

RUN_LIMIT_MS = 180_000
LOGS = "/logits?view=Logs"
RECORD = "&manage=Record&log_of=demo-llama%3Aearly&log_values=6&run_from=SMILES&run_smiles=CC%3DO"
HOSTILE = "<img src=x onerror=alert(1)>[a](http://b.c)"


def two_logs() -> list[FilePayload]:
    """Of one model by two engines, the second with garbage at position 0 and a line that is none."""
    rows = clean(60, 12)
    broken = rows + 1e-5
    broken[::5, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 12)
    said = {"model": HOSTILE, "precision": "f32", "checkpoint": f"logits {HOSTILE}"}
    one = text(objects(rows, team="ours", **said))
    two = text(objects(broken, team="theirs", **said)) + b"nonsense\n"
    return [
        {"name": "one.jsonl", "mimeType": "application/json", "buffer": one},
        {"name": f"{HOSTILE}.jsonl.gz", "mimeType": "application/gzip", "buffer": gzip.compress(two)},
        {"name": "none.jsonl", "mimeType": "application/json", "buffer": b"{}"},
    ]


@of_soak
def test_two_logs_from_upload_to_parity(browser: Browser, own_server: Server, own_store: Store) -> None:
    with visit(browser, own_server, LOGS) as seen:
        page = seen.page
        page.locator("input[type=file]").set_input_files(two_logs())
        start = page.get_by_test_id("stBaseButton-primary").filter(has_text="Import")
        expect(start).to_be_enabled()
        seen.settle()
        start.click()
        expect(page.get_by_text(re.compile("2 logs, 1 left out in"))).to_be_visible()
        expect(page.get_by_text(re.compile("1 line could not be read"))).to_be_visible()
        link = page.get_by_role("link", name="Compare logs")
        page.goto(f"{own_server.url}/{link.get_attribute('href')}")
        seen.settle()
        expect(page.get_by_role("tab", name="Parity")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".js-plotly-plot")).to_have_count(3)
        expect(page.get_by_role("radio", name=re.compile(r"^logits <img .*\[a\]"))).to_be_visible()
        seen.press("1 − cosine")
        expect(page).to_have_url(re.compile("parity_by=apart"))
        seen.press("Data")
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV", exact=True).first.click()
        rows = csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines())
        assert [row["positions"] for row in rows if row["supported"]] == ["skip 0"]
        expect_harmless(seen)


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
