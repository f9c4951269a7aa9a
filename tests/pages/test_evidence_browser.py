"""The Evidence page in a real browser: the list by pointer and keyboard, links, the query behind a figure."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from engine.evidence.claims import load_claims
from engine.evidence.verdicts import load
from pages._evidence.claims import judged_claims
from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, visit
from tests.pages.canvas_clicks import click_at

pytestmark = pytest.mark.browser

ROWS = judged_claims(load_claims(), load())
ALL = "/evidence?view=All+claims"
IN_LIST = """row => {
  const [mine, list] = [row, row.closest('.list')].map(element => element.getBoundingClientRect());
  return mine.top >= list.top && mine.bottom <= list.bottom + 1;
}"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py") as started:
        yield started


def rows_of(seen: Visit) -> Locator:
    return seen.page.locator(".claims .row")


def row(seen: Visit, id_: str) -> Locator:
    place = next(place for place, one in enumerate(ROWS) if one.id == id_)
    return seen.page.locator(f'.claims .row[data-place="{place}"]')


def expect_open(seen: Visit, id_: str) -> None:
    """Selected and in sight in the list, told beside it, and in the address."""
    expect(row(seen, id_)).to_have_attribute("aria-selected", "true")
    seen.page.wait_for_function(IN_LIST, arg=row(seen, id_).element_handle())
    expect(seen.page.locator(".st-key-claim-heading").get_by_text(id_, exact=True).first).to_be_visible()
    expect(seen.page).to_have_url(re.compile(rf"[?&]claim={re.escape(id_)}(&|$)"))


