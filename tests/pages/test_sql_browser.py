"""The SQL section in a real browser: write, run, stop, see a chart, take files, leave nothing behind."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, expect

from tests.pages.browser import LIMIT_MS, ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, visit
from tests.pages.drift_stores import EXACT, WITH_JUNK, add_hostile, with_demo
from tests.pages.sql_processes import processes_of

pytestmark = pytest.mark.browser

SQL = "/?view=SQL"
LONG = "SELECT sum(range % 7) FROM range(1000000000000)"  # takes time alone
# Time enough for a busy machine to press Stop.
PATIENT = """
import runpy
from dataclasses import replace
from pages._compare import sql
sql.LIMITS = replace(sql.LIMITS, seconds=300)
runpy.run_path({page!r})
"""


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    add_hostile(with_demo(folder / "store", WITH_JUNK, EXACT))
    return folder / "store"


@pytest.fixture(scope="module")
def server(store_folder: Path) -> Iterator[Server]:
    script = store_folder.parent / "patient.py"
    script.write_text(PATIENT.format(page=str(ROOT / "pages" / "compare.py")))
    with serve_quietly(script, env={"DRIFTSCOPE_STORE": str(store_folder), "PYTHONPATH": str(ROOT)}) as started:
        yield started


def area(seen: Visit) -> Locator:
    return seen.page.get_by_role("textbox", name="SQL statement").first  # the old one is below until the run ends


def run(seen: Visit, sql: str) -> None:
    area(seen).fill(sql)
    area(seen).press("Control+Enter")


def rows_said(seen: Visit, rows: int) -> Locator:
    return seen.page.get_by_text(re.compile(rf"^{rows:,} rows? · "))


def test_write_run_chart_files_and_back(browser: Browser, server: Server, store_folder: Path) -> None:
    with visit(browser, server, f"{SQL}&sql=SELECT+41+AS+one") as seen:
        seen.press("Run")
        expect(rows_said(seen, 1)).to_be_visible()
        expect(area(seen)).to_have_value("SELECT 41 AS one")  # it was empty, and the rows stood below it
        run(seen, "SELECT lp, samples, wall_s FROM runs WHERE origin = 'measured'")
        expect(rows_said(seen, 3)).to_be_visible()
        expect(area(seen)).to_be_focused()
        files = {}
        for word in ("CSV", "Parquet"):
            with seen.page.expect_download() as coming:
                seen.page.get_by_test_id("stDownloadButton").get_by_role("button", name=word).click()
            files[word] = Path(coming.value.path()).read_bytes()
        assert files["CSV"].startswith(b'"lp","samples","wall_s"\n') and files["CSV"].count(b"\n") == 4
        assert pq.read_table(io.BytesIO(files["Parquet"])).num_rows == 3
        seen.press("Chart")
        expect(seen.page).to_have_url(re.compile("sql_as=Chart"))
        run(seen, "SELECT '<img src=x onerror=alert(1)>' AS \"<b onclick=alert(1)>\", 1 AS n UNION ALL SELECT 'b', 2")
        expect(rows_said(seen, 2)).to_be_visible()  # the chart of the rows before has two bars as well
        expect(seen.page.locator(".js-plotly-plot .bars .point")).to_have_count(2)
        assert seen.page.locator("img[src=x]").count() == 0
        seen.page.go_back()
        expect(area(seen)).to_have_value(re.compile("origin"))
        assert processes_of(marked=str(store_folder))
        expect_harmless(seen)
    with visit(browser, server) as seen:  # something to wait in: the server ends the session's process by itself
        for _ in range(LIMIT_MS // 100):
            if not processes_of(marked=str(store_folder)):
                break
            seen.page.wait_for_timeout(100)
        assert not processes_of(marked=str(store_folder))


def test_a_long_statement_is_stopped_and_another_one_runs(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        # While a page runs, Streamlit has a button of that name above it.
        stop = seen.page.get_by_test_id("stMain").get_by_role("button", name="Stop")
        run(seen, LONG)
        stop.click()
        expect(seen.page.get_by_text("The statement was stopped")).to_be_visible()
        expect(stop).to_have_count(0)
        run(seen, LONG)  # the same once more: it is asked again
        expect(stop).to_be_visible()
        run(seen, "SELECT 42 AS answer")
        expect(rows_said(seen, 1)).to_be_visible()
        expect_harmless(seen)
