"""The reports' traces as data: what they state, what comes out of their own counts, their queries over our tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.comparing.queries import ready_queries
from engine.profile.ingest import add_trace
from engine.questions import ask
from engine.store.files import Files
from engine.store.store import Store
from tests.engine.profile.made_traces import added, event, write_trace
from tools.reported import publish_traces

ARITHMETIC = re.compile(r"[0-9.()*/+ -]+")


def test_what_is_ours_follows_from_what_is_stated(tmp_path: Path) -> None:
    """To the digits that are given, and it is another figure than the report's."""
    store = Store(Files(tmp_path))
    derived = ask(store, "evidence_reports", []).tables["main"].to_pylist()
    assert len(derived) > 8
    for row in derived:
        assert row["why"].strip()
        if row["ours"] is None:
            continue
        assert ARITHMETIC.fullmatch(row["from"])
        value = eval(row["from"])
        assert value == pytest.approx(row["ours"], rel=0.005 if row["unit"] != "s" else 0.05), row["what"]
        assert value != pytest.approx(row["stated"], rel=0.02), row["what"]


def test_the_reports_table(tmp_path: Path) -> None:
    store = Store(Files(tmp_path))
    publish_traces(store)
    publish_traces(store)  # in place of what is there
    figures = ask(store, "profiles_launches", ["reported-003-llama", "reported-003-qwen"]).tables["main"].to_pylist()
    pairs = {row["name"]: (row["control"], row["test"]) for row in figures}
    assert (pairs["launch_calls"], pairs["attention_calls"]) == ((961_645, 2_912_920), (20_672, 48_440))
    assert (pairs["copy_calls"], pairs["concat_calls"]) == ((59_440, 139_272), (81_280, 193_760))
    assert (pairs["launch_us"], pairs["idle_share"]) == ((3_300_000, 13_500_000), (None, None))
    assert pairs["launch_a_token"] == pytest.approx((33.7, 76.3), abs=0.05)


def test_their_queries_run_over_our_tables(tmp_path: Path) -> None:
    store = Store(Files(tmp_path / "store"))
    publish_traces(store)
    path = tmp_path / "made.json"
    write_trace(path, 5_000)
    made = add_trace(store, path).id
    marks = [event("user_annotation", "driftscope::template", 10 * n, n) for n in range(1, 9)]
    marked = added(store, tmp_path, [*marks, event("kernel", "k", 500, 1, stream=7)]).id
    views = {view.key: view for view in ready_queries() if "JOIN traces" in view.sql}
    assert len(views) == 5
    with store.console() as console:
        answers = {name: console.query(view.sql).table.to_pylist() for name, view in views.items()}
    assert [row["trace_id"] for row in answers["report-001-mask-operations"]] == [
        made,
        "reported-003-llama",
        "reported-003-qwen",
    ]
    attention = {row["trace_id"]: row for row in answers["report-001-attention"]}
    assert attention["reported-003-qwen"]["calls"] == 48_440
    templates = answers["report-001-templates"]
    assert [(row["trace_id"], row["ms"]) for row in templates] == [(marked, n / 1000) for n in (8, 7, 6, 5, 4)]
    summary = {row["trace_id"]: row for row in answers["report-003-traces"]}
    assert summary["reported-003-qwen"]["launches"] == 2_912_920
    assert summary[made]["attention_calls"] > 0 and summary[made]["origin"] == "imported"
