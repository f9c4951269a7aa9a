"""The 2D and 3D views in a real browser: picking, keyboard, marks, the camera, the theme, hostile input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Locator, WebSocket, expect

from tests.pages.beside_static import beside_static
from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Theme,
    Visit,
    expect_harmless,
    serve,
    serve_quietly,
    theme_settings,
    visit,
)

pytestmark = pytest.mark.browser

DEMO = ROOT / "tests/pages/molecule_demo.py"
VIEW = "canvas => canvas._3dmol_viewer.getView().map(value => Math.round(1000 * value) / 1000)"
SPOT = """async (canvas, index) => {
  const viewer = canvas._3dmol_viewer;
  await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const { x, y, z } = viewer.getModel(0).selectedAtoms({ index })[0];
  return viewer.modelToScreen({ x, y, z });
}"""
SHOWN = "canvas => [...canvas._3dmol_viewer.getModel(0).selectedAtoms({})].map(atom => atom.elem).join('')"
CORNER = """async ([canvas, wanted]) => {
  const image = await createImageBitmap(await (await fetch(canvas._3dmol_viewer.pngURI())).blob());
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
  pen.drawImage(image, 0, 0);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return wanted === '#' + [red, green, blue].map(part => part.toString(16).padStart(2, '0')).join('');
}"""  # the colour of one pixel of the ground


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve_quietly(beside_static(DEMO, tmp_path_factory.mktemp("app"))) as started:
        yield started


@pytest.fixture
def seen(window: Visit) -> Iterator[Visit]:
    window.press("Clear")
    expect_told(window)
    expect(atoms(window)).to_have_count(13)
    solid(window)
    window.press("Reset view")
    yield window
    expect_harmless(window)


def atoms(seen: Visit) -> Locator:
    return seen.page.locator(".molecule .atom-selector")


def ring(seen: Visit, kind: str) -> Locator:
    return seen.page.locator(f".molecule .ring.{kind}")


def solid(seen: Visit) -> Locator:
    """The canvas of the 3D view, once it shows atoms."""
    canvas = seen.page.locator(".viewer .scene canvas >> visible=true")
    expect(canvas).to_have_count(1)
    expect(canvas).to_be_visible()
    element = canvas.element_handle()
    seen.page.wait_for_function("canvas => canvas._3dmol_viewer?.getModel(0)?.selectedAtoms({}).length", arg=element)
    return canvas


def view(seen: Visit) -> list[float]:
    return list(solid(seen).evaluate(VIEW))


def expect_told(seen: Visit, *picks: int | None) -> None:
    expect(seen.page.get_by_text(f"told: {list(picks)}", exact=True)).to_be_visible()


def said(seen: Visit, component: str) -> Locator:
    return seen.page.locator(f".{component} .name >> visible=true")


# In 2D


def test_a_click_picks_and_another_one_clears(seen: Visit) -> None:
    atoms(seen).nth(3).click()
    expect_told(seen, 3)
    expect(atoms(seen).nth(3)).to_have_attribute("aria-selected", "true")
    expect(ring(seen, "selected")).to_be_visible()
    assert ring(seen, "selected").get_attribute("cx") == atoms(seen).nth(3).get_attribute("cx")
    atoms(seen).nth(3).click()
    expect_told(seen, 3, None)
    expect(ring(seen, "selected")).to_be_hidden()


def test_python_has_the_last_word(seen: Visit) -> None:
    seen.press("Takes nothing over")
    atoms(seen).nth(3).click()
    expect_told(seen, 3)
    expect(ring(seen, "selected")).to_be_hidden()


def test_the_keyboard_walks_picks_and_clears(seen: Visit) -> None:
    expect(seen.page.locator(".molecule [tabindex='0']")).to_have_count(1)
    atoms(seen).first.focus()
    expect(said(seen, "molecule")).to_have_text("atom 0, C")
    seen.page.keyboard.press("ArrowLeft")  # the methyl is at the right, its carbon beside it
    expect(said(seen, "molecule")).to_have_text("atom 1, C")
    for key, name in [("End", "atom 12, O"), ("Home", "atom 0, C"), ("n", "atom 1, C"), ("n", "atom 2, O")]:
        seen.page.keyboard.press(key)
        expect(said(seen, "molecule")).to_have_text(name)
    seen.page.keyboard.press("Enter")
    expect_told(seen, 2)
    expect(seen.page.locator(".molecule [tabindex='0']")).to_have_count(1)
    seen.page.keyboard.press("Escape")
    expect_told(seen, 2, None)


def test_every_atom_can_be_reached_by_arrows(seen: Visit) -> None:
    reached, border = {0}, [0]
    while border:
        start = border.pop()
        for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
            atoms(seen).nth(start).focus()
            seen.page.keyboard.press(key)
            found = int(seen.page.locator(".molecule [tabindex='0']").get_attribute("data-atom") or -1)
            if found not in reached:
                reached.add(found)
                border.append(found)
    assert reached == set(range(13))


def test_a_listbox_for_a_screen_reader(seen: Visit) -> None:
    seen.page.get_by_role("listbox", name="Drawing of aspirin").wait_for()
    seen.page.get_by_role("option", name="atom 2, O").click()
    expect_told(seen, 2)


def test_the_atom_in_work_is_lit_and_the_drawing_stays(seen: Visit) -> None:
    seen.page.locator(".molecule svg").evaluate("svg => { svg.mine = true }")
    for step in range(3):
        seen.page.get_by_test_id("stNumberInputStepUp").click()
        expect(said(seen, "molecule")).to_contain_text(f"writing atom {step}")
        assert ring(seen, "lit").get_attribute("cx") == atoms(seen).nth(step).get_attribute("cx")
    assert seen.page.locator(".molecule svg").evaluate("svg => svg.mine")


def test_reduced_motion_keeps_the_lit_atom_still(seen: Visit) -> None:
    expect(ring(seen, "lit")).to_have_css("animation-name", "driftscope-lit")
    seen.page.emulate_media(reduced_motion="reduce")
    expect(ring(seen, "lit")).to_have_css("animation-name", "none")
    seen.page.emulate_media(reduced_motion="no-preference")


def test_a_hostile_drawing_is_only_a_drawing(seen: Visit) -> None:
    seen.press("hostile")
    expect(atoms(seen)).to_have_count(1)
    drawing = seen.page.locator(".molecule .drawing")
    names = drawing.evaluate("box => [...box.querySelectorAll('*')].map(node => node.localName)")
    assert set(names) == {"svg", "g", "text", "circle"}
    values = drawing.evaluate(
        "box => [...box.querySelectorAll('*')].flatMap(node => [...node.attributes].map(one => one.name + one.value))"
    )
    assert not [value for value in values if value.startswith("on") or "url(" in value or "outside" in value]
    expect(drawing).to_contain_text("kept")
    atoms(seen).first.click()
    expect_told(seen, 0)
    expect(said(seen, "molecule")).to_contain_text("<img src=x")
    expect(said(seen, "viewer")).to_contain_text("<img src=x")
    assert seen.page.locator(".molecule, .viewer").locator("img, script, a").count() == 0


def test_what_is_no_drawing_says_so(seen: Visit) -> None:
    seen.press("no drawing")
    expect(seen.page.get_by_text("The drawing cannot be shown.")).to_be_visible()
    expect(seen.page.get_by_text("There is no conformer to show.").first).to_be_visible()
    seen.press("aspirin")
    solid(seen)
    expect(seen.page.get_by_text("There is no conformer to show.").first).to_be_hidden()


def test_a_drawing_that_was_lost_comes_again(seen: Visit) -> None:
    seen.page.locator(".molecule").evaluate(
        "figure => figure.closest('.once')"
        ".replaceWith(Object.assign(document.createElement('div'), { className: 'once' }))"
    )
    expect(atoms(seen)).to_have_count(0)
    seen.page.get_by_test_id("stNumberInputStepUp").click()  # what comes of this holds no drawing
    expect(atoms(seen)).to_have_count(13)
    seen.press("Shown")
    expect(atoms(seen)).to_have_count(0)
    seen.press("Shown")
    expect(atoms(seen)).to_have_count(13)


def test_a_tick_carries_no_drawing(browser: Browser, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    frames: list[int] = []

    def count(socket: WebSocket) -> None:
        socket.on("framereceived", lambda data: frames.append(len(data)))

    with visit(browser, server) as seen:
        seen.page.on("websocket", count)
        seen.page.reload()
        expect(atoms(seen)).to_have_count(13)
        solid(seen)
        whole = max(frames)
        frames.clear()
        seen.page.get_by_test_id("stNumberInputStepUp").click()
        expect(said(seen, "molecule")).to_contain_text("writing atom 0")
        tick = max(frames)
    assert tick < 6_000 < whole
    with capsys.disabled():
        print(f"\nlargest frame with the drawing {whole:,} bytes, of a tick {tick:,} bytes")


# In 3D


def test_a_click_on_an_atom_picks_it(seen: Visit) -> None:
    spot = solid(seen).evaluate(SPOT, 7)
    seen.page.mouse.click(spot["x"], spot["y"])
    expect_told(seen, 7)
    expect(said(seen, "viewer")).to_contain_text("atom 7, C, selected")
    expect(atoms(seen).nth(7)).to_have_attribute("aria-selected", "true")  # linked through Python


def test_the_keyboard_turns_zooms_steps_and_picks(seen: Visit) -> None:
    first = view(seen)
    seen.page.locator(".viewer .stage >> visible=true").focus()
    seen.page.keyboard.press("ArrowRight")
    turned = view(seen)
    assert turned[4:] != first[4:]
    seen.page.keyboard.press("+")
    assert view(seen)[3] != turned[3]
    seen.page.keyboard.press("r")
    assert view(seen) == first
    for key, name in [("n", "atom 0, C"), ("n", "atom 1, C, junk"), ("]", "atom 2, O, cut"), ("p", "atom 1, C, junk")]:
        seen.page.keyboard.press(key)
        expect(said(seen, "viewer")).to_have_text(name)
    seen.page.keyboard.press("Enter")
    expect_told(seen, 1)
    seen.page.keyboard.press("Escape")
    expect_told(seen, 1, None)
    expect(seen.page.get_by_role("application", name="Conformers of aspirin")).to_be_focused()
    expect(seen.page.locator(".viewer [role=status] >> visible=true")).to_have_count(1)


def test_the_camera_stays_over_reruns_other_conformers_and_a_remount(seen: Visit) -> None:
    first = view(seen)
    seen.page.locator(".viewer .stage >> visible=true").focus()
    for key in ("ArrowRight", "ArrowDown", "+"):
        seen.page.keyboard.press(key)
    mine = view(seen)
    assert mine != first
    canvas = solid(seen).element_handle()
    seen.press("Rerun")
    assert view(seen) == mine
    seen.press("Other conformer")
    seen.settle()
    assert view(seen)[3:] == mine[3:]
    assert solid(seen).evaluate("(canvas, before) => canvas === before", canvas)
    seen.press("Other conformer")
    seen.press("Shown")
    expect(seen.page.locator(".viewer")).to_have_count(0)
    seen.press("Shown")
    assert view(seen)[3:] == mine[3:]
    seen.press("Reset view")
    assert view(seen)[3:] == first[3:]


def test_another_molecule_is_looked_at_anew(seen: Visit) -> None:
    view(seen)
    seen.page.locator(".viewer .stage >> visible=true").focus()
    seen.page.keyboard.press("-")
    before = view(seen)
    seen.press("acetaldehyde")
    seen.page.wait_for_function(f"canvas => ({SHOWN})(canvas) === 'CCO'", arg=solid(seen).element_handle())
    assert view(seen) != before


def test_the_view_wears_the_theme(browser: Browser, server: Server) -> None:
    """Live: it starts in the other one."""
    themes: tuple[Theme, ...] = ("dark", "light")
    with visit(browser, server) as seen:
        before = view(seen)
        for theme in themes:
            seen.page.emulate_media(color_scheme=theme)
            wanted = theme_settings(theme)["secondaryBackgroundColor"]
            seen.page.wait_for_function(CORNER, arg=[solid(seen).element_handle(), wanted])
            assert view(seen) == before
        expect_harmless(seen)


def test_a_view_in_a_shut_tab_is_drawn_when_the_tab_opens(seen: Visit) -> None:
    seen.press("Other conformer")
    seen.press("Shut")
    assert any(solid(seen).evaluate(VIEW)[:3])
    spot = solid(seen).evaluate(SPOT, 7)
    seen.page.mouse.click(spot["x"], spot["y"])
    expect_told(seen, 7)
    seen.press("Open")
    expect(said(seen, "viewer")).to_contain_text("atom 7, C, selected")


def test_the_picture_can_be_saved(seen: Visit) -> None:
    solid(seen)
    with seen.page.expect_download() as caught:
        seen.page.get_by_role("button", name="PNG").click()
    assert Path(caught.value.path()).read_bytes().startswith(b"\x89PNG")


def test_the_wheel_scrolls_the_page_until_the_view_was_clicked(seen: Visit) -> None:
    before = view(seen)
    solid(seen).hover(position={"x": 5, "y": 5})
    seen.page.mouse.wheel(0, 40)
    assert view(seen) == before
    seen.page.mouse.down()
    seen.page.mouse.up()
    seen.page.mouse.wheel(0, 40)
    seen.page.wait_for_function(
        f"([canvas, z]) => ({VIEW})(canvas)[3] !== z", arg=[solid(seen).element_handle(), before[3]]
    )


def test_a_conformer_draws_in_its_frame(seen: Visit) -> None:
    seen.press("Frame")
    frame = seen.page.frame_locator("iframe")
    expect(frame.locator("canvas")).to_have_count(1)
    expect(seen.page.locator("iframe")).to_have_attribute("title", "A conformer")


def test_a_browser_without_webgl_is_told(browser: Browser, server: Server) -> None:
    with visit(browser, server) as seen, closing(seen.page):  # no later visit gets its tab
        seen.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
        seen.page.reload()
        expect(seen.page.get_by_text("The 3D view needs WebGL").first).to_be_visible()
        expect(seen.page.get_by_role("button", name="PNG")).to_be_disabled()
        atoms(seen).nth(4).click()
        expect_told(seen, 4)
        expect_harmless(seen)


def test_a_server_without_the_script_is_named(browser: Browser, tmp_path: Path) -> None:
    with (
        serve(beside_static(DEMO, tmp_path, with_asset=False)) as started,
        visit(browser, started) as seen,
        closing(seen.page),
    ):
        # An earlier server may have had this port: what is routed does not come from the browser's cache.
        seen.page.route("**/static/**", lambda route: route.continue_())
        seen.page.reload()
        expect(seen.page.get_by_text("3Dmol.js could not be loaded from this server").first).to_be_visible()
        assert seen.outside == []
        assert "Traceback" not in started.log()
