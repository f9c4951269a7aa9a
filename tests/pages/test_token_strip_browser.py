"""The token strip in a real browser: hostile pieces, keyboard, selection, appending, the clipboard, and its speed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from pages._shared.components.token_strip import visible
from tests.pages.browser import ROOT, Server, Theme, Visit, serve_quietly, theme_settings
from tests.pages.strip_demo_chips import HOSTILE, generated

pytestmark = pytest.mark.browser

FOCUSED = "list => [...list.querySelectorAll('.chip')].indexOf(list.getRootNode().activeElement)"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "tests/pages/strip_demo.py") as started:
        yield started


@pytest.fixture
def seen(window: Visit) -> Iterator[Visit]:
    window.press("generated")
    expect(chips(window)).to_have_count(len(generated()))
    for chip in tokens(window).locator("[aria-selected=true]").all():
        chip.click()
    expect_selected(window, None)
    yield window
    assert window.outside == []
    assert window.console == []


def tokens(seen: Visit) -> Locator:
    return seen.page.locator(".strip .tokens")


def chips(seen: Visit) -> Locator:
    return tokens(seen).locator(".chip")


def focused(seen: Visit) -> int:
    return int(tokens(seen).evaluate(FOCUSED))


def expect_selected(seen: Visit, index: int | None) -> None:
    """In Python, which the page's own line tells, and on the strip."""
    expect(seen.page.get_by_text(f"selected: {index}", exact=True)).to_be_visible()
    marked = tokens(seen).locator("[aria-selected=true]")
    expect(marked).to_have_count(0 if index is None else 1)


def test_a_hostile_piece_is_text_and_runs_nothing(seen: Visit) -> None:
    seen.press("hostile")
    expect(chips(seen)).to_have_count(len(HOSTILE))
    assert chips(seen).all_text_contents() == [visible(piece) for piece in HOSTILE]
    for number in range(len(HOSTILE)):
        chips(seen).nth(number).hover()
    assert seen.page.locator(".strip").locator("img, script, a").count() == 0
    assert seen.dialogs == []


def test_a_hostile_piece_stays_in_its_place(seen: Visit) -> None:
    seen.press("hostile")
    expect(chips(seen)).to_have_count(len(HOSTILE))
    box = tokens(seen).bounding_box()
    assert box
    places = [place for chip in chips(seen).all() if (place := chip.bounding_box())]
    assert len(places) == len(HOSTILE)
    assert all(box["x"] <= place["x"] and place["x"] + place["width"] <= box["x"] + box["width"] for place in places)
    reading = sorted(range(len(places)), key=lambda i: (round(places[i]["y"]), places[i]["x"]))
    assert reading == list(range(len(places)))  # right-to-left text turns its own chip only


