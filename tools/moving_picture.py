"""The README's moving picture, docs/live.webp: adrenaline written live in three lanes by the app in Chromium.

``python -m tools.moving_picture [CHROMIUM]``: with requirements-dev.txt, by playwright's own browser or the one named.
"""

from __future__ import annotations

import sys
import time
from contextlib import closing
from io import BytesIO
from itertools import pairwise
from socket import create_server
from subprocess import Popen
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Error, Page, sync_playwright

from engine.paths import ROOT

FILE = ROOT / "docs" / "live.webp"
SIZE, SHOWN = {"width": 1280, "height": 760}, 900  # pixels; the picture's width
FRAME_MS, LAST_MS, QUALITY, MOST_BYTES = 300, 4_000, 45, 1_000_000
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
VIEW = {
    "smiles": "CNC[C@H](O)c1ccc(O)c(O)c1",
    "model": "demo-llama",
    "lp1": "none",
    "lp2": "group-v2.1",
    "lp3": "exact",
}
HIDDEN = "[data-testid=stSidebar], [data-testid=stExpandSidebarButton], [data-testid=stHeader] { display: none }"


def frames(page: Page) -> list[tuple[float, Image.Image]]:
    """What is seen while the lanes are written, and the result; each with its time in seconds."""
    page.add_style_tag(content=HIDDEN)
    page.get_by_role("button", name="Generate").click()
    page.mouse.move(0, 0)
    taken = list[tuple[float, Image.Image]]()
    while not page.get_by_text("Lanes side by side").first.is_visible():
        taken.append((time.monotonic(), picture(page)))
        page.wait_for_timeout(FRAME_MS)
    page.wait_for_timeout(LAST_MS)  # 3D and charts draw themselves
    return [*taken, (time.monotonic(), picture(page))]


def picture(page: Page) -> Image.Image:
    shot = Image.open(BytesIO(page.screenshot())).convert("RGB")
    return shot.resize((SHOWN, round(SHOWN * shot.height / shot.width)), Image.Resampling.LANCZOS)


def main(chromium: str | None = None) -> None:
    with closing(create_server(("localhost", 0))) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", f"--server.port={port}", "--server.headless=true"]
    with Popen(command, cwd=ROOT) as server, sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
            page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
            for _ in range(100):
                try:
                    page.goto(f"http://localhost:{port}/live?{urlencode(VIEW)}")
                    break
                except Error:  # it is not up yet
                    time.sleep(0.3)
            page.get_by_role("button", name="Generate").wait_for()
            page.wait_for_timeout(LAST_MS)
            times, (first, *others) = zip(*frames(page), strict=True)
        finally:
            server.terminate()
    lasting = [round(1_000 * (after - at)) for at, after in pairwise(times[:-1])]
    how = {"duration": [*lasting, FRAME_MS, LAST_MS], "loop": 0, "quality": QUALITY, "method": 6}
    first.save(FILE, save_all=True, append_images=others, **how)
    size = FILE.stat().st_size
    print(f"{FILE}: {len(times)} pictures, {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"it is over {MOST_BYTES:,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
