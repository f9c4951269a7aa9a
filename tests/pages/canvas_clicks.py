"""Clicks on what is drawn on a canvas: rows of tables, bars of charts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from playwright.sync_api import Error, FloatRect, Locator, expect

from tests.pages.browser import LIMIT_MS, Visit

# What is drawn above a table late would move it away from under a click.
AT_REST = """async node => {
    const {top, height} = node.getBoundingClientRect();
    if (top < 64 && height < 500) node.scrollIntoView({block: "center"});  // the app's bar lies above it
    const place = () => JSON.stringify(node.getBoundingClientRect());
    for (let before = ""; before !== place(); ) {
        before = place();
        await new Promise(done => setTimeout(done, 150));
    }
}"""


def table_canvas(seen: Visit, table: int) -> Locator:
    """What the table of that number is drawn on, in sight; a table draws itself only in a tab that is in front."""
    canvas = seen.page.get_by_test_id("data-grid-canvas").nth(table)
    with suppress(AssertionError):
        expect(canvas).to_be_attached(timeout=LIMIT_MS / 3)
    if not canvas.count():
        seen.page.bring_to_front()
    _at_rest(canvas)
    return canvas


def _at_rest(spot: Locator) -> FloatRect:
    """Where it stands, in sight, once nothing moves; what is drawn anew meanwhile is looked for again."""
    for _ in range(3):
        with suppress(Error):
            spot.scroll_into_view_if_needed()
            spot.evaluate(AT_REST)
            if box := spot.bounding_box():
                return box
    raise AssertionError(f"{spot} does not come to rest")


def click_row(seen: Visit, table: int, row: int, row_height: int = 35, left_px: int = 18) -> None:
    """The box before a row, or what is so far from the left: tables are drawn on a canvas."""
    box = _at_rest(table_canvas(seen, table))
    seen.page.mouse.click(box["x"] + left_px, box["y"] + 37 + row_height * (row + 0.5))
    seen.settle()


def open_picker(seen: Visit, index: int = 0) -> None:
    """The table of entries is one line where something is chosen, and the page's first expander."""
    picker = seen.page.get_by_test_id("stExpander").nth(index)
    picker.locator("summary").click()
    seen.settle()
    _at_rest(picker)  # it opens in the browser alone, and what is in it moves meanwhile


def click_at(seen: Visit, spot: Locator, result: Locator) -> None:
    """Plotly listens on a layer above its bars, and hears no click while it is drawing."""

    def click() -> None:
        box = _at_rest(spot)
        seen.page.mouse.move(box["x"] + box["width"] / 2 - 3, box["y"] + box["height"] / 2)
        seen.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    again(click, lambda limit_ms: expect(result).to_be_visible(timeout=limit_ms))


def again(act: Callable[[], object], expected: Callable[[float], object]) -> None:
    """What a page that is just being drawn anew loses is done once more, twice at most."""
    for _ in range(2):
        act()
        with suppress(AssertionError):
            expected(LIMIT_MS / 3)
            return
    act()
    expected(LIMIT_MS)
