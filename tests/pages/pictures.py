"""Makes the README's pictures: ``python -m tests.pages.pictures [NAME ...]``. Each is a view of the shipped demo store.

Exits 2 when a page asked for anything outside of its server.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect

from tests.pages.browser import ROOT, Server, chromium, serve, visit

PATIENCE_MS = 180_000
NO_SIDEBAR = "[data-testid=stSidebar], [data-testid=stExpandSidebarButton], [data-testid=stHeader] { display: none }"


@dataclass(frozen=True, slots=True)
class Picture:
    """A view by its address; ``top`` is a text that stands at the picture's top, ``ready`` one to wait for.

    ``part`` is the key of the one element that is shown.
    """

    page: str
    query: dict[str, str]
    height: int
    ready: str
    top: str = ""
    part: str = ""


def lost_third(chart: int) -> Picture:
    query = {"view": "The lost third", "lost_third_model": "demo-qwen-fixed"}
    return Picture("evidence", query, 1600, ready="Data", part=f"chart-evidence_lost_third-{chart}")


def one_molecule(run: str, sample: int, atom: int) -> Picture:
    query = {"run": run, "sample": str(sample), "atom": str(atom)}
    return Picture("drift", query, 1000, ready="Atom by atom", top="Molecules")


PICTURES = {
    "drift": one_molecule("demo-qwen-final-group-v2.1", 0, atom=3),
    "compare": Picture("compare", {}, 1150, ready="All figures", top="Side by side"),
    "profiles": Picture("profiles", {}, 1000, ready="Where does", top="Families"),
    "logits": Picture("logits", {"view": "Health"}, 1150, ready="Data", top="Health"),
    "lost_third_fall": lost_third(0),
    "lost_third_lanes": lost_third(1),
    "lost_third_curves": lost_third(2),
    "tokenizer_lab": Picture("tokenizer_lab", {}, 840, ready="FREE"),
}


def take(name: str, browser: BrowserContext, server: Server) -> bool:
    """Whether the page kept to its own server."""
    picture = PICTURES[name]
    address = f"/{picture.page}?{urlencode(picture.query)}"
    with visit(browser, server, address, width=1280, height=picture.height) as seen:
        page = seen.page
        page.add_style_tag(content=NO_SIDEBAR)
        expect(page.get_by_text(picture.ready).first).to_be_visible(timeout=PATIENCE_MS)
        seen.settle()
        page.wait_for_timeout(4_000)  # for what draws itself after the page has settled: WebGL, charts
        if picture.top:
            _scroll_to(page, picture.top)
        part = page.locator(f".st-key-{picture.part}") if picture.part else page
        shot = Image.open(BytesIO(part.screenshot()))
        shot.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(ROOT / "docs" / f"{name}.png", optimize=True)
        return not seen.outside


def _scroll_to(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).first.evaluate("element => element.scrollIntoView({block: 'start'})")
    page.wait_for_timeout(500)


def main() -> int:
    names = sys.argv[1:] or list(PICTURES)
    with serve(ROOT / "app.py") as server, chromium() as browser:
        return 0 if all(take(name, browser, server) for name in names) else 2


if __name__ == "__main__":
    sys.exit(main())
