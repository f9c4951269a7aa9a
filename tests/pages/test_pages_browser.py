"""Pages in a real browser, a path each: navigation, untrusted text, the lab, logs and traces that are compared."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Route, expect

from pages._app.listing import page_files
from tests.pages.browser import (
    ROOT,
    Browser,
    Server,
    Theme,
    expect_harmless,
    legend,
    rgb,
    serve,
    serve_quietly,
    theme_settings,
    visit,
)
from tests.pages.canvas_clicks import again, click_row, open_picker
from tests.pages.error_demo import TEXTS

pytestmark = pytest.mark.browser


def test_a_link_works_for_the_servers_first_visitor_and_leads_to_every_page(browser: Browser) -> None:
    """Streamlit would show its own navigation, with the entry `app`, as the folder is called `pages`."""
    titles, last = [page.title for page in page_files()], page_files()[-1]
    with serve_quietly(ROOT / "app.py") as server, visit(browser, server, f"/{last.path.stem}?chosen=1") as seen:
        expect(seen.page).to_have_title(f"{last.title} · Driftscope")
        links = seen.page.get_by_test_id("stSidebarNavLink")
        expect(links).to_have_count(len(titles))
        assert [link.inner_text().split("\n")[-1] for link in links.all()] == titles
        assert "chosen=1" in seen.page.url
        links.filter(has_text="Compare runs").click()
        expect(seen.page).to_have_title("Compare runs · Driftscope")
        expect(seen.page.locator(".matrix td.cell")).not_to_have_count(0)
        expect_harmless(seen)


def test_addresses_name_what_pages_open_with_and_back_undoes_one_act_a_step(
    browser: Browser, demo_server: Server
) -> None:
    steps = {
        "Drift inspector": "/drift[?]run=2",
        "Compare runs": "/compare[?]control=2.*&test=2.*&test=2",
        "Advice": "/compare[?].*view=Advice.*",
        "Profiles": "/profiles[?]control=2.*&test=2",
        "Logit health": "/logits[?]log=.*&beside=",
    }
    with visit(browser, demo_server, "/live") as seen:
        seen.page.locator(".st-key-live-line summary").click()
        smiles = seen.page.get_by_label("SMILES", exact=True)
        smiles.fill("CCO")
        smiles.press("Tab")
        expect(seen.page).to_have_url(re.compile("/live[?]smiles=CCO$"))
        seen.settle()
        # What is typed while the form unfolds is kept, and so is the keyboard's place in it.
        expect(seen.page.locator(".st-key-live-words")).to_contain_text("CCO")
        expect(seen.page.get_by_role("button", name="Help for Model")).to_be_focused()
        for title, address in steps.items():
            links = seen.page.get_by_test_id("stSidebarNavLink").filter(has_text=title)
            links.or_(seen.page.get_by_role("tab", name=title)).click()
            expect(seen.page).to_have_url(re.compile(address))
            seen.settle()
        for address in [*steps.values()][-2::-1]:
            seen.page.go_back()
            expect(seen.page).to_have_url(re.compile(address))
            seen.settle()
        seen.page.go_back()
        expect(smiles).to_have_value("CCO")
        expect_harmless(seen)


def test_a_title_and_its_lead_stand_still_while_components_and_our_rules_come(
    browser: Browser, demo_server: Server
) -> None:
    with visit(browser, demo_server, "/evidence") as seen:
        title, lead = seen.page.locator("h1"), seen.page.get_by_test_id("stMain").get_by_text("Which claims of the")

        def heights() -> list[float]:
            return [element.evaluate("element => element.getBoundingClientRect().top") for element in (title, lead)]

        settled = heights()
        held: list[Route] = []
        modules = re.compile("/static/js/(BidiComponent|Html)[.]")
        seen.page.route(modules, lambda route: held.append(route))
        seen.page.reload()
        seen.page.locator(".st-key-address-steps").get_by_test_id("stSkeleton").wait_for(state="attached")
        lead.wait_for()
        assert heights() == settled
        for route in held:
            route.continue_()
        seen.page.unroute(modules)
        seen.settle()
        expect(seen.page.locator(".st-key-address-steps").get_by_test_id("stSkeleton")).to_have_count(0)
        assert heights() == settled


def test_untrusted_text_is_shown_as_it_was_written(browser: Browser) -> None:
    with serve(ROOT / "tests/pages/error_demo.py") as server, visit(browser, server) as seen:
        for number, text in enumerate(TEXTS):
            message = seen.page.locator(f".st-key-text-{number} [data-testid=stMarkdownContainer]")
            shown = message.inner_text().replace("\u2060", "").replace("\u00a0", " ")
            # Streamlit strips a message, no-break spaces too, before Markdown sees it.
            assert [line.rstrip() for line in shown.split("\n")] == [line.rstrip() for line in text.strip().split("\n")]
            assert message.locator("a, img, code, b, strong, em, del, li, h1, table, .katex, span[style]").count() == 0
        icon = seen.page.locator("link[rel='shortcut icon']").get_attribute("href")
        assert icon is not None and icon.startswith("data:image/svg+xml")
        expect_harmless(seen)


def test_the_lab_has_a_conformer_and_a_token_by_keyboard(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, "/tokenizer_lab?text=CC%3DO") as seen:
        expect(seen.page.frame_locator("iframe").first.locator("canvas").first).to_be_visible(timeout=60_000)
        seen.press("Junk of a report")
        tokens = seen.page.locator(".atoms")
        expect(tokens).to_have_count(2)
        expect(tokens.first.locator(".step.junk", has_text="amen")).to_be_visible()
        first = tokens.first.locator(".row").first

        def step() -> None:
            first.focus()
            seen.page.keyboard.press("ArrowRight")

        again(step, lambda limit_ms: expect(tokens.first.locator(".tip")).to_contain_text("id ", timeout=limit_ms))
        assert seen.outside == []


def test_logs_are_ticked_and_compared(browser: Browser, demo_server: Server) -> None:
    coarse = "llama.cpp-demo-llama-final-q4-K-M"
    with visit(browser, demo_server, f"/logits?view=Parity&log={coarse}") as seen:
        expect(legend(seen)).to_have_text([re.compile("Q4_K_M.*control"), re.compile("No test yet")])
        open_picker(seen)
        click_row(seen, 0, 7)  # newest first
        expect(legend(seen).last).to_have_text("llama.cpp (demo-llama:final, float32)")
        click_row(seen, 0, 0)  # the oldest tick makes room
        expect(legend(seen)).to_have_text([re.compile("^llama.cpp.*float32"), re.compile("^driftscope")])
        expect(seen.page).to_have_url(re.compile("log=llama.cpp-demo.*beside=driftscope-demo"))
        seen.press("1 − cosine")
        expect(seen.page).to_have_url(re.compile("parity_by=apart"))
        seen.press("Data")
        with seen.page.expect_download() as download:
            seen.page.get_by_role("button", name="CSV", exact=True).first.click()
        rows = csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines())
        assert len([row for row in rows if row["supported"]]) == 1
        seen.page.go_back()
        seen.page.go_back()
        expect(legend(seen).first).to_have_text(re.compile("Q4_K_M"))
        expect_harmless(seen)


def test_a_bar_pins_its_family_and_what_the_timeline_shows_is_saved(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, "/profiles?view=Families", height=1400) as seen:
        chart = seen.page.locator(".st-key-card-profiles_families .js-plotly-plot").first
        expect(chart.locator(".ytick").filter(has_text="more")).to_have_text(re.compile(r"^and \d+ more$"))
        bar = chart.locator(".barlayer .trace").nth(2).locator(".point path").first.bounding_box()
        assert bar is not None
        for step in (-2, 0):
            seen.page.mouse.move(bar["x"] + bar["width"] / 2 + step, bar["y"] + bar["height"] / 2)
        expect(chart.locator(".hoverlayer .hovertext")).to_have_text(re.compile("gemm, faster calls"))
        seen.page.mouse.down()
        seen.page.mouse.up()
        expect(seen.page).to_have_url(re.compile("pinned=gemm"))
        pinned = seen.page.get_by_role("combobox", name="Pinned")
        pinned.focus()
        for key in ("atten", "ArrowDown", "Enter"):
            (seen.page.keyboard.type if key == "atten" else seen.page.keyboard.press)(key)
        expect(seen.page).to_have_url(re.compile("pinned=attention"))
        expect(chart.locator(".ytick").nth(1)).to_have_text(re.compile("^attention"))
        seen.press("Timeline")
        expect(seen.page.locator(".bartext").filter(has_text="prefill").first).to_be_attached()
        with seen.page.expect_download() as download:
            seen.page.get_by_role("button", name="Save for Perfetto").click()
        events = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))["traceEvents"]
        assert {"step", "prefill", "sample"} <= {event["name"] for event in events if event["ph"] == "X"}
        expect_harmless(seen)


def test_charts_follow_another_theme(browser: Browser, demo_server: Server) -> None:
    """They kept the ground of the theme that they were drawn for."""
    with visit(browser, demo_server, "/profiles?view=Kernels") as seen:
        ground = seen.page.locator(".js-plotly-plot .main-svg").first
        for theme in get_args(Theme):
            seen.page.emulate_media(color_scheme=theme)
            expect(ground).to_have_css("background-color", rgb(theme_settings(theme)["backgroundColor"]))
        expect_harmless(seen)


def test_traces_are_ticked_and_a_timeline_zooms_both_at_once(browser: Browser, demo_server: Server) -> None:
    with visit(browser, demo_server, "/profiles?view=Families") as seen:
        expect(legend(seen)).to_have_text([re.compile(r"none.*control"), re.compile("exact")])
        seen.press("whole traces")
        expect(seen.page).to_have_url(re.compile(r"per=whole\+traces"))
        open_picker(seen)
        click_row(seen, 0, 1)
        expect(legend(seen)).to_have_text([re.compile(r"exact.*control"), re.compile("group-v2.1")])
        seen.page.goto(f"{demo_server.url}/profiles?view=Timeline")
        chart = seen.page.locator(".js-plotly-plot")
        expect(chart).to_be_visible()
        ranges = "plot => [plot.layout.xaxis.range, plot.layout.xaxis3.range].map(ends => ends[1] - ends[0])"
        before = chart.evaluate(ranges)
        chart.locator(".nsewdrag").first.hover()
        seen.page.mouse.wheel(0, -400)
        seen.page.wait_for_function(
            "before => { const p = document.querySelector('.js-plotly-plot').layout;"
            " return p.xaxis.range[1] - p.xaxis.range[0] < before }",
            arg=before[0],
        )
        first, other = chart.evaluate(ranges)
        assert first / before[0] == pytest.approx(other / before[1])
        expect_harmless(seen)
