"""The Logit health page in a real browser: logs are ticked, the oldest tick makes room, Back, and a file leaves."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.pages.browser import ROOT, Browser, Server, expect_harmless, legend, serve_quietly, visit
from tests.pages.canvas_clicks import click_row, open_picker
from tests.pages.logit_logs import add_all, store_at

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("logits")
    add_all(store_at(folder), folder)
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(folder / "store")}) as started:
        yield started


def test_logs_are_ticked_and_compared(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/logits?view=Parity&log=again") as seen:
        expect(legend(seen)).to_have_text([re.compile(".*control"), re.compile("No test yet")])
        open_picker(seen)
        click_row(seen, 0, 0)  # newest first
        expect(legend(seen).last).to_have_text("driftscope (demo, float32)")
        click_row(seen, 0, 1)
        expect(legend(seen)).to_have_text([re.compile("^driftscope"), "llama.cpp (demo, float32)"])
        expect(seen.page).to_have_url(re.compile("log=driftscope-demo.*beside=llama.cpp-demo"))
        seen.press("1 − cosine")
        expect(seen.page).to_have_url(re.compile("parity_by=apart"))
        seen.press("Data")
        with seen.page.expect_download() as download:
            seen.page.get_by_role("button", name="CSV", exact=True).first.click()
        rows = csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines())
        assert len([row for row in rows if row["supported"]]) == 1
        seen.page.go_back()
        seen.page.go_back()
        expect(legend(seen).first).to_have_text(re.compile("again"))
        expect_harmless(seen)
