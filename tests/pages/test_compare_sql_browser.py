"""The SQL section in a real browser: write, run, stop, see rows and a chart, take files, leave nothing behind."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Locator, expect

from tests.pages.browser import LIMIT_MS, ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, visit
from tests.pages.canvas_clicks import table_canvas
from tests.pages.drift_stores import EXACT, HOSTILE, WITH_JUNK, add_hostile, with_demo
from tests.pages.sql_processes import processes_of

pytestmark = pytest.mark.browser

SQL = "/compare?view=SQL"
LONG = "SELECT sum(range % 7) FROM range(1000000000000)"  # takes time alone
# Time enough for a busy machine to press Stop.
PATIENT = """
import runpy
from dataclasses import replace
from pages._shared import sql_console
sql_console.LIMITS = replace(sql_console.LIMITS, seconds=300)
runpy.run_path({page!r})
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sql")
    add_hostile(with_demo(folder / "store", WITH_JUNK, EXACT))
    return folder / "store"


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(place)}) as started:
        yield started


@pytest.fixture(scope="module")
def patient(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    script = tmp_path_factory.mktemp("page") / "patient.py"
    script.write_text(PATIENT.format(page=str(ROOT / "pages" / "compare.py")))
    with serve_quietly(script, env={"DRIFTSCOPE_STORE": str(place), "PYTHONPATH": str(ROOT)}) as started:
        yield started


def area(seen: Visit) -> Locator:
    return seen.page.get_by_label("SQL statement")


def run_link(seen: Visit) -> None:
    """A statement that came with the address waits for a click."""
    seen.page.locator(".st-key-sql_run_link button").click()
    seen.page.mouse.move(0, 0)  # the answer comes up under the pointer, with a toolbar


def run(seen: Visit, sql: str) -> None:
    area(seen).fill(sql)
    area(seen).press("Control+Enter")


def rows_said(seen: Visit, rows: int) -> Locator:
    return seen.page.get_by_text(re.compile(rf"^{rows:,} rows? · "))


def download(seen: Visit, word: str) -> Locator:
    return seen.page.get_by_test_id("stDownloadButton").get_by_role("button", name=word)


def test_write_and_run_and_see_a_table_a_chart_and_its_address(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        run(seen, "SELECT lp, samples, wall_s FROM runs WHERE origin = 'measured'")
        expect(rows_said(seen, 3)).to_be_visible()
        expect(seen.page.get_by_test_id("stDataFrame")).to_have_count(2)  # the runs, and the answer
        expect(seen.page).to_have_url(re.compile("sql=SELECT"))
        seen.press("Chart")
        expect(seen.page.get_by_role("heading", name="How does wall_s differ by lp?")).to_be_visible()
        expect(seen.page.locator(".js-plotly-plot .bars .point")).to_have_count(3)
        expect(seen.page).to_have_url(re.compile("sql_as=Chart"))
        seen.press("Scatter")
        expect(seen.page.locator(".js-plotly-plot .scatterlayer .point").first).to_be_visible()
        address = seen.page.url.removeprefix(server.url)
        expect_harmless(seen)
    with visit(browser, server, address) as seen:
        run_link(seen)
        expect(seen.page.locator(".js-plotly-plot .scatterlayer .point").first).to_be_visible()
        expect(area(seen)).to_have_value(re.compile("^SELECT lp, samples"))
        expect_harmless(seen)


def stop_button(seen: Visit) -> Locator:
    """The page's own: while a page runs, Streamlit has one of that name above it."""
    return seen.page.get_by_test_id("stMain").get_by_role("button", name="Stop")


def test_a_long_statement_is_stopped_and_another_one_runs(browser: Browser, patient: Server) -> None:
    with visit(browser, patient, "/?view=SQL") as seen:
        run(seen, LONG)
        stop_button(seen).click()
        expect(seen.page.get_by_text("The statement was stopped")).to_be_visible()
        expect(stop_button(seen)).to_have_count(0)
        run(seen, LONG)  # the same once more: it is asked again
        expect(stop_button(seen)).to_be_visible()
        run(seen, "SELECT 42 AS answer")
        expect(rows_said(seen, 1)).to_be_visible()
        expect_harmless(seen)


def test_a_refused_statement_is_one_message_and_marked(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        run(seen, "SELECT 1;\nCOPY runs TO 'out.csv'")
        expect(seen.page.get_by_role("alert")).to_have_count(1)
        run(seen, "SELECT run_id,\n  nope FROM runs")
        expect(seen.page.get_by_role("alert")).to_contain_text('Referenced column "nope" not found')
        expect(seen.page.locator(".ink .wrong")).to_have_text("nope")
        expect(area(seen)).to_have_attribute("aria-invalid", "true")
        area(seen).press("End")
        area(seen).press("Space")
        expect(seen.page.locator(".ink .wrong")).to_have_count(0)
        expect(seen.page.get_by_text("Not run yet")).to_be_visible()
        expect_harmless(seen)


def test_files_have_the_rows(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{SQL}&sql=SELECT+sample_id,+issues,+passed+FROM+samples+ORDER+BY+ALL") as seen:
        run_link(seen)
        expect(download(seen, "CSV")).to_be_visible()
        files = {}
        for word in ("CSV", "Parquet"):
            with seen.page.expect_download() as coming:
                download(seen, word).click()
            files[coming.value.suggested_filename] = Path(coming.value.path()).read_bytes()
        lines = files["answer.csv"].decode().splitlines()
        assert lines[0] == '"sample_id","issues","passed"' and len(lines) == 1 + 64 + 64 + 1
        table = pq.read_table(io.BytesIO(files["answer.parquet"]))
        assert table.column_names == ["sample_id", "issues", "passed"] and table.num_rows == 129
        assert table["sample_id"].to_pylist()[:4] == [0, 0, 0, 1]
        expect_harmless(seen)


def test_a_name_of_the_schema_goes_to_the_caret_and_undo_takes_it_back(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        area(seen).fill("SELECT FROM samples")
        for _ in range(len(" FROM samples")):
            area(seen).press("ArrowLeft")
        find = seen.page.get_by_label("Find a table or column")
        find.fill("nothing like it")
        expect(seen.page.get_by_text("No table or column matches.")).to_be_visible()
        find.fill("angstrom")
        find.press("Escape")
        find.fill("rmsd_sam")
        find.press("ArrowDown")
        find.press("Escape")
        find.fill("stop_reason")
        seen.page.get_by_role("button", name=re.compile("^Insert stop_reason")).click()
        expect(area(seen)).to_have_value("SELECT stop_reason FROM samples")
        expect(area(seen)).to_be_focused()
        seen.page.keyboard.press("Control+z")
        expect(area(seen)).to_have_value("SELECT FROM samples")
        seen.page.keyboard.press("Control+y")
        seen.page.keyboard.press("Control+Enter")
        expect(rows_said(seen, 129)).to_be_visible()
        expect_harmless(seen)


def test_colours_lie_under_the_letters_wherever_the_text_is_scrolled(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        wide = ", ".join(f"column_{number}" for number in range(60))
        area(seen).fill("\n".join([f"SELECT {wide}", *["-- a line"] * 60, "FROM runs"]))
        area(seen).press("Control+End")
        for move in ("scrollTo(1e6, 1e6)", "scrollTo(300, 200)"):
            area(seen).evaluate(f"area => area.{move}")
            at = "element => [element.scrollLeft, element.scrollTop]"
            scrolled = area(seen).evaluate(at)
            expect(seen.page.locator(".ink")).to_have_js_property("scrollTop", scrolled[1])
            expect(seen.page.locator(".ink")).to_have_js_property("scrollLeft", scrolled[0])
            expect(seen.page.locator(".gutter")).to_have_js_property("scrollTop", scrolled[1])
        expect_harmless(seen)


def test_what_is_written_stays_until_another_statement_is_opened(browser: Browser, server: Server) -> None:
    with visit(browser, server, SQL) as seen:
        run(seen, "SELECT 1 AS one")
        expect(rows_said(seen, 1)).to_be_visible()
        area(seen).fill("SELECT 2 AS draft")
        seen.press("Chart")
        expect(seen.page.get_by_text("Nothing to draw")).to_be_visible()
        expect(area(seen)).to_have_value("SELECT 2 AS draft")
        seen.press("History")
        seen.page.get_by_role("button", name="SELECT 1 AS one").click()
        expect(area(seen)).to_have_value("SELECT 1 AS one")
        seen.page.keyboard.press("Escape")
        area(seen).fill("SELECT 3 AS kept")
        seen.press("Save")
        seen.fill("Name", "my query")
        seen.page.get_by_role("button", name="Save query").click()
        expect(seen.page).to_have_url(re.compile("sql=saved%3Aown"))
        expect(area(seen)).to_have_value("SELECT 3 AS kept")
        address = seen.page.url.removeprefix(server.url)
        expect_harmless(seen)
    with visit(browser, server, address) as seen:
        expect(area(seen)).to_have_value("SELECT 3 AS kept")
        seen.page.get_by_role("combobox", name="Open a query").fill("most damaged")
        seen.page.get_by_role("option", name=re.compile("Which answers have most damaged")).click()
        expect(rows_said(seen, 100)).to_be_visible()
        expect(area(seen)).to_have_value(re.compile("^SELECT run_id, sample_id, smiles"))
        expect_harmless(seen)


def test_back_goes_to_the_statement_before(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{SQL}&sql=SELECT+1+AS+one") as seen:
        run_link(seen)
        expect(rows_said(seen, 1)).to_be_visible()
        run(seen, "SELECT unnest([1, 2]) AS two")
        expect(rows_said(seen, 2)).to_be_visible()
        seen.page.go_back()
        expect(area(seen)).to_have_value("SELECT 1 AS one")
        expect(rows_said(seen, 1)).to_be_visible()
        expect_harmless(seen)


def test_a_run_and_a_sample_of_a_row_are_links(browser: Browser, server: Server) -> None:
    sql = f"SELECT+run_id,+sample_id+FROM+samples+WHERE+run_id='{EXACT}'+ORDER+BY+2"
    with visit(browser, server, f"{SQL}&sql={sql}") as seen:
        run_link(seen)
        expect(rows_said(seen, 64)).to_be_visible()
        canvas = table_canvas(seen, -1)
        box = canvas.bounding_box()
        assert box is not None
        for left, expected in ((14, f"/drift?run={EXACT}&sample=0"), (300, f"/compare?control={EXACT}")):
            with seen.page.expect_popup() as coming:
                at = (box["x"] + left, box["y"] + 35 * 1.5)
                seen.page.mouse.move(at[0] - 2, at[1] - 2)  # a link of a table is one while the pointer is on it
                seen.page.mouse.click(*at)
            coming.value.wait_for_url(server.url + expected)
            coming.value.close()
        expect_harmless(seen)


def test_hostile_values_are_text(browser: Browser, server: Server) -> None:
    sql = f"SELECT+*+FROM+blocks+WHERE+run_id='{HOSTILE}'"
    with visit(browser, server, f"{SQL}&sql={sql}") as seen:
        run_link(seen)
        expect(rows_said(seen, 2)).to_be_visible()
        run(seen, "SELECT '<img src=x onerror=alert(1)>' AS \"<b onclick=alert(1)>\", 1 AS n UNION ALL SELECT 'b', 2")
        seen.press("Chart")
        expect(seen.page.locator(".js-plotly-plot .bars .point")).to_have_count(2)
        run(seen, 'SELECT "<img src=x onerror=alert(1)>" FROM runs -- \u202e</textarea><script>alert(1)</script>')
        expect(seen.page.get_by_role("alert")).to_contain_text("<img src=x")
        assert seen.page.locator("img[src=x]").count() == 0
        expect_harmless(seen)


def test_types_of_all_kinds_are_drawn(browser: Browser, server: Server) -> None:
    sql = (
        "SELECT 1::HUGEINT AS a, 1.5::DECIMAL(10, 2) AS b, [1, NULL] AS c, {'k': [1]} AS d, MAP {'k': 1} AS e, "
        "DATE '2026-01-02' AS f, TIME '01:02:03' AS g, INTERVAL 3 DAY AS h, 'a'::BLOB AS i, uuid() AS j, "
        "TIMESTAMPTZ '2026-01-02 03:04:05+00' AS k, 'nan'::DOUBLE AS l, 1e300 AS m, (2**63)::UBIGINT AS n, "
        "'x'::ENUM('x', 'y') AS o, NULL AS p, '101'::BIT AS q, DATE '-4000-01-01' AS r, true AS s"
    )
    with visit(browser, server, SQL) as seen:
        run(seen, sql)
        expect(seen.page.get_by_text(re.compile(r"^1 row · 19 columns"))).to_be_visible()
        expect(seen.page.get_by_test_id("data-grid-canvas").last).to_be_visible()
        expect_harmless(seen)


def test_a_session_that_ends_leaves_no_process(browser: Browser, server: Server, place: Path) -> None:
    with visit(browser, server, f"{SQL}&sql=SELECT+1+AS+one") as seen:
        run_link(seen)
        expect(rows_said(seen, 1)).to_be_visible()
        assert processes_of(marked=str(place))
        expect_harmless(seen)
    with visit(browser, server) as seen:  # something to wait in: the server ends the session's process by itself
        for _ in range(LIMIT_MS // 100):
            if not processes_of(marked=str(place)):
                break
            seen.page.wait_for_timeout(100)
        assert not processes_of(marked=str(place))
