"""The Drift inspector in a real browser: views that select one another, links, hostile junk, a model that is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import FrameLocator, Locator, expect

from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve, serve_quietly, visit
from tests.pages.canvas_clicks import click_at, click_away, click_row, open_picker
from tests.pages.drift_stores import (
    BARE,
    CUT,
    EXACT,
    GUARDED,
    HOSTILE,
    WITH_JUNK,
    add_bare,
    add_guarded,
    add_hostile,
    add_imported,
    add_verdicts,
    store_at,
    with_demo,
)
from tests.support import of_soak

pytestmark = pytest.mark.browser

MODEL_LIMIT_MS = 120_000
JUNK = f"/drift?run={WITH_JUNK}&sample=13"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("drift")
    store = with_demo(folder / "store", WITH_JUNK, EXACT)
    add_verdicts(store, EXACT)
    add_bare(store)
    add_guarded(store)
    add_hostile(store)
    add_imported(store, folder)
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(folder / "store")}) as started:
        yield started


def atoms(seen: Visit) -> Locator:
    return seen.page.locator(".molecule .atom-selector")


def shape(seen: Visit) -> FrameLocator:
    return seen.page.frame_locator("iframe[title^='3D view of']")


def tokens(seen: Visit) -> Locator:
    return seen.page.locator(".atoms .row:not(.other) .step")


def row_of(seen: Visit, atom: int) -> Locator:
    return seen.page.locator(f'.atoms .row[data-atom="{atom}"]').first


def expect_atom(seen: Visit, atom: int) -> None:
    """Selected in 2D, in 3D, in its row and in the address."""
    expect(atoms(seen).nth(atom)).to_have_attribute("aria-selected", "true")
    expect(shape(seen).get_by_role("status")).to_contain_text(f"atom {atom},")
    expect(row_of(seen, atom)).to_have_attribute("aria-selected", "true")
    expect(seen.page).to_have_url(re.compile(rf"[?&]atom={atom}(&|$)"))


def test_a_token_lights_its_atom_and_keys_move(browser: Browser, server: Server) -> None:
    with visit(browser, server, JUNK) as seen:
        token = row_of(seen, 5).locator(".step").nth(3)
        token.click()
        expect(token).to_have_class(re.compile(r"\bon\b"))
        expect(seen.page).to_have_url(re.compile(r"token=\d+"))
        expect_atom(seen, 5)
        expect(seen.page.locator(".atoms .tip")).to_contain_text("id ")
        atoms(seen).nth(9).click()
        expect_atom(seen, 9)
        expect(row_of(seen, 9)).to_be_in_viewport()
        atoms(seen).nth(3).hover()
        expect(shape(seen).get_by_role("status")).to_contain_text("atom 3,")
        expect(row_of(seen, 3)).to_have_class(re.compile(r"\blit\b"))
        rows = seen.page.locator(".atoms .row")
        rows.first.focus()
        rows.first.press("ArrowDown")
        expect(rows.nth(1)).to_be_focused()
        rows.nth(1).press("ArrowRight")
        expect(rows.nth(1).locator(".step").first).to_be_focused()
        seen.page.keyboard.press("Enter")
        expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
        seen.page.keyboard.press("Escape")
        expect(seen.page).not_to_have_url(re.compile("atom="))
        expect_harmless(seen)


@pytest.mark.parametrize(("run", "width"), [(WITH_JUNK, 1000), (EXACT, 1440)])
def test_drawing_conformer_and_rows_are_in_one_screen(browser: Browser, server: Server, run: str, width: int) -> None:
    with visit(browser, server, f"/drift?run={run}", width=width, height=900) as seen:
        for view in (atoms(seen).first, shape(seen).get_by_role("application"), tokens(seen).first):
            expect(view).to_be_in_viewport(ratio=0.5)


def test_another_runs_tokens_stand_under_each_row(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={WITH_JUNK}&sample=0&under={EXACT}") as seen:
        others = seen.page.locator(".atoms .row.other")
        expect(atoms(seen).first).to_be_visible()
        expect(others).to_have_count(atoms(seen).count())
        expect(others.first.locator(".name")).to_have_text("exact")


LINE_STARTS = """words => {
  const range = document.createRange();
  range.selectNodeContents(words);
  return [...range.getClientRects()].map((line) => line.left);
}"""


def test_a_narrow_heading_takes_two_lines_and_cuts_nothing(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={WITH_JUNK}", width=800, height=900) as seen:
        expect(atoms(seen).first).to_be_visible()
        heading = seen.page.locator(".st-key-molecule-heading")
        smiles, back, on = (
            heading.locator(name).bounding_box() for name in ("pre", "button >> nth=-2", "button >> nth=-1")
        )
        assert smiles is not None and back is not None and on is not None
        assert abs(back["y"] - on["y"]) < 2 and smiles["y"] + smiles["height"] <= back["y"]
        failed = seen.page.locator(".st-key-failed button p").first
        expect(failed).to_contain_text("(atom 1)")
        assert failed.evaluate("words => words.scrollWidth <= words.clientWidth + 1")
        assert failed.evaluate("words => getComputedStyle(words).whiteSpace") == "normal"
        lines = failed.evaluate(LINE_STARTS)
        assert len(lines) > 1 and max(lines) - min(lines) < 2


RUNS_IN_ADDRESS = "count => new URLSearchParams(location.search).getAll('run').length === count"


def test_the_first_tick_replaces_the_default_and_later_ones_leave_the_list_where_it_is(
    browser: Browser, server: Server
) -> None:
    with visit(browser, server, "/drift?run_model=demo-qwen:final", width=1000) as seen:
        expect(seen.page.get_by_text("Runs: demo-llama:final")).to_be_visible()  # which the filter hides in the table
        open_picker(seen)
        model = seen.page.locator("[data-tag] [title='demo-qwen:final']").last
        expect(model).to_be_visible()
        assert model.evaluate("value => value.scrollWidth <= value.clientWidth")
        click_row(seen, 0, 0)
        expect(seen.page.get_by_text("Runs: demo-qwen:final")).to_be_visible()
        seen.page.wait_for_function(RUNS_IN_ADDRESS, arg=1)
        table = seen.page.get_by_test_id("stDataFrame").locator(".dvn-scroller").first.element_handle()
        click_row(seen, 0, 1)
        seen.page.wait_for_function(RUNS_IN_ADDRESS, arg=2)
        expect(model).to_be_visible()
        assert table.evaluate("scroller => scroller.isConnected")  # the same table, so it did not scroll to its top
        expect_harmless(seen)


def test_a_wrong_centre_is_seen_in_2d_in_3d_and_in_the_tokens(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={EXACT}&sample=0") as seen:
        seen.press("stereo: mirrored (atom 1)")
        expect_atom(seen, 1)
        expect(seen.page.locator(".molecule svg")).to_contain_text("✗")
        expect(shape(seen).get_by_role("status")).to_contain_text("wrong in space")
        expect(row_of(seen, 1)).to_contain_text("mirrored")
        expect(row_of(seen, 1)).to_be_in_viewport()
        expect_harmless(seen)


def test_blocks_that_were_drawn_anew_are_marked_and_say_why(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={GUARDED}&sample=0") as seen:
        row_of(seen, 1).click()
        expect_atom(seen, 1)
        expect(row_of(seen, 1)).to_contain_text("drawn 2 times; thrown away for: bonds")
        expect(seen.page.get_by_text("Tries of block 1 thrown away (1 of 2)")).to_be_visible()
        expect_harmless(seen)


def test_a_link_restores_all_of_it(browser: Browser, server: Server) -> None:
    path = f"{JUNK}&atom=5&token=97&show=With+junk&order=As+written&by=Element&bin=element~C~1"
    with visit(browser, server, path) as seen:
        expect_atom(seen, 5)
        expect(seen.page.locator('.atoms .step[data-column="97"]')).to_have_class(re.compile(r"\bon\b"))
        expect(seen.page.get_by_role("button", name="Only molecules with drift +1 · element C")).to_be_visible()
        open_picker(seen, 1)
        chosen = seen.page.locator("[data-testid=stButtonGroup] [data-selected=true]")
        expect(chosen).to_have_text(["With junk", "Worst first"])
        expect(seen.page.get_by_label("Drift by")).to_have_value("Element")
        expect(seen.page.get_by_text(re.compile(r"^row \d+ of \d+, as written$"))).to_be_visible()
        expect_harmless(seen)


def test_filters_that_leave_nothing_can_be_dropped_at_once(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={EXACT}&show=Failed&contains=zz") as seen:
        expect(seen.page.get_by_text("No match")).to_be_visible()
        seen.press("Clear filters")
        expect(seen.page.get_by_text(re.compile("^64 samples"))).to_be_visible()
        expect(seen.page).not_to_have_url(re.compile("show=|contains="))
        expect_harmless(seen)


def test_next_and_previous_by_keyboard(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={WITH_JUNK}&order=As+written&sample=0") as seen:
        expect(seen.page.get_by_text("row 1 of 64")).to_be_visible()
        expect(seen.page.get_by_role("button", name="Next Shortcut")).to_be_enabled()
        seen.page.keyboard.press("Alt+ArrowDown")
        expect(seen.page.get_by_text("row 2 of 64")).to_be_visible()
        expect(seen.page).to_have_url(re.compile("sample=1(&|$)"))
        seen.page.get_by_role("button", name="Previous Shortcut").click()
        expect(seen.page.get_by_text("row 1 of 64")).to_be_visible()
        expect_harmless(seen)


def test_a_bar_of_the_histogram_filters_the_table(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={WITH_JUNK}") as seen:
        open_picker(seen, 1)
        bars = seen.page.locator(".js-plotly-plot .bars .point path")
        expect(bars.first).to_be_visible()
        chip = seen.page.get_by_role("button", name="Only molecules with drift +2 · LP group-v2.1")
        click_at(seen, bars.nth(4), chip)  # behind cut, −1, 0 and +1
        expect(seen.page.get_by_text(re.compile(r"^\d+ of 64 samples"))).to_be_visible()
        expect(seen.page).to_have_url(re.compile("bin="))
        click_away(chip)
        expect(bars.first).to_be_visible()
        chip = seen.page.get_by_role("button", name="Only molecules with a cut block")
        click_at(seen, bars.first, chip)
        expect(seen.page.get_by_text(re.compile(f"^{CUT} of 64 samples"))).to_be_visible()
        click_away(chip)
        expect(seen.page.get_by_text(re.compile("^64 samples"))).to_be_visible()
        expect_harmless(seen)


def test_a_row_opens_its_molecule_and_back_undoes_one_pick_at_a_time(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"{JUNK}&order=As+written&atom=5") as seen:
        expect_atom(seen, 5)
        open_picker(seen, 1)
        expect(seen.page.get_by_test_id("data-grid-canvas")).to_have_count(2)  # of molecules, judged texts
        grid = seen.page.locator("[data-testid=stDataFrame]:visible .dvn-scroller").first
        assert grid.evaluate("grid => grid.scrollHeight <= grid.clientHeight")  # the page keeps its wheel
        click_row(seen, 0, 2, 66, left_px=300)  # its words, on the page of rows 11 to 20
        expect(seen.page).to_have_url(re.compile("sample=12&order"))
        expect(seen.page.get_by_text("row 13 of 64")).to_be_visible()
        expect(seen.page.get_by_text("Show only")).not_to_be_visible()  # the molecule takes the table's place
        seen.page.go_back()
        expect(seen.page).to_have_url(re.compile("sample=13&.*atom=5"))
        expect_atom(seen, 5)
        expect(seen.page.get_by_test_id("data-grid-canvas")).to_have_count(0)
        row_of(seen, 4).locator(".name").click()
        expect_atom(seen, 4)
        row_of(seen, 6).locator(".name").click()
        expect_atom(seen, 6)
        atoms(seen).nth(1).click()
        expect_atom(seen, 1)
        expect(seen.page).to_have_url(re.compile("sample=13(&|$)"))
        expect_harmless(seen)


@of_soak
def test_a_run_without_steps_is_scored_by_a_model(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={BARE}&sample=0") as seen:
        expect(seen.page.get_by_text("no probabilities stored")).to_be_visible()
        seen.page.get_by_role("button", name="Compute token probabilities").click()
        expect(seen.page.get_by_text("probabilities by demo-llama:final")).to_be_visible(timeout=MODEL_LIMIT_MS)
        expect_harmless(seen)


def test_hostile_junk_is_text(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={HOSTILE}") as seen:
        expect(tokens(seen).filter(has_text="img").first).to_be_attached()
        expect(atoms(seen)).to_have_count(2)
        atoms(seen).nth(1).click()
        expect_atom(seen, 1)
        seen.press("Junk lexicon")
        expect(seen.page.get_by_text(re.compile("Most frequent: "))).to_be_visible()
        assert seen.page.locator("img[src=x]").count() == 0
        expect_harmless(seen)


def test_imported_text_says_what_cannot_be_shown(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/drift?run=imported") as seen:
        expect(seen.page.get_by_text("Not available")).to_be_visible()
        expect(seen.page.get_by_text("Only the text is stored")).to_be_visible()
        expect(tokens(seen).first).to_be_visible()
        seen.press("What the LP did")
        expect(seen.page.get_by_text("this run stored no token probabilities")).to_be_visible()
        expect_harmless(seen)


def test_what_the_lp_did(browser: Browser, server: Server) -> None:
    with visit(browser, server, f"/drift?run={EXACT}&view=What+the+LP+did") as seen:
        expect(seen.page.get_by_text("Does the LP overrule the model?")).to_be_visible()
        expect(seen.page.locator(".js-plotly-plot")).to_have_count(5)
        expect_harmless(seen)


def test_an_unknown_run_is_one_message_and_a_way_on(browser: Browser, server: Server) -> None:
    with visit(browser, server, "/drift?run=nothing-like-it") as seen:
        expect(seen.page.get_by_role("alert")).to_have_count(1)
        expect(seen.page.get_by_role("alert")).to_contain_text("There is no run 'nothing-like-it' with samples.")
        expect(seen.page.get_by_text("Tick runs in the table.")).to_be_visible()
        expect_harmless(seen)


def test_an_empty_store_says_how_to_fill_it(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("empty")
    store_at(place)
    with serve(ROOT / "pages" / "drift.py", env={"DRIFTSCOPE_STORE": str(place)}) as alone:
        with visit(browser, alone) as seen:
            expect(seen.page.get_by_text("There is no run with samples in this store yet")).to_be_visible()
            expect_harmless(seen)
        assert "Traceback" not in alone.log()
