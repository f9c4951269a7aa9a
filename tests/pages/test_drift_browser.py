"""The Drift inspector in a real browser: views that select one another, keys, clicks on charts and rows, links."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from engine.figures.words import fixed
from engine.inspection.atoms import lost_tokens
from engine.inspection.sample import inspect_sample
from engine.questions import ask
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.pages.browser import Browser, Server, Visit, expect_harmless, shape, shape_words, visit
from tests.pages.canvas_clicks import again, click_at
from tests.pages.drift_stores import CUT, EXACT, WITH_JUNK

pytestmark = pytest.mark.browser

JUNK = f"/drift?run={WITH_JUNK}&sample=13"


def atoms(seen: Visit) -> Locator:
    return seen.page.locator(".molecule .atom-selector")


def row_of(seen: Visit, atom: int) -> Locator:
    return seen.page.locator(f'.atoms .row[data-atom="{atom}"]').first


def expect_atom(seen: Visit, atom: int) -> None:
    """Selected in 2D, in 3D, in its row and in the address."""
    expect(atoms(seen).nth(atom)).to_have_attribute("aria-selected", "true")
    expect(shape_words(seen)).to_contain_text(f"atom {atom},")
    expect(row_of(seen, atom)).to_have_attribute("aria-selected", "true")
    expect(seen.page).to_have_url(re.compile(rf"[?&]atom={atom}(&|$)"))


def test_the_token_that_lost_an_atom_has_a_mark_and_says_how(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={EXACT}&sample=6&atom=7") as seen:
        marked = row_of(seen, 7).locator(".step.lost")
        expect(marked).to_have_count(1)
        expect(row_of(seen, 7).locator(".say")).to_contain_text("Lost at the third token of x, 5: atom 1")
        lost = lost_tokens(inspect_sample(DEMO_STORE, EXACT, 6))
        assert lost
        expect(seen.page.locator(".atoms .text .lost")).to_have_count(len(lost))
        marked.hover()
        expect(seen.page.locator(".atoms .tip")).to_contain_text("Lost at the third token of x, 5: atom 1")
        expect_harmless(seen)


def test_the_whole_answer_is_one_coloured_text_and_a_click_opens_a_row(browser: Browser, demo_server: Server) -> None:
    seen_in_store = inspect_sample(DEMO_STORE, WITH_JUNK, 13)
    assert seen_in_store.alignment is not None
    tokens = [token for token in seen_in_store.alignment.rows if token.pos is not None]
    with visit(browser, demo_server, JUNK) as seen:
        text = seen.page.locator(".atoms .text")
        expect(text).to_have_text(seen_in_store.sample["text"])
        lines = text.evaluate("box => box.clientHeight / parseFloat(getComputedStyle(box).lineHeight)")
        assert lines == pytest.approx(round(lines), abs=0.05), "no line is cut"
        for name, is_so in (
            ("junk", [token.mark == "junk" for token in tokens]),
            ("forced", [bool(token.forced) for token in tokens]),
        ):
            assert 0 < sum(is_so) < len(is_so)
            expect(text.locator(f"[data-column].{name}")).to_have_count(sum(is_so))
        junk = text.locator(".junk").last
        column = junk.get_attribute("data-column")
        junk.click()
        chosen = seen.page.locator(".atoms .row[aria-selected=true]")
        expect(chosen.locator(f'.step[data-column="{column}"]')).to_have_class(re.compile(r"\bon\b"))
        expect(seen.page).to_have_url(re.compile(rf"token={column}(&|$)"))
        sound, whole = chosen.first, seen.page.locator(".atoms .row.sound .ladder").first
        expect(sound).to_be_in_viewport()
        first, last = whole.locator(".step").first.bounding_box(), whole.locator(".step").nth(5).bounding_box()
        assert first is not None and last is not None and first["y"] == last["y"], "a row without harm is one line"
        expect(seen.page.locator(".atoms .heads")).to_have_text("atomtokens over the template’sneeded of givendamageÅ")
        expect_harmless(seen)


def test_a_token_lights_its_atom_and_keys_move(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, JUNK) as seen:
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
        expect(shape_words(seen)).to_contain_text("atom 3,")
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


def test_views_are_in_one_screen_and_a_wrong_centre_is_marked(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={EXACT}&sample=0", width=1000, height=900) as seen:
        for view in (atoms(seen).first, shape(seen), seen.page.locator(".atoms .step").first):
            expect(view).to_be_in_viewport(ratio=0.5)
        seen.press("stereo: mirrored (atom 1)")
        expect_atom(seen, 1)
        expect(seen.page.locator(".molecule svg")).to_contain_text("✗")
        expect(shape_words(seen)).to_contain_text("wrong in space")
        expect(row_of(seen, 1)).to_contain_text("mirrored")
        expect_harmless(seen)


def test_a_link_restores_all_of_it_and_keys_lead_on(browser: Browser, demo_server: Server) -> None:
    path = f"{JUNK}&atom=5&token=97&show=With+junk&order=As+written&by=Element&bin=element~C~1&under={EXACT}"
    with visit(browser, demo_server, path) as seen:
        expect_atom(seen, 5)
        expect(seen.page.locator('.atoms .row:not(.other) .step[data-column="97"]').last).to_have_class(
            re.compile(r"\bon\b")
        )
        others = seen.page.locator(".atoms .row.other")
        expect(others).to_have_count(atoms(seen).count())
        expect(others.first.locator(".name")).to_have_text("exact")
        expect(seen.page.get_by_role("button", name="Only molecules with drift +1 · element C")).to_be_visible()
        expect(seen.page.get_by_role("button", name="As written, with junk")).to_be_visible()
        expect(cells(seen, "[aria-selected=true]")).to_have_attribute("title", re.compile("sample 13$"))
        seen.press("Table")
        chosen = seen.page.locator("[data-testid=stButtonGroup] [data-selected=true]")
        expect(chosen).to_have_text(["With junk"])
        expect(seen.page.get_by_label("Drift by")).to_have_value("Element")
        expect_harmless(seen)


def test_a_bar_of_the_histogram_filters_the_table(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={WITH_JUNK}&view=Table") as seen:
        bars = seen.page.locator(".js-plotly-plot .bars .point path")
        expect(bars.first).to_be_visible()
        chip = seen.page.get_by_role("button", name="Only molecules with a cut block")
        click_at(seen, bars.first, chip)
        expect(seen.page.get_by_text(re.compile(f"^{CUT} of 64 samples"))).to_be_visible()
        expect(seen.page).to_have_url(re.compile("bin="))
        again(chip.click, lambda limit_ms: expect(chip).to_have_count(0, timeout=limit_ms))
        expect(seen.page.get_by_text(re.compile("^64 samples"))).to_be_visible()
        expect_harmless(seen)


def cells(seen: Visit, more: str = "") -> Locator:
    return seen.page.locator(f".molecules .cell{more}:visible")


def test_the_list_is_filtered_by_typing_and_walked_by_arrows(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={WITH_JUNK}&order=As+written", width=1000, height=700) as seen:
        expect(cells(seen)).to_have_count(64)
        seen.page.get_by_placeholder("Type to filter").fill("1 CUT")
        found = cells(seen)
        expect(found).not_to_have_count(64)
        assert all("1 cut" in words for words in found.all_inner_texts()) and found.count() > 2
        seen.page.get_by_placeholder("Type to filter").fill("8 junk 1 cut")  # as the row shows it
        expect(cells(seen).first).to_be_visible()
        seen.page.get_by_placeholder("Type to filter").fill("1 cut")
        wanted = [re.findall(r"sample (\d+)$", cell.get_attribute("title") or "")[0] for cell in found.all()[:2]]
        for sample in wanted:
            seen.page.keyboard.press("ArrowDown")
            expect(seen.page).to_have_url(re.compile(f"sample={sample}(&|$)"))
        expect(cells(seen, "[aria-selected=true]")).to_be_focused()
        expect(found.first).to_be_in_viewport()  # it stays in sight beside the last row of the molecule
        seen.settle()  # the rows of the molecule before go
        row = seen.page.locator(".atoms .row").last
        row.scroll_into_view_if_needed()
        expect(cells(seen, "[aria-selected=true]")).to_be_in_viewport()
        expect_harmless(seen)


def test_the_list_marks_the_open_molecule_under_another_theme_too(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={WITH_JUNK}&order=As+written&sample=3") as seen:
        chosen = cells(seen, "[aria-selected=true]")
        expect(chosen).to_have_attribute("title", re.compile("sample 3$"))
        before = chosen.locator("img").get_attribute("src")
        seen.page.emulate_media(color_scheme="dark")
        expect(chosen.locator("img")).not_to_have_attribute("src", before or "")  # another drawing, so another list
        expect(chosen).to_have_attribute("title", re.compile("sample 3$"))
        expect_harmless(seen)


def test_a_token_of_another_run_says_what_that_run_wrote(browser: Browser, demo_server: Server) -> None:
    other = inspect_sample(DEMO_STORE, EXACT, 13)
    assert other.alignment is not None
    with visit(browser, demo_server, f"{JUNK}&under={EXACT}&rows=Order+of+the+text") as seen:
        rows = seen.page.locator('.atoms .row[data-atom="5"]')
        expect(rows).to_have_count(2)
        step = rows.last.locator(".step").nth(3)
        column = int(step.get_attribute("data-column") or -1)
        step.hover()
        expect(seen.page.locator(".atoms .tip")).to_contain_text(f"id {other.alignment.rows[column].token_id}")
        expect_harmless(seen)


def test_a_cell_opens_its_molecule_and_back_undoes_one_pick_at_a_time(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"{JUNK}&order=As+written&atom=5") as seen:
        expect_atom(seen, 5)
        cells(seen).nth(12).click()
        expect(seen.page).to_have_url(re.compile("sample=12&order"))
        seen.page.go_back()
        expect(seen.page).to_have_url(re.compile("sample=13&.*atom=5"))
        expect_atom(seen, 5)
        row_of(seen, 4).locator(".name").click()
        expect_atom(seen, 4)
        atoms(seen).nth(1).click()
        expect_atom(seen, 1)
        expect(seen.page).to_have_url(re.compile("sample=13(&|$)"))
        expect_harmless(seen)


def test_on_a_narrow_screen_the_list_is_above_and_compact(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={WITH_JUNK}", width=400, height=900) as seen:
        molecules, verdict = (
            seen.page.locator(".molecules").bounding_box(),
            seen.page.locator(".molecule").bounding_box(),
        )
        assert molecules is not None and verdict is not None
        assert molecules["y"] + molecules["height"] < verdict["y"] and molecules["height"] < 250
        assert seen.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        expect_harmless(seen)


def test_what_the_model_believes_is_drawn_in_each_row_as_the_question_has_it(
    browser: Browser, demo_server: Server
) -> None:
    with visit(browser, demo_server, f"/drift?run={EXACT}&sample=6") as seen:
        seen.page.get_by_role("button", name="Show what it believes of each number").click()
        curves = row_of(seen, 7).locator(".curve")
        expect(curves).to_have_count(3, timeout=120_000)
        rows = ask(DEMO_STORE, "drift_belief", [f"{EXACT}/6"]).tables["main"].to_pylist()
        expect(seen.page.locator(".atoms .curve")).to_have_count(len(rows))
        for curve, row in zip(curves.all(), [row for row in rows if row["atom"] == 7], strict=True):
            expect(curve).to_contain_text(f"{row['axis']} {fixed(row['mean'], 2)} ± {fixed(row['spread'], 3)}")
            expect(curve.locator(".area")).to_have_attribute("d", re.compile(r"^M[\d.]+ 16V"))
            expect(curve).to_have_attribute("title", re.compile(f"given .*written {fixed(row['written'], 4)}"))
        struck = [row for row in rows if (row["struck"] or 0) > 0.05]
        drawn = seen.page.locator('.atoms .struck-area[d^="M"]')
        assert struck and drawn.count() >= len(struck)
        expect(seen.page.locator(".atoms .caption")).to_contain_text("each given the numbers before it")
        seen.page.mouse.move(2, 2)  # no atom is pointed at
        expect(shape_words(seen)).to_contain_text("each axis given those before")
        expect_harmless(seen)


def test_a_text_without_a_law_has_the_answer_in_place_of_curves(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, f"/drift?run={demo_run('qwen', 'group-v4.3')}&sample=18") as seen:
        seen.page.get_by_role("button", name="Show what it believes of each number").click()
        expect(seen.page.get_by_text("No number of this text has a law: demo-qwen:final")).to_be_visible(
            timeout=120_000
        )
        expect(seen.page.locator(".atoms .curve")).to_have_count(0)
        assert not seen.page.get_by_text("violet").count() and not seen.page.get_by_text("curves:").count()
        expect_harmless(seen)
