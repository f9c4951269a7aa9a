"""A bundle opened from disk: figures of its questions, atoms in 3D, not one request, and texts that do nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, expect

from engine.handover.collecting import bundle_of
from engine.handover.writing import write_bundle
from engine.questions import ask
from engine.store.columns import rows_of
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.store.stored_runs import store_at
from tests.pages.browser import NOISE, Browser, Server, Visit, expect_harmless, visit
from tests.pages.drift_stores import HOSTILE, HOSTILE_JUNK, add_hostile

pytestmark = pytest.mark.browser
CUT = demo_run("llama", "group-v2.1")
SHARE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@contextmanager
def opened(browser: Browser, path: Path, **media: str) -> Iterator[tuple[Page, Visit]]:
    """A file in a context of its own, into whose pages no test puts a style: its policy would refuse it."""
    assert browser.browser is not None
    page = browser.browser.new_page()
    seen = Visit(page)

    def note_request(request: Request) -> None:
        if request.url.partition("#")[0] != path.as_uri():
            seen.outside.append(request.url)

    def note_message(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(noise in message.text for noise in NOISE):
            seen.console.append(message.text)

    def note_dialog(dialog: Dialog) -> None:
        seen.dialogs.append(dialog.message)
        dialog.dismiss()

    page.on("request", note_request)
    page.on("console", note_message)
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("dialog", note_dialog)
    try:
        page.emulate_media(**media)  # type: ignore[arg-type]
        page.goto(path.as_uri())
        yield page, seen
    finally:
        page.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "report.html"
    write_bundle(bundle_of(DEMO_STORE, [CUT], molecules=3), path)
    return path


def test_it_opens_from_disk_with_the_figures_of_ask(browser: Browser, report: Path) -> None:
    with opened(browser, report) as (page, seen):
        expect(page.get_by_role("heading", level=1)).to_contain_text("demo-llama:final · group-v2.1")
        rows = list(rows_of(ask(DEMO_STORE, "drift_molecules", [CUT]).tables["main"]))
        table = page.locator("section", has=page.get_by_role("heading", name="Which molecules are worst?")).locator(
            "table"
        )
        heads = table.locator("th").all_inner_texts()
        cells = "rows => rows.map(row => [...row.cells].map(cell => cell.title || cell.textContent))"
        shown = table.locator("tbody tr").evaluate_all(cells)
        assert len(shown) == len(rows) == 64
        names = {"sample_id": "sample", "lost_ang": "off by (Å)", "blocks": "blocks", "tokens": "tokens"}
        for name, head in names.items():
            column = [row[heads.index(head)] for row in shown]
            known = ["" if row[name] is None else float(str(row[name])) for row in rows]
            assert [float(cell) if cell else "" for cell in column] == known, name
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


def test_molecules_that_are_left_out_are_counted(browser: Browser, tmp_path: Path) -> None:
    """Answers, of which several are for one molecule; so where none is in it."""
    path = tmp_path / "report.html"
    for count in (1, 0):
        write_bundle(bundle_of(DEMO_STORE, [demo_run("llama", "none"), CUT], molecules=count), path)
        with opened(browser, path) as (page, _):
            words = f"{count} of 128 answers, the worst molecules first; {128 - count} are left out."
            expect(page.locator("section", has=page.locator("#molecules"))).to_contain_text(words)


def test_dark_narrow_and_printed(browser: Browser, report: Path) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        with opened(browser, report, color_scheme=scheme) as (page, seen):
            page.set_viewport_size({"width": 390, "height": 800})
            expect(page.locator(".molecule canvas").first).to_be_visible()
            assert page.evaluate(SHARE) == 0  # wide tables and charts scroll by themselves
            grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
            page.emulate_media(media="print", color_scheme=scheme)
            expect(page.locator(".molecule .text").last).to_be_visible()
            expect(page.locator(".space").first).to_be_hidden()
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
    data = json.loads(text)
    assert path.name == "report.html" and [source["id"] for source in data["sources"]] == [none, CUT]
    figures = ask(DEMO_STORE, "compare_figures", [none, CUT])
    assert data["answers"][0]["answer"] == figures.answer and data["molecules"]
