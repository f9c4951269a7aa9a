"""A store of before issue 17, made by commit babcdbe: its entries are shown as that code showed them, and stopped runs
end as then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.black_box import HERE, answers, engine, unpacked_old_store
from tests.contract.expected import is_gone, missing, recorded
from tests.support import sized

CALLS = recorded("old_store")
STOPPED = json.loads((HERE / "recorded" / "resumed_before.json").read_text("utf-8"))
"""Samples of the stopped runs, as the code of then wrote them to their end."""
FEW = ["position-blocklist-short"]
LPS = [*FEW, "position-allowlist", "position-blocklist", "adaptive-placeholder", "truncating", "exact"]
OF_STOPPED = """SELECT run_id, lp, sample_id, text FROM samples JOIN runs USING (run_id)
    WHERE label = 'old, stopped' AND lp = '{lp}' ORDER BY sample_id"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_old_store(tmp_path_factory.mktemp("old"))


def test_the_entries_of_the_old_store_are_shown_as_they_were(store: Path) -> None:
    calls = {name: call for name, call in CALLS.items() if not is_gone("old", name)}
    found = answers(calls, store)
    assert not [(name, lost) for name in calls for lost in missing("old", name, calls[name]["answer"], found[name])]


def test_a_saved_query_is_there(store: Path) -> None:
    (query,) = json.loads((store / "queries.json").read_text("utf-8"))["queries"]
    rows = engine("sql", query["sql"], "--json", store=store).document
    assert {row["lp"] for row in rows} >= {"position-blocklist", "position-blocklist-short", "position-allowlist"}


@pytest.mark.soak
@pytest.mark.parametrize("lp", sized(FEW, LPS))
def test_a_stopped_run_is_resumed_under_its_name_and_rules(lp: str, tmp_path: Path) -> None:
    rows = [row for row in STOPPED if row["lp"] == lp]
    store = unpacked_old_store(tmp_path)
    (run,) = engine("run", "--resume", rows[0]["run_id"], "--json", store=store).document
    assert (run["lp"], run["samples"]) == (lp, len(rows))
    assert engine("sql", OF_STOPPED.format(lp=lp), "--json", store=store).document == rows
