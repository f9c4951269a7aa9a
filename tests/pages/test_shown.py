"""What each page says that it shows, as JSON, for a link."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from tests.engine.inspection.made import DEMO_STORE, demo_run

NONE, BLOCKLIST, EXACT = (demo_run("llama", lp) for lp in ("none", "group-v2.1", "exact"))
LINKS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("compare", {"control": NONE, "test": [EXACT, BLOCKLIST]}, {"runs": [NONE, EXACT, BLOCKLIST], "lp": []}),
    ("compare", {}, {"view": "Side by side"}),
    ("compare", {"view": "SQL", "sql": "SELECT 1"}, {"view": "SQL", "sql": "SELECT 1", "saved": None}),
    (
        "compare",
        {"view": "Charts", "control": NONE, "test": EXACT, "points_by": "tokens"},
        {"question": "Molecules", "points_of": EXACT, "points_by": "tokens", "pair": None},
    ),
    ("drift", {"run": BLOCKLIST}, {"view": "Molecules", "runs": [BLOCKLIST], "run": BLOCKLIST, "atom": None}),
    (
        "drift",
        {"run": [NONE, BLOCKLIST], "of": BLOCKLIST, "sample": "3", "atom": "2", "order": "As written"},
        {"runs": [NONE, BLOCKLIST], "run": BLOCKLIST, "sample": 3, "atom": 2, "order": "As written"},
    ),
    ("drift", {"run": BLOCKLIST, "sample": "99999"}, {"run": None, "sample": None}),
    ("evidence", {}, {"view": "In two minutes"}),
    ("evidence", {"claim": "005-cov-r-lp"}, {"view": "All claims", "claim": "005-cov-r-lp", "report": []}),
    (
        "live",
        {"smiles": "CCO", "lp2": "exact", "lp3": "—", "seed": "7"},
        {"molecules": ["CCO"], "lps": ["none", "exact"], "seed": 7, "model": "demo-llama:final"},
    ),
    ("logits", {"view": "Health"}, {"view": "Health"}),
    ("profiles", {"view": "Timeline", "tl_from": "1"}, {"view": "Timeline", "tl_from": 1.0}),
    ("profiles", {"view": "Kernels", "by": "calls"}, {"by": "calls", "operation": None}),
    ("tokenizer_lab", {"text": "<1.0,2.0,3.0>"}, {"view": "One text", "text": "<1.0,2.0,3.0>"}),
]


@pytest.mark.parametrize(("name", "query", "expected"), LINKS)
def test_a_link_to_a_page_says_what_it_selects(
    name: str, query: dict[str, Any], expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))
    app = AppTest.from_file(str(ROOT / "pages" / f"{name}.py"), default_timeout=120)
    for key, value in query.items():
        app.query_params[key] = value
    shown = json.loads(app.run().session_state["shown"])
    assert not app.exception
    assert shown["page"] == name
    assert {key: shown.get(key, "missing") for key in expected} == expected


def test_a_sections_run_is_named_by_its_id_or_by_its_words_as_links_once_had_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(DEMO_STORE.home.where))
    named = EXACT
    for _ in range(2):
        app = AppTest.from_file(str(ROOT / "pages" / "drift.py"), default_timeout=120)
        for key, value in {"run": [BLOCKLIST, EXACT], "view": "Junk lexicon", "one_run": named}.items():
            app.query_params[key] = value
        assert json.loads(app.run().session_state["shown"])["one_run"] == EXACT
        assert EXACT in app.query_params["one_run"]
        named = app.selectbox(key="one_run").options[1]
    assert named != EXACT
