"""The alignment strip in a real browser: picks and who confirms them, keyboard, details, hostile pieces, its speed."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.pages.alignment_demo import HOSTILE, LONG, stored
from tests.pages.browser import ROOT, Server, Theme, Visit, expect_harmless, serve_quietly, theme_settings

pytestmark = pytest.mark.browser

FOCUSED = "track => Number(track.getRootNode().activeElement?.getAttribute('aria-posinset') ?? 0) - 1"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "tests/pages/alignment_demo.py") as started:
        yield started


@pytest.fixture
def seen(window: Visit) -> Iterator[Visit]:
    choose(window, "empty", 0)
    choose(window, "group-v2.1", len(stored("group-v2.1").columns))
    window.press("Outline none")
    yield window
    expect_harmless(window)


def choose(seen: Visit, choice: str, count: int) -> None:
    seen.press(choice)
    if count:
        expect(strip(seen).locator(".count")).to_have_text(f"{count:,} columns")
    else:
        expect(seen.page.get_by_text("No tokens to align.")).to_be_visible()


def strip(seen: Visit) -> Locator:
    return seen.page.locator(".alignment")


def track(seen: Visit) -> Locator:
    return strip(seen).locator(".track")


def column(seen: Visit, index: int) -> Locator:
    return track(seen).locator(f'.col[aria-posinset="{index + 1}"]')


def focused(seen: Visit) -> int:
    return int(track(seen).evaluate(FOCUSED))


def scrolled(seen: Visit) -> float:
    return float(strip(seen).locator(".scroller").evaluate("scroller => scroller.scrollLeft"))


def expect_picked(seen: Visit, index: int | None) -> None:
    """In Python, which the page's own line tells, and on the strip."""
    expect(seen.page.get_by_text(re.compile(rf"^picked: {index} "))).to_be_visible()
    marked = track(seen).locator("[aria-selected=true]")
    expect(marked).to_have_count(0 if index is None else 1)
    if index is not None:
        expect(column(seen, index)).to_have_attribute("aria-selected", "true")


def marks(choice: str) -> list[int]:
    return [i for i, row in enumerate(stored(choice).columns) if row.mark]


# --- picking ----------------------------------------------------------------------------------------------------------


def test_a_click_picks_and_a_second_one_clears(seen: Visit) -> None:
    column(seen, 5).click()
    expect_picked(seen, 5)
    column(seen, 7).click()
    expect_picked(seen, 7)
    column(seen, 7).click()
    expect_picked(seen, None)


def test_a_click_shows_before_python_answers(seen: Visit) -> None:
    """Highlighted in the same frame, whatever the server is doing."""
    at_once = column(seen, 5).evaluate("col => { col.click(); return col.getAttribute('aria-selected') }")
    assert at_once == "true"
    expect_picked(seen, 5)


def test_an_older_answer_does_not_take_a_newer_pick_away(seen: Visit) -> None:
    """The run after the first pick ends while the second is under way: it knows of the first only."""
    watch = """track => {
        const [one, other] = [6, 8].map((at) => track.querySelector(`[aria-posinset="${at}"]`));
        one.click();
        track.taken = 0;
        const words = [...document.querySelectorAll("[data-testid=stText]")].at(-1);
        const pickOther = new MutationObserver(() => {
            pickOther.disconnect();
            other.click();
            const count = () => { track.taken += other.getAttribute("aria-selected") === "true" ? 0 : 1; };
            new MutationObserver(count).observe(other, { attributeFilter: ["aria-selected"] });
        });
        pickOther.observe(words, { subtree: true, childList: true, characterData: true });
    }"""
    track(seen).evaluate(watch)
    expect_picked(seen, 7)
    assert track(seen).evaluate("track => track.taken") == 0


def test_python_selects_and_the_column_comes_into_view(seen: Visit) -> None:
    last = len(stored("group-v2.1").columns) - 1
    seen.press("Select the last")
    expect_picked(seen, last)
    expect(column(seen, last)).to_be_in_viewport()
    assert scrolled(seen) > 1000
    seen.press("Select none")
    expect_picked(seen, None)


