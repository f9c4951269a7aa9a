"""The Compare page's charts in a real browser: a point leads to its texts, data opens and leaves as a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from engine.store.store import Store
from tests.engine.inspection.made import demo_run, sample_row, write_run
from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, visit
from tests.pages.drift_stores import HOSTILE_JUNK, OVERRIDE, with_demo

pytestmark = pytest.mark.browser

NONE, ALLOWLIST, EXACT = demo_run("llama", "none"), demo_run("llama", "group-v4.3"), demo_run("llama", "exact")
PAGE = f"/compare?view=Charts&control={NONE}&test={ALLOWLIST}&test={EXACT}"
BIG = 10_000
SIDE_BY_SIDE = """are => {
  const cards = ['slowdown', 'budget'].map(key => document.querySelector(`.st-key-chart-${key}`));
  const [one, other] = cards.map(card => card.getBoundingClientRect());
  return are === (Math.abs(one.y - other.y) < 2 && one.right < other.x);
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    place = tmp_path_factory.mktemp("charts")
    store = with_demo(place, NONE, ALLOWLIST, EXACT)
    add_big(store)
    add_hostile(store)
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(place)}) as started:
        yield started


def add_big(store: Store) -> None:
    """Ten thousand pairs, no two of which share a point."""
    for factor, run_id in enumerate(("big-one", "big-two"), start=1):
        rows = [sample_row(n, smiles=f"C{n}", decode_s=1 + n * factor / BIG, tokens=100 + n) for n in range(BIG)]
        write_run(store, run_id, rows, wall_s=sum(row["decode_s"] for row in rows), tokens=1_000 * factor)


def add_hostile(store: Store) -> None:
    for run_id in ("odd-one", "odd-two"):
        rows = [
            sample_row(n, smiles=HOSTILE_JUNK, passed=False, issues=[HOSTILE_JUNK, OVERRIDE], tokens=9 + n)
            for n in range(7)
        ]
        write_run(store, run_id, rows, model_alias=HOSTILE_JUNK, lp=OVERRIDE, wall_s=1.0, tokens=70)


def card(seen: Visit, key: str) -> Locator:
    return seen.page.locator(f".st-key-chart-{key}")


def click_point(seen: Visit, x: float, y: float) -> None:
    """A place of the scatter in its own figures: WebGL draws no element to click on."""
    plot = card(seen, "pairs").locator(".js-plotly-plot")
    plot.scroll_into_view_if_needed()
    expect(plot.locator(".gl-canvas").first).to_be_visible()
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


def test_a_point_leads_to_its_texts_in_the_inspector(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{PAGE}&points_by=passed") as seen:
        pairs = card(seen, "pairs")
        expect(pairs.locator(".ytick").last).to_have_text("100 %")  # as texts have it
        expect(pairs.get_by_text("The largest differences")).to_be_visible()
        click_point(seen, 1, 0)  # passed without the LP, failed with it
        expect(pairs.get_by_text("At this point")).to_be_visible()
        expect(seen.page).to_have_url(re.compile(r"[?&]pair=\d+-\d+"))
        link = pairs.get_by_role("link", name="Inspect B").first
        address = link.get_attribute("href") or ""
        assert re.fullmatch(rf"drift\?run={ALLOWLIST}&sample=\d+", address)
        seen.page.goto(f"{server.url}/{address}")
        seen.settle()
        expect(seen.page.get_by_text("no real coordinates").first).to_be_visible()
        expect_harmless(seen)


def test_a_link_restores_the_point_and_every_choice(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{PAGE}&points_by=tokens&pair=13-13") as seen:
        expect(card(seen, "pairs").get_by_text("At this point")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("pair=13-13"))
        seen.press("Masks")
        expect(card(seen, "masks").locator(".js-plotly-plot")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("question=Masks"))
        expect(seen.page).not_to_have_url(re.compile("pair="))
        seen.page.reload()
        expect(card(seen, "masks").locator(".js-plotly-plot")).to_be_visible()
        expect(card(seen, "pairs")).to_have_count(0)
        expect_harmless(seen)


def test_data_opens_as_a_table_and_leaves_as_a_file(browser: Browser, server: Server, tmp_path: Path) -> None:
    with visit(browser, server, f"{PAGE}&question=Where+time+goes") as seen:
        card(seen, "slowdown").get_by_role("button", name="Data").click()
        button = seen.page.locator(".st-key-csv-slowdown button")
        expect(button).to_be_visible()
        with seen.page.expect_download() as started:
            button.click()
        started.value.save_as(tmp_path / "slowdown.csv")
        lines = (tmp_path / "slowdown.csv").read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith('"run","made of","factor"') and len(lines) == 1 + 2 * 10
        expect_harmless(seen)


def test_ten_thousand_pairs_are_drawn_and_one_is_found_among_them(browser: Browser, server: Server) -> None:
    path = "/compare?view=Charts&control=big-one&test=big-two&points_by=wall+time+per+sample"
    with visit(browser, server, path) as seen:
        expect(card(seen, "pairs").get_by_text(re.compile("(9,999|10,000) lie higher in B"))).to_be_visible()
        click_point(seen, 1.5, 2)  # the pair in the middle
        expect(card(seen, "pairs").get_by_text("At this point")).to_be_visible()
        expect(seen.page).to_have_url(re.compile(r"pair=(49|50)\d\d-(49|50)\d\d"))
        expect_harmless(seen)


def test_names_that_are_markup_stay_text(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/compare?view=Charts&control=odd-one&test=odd-two&points_by=tokens&pair=0-0") as seen:
        expect(card(seen, "pairs").locator("code", has_text="<img")).to_be_visible()
        seen.press("Failures")
        expect(card(seen, "failures").locator(".ytick", has_text="<img")).to_be_visible()
        expect(seen.page.locator("[data-testid=stMain] img")).to_have_count(0)
        expect_harmless(seen)


@pytest.mark.parametrize(("width", "columns"), [(1280, 2), (820, 1)])
def test_charts_stand_side_by_side_where_there_is_room(
    browser: Browser, server: Server, width: int, columns: int
) -> None:
    with visit(browser, server, f"{PAGE}&question=Where+time+goes", width=width) as seen:
        expect(card(seen, "budget").locator(".js-plotly-plot")).to_be_visible()
        seen.page.wait_for_function(SIDE_BY_SIDE, arg=columns == 2)
        assert seen.page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        expect_harmless(seen)