def test_the_keyboard_walks_and_selects(seen: Visit) -> None:
    last = len(generated()) - 1
    seen.page.get_by_role("button", name="Copy text").focus()
    walk = [("Tab", 0), ("ArrowLeft", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("End", last), ("ArrowRight", last)]
    for key, index in [*walk, ("ArrowLeft", last - 1), ("Home", 0)]:
        seen.page.keyboard.press(key)
        assert focused(seen) == index
    seen.page.keyboard.press("ArrowDown")
    below = focused(seen)
    assert below > 10
    seen.page.keyboard.press("ArrowUp")
    assert focused(seen) == 0
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("Enter")
    expect_selected(seen, 1)
    seen.page.keyboard.press("End")
    seen.page.keyboard.press("Space")
    expect_selected(seen, last)
    assert focused(seen) == last
    seen.page.keyboard.press("Escape")
    expect_selected(seen, None)
    expect(tokens(seen).locator("[tabindex='0']")).to_have_count(1)


def test_pages_of_a_long_strip(seen: Visit) -> None:
    seen.press("3,000 chips")
    expect(chips(seen)).to_have_count(3000)
    chips(seen).first.focus()
    stops = [0]
    for _ in range(4):
        seen.page.keyboard.press("PageDown")
        stops.append(focused(seen))
    assert stops == sorted(set(stops))
    assert stops[-1] > 400
    expect(chips(seen).nth(stops[-1])).to_be_in_viewport()
    for _ in range(8):
        seen.page.keyboard.press("PageUp")
        stops.append(focused(seen))
    assert stops[-1] == 0
    seen.page.keyboard.press("End")
    assert focused(seen) == 2999
    expect(chips(seen).nth(2999)).to_be_in_viewport()


def test_a_listbox_for_a_screen_reader(seen: Visit) -> None:
    junk = next(i for i, chip in enumerate(generated()) if chip.mark == "junk")
    seen.page.get_by_role("listbox", name="Generated text").wait_for()
    seen.page.get_by_role("option", name=f"amen, token {junk}, FREE, free choice, junk, block 1").click()
    expect_selected(seen, junk)


def test_details_follow_the_pointer_and_the_focus(seen: Visit) -> None:
    junk = next(i for i, chip in enumerate(generated()) if chip.mark == "junk")
    details = seen.page.locator(".strip .details")
    chips(seen).nth(junk).hover()
    for part in ("amen", str(generated()[junk].id), "FREE", "junk", "fills a position"):
        expect(details).to_contain_text(part)
    chips(seen).first.focus()
    expect(details).to_contain_text("[CONFORMER]")


def test_a_rerun_leaves_the_details_of_the_chip_under_the_pointer(seen: Visit) -> None:
    """A live page reruns four times a second."""
    seen.press("growing")
    expect(chips(seen)).not_to_have_count(len(generated()))
    seen.press("More")  # over the first run, where the ruler comes in and moves the row
    expect(tokens(seen)).to_contain_class("ruled")
    before = chips(seen).count()
    chips(seen).nth(1).hover()
    details = seen.page.locator(".strip .details")
    expect(details).to_contain_text("[C]")
    seen.page.get_by_text("More", exact=True).evaluate("button => button.click()")  # the pointer stays
    expect(chips(seen)).to_have_count(before + 450)
    expect(details).to_contain_text("[C]")


def test_clicking_again_clears(seen: Visit) -> None:
    chips(seen).nth(3).click()
    expect_selected(seen, 3)
    chips(seen).nth(3).click()
    expect_selected(seen, None)


def test_a_rerun_with_the_same_chips_touches_nothing(seen: Visit) -> None:
    seen.press("3,000 chips")
    expect(chips(seen)).to_have_count(3000)
    tokens(seen).evaluate("list => { list.scrollTop = 900; list.querySelector('.chip').mine = true }")
    chips(seen).nth(700).click()
    expect_selected(seen, 700)
    scrolled = tokens(seen).evaluate("list => list.scrollTop")
    focus = focused(seen)
    seen.page.get_by_text("Rerun", exact=True).evaluate("button => button.click()")  # without taking the focus
    seen.settle()
    assert tokens(seen).evaluate("list => list.querySelector('.chip').mine")
    assert tokens(seen).evaluate("list => list.scrollTop") == scrolled > 0
    assert focused(seen) == focus == 700
    expect_selected(seen, 700)


def test_new_chips_are_appended_and_old_ones_kept(seen: Visit) -> None:
    seen.press("growing")
    expect(chips(seen)).not_to_have_count(len(generated()))
    before = chips(seen).count()
    chips(seen).nth(5).click()
    expect_selected(seen, 5)
    tokens(seen).evaluate("list => list.querySelectorAll('.chip').forEach(chip => { chip.mine = true })")
    for count in (before + 450, before + 900):
        seen.press("More")
        expect(chips(seen)).to_have_count(count)
    assert tokens(seen).evaluate("list => [...list.querySelectorAll('.chip')].findIndex(chip => !chip.mine)") == before
    assert chips(seen).nth(905).text_content() == generated()[905 % len(generated())].piece
    assert tokens(seen).locator(".run").count() == -(-(before + 900) // 200)
    expect_selected(seen, 5)


def test_a_text_that_comes_back_has_its_selection_back(seen: Visit) -> None:
    chips(seen).nth(5).click()
    expect_selected(seen, 5)
    seen.press("none")
    expect(seen.page.get_by_text("No tokens.")).to_be_visible()
    seen.press("generated")
    expect_selected(seen, 5)


def test_another_text_ends_the_selection(seen: Visit) -> None:
    chips(seen).nth(5).click()
    expect_selected(seen, 5)
    seen.press("hostile")
    expect(chips(seen)).to_have_count(len(HOSTILE))
    expect_selected(seen, None)
    seen.press("none")
    expect(seen.page.get_by_text("No tokens.")).to_be_visible()


def test_ids_and_text_go_to_the_clipboard(seen: Visit) -> None:
    read = "() => navigator.clipboard.readText()"
    seen.press("Copy ids")
    expect(seen.page.get_by_text("Copied ids.")).to_be_visible()
    assert seen.page.evaluate(read) == " ".join(str(chip.id) for chip in generated())
    seen.press("Copy text")
    expect(seen.page.get_by_text("Copied text.")).to_be_visible()
    assert seen.page.evaluate(read) == "".join(chip.piece for chip in generated())
    seen.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed')) }")
    seen.press("Copy ids")
    expect(seen.page.get_by_text("did not allow copying")).to_be_visible()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_strip_wears_the_theme(seen: Visit, theme: Theme) -> None:
    settings = theme_settings(theme)
    names = {"--copy": "blueTextColor", "--free": "orangeTextColor", "--junk": "violetTextColor"}
    names |= {"--ink": "textColor", "--ground": "backgroundColor"}
    seen.page.emulate_media(color_scheme=theme)
    for name, key in names.items():
        expect(seen.page.locator(".strip")).to_have_css(name, settings[key])