def test_a_block_is_outlined_and_comes_into_view(seen: Visit) -> None:
    outline = strip(seen).locator(".outline")
    expect(outline).to_be_hidden()
    seen.press("Outline block 5")
    expect(outline).to_be_visible()
    columns = stored("group-v2.1").columns
    of_block = [i for i, row in enumerate(columns) if row.block == 5]
    expect(column(seen, of_block[0])).to_be_in_viewport()
    frame, first, last = [
        place.bounding_box() for place in (outline, column(seen, of_block[0]), column(seen, of_block[-1]))
    ]
    assert frame and first and last
    assert abs(frame["x"] - first["x"]) < 1
    assert abs(frame["x"] + frame["width"] - last["x"] - last["width"]) < 1


def test_a_rerun_with_the_same_columns_touches_nothing(seen: Visit) -> None:
    column(seen, 3).click()
    expect_picked(seen, 3)
    track(seen).evaluate("track => { track.querySelectorAll('.col').forEach(col => { col.mine = true }) }")
    strip(seen).locator(".scroller").evaluate("scroller => { scroller.scrollLeft = 300 }")
    seen.page.get_by_text("Rerun", exact=True).evaluate("button => button.click()")  # without taking the focus
    seen.settle()
    assert scrolled(seen) == 300
    assert column(seen, 3).evaluate("col => col.mine") is True
    assert focused(seen) == 3
    expect_picked(seen, 3)


def test_another_text_ends_the_selection(seen: Visit) -> None:
    column(seen, 5).click()
    expect_picked(seen, 5)
    choose(seen, "exact", len(stored("exact").columns))
    expect_picked(seen, None)
    assert scrolled(seen) == 0


def test_a_reloaded_page_has_the_strip_again(seen: Visit) -> None:
    """A new page has nothing of what was sent to the old one."""
    seen.page.reload()
    seen.settle()
    expect(column(seen, 0)).to_be_visible()
    column(seen, 4).click()
    expect_picked(seen, 4)


# --- keyboard ---------------------------------------------------------------------------------------------------------


