"""Runs side by side in a real browser: a real table, links, the detail of a measure, COV and MAT from the worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from engine.store.entries import entry_folder
from engine.store.schema import RUN
from engine.store.store import DEMO
from tests.engine.inspection.made import demo_run
from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Theme,
    Visit,
    expect_harmless,
    rgb,
    serve_quietly,
    theme_settings,
    visit,
)
from tests.pages.drift_stores import add_hostile, with_demo

pytestmark = pytest.mark.browser

NONE, EXACT, BLOCKED = (demo_run("qwen", lp) for lp in ("none", "exact", "group-v2.1"))
REPORTED = "reported-002-qwen-lp-64"
JOB_LIMIT_MS = 120_000
OVERFLOW = "frame => frame.scrollWidth - frame.clientWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("beside")
    assert (DEMO / entry_folder(RUN, REPORTED)).is_dir()
    add_hostile(with_demo(folder, NONE, EXACT, BLOCKED, REPORTED))
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(folder)}) as started:
        yield started


def path(control: str, *tests: str, **more: str | list[str]) -> str:
    return "/compare?" + urlencode({"control": control, "test": tests, **more}, doseq=True)


def row(page: Page, words: str) -> list[str]:
    """The texts of a figure's cells, the control's first."""
    heading = page.locator(".beside th[scope=row]").filter(has_text=re.compile(rf"^{words}"))
    expect(heading.first).to_be_visible()
    return heading.first.locator("xpath=..").locator("td").all_inner_texts()


def test_figures_ratios_and_marks_stand_in_a_real_table(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, EXACT, BLOCKED, REPORTED)) as seen:
        table = seen.page.get_by_role("table", name="Figures of each run")
        expect(table).to_be_visible()
        expect(table.get_by_role("columnheader")).to_have_count(4)
        expect(table.get_by_role("rowheader", name="wall time per sample")).to_be_visible()
        control, fast, near, stated = row(seen.page, "wall time per sample")
        assert "×" not in control
        assert re.search(r"\d\.\d+× faster", fast) and "▲ better" in fast
        assert "too close to call" in near
        assert "no interval" in stated and "reported ÷ measured" in stated
        assert "▼ worse" in row(seen.page, "cut")[2]
        themes: tuple[Theme, ...] = ("light", "dark")
        for theme in themes:
            seen.page.emulate_media(color_scheme=theme)
            colours = theme_settings(theme)
            expect(seen.page.locator(".beside tbody td").first).to_have_css("color", rgb(colours["textColor"]))
            heading = seen.page.locator(".beside tbody tr:has(td) th").first
            expect(heading).to_have_css("background-color", rgb(colours["backgroundColor"]))
        hatched = seen.page.locator(".beside td.reported").first
        expect(hatched).to_have_css("background-image", re.compile("repeating-linear-gradient"))
        expect_harmless(seen)


def test_a_narrow_window_scrolls_the_table_and_keeps_what_is_pinned(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, EXACT, BLOCKED, REPORTED, table_pins=["A", "D"]), width=850) as seen:
        frame = seen.page.get_by_role("region", name="Figures of each run")
        expect(frame.get_by_role("columnheader")).to_contain_text(["A · ", "D · ", "B · ", "C · "])
        pinned = [frame.get_by_role("rowheader", name="wall time per sample")]
        pinned += [frame.get_by_role("columnheader", name=f"{letter} · ") for letter in "AD"]
        before = [spot.bounding_box() for spot in pinned]
        assert frame.evaluate(OVERFLOW) > 0
        frame.evaluate("frame => { frame.scrollLeft = frame.scrollWidth }")
        expect(frame).not_to_have_js_property("scrollLeft", 0)
        for old, new in zip(before, [spot.bounding_box() for spot in pinned], strict=True):
            assert old is not None and new is not None and abs(old["x"] - new["x"]) < 2
        seen.page.set_viewport_size({"width": 1000, "height": 900})
        seen.page.wait_for_function(
            "() => (all => all.length > 1 && all.every(f => f.scrollWidth <= f.clientWidth))"
            "([...document.querySelectorAll('.beside-frame')])"
        )
        seen.page.get_by_role("button", name="Which LP to use: Advice").click()
        expect(seen.page.get_by_role("tab", name="Advice")).to_have_attribute("aria-selected", "true")
        expect_harmless(seen)


def test_a_link_opens_a_run_in_the_inspector(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, BLOCKED)) as seen:
        seen.page.get_by_role("columnheader", name="B · ").get_by_role("link").click()
        expect(seen.page).to_have_url(re.compile(rf"/drift\?run={BLOCKED}"))
        expect(seen.page.get_by_text(re.compile("^64 samples"))).to_be_visible()
        expect_harmless(seen)


def test_an_address_restores_all_of_it(browser: Browser, server: Server) -> None:
    more = {"table_all": "true", "table_detail": "passed", "cov_references": "20"}
    with visit(browser, server, path(NONE, EXACT, **more)) as seen:
        assert row(seen.page, "neither exact nor unverified") == ["0", "0"]
        seen.page.get_by_text("One measure in detail").click()
        detail = seen.page.get_by_role("table", name="passed in detail")
        expect(detail).to_contain_text("64 answers, 64 molecules")
        seen.page.get_by_text("COV and MAT against reference ensembles").click()
        expect(seen.page.get_by_text(re.compile("share of a molecule's 20 references"))).to_be_visible()
        expect_harmless(seen)


def test_coverage_comes_from_the_worker(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, EXACT, cov_molecules="16")) as seen:
        assert seen.page.locator(".beside", has_text="COV-R").count() == 0
        seen.page.get_by_text("COV and MAT against reference ensembles").click()
        _press_compute(seen)
        recall = seen.page.get_by_role("rowheader", name="COV-R")
        expect(recall).to_be_visible(timeout=JOB_LIMIT_MS)
        assert all("computed" in cell for cell in row(seen.page, "COV-R"))
        assert "no difference" in row(seen.page, "MAT-P")[1]  # greedy: both wrote the same
        expect(seen.page.get_by_text(re.compile("16 of 64 molecules"))).to_be_visible()
        expect(seen.page.get_by_role("button", name=re.compile("^Compute"))).to_have_count(0)
        expect_harmless(seen)


def _press_compute(seen: Visit) -> None:
    seen.page.get_by_role("button", name="Compute COV and MAT of 2 runs").click()


def test_a_table_can_be_taken_away(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, EXACT)) as seen:
        with seen.page.expect_download() as taken:
            seen.page.get_by_role("button", name="Markdown").click()
        text = taken.value.path().read_text(encoding="utf-8")
        assert re.search(r"\| wall time per sample \(s\) \| 0\.\d+ \| 0\.\d+ \(\d\.\d+× faster ", text)
        expect_harmless(seen)


def test_hostile_names_are_text(browser: Browser, server: Server) -> None:
    with visit(browser, server, path(NONE, "hostile-run")) as seen:
        expect(seen.page.get_by_role("columnheader", name="<img src=x onerror=alert(1)>")).to_be_visible()
        assert seen.page.locator(".beside img").count() == 0
        expect_harmless(seen)
