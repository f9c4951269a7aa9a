"""The frame in a real browser: untrusted text stays text, and nothing outside of the server is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pages.browser import ROOT, Browser, Server, serve, visit
from tests.pages.error_demo import TEXTS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve(ROOT / "tests/pages/error_demo.py") as started:
        yield started


def test_untrusted_text_is_shown_as_it_was_written(browser: Browser, server: Server) -> None:
    with visit(browser, server) as seen:
        for number, text in enumerate(TEXTS):
            message = seen.page.locator(f".st-key-text-{number} [data-testid=stMarkdownContainer]")
            shown = message.inner_text().replace("\u2060", "").replace("\u00a0", " ")
            # Streamlit strips a message, no-break spaces too, before Markdown sees it.
            assert [line.rstrip() for line in shown.split("\n")] == [line.rstrip() for line in text.strip().split("\n")]
            assert message.locator("a, img, code, b, strong, em, del, li, h1, table, .katex, span[style]").count() == 0
        assert seen.outside == []
        assert seen.dialogs == []
