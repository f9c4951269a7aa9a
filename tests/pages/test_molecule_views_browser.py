"""The 2D drawing and the 3D view in a real browser: picking, keyboard, marks, the camera, the theme, hostile input."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import FrameLocator, Locator, expect

from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Theme,
    Visit,
    expect_harmless,
    rgb,
    serve_quietly,
    theme_settings,
    visit,
)

pytestmark = pytest.mark.browser

VIEW = "() => viewer_0.getView().map(value => Math.round(1000 * value) / 1000)"
SPOT = "(stage, index) => viewer_0.modelToScreen(viewer_0.getModel(0).selectedAtoms({ index })[0])"
CORNER = """async (stage, wanted) => {
  const image = await createImageBitmap(await (await fetch(viewer_0.pngURI())).blob());
  const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d');
  pen.drawImage(image, 0, 0);
  const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
  return '#' + [red, green, blue].map(part => part.toString(16).padStart(2, '0')).join('');
}"""  # the colour of one pixel of the ground


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """3Dmol.js comes from the folder `static` beside the script that Streamlit runs."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "static").symlink_to(ROOT / "static")
    shutil.copy(ROOT / "tests/pages/molecule_demo.py", folder)
    with serve_quietly(folder / "molecule_demo.py", env={"PYTHONPATH": str(ROOT)}) as started:
        yield started


@pytest.fixture
def seen(window: Visit) -> Iterator[Visit]:
    window.press("Clear")
    expect_told(window)
    expect(atoms(window)).to_have_count(13)
    expect(said_in_3d(window)).to_contain_text("Drag turns")
    window.page.mouse.move(0, 0)
    stage(window).press("r")
    yield window
    expect_harmless(window)


def atoms(seen: Visit) -> Locator:
    return seen.page.locator(".molecule .atom-selector")


def ring(seen: Visit, kind: str) -> Locator:
    return seen.page.locator(f".molecule .ring.{kind}")


def said(seen: Visit) -> Locator:
    return seen.page.locator(".molecule .name")


def frame(seen: Visit) -> FrameLocator:
    return seen.page.frame_locator("iframe[title^='Conformers of']")


def stage(seen: Visit) -> Locator:
    return frame(seen).get_by_role("application")


def said_in_3d(seen: Visit) -> Locator:
    return frame(seen).get_by_role("status")


def view(seen: Visit) -> list[float]:
    return list(stage(seen).evaluate(VIEW))


def expect_told(seen: Visit, *picks: int | None) -> None:
    expect(seen.page.get_by_text(f"told: {list(picks)}", exact=True)).to_be_visible()


def test_the_keyboard_walks_picks_and_clears(seen: Visit) -> None:
    expect(seen.page.locator(".molecule [tabindex='0']")).to_have_count(1)
    seen.page.get_by_role("listbox", name="Drawing of aspirin").wait_for()
    atoms(seen).first.focus()
    expect(said(seen)).to_have_text("atom 0, C")
    seen.page.keyboard.press("ArrowLeft")  # the methyl is at the right, its carbon beside it
    expect(said(seen)).to_have_text("atom 1, C")
    for key, name in [("End", "atom 12, O"), ("Home", "atom 0, C"), ("n", "atom 1, C"), ("n", "atom 2, O")]:
        seen.page.keyboard.press(key)
        expect(said(seen)).to_have_text(name)
    seen.page.keyboard.press("Enter")
    expect_told(seen, 2)
    seen.page.keyboard.press("Escape")
    expect_told(seen, 2, None)
    reached, border = {0}, [0]
    while border:
        start = border.pop()
        for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
            atoms(seen).nth(start).focus()
            seen.page.keyboard.press(key)
            atom = int(seen.page.locator(".molecule [tabindex='0']").get_attribute("data-atom") or -1)
            border += {atom} - reached
            reached.add(atom)
    assert reached == set(range(13))


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
    expect(said(seen)).to_contain_text("<img src=x")
    expect(said_in_3d(seen)).to_contain_text("<img src=x")
    assert seen.page.locator(".molecule").locator("img, script, a").count() == 0
    assert frame(seen).locator("img, a").count() == 0


def test_a_drawing_that_was_lost_comes_again(seen: Visit) -> None:
    seen.page.locator(".molecule").evaluate(
        "figure => figure.closest('.once')"
        ".replaceWith(Object.assign(document.createElement('div'), { className: 'once' }))"
    )
    expect(atoms(seen)).to_have_count(0)
    seen.page.get_by_test_id("stNumberInputStepUp").click()  # what comes of this holds no drawing
    expect(atoms(seen)).to_have_count(13)
    expect(ring(seen, "lit")).to_have_css("animation-name", "driftscope-lit")
    assert ring(seen, "lit").get_attribute("cx") == atoms(seen).nth(0).get_attribute("cx")
    seen.page.emulate_media(reduced_motion="reduce")
    expect(ring(seen, "lit")).to_have_css("animation-name", "none")
    seen.page.emulate_media(reduced_motion="no-preference")
    seen.press("no drawing")
    expect(seen.page.get_by_text("The drawing cannot be shown.")).to_be_visible()


