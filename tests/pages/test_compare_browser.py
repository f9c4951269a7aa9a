"""The Compare page's choice of runs in a real browser: ticking rows, another control, links, and the browser's Back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import FilePayload, Locator, expect

from engine.inspection.runs import runs_with_samples
from engine.store.store import DEMO, Store
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.engine.store.reports.documents import document
from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Visit,
    expect_harmless,
    expect_well_in_both_themes,
    serve_quietly,
    visit,
)
from tests.pages.canvas_clicks import click_row, open_picker
from tests.pages.drift_stores import store_at

pytestmark = pytest.mark.browser

NONE, BLOCKLIST, ALLOWLIST, EXACT = (demo_run("llama", lp) for lp in ("none", "group-v2.1", "group-v4.3", "exact"))
QWEN = demo_run("qwen", "exact")
ROWS = [run.run_id for run in runs_with_samples(DEMO_STORE)]  # newest first


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(DEMO)}) as started:
        yield started


def with_profiled(place: Path) -> Store:
    """Two runs, and later ones of the same beside which a profiler ran."""
    store = store_at(place)
    for day, lp in enumerate(("none", "exact"), 1):
        made = f"2026-01-{day:02}T00:00:00+00:00"
        rows = [sample_row(0, decode_s=1.0, tokens=9)]
        about: dict[str, Any] = {"model_alias": "m", "lp": lp, "tokens": 9, "wall_s": 1.0}
        write_run(store, lp, rows, **about, created_at=made)
        profiled: dict[str, Any] = {
            "source": f"python -m engine run --lp {lp} --profile --n 1",
            "created_at": made.replace("01", "02", 1),
        }
        write_run(store, f"{lp}-profiled", rows, **about, **profiled)
    return store


def legend(seen: Visit) -> Locator:
    return seen.page.locator(".chosen-entries li")


def test_rows_are_ticked_and_the_link_says_which(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/compare") as seen:
        lps = ("group-v2.1", "group-v4.3", "exact", "guarded")
        expect(legend(seen)).to_have_text(["none (control)", *lps])
        open_picker(seen)
        other = next(run for run in ROWS if "demo-qwen" in run)
        click_row(seen, 0, ROWS.index(other))
        expect(seen.page).to_have_url(re.compile(f"test={other}"))
        expect(legend(seen).nth(5)).to_have_text(re.compile("demo-qwen:final"))
        click_row(seen, 0, ROWS.index(BLOCKLIST))  # the table stays open
        expect(legend(seen)).to_have_count(5)
        expect(seen.page).not_to_have_url(re.compile(BLOCKLIST))
        expect_harmless(seen)
        link = seen.page.url.removeprefix(server.url)
    with visit(browser, server, link) as seen:
        names = ("none", "group-v4.3", "exact", "guarded", "qwen")
        expect(legend(seen)).to_have_text([re.compile(part) for part in names])


def test_back_undoes_one_choice_at_a_time(browser: Browser, server: Server) -> None:
    """Control and tests are one change of the address: between them, another run would be the control."""
    with visit(browser, server, f"/compare?control={NONE}&test={BLOCKLIST}&test={EXACT}") as seen:
        expect(legend(seen)).to_have_count(3)
        open_picker(seen)
        seen.press("Clear selection")
        expect(seen.page.get_by_text("Tick runs in the table.")).to_be_visible()
        seen.page.go_back()
        expect(seen.page).to_have_url(re.compile(rf"control={NONE}&test={BLOCKLIST}&test={EXACT}"))
        expect(legend(seen)).to_have_text([re.compile(lp) for lp in ("none", "group-v2.1", "exact")])
        expect_harmless(seen)


def test_every_section_opens_by_its_link(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/compare") as seen:
        names = [tab.inner_text() for tab in seen.page.get_by_role("tab").all()]
        assert names == ["Side by side", "Charts", "Coverage", "Advice", "SQL", "Manage"]
    for name in names:
        query = f"?view={name.replace(' ', '+')}&control={NONE}&test={BLOCKLIST}&test={EXACT}"
        with visit(browser, server, f"/compare{query}", width=820) as seen:
            expect(seen.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")
            expect_well_in_both_themes(seen)


def test_a_profiled_run_is_left_out_until_it_is_ticked(browser: Browser, tmp_path: Path) -> None:
    with_profiled(tmp_path)
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path)}) as server,
        visit(browser, server, "/compare") as seen,
    ):
        expect(legend(seen)).to_have_text(["none (control)", "exact"])
        open_picker(seen)
        click_row(seen, 0, 0)  # the newest
        expect(legend(seen).nth(2)).to_have_text("exact · profiled")
        expect(seen.page.get_by_text("has no time to compare")).to_be_visible()
        expect_harmless(seen)


def test_runs_that_come_change_nothing_that_is_compared(browser: Browser, tmp_path: Path) -> None:
    """The table grew under its ticks, which are row numbers in the browser: a click on a tab then compared others."""
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    newest = document()
    newest["metadata"]["timestamp"] = "2098-01-01T00:00:00"
    file = FilePayload(name="one.json", mimeType="application/json", buffer=json.dumps(newest).encode())
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path)}) as server,
        visit(browser, server, "/compare?manage=Import") as seen,
    ):
        open_picker(seen)
        named = legend(seen).all_inner_texts()
        seen.press("Manage")
        query = parse_qs(urlsplit(seen.page.url).query)
        seen.page.locator("input[type=file]").set_input_files([file])
        seen.settle()
        seen.press("Import")
        expect(seen.page.get_by_text(re.compile("1 run in"))).to_be_visible()
        for lp in ("", "none", "group-v2.1", "exact"):
            if lp:  # another default, for whoever comes now
                like = store_at(tmp_path).entry(demo_run("llama", lp)).row
                like = {name: like[name] for name in ("model_alias", "model_step", "model_family", "molecules")}
                write_run(store_at(tmp_path), f"new-{lp}", [sample_row(0)], **like, lp=lp, created_at="2099-01-01")
            for view in ("Side by side", "Manage"):
                seen.press(view)
                expect(legend(seen)).to_have_text(named)
        assert len(named) == 5
        assert parse_qs(urlsplit(seen.page.url).query) == query
        expect_harmless(seen)
