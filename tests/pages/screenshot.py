"""Take a picture of a page in a real browser.

    python tests/pages/screenshot.py --page tokenizer_lab --theme dark --out lab.png
    python tests/pages/screenshot.py --script tests/pages/molecule_demo.py --out demo.png

``--height 0`` fits the picture to the content. ``--fill LABEL=TEXT`` types into a field and ``--click NAME`` presses
what is called so, in the order given. Exits 2 when the page asked for anything outside of its own server.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.pages.browser import ROOT, Visit, chromium, serve, visit


def main() -> int:
    options = _options()
    script = options.script or ROOT / "app.py"
    path = f"/{options.page}" if options.page else "/"
    with serve(script, fresh=True) as server, chromium() as browser:
        size = {"width": options.width, "height": options.height or 900}
        with visit(browser, server, path, theme=options.theme, **size) as seen:
            for do, value in options.steps or []:
                do(seen, value)
            if not options.height:
                _fit(seen, options.width)
            seen.page.wait_for_timeout(options.wait_ms)
            options.out.parent.mkdir(parents=True, exist_ok=True)
            seen.page.screenshot(path=options.out)
            for line in seen.console:
                print(f"console: {line}", file=sys.stderr)
            for url in seen.outside:
                print(f"outside request: {url}", file=sys.stderr)
            return 2 if seen.outside else 0


def _fill(seen: Visit, value: str) -> None:
    label, text = value.split("=", 1)
    seen.fill(label, text)


def _step(do: Callable[[Visit, str], None], value: str) -> tuple[Callable[[Visit, str], None], str]:
    return do, value


def _fit(seen: Visit, width: int) -> None:
    """Streamlit scrolls inside the page, so a full-page picture needs a window as high as the content."""
    height = seen.page.evaluate("() => document.querySelector('[data-testid=stMainBlockContainer]').scrollHeight")
    seen.page.set_viewport_size({"width": width, "height": int(height) + 60})


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", default="", help="a page of the app by its file name; the landing page without")
    parser.add_argument("--script", type=Path, help="a script to run in place of app.py")
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--wait-ms", type=int, default=400, help="for what draws itself after the page has settled")
    for name, step in (("--fill", _fill), ("--click", Visit.press)):
        parser.add_argument(name, dest="steps", action="append", type=partial(_step, step))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