def test_the_keyboard_walks_and_picks(seen: Visit) -> None:
    last = len(stored("group-v2.1").columns) - 1
    column(seen, 0).focus()
    walk = [("ArrowLeft", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("End", last), ("ArrowRight", last)]
    for key, index in [*walk, ("ArrowLeft", last - 1), ("Home", 0)]:
        seen.page.keyboard.press(key)
        assert focused(seen) == index
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("Enter")
    expect_picked(seen, 1)
    seen.page.keyboard.press("Escape")
    expect_picked(seen, None)
    assert focused(seen) == 1
    expect(track(seen).locator("[tabindex='0']")).to_have_count(1)


def test_pages_go_by_block(seen: Visit) -> None:
    columns = stored("group-v2.1").columns
    starts = [next(i for i, row in enumerate(columns) if row.block == block) for block in range(3)]
    column(seen, 0).focus()
    for start in starts:
        seen.page.keyboard.press("PageDown")
        assert focused(seen) == start
    seen.page.keyboard.press("ArrowRight")
    for start in reversed(starts):
        seen.page.keyboard.press("PageUp")
        assert focused(seen) == start


def test_n_and_p_go_by_mark(seen: Visit) -> None:
    column(seen, 0).focus()
    for key, index in zip("nnp", [*marks("group-v2.1")[:2], marks("group-v2.1")[0]], strict=True):
        seen.page.keyboard.press(key)
        assert focused(seen) == index
    seen.page.keyboard.press("Control+ArrowRight")
    assert focused(seen) == marks("group-v2.1")[1]
    seen.press("Previous mark")
    assert focused(seen) == marks("group-v2.1")[0]
    expect(column(seen, focused(seen))).to_be_in_viewport()


def test_a_listbox_for_a_screen_reader(seen: Visit) -> None:
    seen.page.get_by_role("listbox", name="Generated text over its template").wait_for()
    first = marks("group-v2.1")[0]
    row = stored("group-v2.1").columns[first]
    name = f"{row.piece}, position {row.pos}, template {row.template_piece}, FREE, free choice, junk"
    option = seen.page.get_by_role("option", name=name)
    expect(option.first).to_have_attribute("aria-posinset", str(first + 1))
    expect(option.first).to_have_attribute("aria-setsize", str(len(stored("group-v2.1").columns)))
    expect(option.first).to_have_accessible_name(re.compile(r"block 0 C, probability \S+ before the LP, drift \+\d$"))


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_details_follow_the_pointer_and_the_focus(seen: Visit) -> None:
    first = marks("group-v2.1")[0]
    row = stored("group-v2.1").columns[first]
    step = stored("group-v2.1").steps[row.pos or 0]
    details = strip(seen).locator(".details")
    expect(details).to_contain_text("The whole textForced2 of 9 <b>(22.2 %)</b>Template")
    expect(details).to_contain_text("Effect of the LP on the model, the end left out")  # the totals beside it have it
    column(seen, first).hover()
    for part in (
        str(row.token_id),
        str(row.template_id),
        step["rule"],
        f"Rank before LP{step['rank_raw']}",
        f"Drift so far{row.running_drift:+d}",
    ):
        expect(details).to_contain_text(part)
    blocked = [token for token in step["top_k"] if not token["allowed"]]
    expect(details.locator("s")).to_have_count(len(blocked))
    expect(details.locator("li.written")).to_have_count(1)
    column(seen, 0).focus()
    expect(details).to_contain_text("[CONFORMER]")


def test_rows_can_be_put_away(seen: Visit) -> None:
    names = strip(seen).locator(".row-label")
    expect(names).to_contain_text(["Drift", "p(raw) forced", "Rank forced", "LP took, free"])
    column(seen, 5).click()
    expect_picked(seen, 5)
    for button, row in [("Drift", "Drift"), ("Rank", "Rank forced")]:
        seen.page.get_by_role("button", name=button, exact=True).click()
        expect(names.filter(has_text=row)).to_have_count(0)
    assert track(seen).locator(".drawing.drift, .drawing.rank").count() == 0
    expect_picked(seen, 5)
    for button in ("Drift", "Rank"):
        seen.page.get_by_role("button", name=button, exact=True).click()
    assert track(seen).locator(".drawing.drift").count() > 0


def test_without_steps_the_strip_says_so(seen: Visit) -> None:
    choose(seen, "no diagnostics", len(stored("group-v2.1").columns))
    expect(strip(seen).locator(".absent")).to_contain_text("No token probabilities are stored")
    expect(strip(seen).locator(".row-label").filter(has_text="LP took")).to_have_count(0)
    column(seen, 3).hover()
    expect(strip(seen).locator(".details")).to_contain_text("No token probabilities are stored")


def test_gaps_and_disagreeing_roles_are_marked(seen: Visit) -> None:
    choose(seen, "exact", len(stored("exact").columns))
    first = marks("exact")[0]
    expect(column(seen, first).locator(".g")).to_contain_class("gap left_over")
    rows = stored("none", "group-v2.1").columns
    choose(seen, "out of step", len(rows))
    differing = next(i for i, row in enumerate(rows) if row.role and row.text_role and row.role != row.text_role)
    expect(column(seen, differing)).to_contain_class("differs")
    expect(column(seen, differing)).to_have_accessible_name(re.compile("but the text is at"))
    expect(strip(seen).get_by_text("disagree on the role")).to_be_visible()


def test_a_hostile_piece_is_text_and_runs_nothing(seen: Visit) -> None:
    choose(seen, "hostile", len(HOSTILE))
    for index in range(len(HOSTILE)):
        column(seen, index).scroll_into_view_if_needed()
        column(seen, index).hover()
        box = column(seen, index).bounding_box()
        assert box
        for cell in column(seen, index).locator(".cell").all():
            place = cell.bounding_box()
            assert place
            assert box["x"] <= place["x"]
            assert place["x"] + place["width"] <= box["x"] + box["width"] + 0.1
    expect(column(seen, 0).locator(".g")).to_contain_text("<img·src=x")
    expect(strip(seen).locator(".details")).to_contain_text("∅")
    assert strip(seen).locator("img, script, a").count() == 0


def test_the_map_scrolls_the_track(seen: Visit) -> None:
    choose(seen, "3,000 columns", LONG)
    box = strip(seen).locator(".map").bounding_box()
    assert box
    seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 20)
    expect(column(seen, LONG // 2)).to_be_attached()
    assert scrolled(seen) > 10_000
    made = track(seen).locator(".col").count()
    assert 0 < made < LONG / 4  # only what was near the window is there


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_strip_wears_the_theme(seen: Visit, theme: Theme) -> None:
    settings = theme_settings(theme)
    names = {"--copy": "blueTextColor", "--free": "orangeTextColor", "--boundary": "greenTextColor"}
    names |= {"--junk": "violetTextColor", "--cut": "redTextColor", "--ink": "textColor"}
    seen.page.emulate_media(color_scheme=theme)
    for name, key in names.items():
        expect(strip(seen)).to_have_css(name, settings[key])
