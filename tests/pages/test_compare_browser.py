"""The Compare page in a real browser: ticking rows, links and Back, a point of a chart, work on the store."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import FilePayload, Locator, expect

from engine.store.files import Files
from engine.store.store import DEMO, Store
from pages._kit.components.charts_ready import drawing_module
from pages._kit.entry_table import RUN_TABLE
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, write_run
from tests.pages.browser import LIMIT_MS, ROOT, Browser, Server, Visit, expect_harmless, legend, serve_quietly, visit
from tests.pages.canvas_clicks import click_row, open_picker
from tests.support import of_soak

pytestmark = pytest.mark.browser

NONE, ALLOWLIST, EXACT, GUARDED = (demo_run("llama", lp) for lp in ("none", "group-v4.3", "exact", "guarded"))
ROWS = [run.id for run in RUN_TABLE.in_order(DEMO_STORE.listing().entries)]
RUN_LIMIT_MS = 180_000


def test_rows_are_ticked_and_the_link_says_which(browser: Browser, demo_server: Server) -> None:
    lps = ("group-v2.1", "group-v4.3", "exact", "guarded", "shaped")
    tests = "".join(f"&test={demo_run('llama', lp)}" for lp in lps)
    with visit(browser, demo_server, f"/compare?control={NONE}{tests}") as seen:
        expect(legend(seen)).to_have_text(["none (control)", *lps])
        seen.page.locator(".st-key-all_figures").wait_for()
        drawing = f"{demo_server.url}/{drawing_module()}"  # fetched though no chart is there yet
        for _ in range(LIMIT_MS // 100):
            seen.page.mouse.move(600, 400)  # what hears it comes last on the page, and nothing shows that it is there
            seen.page.mouse.move(610, 400)
            is_fetched = seen.page.evaluate("file => performance.getEntriesByName(file).length > 0", drawing)
            if is_fetched:
                break
            seen.page.wait_for_timeout(100)
        assert is_fetched
        open_picker(seen)
        other = next(run for run in ROWS if "demo-bins" in run)
        table = seen.page.get_by_test_id("stDataFrame").locator(".dvn-scroller").first.element_handle()
        click_row(seen, 0, ROWS.index(other))
        expect(seen.page).to_have_url(re.compile(f"test={other}"))
        expect(legend(seen).nth(6)).to_have_text(re.compile("demo-bins:final"))
        assert table.evaluate("scroller => scroller.isConnected")  # the same table, so it did not scroll to its top
        click_row(seen, 0, ROWS.index(GUARDED))
        expect(legend(seen)).to_have_count(6)
        expect(seen.page).not_to_have_url(re.compile(GUARDED))
        expect_harmless(seen)
        link = seen.page.url.removeprefix(demo_server.url)
    with visit(browser, demo_server, link) as seen:
        names = ("none", "group-v2.1", "group-v4.3", "exact", "shaped", "bins")
        expect(legend(seen)).to_have_text([re.compile(part) for part in names])


@pytest.mark.parametrize(("width", "height"), [(1440, 700), (1000, 700)])
def test_a_first_visit_answers_which_lp_is_best_for_which_model(
    browser: Browser, demo_server: Server, width: int, height: int
) -> None:
    """By its figure in the first screen; and a cell opens the worst molecule of its run, by the keyboard too."""
    with visit(browser, demo_server, "/compare", width=width, height=height) as seen:
        answer = card(seen, "matrix").get_by_text("most are usable under shaped")
        cell = card(seen, "matrix").locator("td.cell").first
        for element in (answer, cell):
            expect(element).to_be_visible()
            box = element.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height and box["x"] + box["width"] <= width
        forward = card(seen, "matrix").locator(".legend .part").nth(2)
        expect(forward).to_have_text("forward")
        cell.locator("button").focus()
        expect(forward).to_have_text(re.compile(r"forward \d[\d.]* %"))
        for key in ("ArrowRight", "ArrowDown", "Enter"):
            seen.page.keyboard.press(key)
        expect(seen.page).to_have_url(re.compile(f"/drift.*run={demo_run('llama', 'group-v2.1')}"))
        expect_harmless(seen)


# --- cards ------------------------------------------------------------------------------------------------------------

CHARTS = f"/compare?view=Charts&control={NONE}&test={ALLOWLIST}&test={EXACT}"


def card(seen: Visit, key: str) -> Locator:
    return seen.page.locator(f".st-key-card-compare_{key}")


def click_point(seen: Visit, x: float, y: float) -> None:
    """A place of the scatter in its own figures: WebGL draws no element to click on."""
    plot = card(seen, "molecules").locator(".js-plotly-plot")
    plot.scroll_into_view_if_needed()
    expect(plot.locator(".main-svg").first).to_be_visible()
    spot = plot.evaluate(
        """(plot, [x, y]) => {
          const {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.x + xaxis._offset + xaxis.d2p(x), box.y + yaxis._offset + yaxis.d2p(y)];
        }""",
        [x, y],
    )
    seen.page.mouse.move(spot[0] - 3, spot[1])
    seen.page.mouse.move(spot[0], spot[1])
    expect(plot.locator(".hoverlayer .hovertext")).to_be_visible()
    seen.page.mouse.down()
    seen.page.mouse.up()


def test_a_point_leads_to_its_pairs_and_a_link_restores_them(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"{CHARTS}&points_by=passed") as seen:
        click_point(seen, 1, 0)  # passed without the LP, failed with it
        expect(seen.page).to_have_url(re.compile(r"[?&]pair=\d+-\d+"))
        expect(card(seen, "molecules").get_by_role("button", name="Clear selection")).to_be_visible()
        link = seen.page.url.removeprefix(demo_server.url)
        expect_harmless(seen)
    with visit(browser, demo_server, link) as seen:
        card(seen, "molecules").get_by_role("button", name="Clear selection").click()
        expect(seen.page).not_to_have_url(re.compile("pair="))
        seen.press("Masks")
        expect(card(seen, "masks").locator(".js-plotly-plot")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("question=Masks"))
        expect_harmless(seen)


# --- work on the store ------------------------------------------------------------------------------------------------


def test_a_cards_chart_is_saved_as_svg_and_png(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, CHARTS) as seen:
        expect(card(seen, "speed").locator(".js-plotly-plot .point").first).to_be_attached()
        card(seen, "speed").get_by_role("button", name="Data").click()
        for form, begin in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
            with seen.page.expect_download() as download:
                seen.page.get_by_role("button", name=f"Chart as {form}").click()
            content = Path(download.value.path()).read_bytes()
            assert download.value.suggested_filename == f"compare_speed.{form.lower()}"
            assert content.startswith(begin) and (form == "PNG" or b"wall time per sample" in content)
        expect_harmless(seen)


def test_a_table_that_grows_changes_nothing_that_is_compared(browser: Browser, tmp_path: Path) -> None:
    """It grew under its ticks, which are row numbers in the browser: a click on a tab then compared others."""
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    store = Store(Files(tmp_path))
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path)}) as server,
        visit(browser, server, "/compare?view=Manage") as seen,
    ):
        open_picker(seen)
        named = legend(seen).all_inner_texts()
        query = parse_qs(urlsplit(seen.page.url).query)
        row = store.entry(NONE).row
        like = {name: row[name] for name in ("model_alias", "model_step", "model_family", "molecules")}
        for lp in ("none", "exact"):  # another default, for whoever comes now
            write_run(store, f"new-{lp}", [sample_row(0)], **like, lp=lp, created_at="2099-01-01")
        for view in ("Coverage", "Manage"):
            seen.press(view)
            expect(legend(seen)).to_have_text(named)
        expect(seen.page).to_have_url(re.compile("view=Manage"))
        assert len(named) == 4 and parse_qs(urlsplit(seen.page.url).query) == query
        expect_harmless(seen)


def expect_uploaded(server: Server, count: int) -> None:
    """As the server counts them, some seconds later."""
    until, counts = time.monotonic() + LIMIT_MS / 1e3, [-1]
    while sum(counts) != count and time.monotonic() < until:
        time.sleep(0.1)
        with urlopen(f"{server.url}/_stcore/metrics") as answer:
            counts = [
                int(value) for value in re.findall(r'"UploadedFileManager",cache=""} (\d+)', answer.read().decode())
            ]
    assert sum(counts) == count


def test_the_bytes_of_an_upload_go_once_it_is_handed_on_or_the_page_is_left(browser: Browser, tmp_path: Path) -> None:
    report = FilePayload(name="report.json", mimeType="application/json", buffer=b"{" + b" " * 5_000_000)
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path)}) as server,
        visit(browser, server, "/compare?view=Manage&manage=Import") as seen,
    ):
        field, button = seen.page.locator("input[type=file]"), seen.page.locator(".st-key-import_go button")
        for leave in (button, seen.page.get_by_role("link", name="Evidence").first):
            expect_uploaded(server, 0)
            field.set_input_files(report)
            expect(button).to_be_enabled()
            expect_uploaded(server, len(report["buffer"]))
            leave.click()
        expect_uploaded(server, 0)


@of_soak
def test_two_molecules_under_two_lps_from_start_to_end(browser: Browser, tmp_path: Path) -> None:
    model = "&run_model=demo-llama%3Aearly&run_lp=none&run_lp=exact&run_from=SMILES&run_smiles=CC%3DO%0ACCO"
    with (
        serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(tmp_path)}) as server,
        visit(browser, server, f"/compare?view=Manage{model}") as seen,
    ):
        seen.press("Start")
        expect(seen.page.get_by_role("progressbar").first).to_be_visible()
        expect(seen.page.get_by_text(re.compile(r"2 runs in \d+"))).to_be_visible(timeout=RUN_LIMIT_MS)
        none, exact = [entry.id for entry in Store(Files(tmp_path)).listing().entries]
        tabs = len(browser.pages)
        seen.page.get_by_test_id("stSidebar").get_by_role("button", name="Compare runs").click()
        expect(seen.page).to_have_url(f"{server.url}/compare?control={none}&test={exact}")
        assert len(browser.pages) == tabs
        expect(legend(seen)).to_have_text(["none (control)", "exact"])
        expect_harmless(seen)
