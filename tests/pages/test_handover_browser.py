"""A bundle opened from disk: figures of its questions, atoms in 3D, not one request, and texts that do nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from engine.handover.charts import chart_view
from engine.handover.collecting import bundle_of
from engine.handover.writing import Bundle, Section, write_bundle
from engine.questions import ask
from engine.questions.question import Chart, rows_table
from engine.store.columns import rows_of
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.store.stored_runs import store_at
from tests.pages.browser import Browser, Server, Visit, expect_harmless, visit, watched
from tests.pages.drift_stores import HOSTILE, HOSTILE_JUNK, add_hostile

pytestmark = pytest.mark.browser
CUT = demo_run("llama", "group-v2.1")
SHARE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_OFF = "part => part.scrollHeight - part.clientHeight"


@contextmanager
def opened(browser: Browser, path: Path, **media: str) -> Iterator[tuple[Page, Visit]]:
    """A file in a context of its own, into whose pages no test puts a style: its policy would refuse it."""
    assert browser.browser is not None
    page = browser.browser.new_page()
    try:
        with watched(seen := Visit(page), path.as_uri()):
            page.emulate_media(**media)  # type: ignore[arg-type]
            page.goto(path.as_uri())
            yield page, seen
    finally:
        page.close()


def table_of(text: str) -> pa.Table:
    """``a b; 1 x; 2 y``: heads and rows."""
    head, *rows = (line.split() for line in text.split(";"))
    return rows_table([dict(zip(head, map(value_of, row), strict=True)) for row in rows])


def value_of(word: str) -> float | str:
    return float(word) if word[0].isdigit() else word


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "report.html"
    write_bundle(bundle_of(DEMO_STORE, [CUT], molecules=3), path)
    return path


def test_it_opens_from_disk_with_the_figures_of_ask(browser: Browser, report: Path) -> None:
    with opened(browser, report) as (page, seen):
        expect(page.get_by_role("heading", level=1)).to_contain_text("demo-llama:final · group-v2.1")
        rows = list(rows_of(ask(DEMO_STORE, "drift_molecules", [CUT]).tables["main"]))
        section = page.locator("section", has=page.get_by_role("heading", name="Which molecules are worst?"))
        heads = section.locator("th").all_inner_texts()
        cells = "rows => rows.map(row => [...row.cells].map(cell => cell.title || cell.textContent))"
        shown = section.locator("tbody tr").evaluate_all(cells)
        assert len(shown) == len(rows) == 64
        for name, head in {"sample_id": "sample", "lost_ang": "off by (Å)", "tokens": "tokens"}.items():
            known = [None if row[name] is None else float(str(row[name])) for row in rows]
            column = [row[heads.index(head)] for row in shown]
            assert [float(cell) if cell else None for cell in column] == known, name
        expect(page.locator("figure svg[role=img]").first).to_be_visible()
        expect_harmless(seen)


def test_an_atom_is_one_in_text_table_drawing_and_space(browser: Browser, report: Path) -> None:
    with opened(browser, report) as (page, seen):
        card = page.locator(".molecule").first
        expect(card.locator("canvas").first).to_be_visible()
        row = card.locator("tr.junk").first
        atom = row.get_attribute("data-atom")
        row.click()
        expect(card.locator(".drawing .picked")).to_have_attribute("data-atom", atom or "none")
        pieces = card.locator(".text .picked").all_inner_texts()
        assert card.locator(".text .picked.t-j").count() and "<" in "".join(pieces)
        second = page.locator(".molecule").nth(1)
        second.locator("summary").click()
        expect(second.locator("canvas").first).to_be_visible()
        card.locator("summary").click()
        expect(card.locator("canvas")).to_have_count(0)  # its context is given back
        expect_harmless(seen)


def test_its_policy_lets_nothing_out_and_no_other_script_run(browser: Browser, report: Path) -> None:
    with opened(browser, report) as (page, seen):
        ask_net = "fetch('http://localhost:9/x').then(() => 'sent', () => 'refused')"
        assert page.evaluate(ask_net) == "refused"
        page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
        assert page.evaluate("window.ran") is None and seen.outside == []
        assert len([text for text in seen.console if "Content Security Policy" in text]) >= 2


def test_planted_texts_are_texts(browser: Browser, tmp_path: Path) -> None:
    store, path = store_at(tmp_path / "store"), tmp_path / "report.html"
    add_hostile(store)
    write_bundle(bundle_of(store, [HOSTILE]), path)
    (data,) = re.findall(r'id="bundle">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert "<" not in data and HOSTILE_JUNK in str(json.loads(data))
    with opened(browser, path) as (page, seen):
        expect(page.locator(".molecule").first).to_be_visible()
        assert "script" in page.locator("main").inner_text() and page.locator("main script, main img").count() == 0
        expect_harmless(seen)


def test_a_mark_is_where_its_figures_are(browser: Browser, tmp_path: Path) -> None:
    """On a log axis, stacked by sign on one scale, from a begin of its own, along a line, in a map of cells."""
    charts = {
        Chart("points", "x", "run", low="low", high="high", line_at=1, log="x"): """
            run x low high; a 0.1 0.05 0.2; b 1 0.5 2; c 10 5 20""",
        Chart("bars", "at", "share", colour="sign", split="title"): """
            title at share sign; p one 0.5 cut; p two 0.25 exact; p two 0.25 junk-prone; q two 1 exact""",
        Chart("bars", "end", "name", low="from", log="x"): "run end from name; a 2 1 p; a 2 4 q",
        Chart("lines", "x", "y", dash="dashed"): "run x y dashed; a 0 0 0; a 1 1 0; a 2 4 0; b 0 0 1; b 2 4 1",
        Chart("heat", "name", "why", size="share", text="why"): "name why share; a cut 0.5; b cut 0.25",
    }
    views = [("chart", chart_view(chart, {"main": table_of(text)}, {}, {})) for chart, text in charts.items()]
    write_bundle(Bundle("charts", [Section("charts", views)]), path := tmp_path / "charts.html")
    boxes = "marks => marks.map(mark => mark.getBBox()).map(({x, y, width, height}) => [x, y, width, height])"
    with opened(browser, path) as (page, seen):
        log, bars, begun, lines, heat = page.locator("figure").all()
        places = log.locator(".mark").evaluate_all("marks => marks.map(mark => mark.transform.baseVal[0].matrix.e)")
        assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)  # a power of ten each
        assert log.locator(".level").evaluate_all(boxes)[0][0] == pytest.approx(places[1], abs=0.1)
        whiskers = [width for _, _, width, _ in log.locator(".whisker").evaluate_all(boxes)]
        assert whiskers == pytest.approx([whiskers[0]] * 3, abs=0.2) and whiskers[0] > 50
        shares = bars.locator(".bar").evaluate_all(boxes)
        heights = [height for *_, height in shares]
        assert heights == pytest.approx([heights[3] * part for part in (0.5, 0.25, 0.25, 1)], rel=0.01)
        assert shares[2][1] + shares[2][3] == pytest.approx(shares[1][1], abs=0.2)
        (left, _, first, _), (right, _, second, _) = begun.locator(".bar").evaluate_all(boxes)
        assert first == pytest.approx(second, abs=0.2) and right == pytest.approx(left + first, abs=0.2)
        solid, dashed = lines.locator(".line").all()
        numbers = list(map(float, re.findall(r"[\d.]+", solid.get_attribute("d") or "")))
        assert numbers[1] - numbers[5] == pytest.approx(4 * (numbers[1] - numbers[3]), rel=0.02)
        assert "dashed" in (dashed.get_attribute("class") or "")
        assert [cell.get_attribute("fill-opacity") for cell in heat.locator(".cell").all()] == ["0.55", "0.275"]
        expect_harmless(seen)


def test_charts_are_within_their_frames_and_what_is_left_out_is_said(browser: Browser, tmp_path: Path) -> None:
    """Shares along time and the lanes below them, too."""
    outside = """all => all.filter(svg => [...svg.querySelectorAll("path, rect")].map(mark => mark.getBBox()).some(
        ({x, width}) => !(x > -9 && x + width < 669))).length"""
    for ids in [demo_run("llama", "none"), CUT], ["025201-demo-qwen", "025220-demo-qwen"]:
        write_bundle(bundle_of(DEMO_STORE, ids, molecules=1), path := tmp_path / "report.html")
        with opened(browser, path) as (page, seen):
            charts = page.locator("figure svg[role=img]")
            assert charts.count() >= 6 and charts.evaluate_all(outside) == 0
            if CUT in ids:
                section = page.locator("section", has=page.get_by_role("heading", name="Molecules", exact=True))
                expect(section).to_contain_text("1 of 128 answers, the worst molecules first; 127 are left out.")
            else:
                assert page.locator("figure.time svg").count() == 4
            expect_harmless(seen)


def test_dark_narrow_and_printed(browser: Browser, report: Path) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with opened(browser, report, color_scheme=scheme) as (page, seen):
            page.set_viewport_size({"width": 390, "height": 800})
            expect(page.locator(".molecule canvas").first).to_be_visible()
            assert page.evaluate(SHARE) == 0  # wide tables and charts scroll by themselves
            assert page.locator("section:last-child .scroll").evaluate(CUT_OFF) == 0  # how it was made
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            page.emulate_media(media="print", color_scheme=scheme)
            expect(page.locator(".molecule .text").last).to_be_visible()
            expect(page.locator(".space").first).to_be_hidden()
            assert {part.evaluate(CUT_OFF) for part in page.locator(".scroll").all()} == {0}
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == grounds[0]  # paper
            expect_harmless(seen)
    assert grounds[0] != grounds[1]


def test_a_page_hands_over_what_it_shows(browser: Browser, demo_server: Server, tmp_path: Path) -> None:
    none = demo_run("llama", "none")
    with visit(browser, demo_server, f"/compare?view=Coverage&control={none}&test={CUT}") as seen:
        with seen.page.expect_download() as coming:
            seen.page.get_by_role("button", name="Report (HTML)").click()
        coming.value.save_as(path := tmp_path / coming.value.suggested_filename)
        expect_harmless(seen)
    (text,) = re.findall(r'id="bundle">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    sections = {section["title"]: section["parts"] for section in json.loads(text)["sections"]}
    assert path.name == "report.html" and sections["Molecules"]
    assert ["text", ask(DEMO_STORE, "compare_figures", [none, CUT]).answer] in sections["Side by side"]
