"""Makes the README's pictures: ``python -m tests.pages.pictures [NAME ...]``. Each is a view of the shipped demo store.

Exits 2 when a page asked for anything outside of its server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image
from playwright.sync_api import BrowserContext, expect

from engine.handover.collecting import bundle_of
from engine.handover.writing import write_bundle
from tests.cli import run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.pages.browser import ROOT, Server, chromium, serve, visit
from tests.pages.drift_stores import EXACT, with_demo

PATIENCE_MS = 180_000
REPORT = "handover"
NO_SIDEBAR = "[data-testid=stSidebar], [data-testid=stExpandSidebarButton], [data-testid=stHeader] { display: none }"


class Picture(NamedTuple):
    """A view by its address; ``top`` is a text that stands at the picture's top, ``ready`` one to wait for, ``part``
    the key of the one element that is shown."""

    address: str
    height: int
    ready: str
    top: str = ""
    part: str = ""


ALPHABETS = "alphabets"
"""The one view of what has to be computed first, by the commands in docs/drift.md; taken where it is named."""
BRANCH = "branch"
"""The one view of another store: a wrong answer of the demo, and its branch from the token that lost it."""
LOST_THIRD = "evidence?view=The+lost+third&lost_third_model=demo-qwen-fixed"
PICTURES = {
    "drift": Picture("drift?run=demo-llama-final-group-v2.1&sample=30&atom=7", 1000, "Atom by atom", "Molecules"),
    "compare": Picture("compare", 1150, "All figures", "Side by side"),
    "profiles": Picture("profiles", 1000, "Where does", "Families"),
    "logits": Picture("logits?view=Health", 1150, "Data", "Health"),
    "tokenizer_lab": Picture("tokenizer_lab", 840, "FREE"),
    **{
        f"lost_third_{name}": Picture(LOST_THIRD, 1600, "Data", part=f"chart-evidence_lost_third-{index}")
        for index, name in enumerate(("fall", "lanes", "curves"))
    },
    ALPHABETS: Picture(
        "tokenizer_lab?view=Alphabets&alphabet_references=drugs", 1600, "Data", part="chart-lab_alphabets-0"
    ),
}


@contextmanager
def branched() -> Iterator[tuple[Server, Picture]]:
    with TemporaryDirectory() as folder:
        with_demo(Path(folder), EXACT)
        run_id = run_json("branch", f"{EXACT}/5", "--store", folder)["run_id"]
        address = f"drift?run={EXACT}&sample=5&atom=4&token=106&under={run_id}/0"
        with serve(ROOT / "app.py", env={"DRIFTSCOPE_STORE": folder}) as server:
            yield server, Picture(address, 1150, "How much does this token decide?", "Molecules")


def take(name: str, browser: BrowserContext, server: Server, picture: Picture) -> bool:
    """Whether the page kept to its own server."""
    with visit(browser, server, f"/{picture.address}", width=1280, height=picture.height) as seen:
        page = seen.page
        page.add_style_tag(content=NO_SIDEBAR)
        expect(page.get_by_text(picture.ready).first).to_be_visible(timeout=PATIENCE_MS)
        seen.settle()
        page.wait_for_timeout(4_000)  # for what draws itself after the page has settled: WebGL, charts
        if picture.top:
            page.get_by_text(picture.top, exact=True).first.evaluate("text => text.scrollIntoView({block: 'start'})")
            page.wait_for_timeout(500)
        part = page.locator(f".st-key-{picture.part}") if picture.part else page
        save(name, part.screenshot())
        return not seen.outside


def save(name: str, picture: bytes) -> None:
    shot = Image.open(BytesIO(picture)).convert("RGB")
    shot.quantize(128, dither=Image.Dither.NONE).save(ROOT / "docs" / f"{name}.png", optimize=True)


def take_report(browser: BrowserContext) -> bool:
    """A report as it opens from disk: how far blocks drift, and below it the worst molecule."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        write_bundle(bundle_of(DEMO_STORE, [demo_run("llama", "group-v2.1")], molecules=3), path)
        page = browser.new_page()
        page.set_viewport_size({"width": 1100, "height": 760})
        page.goto(path.as_uri())
        page.get_by_role("heading", name="Molecules", exact=True).evaluate(
            "head => head.scrollIntoView({block: 'start'})"
        )
        page.wait_for_timeout(2_000)  # for WebGL
        save(REPORT, page.screenshot())
        page.close()
    return True


def main() -> int:
    names = sys.argv[1:] or [*(name for name in PICTURES if name != ALPHABETS), REPORT, BRANCH]
    with serve(ROOT / "app.py") as server, chromium() as browser, ExitStack() as stack:
        taken = [take(name, browser, server, PICTURES[name]) for name in names if name in PICTURES]
        if REPORT in names:
            taken.append(take_report(browser))
        if BRANCH in names:
            taken.append(take(BRANCH, browser, *stack.enter_context(branched())))
    return 0 if all(taken) else 2


if __name__ == "__main__":
    sys.exit(main())
