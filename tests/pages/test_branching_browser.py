"""Branches in a real browser: a click on a token, on an alternative, and on what puts a lost molecule right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from engine.inspection.sample import inspect_sample
from engine.store.store import Store
from tests.pages.browser import ROOT, Browser, Server, Visit, expect_harmless, serve_quietly, shape_words, visit
from tests.pages.drift_stores import EXACT, with_demo

pytestmark = pytest.mark.browser
FREE = 60
"""A token of the sample that is not the only likely one."""
PATIENCE_MS = 120_000  # the model is loaded, the answer written and judged


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return with_demo(tmp_path_factory.mktemp("branches"), EXACT)


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py", env={"DRIFTSCOPE_STORE": str(store.home.root)}) as started:
        yield started


def branch_of(seen: Visit, store: Store) -> dict[str, object]:
    """The branch that the page opened under the sample's rows, once it has."""
    expect(seen.page).to_have_url(re.compile(r"under=[^&]*%2F0|under=[^&]*/0"), timeout=PATIENCE_MS)
    seen.settle()
    rows = store.snapshot().rows("SELECT * FROM runs JOIN samples USING (run_id) WHERE branch_of IS NOT NULL")
    return max(rows, key=lambda row: str(row["created_at"]))


def test_a_token_its_alternatives_and_a_branch_under_the_sample(browser: Browser, server: Server, store: Store) -> None:
    with visit(browser, server, f"/drift?run={EXACT}&sample=3", width=1440) as seen:
        aligned: Any = inspect_sample(store, EXACT, 3).alignment
        column = next(column for column, row in enumerate(aligned.rows) if row.pos == FREE)
        seen.page.locator(f'.atoms .text [data-column="{column}"]').click()
        choices = seen.page.locator(f"[class*='st-key-alternatives-{EXACT}'] button:not([disabled])")
        expect(choices.nth(1)).to_contain_text("→", timeout=PATIENCE_MS)
        (parent,) = store.rows("SELECT token_ids FROM samples WHERE run_id = $1 AND sample_id = 3", [EXACT])
        written = parent["token_ids"][FREE]
        key = f"st-key-branch-{EXACT}-3-"
        seen.page.locator(f"[class*='{key}']:not(.{key}{written}) button:not([disabled])").first.click()
        branch = branch_of(seen, store)
        at = branch["branch_at"]
        ids: list[int] = branch["token_ids"]  # type: ignore[assignment]
        assert at == FREE
        assert ids[:FREE] == parent["token_ids"][:FREE] and ids[FREE] != written
        expect(seen.page.locator(".atoms .row.other").first).to_be_visible()
        assert seen.page.locator(".atoms .row.other").count() * 2 == seen.page.locator(".atoms .row").count()
        expect(seen.page.locator(".st-key-card-drift_branches")).to_contain_text("of 1 usable")
        expect_harmless(seen)


def test_the_mark_of_the_lost_token_puts_the_molecule_right(browser: Browser, server: Server, store: Store) -> None:
    with visit(browser, server, f"/drift?run={EXACT}&sample=5", width=1440) as seen:
        expect(seen.page.locator(".atoms .text .lost").first).to_be_visible()
        seen.page.get_by_role("button", name=re.compile("Put right from token 106")).click()
        branch = branch_of(seen, store)
        assert (branch["branch_of"], branch["branch_at"]) == (f"{EXACT}/5", 106)
        assert branch["lp"] == "shaped" and branch["usable"]
        expect(shape_words(seen)).to_contain_text("grey: branch")
        expect(seen.page.locator(".st-key-card-drift_branches")).to_contain_text(
            "1 of 1 usable, the sample itself is not"
        )
        expect_harmless(seen)
