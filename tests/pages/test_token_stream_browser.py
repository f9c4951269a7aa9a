"""Strips that are being written, in a real browser: only new chips come, gaps are mended, the end stays in sight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, WebSocket, expect

from pages._shared.components.once import source
from pages._shared.components.token_strip import visible
from tests.pages.browser import ROOT, Browser, Server, Visit, serve_quietly, visit
from tests.pages.stream_demo_size import TICK
from tests.pages.strip_demo_chips import HOSTILE, many

pytestmark = pytest.mark.browser

AT_END = "list => list.scrollHeight - list.scrollTop - list.clientHeight < 24"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "tests/pages/stream_demo.py") as started:
        yield started


@pytest.fixture
def seen(browser: Browser, server: Server) -> Iterator[Visit]:
    with visit(browser, server) as window:
        expect(chips(window)).to_have_count(TICK)
        yield window
        assert window.outside == []
        assert window.console == []
        assert window.dialogs == []


def tokens(seen: Visit) -> Locator:
    return seen.page.locator(".strip .tokens").first


def chips(seen: Visit) -> Locator:
    return tokens(seen).locator(".chip")


def expect_text(seen: Visit, count: int) -> None:
    """All chips, in order, as Python has them."""
    expect(chips(seen)).to_have_count(count)
    assert chips(seen).all_text_contents() == [visible(chip.piece) for chip in many(count)]


def mine(seen: Visit) -> int:
    """How many chips are the elements that were marked before."""
    return int(tokens(seen).evaluate("list => [...list.querySelectorAll('.chip')].filter(chip => chip.mine).length"))


def mark_all(seen: Visit) -> None:
    tokens(seen).evaluate("list => list.querySelectorAll('.chip').forEach(chip => { chip.mine = true })")


def test_a_tick_appends_and_keeps_what_was_there(seen: Visit) -> None:
    mark_all(seen)
    seen.press("Tick")
    expect_text(seen, 2 * TICK)
    assert mine(seen) == TICK
    assert [chips(seen).nth(i).evaluate("chip => Boolean(chip.mine)") for i in (TICK - 1, TICK)] == [True, False]


def test_a_change_before_the_end_is_painted_and_a_hostile_piece_is_text(seen: Visit) -> None:
    seen.press("Change the end")
    expect(chips(seen).nth(TICK - 2)).to_have_text(visible(HOSTILE[0]))
    expect(chips(seen).nth(TICK - 2)).to_contain_class("junk")
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK)
    expect(chips(seen).nth(TICK - 2)).to_have_text(visible(HOSTILE[0]))
    assert seen.page.locator(".strip").locator("img, script, a").count() == 0


def test_the_atom_that_is_pointed_at_is_lit_in_all_of_its_chips_also_in_later_ones(seen: Visit) -> None:
    seen.page.evaluate("dispatchEvent(new CustomEvent('driftscope-atom', { detail: 0 }))")
    lit = tokens(seen).locator(".chip.lit")
    expect(lit.first).to_be_attached()
    before = lit.count()
    seen.press("Change the end")  # dresses that chip anew
    expect(chips(seen).nth(TICK - 2)).to_contain_class("lit")
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK)
    assert lit.count() > before
    seen.page.evaluate("dispatchEvent(new CustomEvent('driftscope-atom', { detail: null }))")
    expect(lit).to_have_count(0)


def test_a_call_that_the_next_message_overtook_ends_nothing(seen: Visit) -> None:
    """Streamlit ends it as if the component had gone: its strip then heard no more of atoms that were pointed at."""
    ended = seen.page.evaluate(
        """async source => {
            const loaded = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
            const host = document.createElement("div");
            host.innerHTML = "<div class=once></div>";
            document.body.append(host);
            let ended = 0;
            globalThis.endedHere = () => (ended += 1);
            const js = "export const mount = () => ({ update: () => true, destroy: () => globalThis.endedHere() })";
            const call = number => loaded.default({
                data: { build: "made here", code: { html: "", css: "", js }, number }, parentElement: host,
            });
            const overtaken = call(1), last = call(2);
            await new Promise(done => setTimeout(done, 200));
            overtaken();
            const before = ended;
            host.remove();
            last();
            return [before, ended];
        }""",
        source("once.js"),
    )
    assert ended == [0, 1]


def test_a_message_that_was_passed_over_is_asked_for(seen: Visit) -> None:
    seen.press("Pass over")
    expect_text(seen, 2 * TICK)
    seen.press("Tick")
    expect_text(seen, 3 * TICK)


def test_a_strip_that_comes_back_and_a_page_loaded_again_are_whole(seen: Visit) -> None:
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK)
    seen.press("Shown")
    expect(seen.page.locator(".strip")).to_have_count(0)
    seen.press("Shown")
    expect_text(seen, 2 * TICK)
    seen.page.reload()
    expect_text(seen, TICK)  # a new session, which starts at the beginning
    seen.press("Tick")
    expect_text(seen, 2 * TICK)


def test_a_browser_that_lost_all_without_python_knowing_asks(seen: Visit) -> None:
    """As after a remount: Python goes on with a tick, and the strip has nothing to put it on."""
    tokens(seen).evaluate(
        "list => list.getRootNode().querySelector('.once').replaceWith(newRoot())".replace(
            "newRoot()", "Object.assign(document.createElement('div'), { className: 'once' })"
        )
    )
    seen.press("Tick")
    expect_text(seen, 2 * TICK)


def test_another_text_starts_over(seen: Visit) -> None:
    seen.press("Many")
    expect(chips(seen)).to_have_count(TICK + 1000)
    chips(seen).nth(3).click()
    expect(seen.page.get_by_text("selected: 3", exact=True)).to_be_visible()
    seen.press("Start over")
    expect_text(seen, TICK)
    expect(seen.page.get_by_text("selected: None", exact=True)).to_be_visible()
    expect(tokens(seen).locator("[aria-selected=true]")).to_have_count(0)


def test_a_selection_stays_while_the_text_grows(seen: Visit) -> None:
    chips(seen).nth(5).click()
    expect(seen.page.get_by_text("selected: 5", exact=True)).to_be_visible()
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK)
    expect(chips(seen).nth(5)).to_have_attribute("aria-selected", "true")
    expect(seen.page.get_by_text("selected: 5", exact=True)).to_be_visible()


def test_the_end_stays_in_sight_unless_the_reader_looks_elsewhere(seen: Visit) -> None:
    seen.press("Many")
    expect(chips(seen)).to_have_count(TICK + 1000)
    expect(chips(seen).last).to_be_in_viewport()
    assert tokens(seen).evaluate(AT_END)
    tokens(seen).evaluate("list => { list.scrollTop = 40 }")
    seen.page.wait_for_function("() => true")
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK + 1000)
    assert tokens(seen).evaluate("list => list.scrollTop") == 40
    tokens(seen).evaluate("list => { list.scrollTop = list.scrollHeight }")
    seen.press("Tick")
    expect(chips(seen)).to_have_count(3 * TICK + 1000)
    assert tokens(seen).evaluate(AT_END)
    chips(seen).nth(2).focus()
    seen.page.get_by_text("Tick", exact=True).evaluate("button => button.click()")  # without taking the focus
    expect(chips(seen)).to_have_count(4 * TICK + 1000)
    expect(chips(seen).nth(2)).to_be_in_viewport()


def test_a_finished_text_stands_at_its_beginning(seen: Visit) -> None:
    seen.press("Many")
    expect(chips(seen)).to_have_count(TICK + 1000)
    assert tokens(seen).evaluate(AT_END)
    seen.press("Done")
    expect(tokens(seen)).to_have_js_property("scrollTop", 0)


def test_the_copied_text_is_the_whole_text(seen: Visit) -> None:
    seen.press("Tick")
    expect(chips(seen)).to_have_count(2 * TICK)
    seen.press("Copy text")
    expect(seen.page.get_by_text("Copied text.")).to_be_visible()
    copied = seen.page.evaluate("() => navigator.clipboard.readText()")
    assert copied == "".join(chip.piece for chip in many(2 * TICK)) + "\U0001f9ea"


def test_three_lanes_fit_beside_each_other(seen: Visit) -> None:
    seen.press("Three lanes")
    lists = seen.page.locator(".strip .tokens")
    expect(lists).to_have_count(3)
    boxes = [box for one in lists.all() if (box := one.bounding_box())]
    tops = [box["y"] for box in boxes]
    assert max(tops) - min(tops) < 2
    assert all(box["width"] > 200 for box in boxes)
    for part in (".legend", ".details", ".actions"):
        expect(seen.page.locator(f".strip {part}").locator("visible=true")).to_have_count(0)
    lists.nth(1).locator(".chip").first.hover()
    expect(lists.nth(1).locator(".chip").first).to_have_attribute(
        "title", "Token: 0\nPiece: [CONFORMER]\nId: 1000\nCharacters: 0–10\nRole: COPY, forced by the LP"
    )


def test_a_tick_is_small(browser: Browser, server: Server) -> None:
    frames: list[int] = []

    def count(socket: WebSocket) -> None:
        socket.on("framereceived", lambda data: frames.append(len(data)))

    with visit(browser, server) as seen:
        seen.page.on("websocket", count)
        seen.page.reload()
        expect(chips(seen)).to_have_count(TICK)
        for more in (1000, 2000, 3000):
            seen.press("Many")
            expect(chips(seen)).to_have_count(TICK + more)
        frames.clear()
        seen.press("Tick")
        expect(chips(seen)).to_have_count(2 * TICK + 3000)
    assert 500 < max(frames) < 8_000
