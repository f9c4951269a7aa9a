"""The Profiles page's whole way in a real browser: a run captured without an LP and with one, its traces read, compared
in every section; and traces that come in as files.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, expect

from engine.store.schema import TRACE
from engine.store.store import Store
from tests.engine.profile.made_traces import write_trace
from tests.pages.browser import Browser, Server, expect_harmless, visit
from tests.support import of_soak

pytestmark = pytest.mark.browser

RUN_LIMIT_MS = 180_000
TRACES = "/profiles?view=Traces"
CAPTURE = "&manage=Record&profile_model=demo-llama%3Aearly&run_from=SMILES&run_smiles=CC%3DO%0ACCO&profile_steps=12"
HOSTILE = "<img src=x onerror=alert(1)>[a](http://b.c).json"


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


@of_soak
def test_files_come_in_and_one_goes_out_and_away(
    browser: Browser, own_server: Server, own_store: Store, tmp_path: Path
) -> None:
    write_trace(tmp_path / "gpu.json", 2_000)
    content = (tmp_path / "gpu.json").read_bytes()
    packed = gzip.compress(content)
    with visit(browser, own_server, f"{TRACES}&trace_label=a+GPU&trace_keep=true&trace_events=true") as seen:
        page = seen.page
        files: list[FilePayload] = [
            {"name": name, "mimeType": "application/json", "buffer": body}
            for name, body in (("gpu.json", content), (HOSTILE, b"{}"), ("torn.json.gz", packed[: len(packed) // 2]))
        ]
        page.locator("input[type=file]").set_input_files(files)
        seen.settle()
        expect(page.get_by_test_id("stBaseButton-primary").filter(has_text="Import")).to_be_enabled()
        seen.press("Import")
        expect(page.get_by_text(re.compile("1 trace, 2 left out in"))).to_be_visible(timeout=RUN_LIMIT_MS)
        expect(page.get_by_text(re.compile("torn.json.gz, left out: .*ends too early"))).to_be_visible()
        (entry,) = [one for one in own_store.found(TRACE).entries if one.row["label"] == "a GPU"]
        assert "trace_events" in entry.parts and entry.row["device"] == "NVIDIA H100"
        page.goto(f"{own_server.url}/profiles?view=Timeline&control={entry.id}&tl_from=1&tl_to=2")
        seen.settle()
        expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)
        page.goto(f"{own_server.url}{TRACES}&manage=One+trace&trace={entry.id}")
        seen.settle()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert json.loads(download.value.path().read_bytes())["traceName"] == "made"
        page.get_by_test_id("stForm").get_by_label("Label", exact=True).fill("named here")
        seen.press("Save label and notes")
        expect(page.get_by_text("Saved")).to_be_visible()
        seen.settle()
        assert own_store.entry(entry.id, TRACE).row["label"] == "named here"
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("button", name="Delete permanently").click()
        expect(page.get_by_text("Deleted 1 trace")).to_be_visible()
        assert entry.id not in {one.id for one in own_store.found(TRACE).entries}
        expect_harmless(seen)