# In 3D


def test_a_click_on_an_atom_picks_it_and_loads_nothing_again(seen: Visit) -> None:
    stage(seen).evaluate("stage => { stage.mine = true }")
    stage(seen).click(position=stage(seen).evaluate(SPOT, 7))
    expect_told(seen, 7)
    expect(said_in_3d(seen)).to_have_text("atom 7, C, selected")
    expect(atoms(seen).nth(7)).to_have_attribute("aria-selected", "true")  # linked through Python
    atoms(seen).nth(9).hover()
    expect(said_in_3d(seen)).to_have_text("atom 9, C")
    stage(seen).hover(position=stage(seen).evaluate(SPOT, 5))
    expect(said(seen)).to_have_text("atom 5, C")
    seen.page.mouse.move(0, 0)
    expect(said(seen)).to_have_text("selected: atom 7, C")
    atoms(seen).nth(7).click()
    expect_told(seen, 7, None)
    expect(ring(seen, "selected")).to_be_hidden()
    assert stage(seen).evaluate("stage => stage.mine")
    with seen.page.expect_download() as caught:
        frame(seen).get_by_role("button", name="PNG").click()
    assert Path(caught.value.path()).read_bytes().startswith(b"\x89PNG")


def test_the_keyboard_turns_zooms_steps_and_picks(seen: Visit) -> None:
    first = view(seen)
    stage(seen).press("ArrowRight")
    turned = view(seen)
    assert turned[4:] != first[4:]
    seen.page.keyboard.press("+")
    assert view(seen)[3] != turned[3]
    frame(seen).get_by_role("button", name="Reset view").click()
    assert view(seen) == first
    stage(seen).focus()
    for key, name in [("n", "atom 0, C"), ("n", "atom 1, C, junk"), ("n", "atom 2, O, cut"), ("p", "atom 1, C, junk")]:
        seen.page.keyboard.press(key)
        expect(said_in_3d(seen)).to_have_text(name)
    seen.page.keyboard.press("Enter")
    expect_told(seen, 1)
    seen.page.keyboard.press("Escape")
    expect_told(seen, 1, None)
    expect(stage(seen)).to_be_focused()


def test_the_camera_stays_over_another_conformer_and_a_remount_and_not_over_another_molecule(seen: Visit) -> None:
    first = view(seen)
    for key in ("ArrowRight", "ArrowDown", "+"):
        stage(seen).press(key)
    mine = view(seen)
    assert mine != first
    for name in ("Other conformer", "Other conformer", "Shown", "Shown"):
        seen.press(name)
    expect(said_in_3d(seen)).to_contain_text("Drag turns")
    assert view(seen) == mine
    seen.press("flexible")
    expect(frame(seen).get_by_role("application", name="Conformers of flexible")).to_be_visible()
    expect(said_in_3d(seen)).to_contain_text("Drag turns")
    assert view(seen)[4:] == first[4:]


def test_the_view_wears_the_theme(browser: Browser, server: Server) -> None:
    themes: tuple[Theme, ...] = ("dark", "light")
    with visit(browser, server) as seen:
        for theme in themes:
            seen.page.emulate_media(color_scheme=theme)
            wanted = theme_settings(theme)["secondaryBackgroundColor"]
            expect(stage(seen)).to_have_css("background-color", rgb(wanted))
            expect(said_in_3d(seen)).to_contain_text("Drag turns")
            assert stage(seen).evaluate(CORNER) == wanted
        assert stage(seen).evaluate("() => document.fonts.check('1rem \\'Source Sans\\'') && document.fonts.size") == 1
        expect_harmless(seen)


def test_the_wheel_scrolls_the_page_until_the_view_was_clicked(seen: Visit) -> None:
    atoms(seen).first.focus()
    before = view(seen)
    stage(seen).hover(position={"x": 5, "y": 5})
    seen.page.mouse.wheel(0, 40)
    assert view(seen) == before
    seen.page.mouse.down()
    seen.page.mouse.up()
    seen.page.mouse.wheel(0, 40)
    seen.page.wait_for_timeout(200)
    assert view(seen)[3] != before[3]


def test_a_view_without_its_script_or_webgl_says_so(browser: Browser, server: Server) -> None:
    with visit(browser, server) as seen, closing(seen.page):  # no later visit gets its tab
        seen.page.route("**/static/3Dmol*", lambda route: route.fulfill(status=404))
        seen.page.reload()
        expect(stage(seen)).to_contain_text("3Dmol.js could not be loaded from this server")
        seen.console.clear()
        seen.page.unroute_all()
        seen.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
        seen.page.reload()
        expect(stage(seen)).to_contain_text("The 3D view needs WebGL")
        atoms(seen).nth(4).click()
        expect_told(seen, 4)
        expect_harmless(seen)