def test_the_first_visit_leads_from_a_conclusion_to_its_query(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence", theme="dark") as seen:
        expect(seen.page.locator(".js-plotly-plot .bars .point path").first).to_be_visible()
        card = seen.page.locator(".st-key-card-002-cannot-be-faster")
        card.get_by_role("button", name="Open").click()
        expect_open(seen, "002-cannot-be-faster")
        expect(seen.page.get_by_text("FROM runs").first).to_be_visible()
        keyword = seen.page.locator("[data-testid=stCode] .keyword").first
        expect(keyword).to_have_css("color", "rgb(98, 184, 234)")  # as the theme writes blue: 4.5:1
        expect(seen.page.locator("button kbd").first).to_have_css("opacity", "1")
        seen.page.go_back()
        expect(seen.page.get_by_text("Select a claim")).to_be_visible()
        expect(seen.page).to_have_url(f"{server.url}/evidence?view=All+claims")
        seen.page.go_back()
        expect(card).to_be_visible()
        expect(seen.page).to_have_url(f"{server.url}/evidence")
        expect_harmless(seen)


def test_a_part_of_a_bar_leads_to_its_claims(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence") as seen:
        bars = seen.page.locator(".js-plotly-plot .bars").nth(1).locator(".point path")
        count = sum(row.name == "contradicted" and row.claim.report == "000" for row in ROWS)
        click_at(seen, bars.first, seen.page.get_by_text(f"{count} of {len(ROWS)} claims"))
        expect(seen.page).to_have_url(re.compile("verdict=contradicted"))
        expect(seen.page.get_by_role("listbox").get_by_role("option")).to_have_count(count)
        expect_harmless(seen)


def test_the_list_by_pointer_and_by_keyboard(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{ALL}&report=003&verdict=contradicted") as seen:
        left = [one.id for one in ROWS if one.claim.report == "003" and one.name == "contradicted"]
        shown = seen.page.get_by_role("listbox").get_by_role("option")
        expect(shown).to_have_count(len(left))
        row(seen, left[2]).click()
        expect_open(seen, left[2])
        row(seen, left[2]).press("End")
        expect(row(seen, left[-1])).to_be_focused()
        row(seen, left[-1]).press("ArrowUp")
        row(seen, left[-2]).press("Enter")
        expect_open(seen, left[-2])
        row(seen, left[-2]).press("Escape")
        expect(row(seen, left[-2])).to_have_attribute("aria-selected", "false")
        expect(seen.page.get_by_text("Select a claim")).to_be_visible()
        expect(seen.page).not_to_have_url(re.compile("claim="))
        expect_harmless(seen)


def test_next_and_previous_by_keyboard(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{ALL}&claim={ROWS[0].id}", width=1000) as seen:
        expect_open(seen, ROWS[0].id)
        expect(seen.page.get_by_text(f"1 of {len(ROWS)}")).to_be_visible()
        figures = row(seen, ROWS[0].id).locator(".figure")  # no column has room for a title
        titles = figures.evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
        assert titles == ['"reported"', '"found"']
        seen.page.keyboard.press("Alt+ArrowDown")
        expect_open(seen, ROWS[1].id)
        seen.page.get_by_role("button", name="Previous Shortcut").click()
        expect_open(seen, ROWS[0].id)
        expect_harmless(seen)


def test_a_link_restores_filters_and_claim(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence?claim=003-layers-qwen-whole&find=layers&figure=true") as seen:
        expect_open(seen, "003-layers-qwen-whole")
        expect(seen.page.get_by_label("Contains", exact=True)).to_have_value("layers")
        expect(seen.page.get_by_text(f" of {len(ROWS)} claims")).to_be_visible()
        seen.press("Clear filters")
        expect(seen.page.get_by_role("listbox").get_by_role("option")).to_have_count(len(ROWS))
        expect(seen.page).not_to_have_url(re.compile("find=|figure="))
        expect_open(seen, "003-layers-qwen-whole")
        expect_harmless(seen)


def test_filters_that_leave_nothing_say_so(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{ALL}&find=zzz+zzz") as seen:
        expect(seen.page.get_by_text("No claim is left by the filters above.")).to_be_visible()
        expect(seen.page.get_by_role("option")).to_have_count(0)
        seen.fill("Contains", "9.7 GB")
        expect(row(seen, "001-mask-size")).to_be_visible()
        expect_harmless(seen)


def test_the_text_of_a_claim_opens_in_the_tokenizer_lab(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence?claim=000-quoted-junk") as seen:
        lab = _opened(seen, "Open in the Tokenizer lab")
        expect(lab.get_by_role("textbox").first).to_have_value(re.compile("0.8415amen"))
        expect(lab.get_by_text("Anything non-numeric")).to_be_visible()
        expect_harmless(seen)


def test_the_query_opens_in_the_console_and_gives_the_figure(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence?claim=000-junk-is-the-cost") as seen:
        console = _opened(seen, "Open in the SQL console")
        expect(console).to_have_title(re.compile("Compare"))
        expect(console.get_by_role("tab", name="SQL")).to_have_attribute("aria-selected", "true")
        console.get_by_role("button", name="Run", exact=True).click()
        found = next(one.measured for one in ROWS if one.id == "000-junk-is-the-cost")
        assert found is not None
        expect(console.get_by_text(re.compile(f"^{str(found)[:4]}")).first).to_be_attached()
        expect_harmless(seen)


def _opened(seen: Visit, name: str) -> Page:
    """The page that a link opens, in this tab or in another."""
    link = seen.page.get_by_role("link", name=name)
    if link.get_attribute("target") != "_blank":
        link.click()
        return seen.page
    with seen.page.context.expect_page() as opened:
        link.click()
    return opened.value


def test_judging_anew_says_when(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/evidence") as seen:
        seen.page.get_by_role("button", name="Re-check all claims").click()
        expect(seen.page.get_by_text("computed on this page, lost when the app stops")).to_be_visible()
        expect(seen.page.get_by_text("Out of date")).to_have_count(0)
        expect_harmless(seen)


def test_texts_that_could_hurt_are_text(browser: Browser) -> None:
    with serve_quietly(ROOT / "tests" / "pages" / "claims_demo.py") as alone, visit(browser, alone) as seen:
        expect(rows_of(seen)).to_have_count(4)
        expect(rows_of(seen).first.locator(".statement")).to_have_text("<img src=x onerror=alert(1)>")
        expect(rows_of(seen).nth(1).locator("code")).to_have_text("<script>alert(2)</script>")
        expect(rows_of(seen).nth(3).locator(".statement")).to_have_text("odd ` one")
        rows_of(seen).nth(2).click()
        expect(seen.page.get_by_text("selected: 2")).to_be_visible()
        seen.press("Only the first")
        expect(seen.page.get_by_role("listbox").get_by_role("option")).to_have_count(1)
        expect_harmless(seen)
