"""The Logit health page by its state: which logs are looked at, and that each view shows its question's figures."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from engine.store.schema import LOGIT_LOG
from engine.store.store import DEMO
from pages._logits.logs import LOGS, default_choice
from tests.crafted import craft_sheet
from tests.engine.inspection.made import DEMO_STORE
from tests.engine.store.stored_runs import store_at
from tests.pages import apps
from tests.pages.apps import shown, table, words

ENTRIES = DEMO_STORE.listing(LOGIT_LOG).entries
BY_NAME = {entry.id.rpartition("-")[0]: entry for entry in ENTRIES}
OURS, THEIRS, COARSE, OTHER = (
    BY_NAME[name]
    for name in (
        "driftscope-demo-qwen-final-f32", "llama.cpp-demo-qwen-final-f32", "llama.cpp-demo-qwen-final-q4-K-M",
        "llama.cpp-demo-llama-final-f32",
    )
)  # fmt: skip
FREED, GREW = (entry.id for entry in reversed(ENTRIES) if entry.row.get("cause") and "llama:" in entry.row["model"])


@pytest.fixture(autouse=True)
def demo(demo_store: None) -> None:
    """The store that ships, where a test has none of its own."""


def opened(**query: str) -> AppTest:
    return apps.opened("logits", **query)


def test_a_first_visit_looks_at_the_newest_log_beside_another_engines() -> None:
    app = opened()
    assert shown(app)["logs"] == [OURS.id, THEIRS.id]
    for log in (OURS, THEIRS):
        assert f"float32): no sign of damage in {log.row['entries']:,} entries" in words(app)
    picker = app.dataframe[0].value.set_index("log")
    freed = picker.loc[FREED]
    assert (freed["flagged"], freed["entries"], freed["cause"]) == (95.8, 48, "use after free (likely)")
    assert picker.loc[OURS.id]["cause"] == "nothing flagged"
    rows = table(app, "by_ours").set_index("log")
    assert len(rows) == len(ENTRIES)
    (grew,) = (log for log in rows.index if "grew-dem" in log and rows.loc[log]["model"] == "demo-qwen:final")
    assert list(rows.loc[grew][["by_report", "by_ours"]]) == [50, 100]


def test_health_opens_on_the_newest_damaged_log() -> None:
    first = opened(view="Health")
    assert shown(first)["logs"] == [FREED]
    assert "is damaged: use after free (likely), 95.8\u00a0% of 48 entries" in words(first).replace(" %", "\u00a0%")
    app = opened(view="Health", log=OURS.id, beside=GREW, of="B")
    assert shown(app)["of"] == GREW
    assert table(app, "why")["cause"].to_list() == ["Use after free (likely)"]
    kept = opened(view="Health", log=FREED, flags="zero", at="4", tokens="30")
    assert [shown(kept)[key] for key in ("flags", "at", "tokens")] == [["zero"], [4], "30"]
    assert set(table(kept, "reason")["position"]) == {4}


def test_parity_of_two() -> None:
    app = opened(view="Parity", log=OURS.id, beside=THEIRS.id)
    assert table(app, "supported")["entries"].iloc[0] == THEIRS.row["entries"]
    assert (shown(app)["parity_by"], shown(app)["parity_at"]) == ("relative", "logits")
    assert len(opened(view="Parity", log=OURS.id).info) == 1


def test_an_empty_store_and_logs_that_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    for view in ("Models", "Health"):
        assert any("--log-logits 10" in info.value for info in opened(view=view).info)
    for log in (OURS, THEIRS, COARSE, OTHER):
        shutil.copytree(DEMO / log.folder, tmp_path / log.folder)
    lost, spoiled, odd, _ = (store_at(tmp_path).entry(log.id, LOGIT_LOG) for log in (OURS, THEIRS, COARSE, OTHER))
    Path(lost.path("logit_values")).unlink()
    Path(spoiled.path("logit_values")).write_bytes(bytes(spoiled.parts["logit_values"].bytes))
    craft_sheet(odd, lambda sheet: sheet["row"].update(findings="[{}]"))
    assert len(table(opened(), "by_ours")) == 1
    for log in (lost, spoiled, odd):
        assert opened(view="Health", log=log.id).error
    assert "its values are missing or damaged" in words(opened(log=lost.id))


def test_the_default_wants_the_same_model_of_another_engine() -> None:
    twin = replace(THEIRS, id="twin")
    for pair, has_ids in (((THEIRS, OTHER), False), ((THEIRS, twin), True)):
        assert {name.endswith(id_) for id_, name in LOGS.names(pair).items()} == {has_ids}
    damaged = replace(THEIRS, row={**THEIRS.row, "cause": "freed"})
    theirs = replace(THEIRS, row={**THEIRS.row, "origin": "imported"})
    for entries, expected in (
        ((THEIRS, OTHER, OURS), (OURS, THEIRS)),
        ((THEIRS, OTHER), (OTHER,)),
        ((THEIRS, damaged, OURS), (OURS, THEIRS)),
        ((THEIRS, theirs, OURS), (OURS, THEIRS)),
        ((), ()),
    ):
        assert default_choice(entries) == expected


def test_each_view_opens_with_logs_of_its_own_until_the_reader_chooses() -> None:
    app = opened(view="Health")
    (damaged,) = shown(app)["logs"]
    app.query_params["view"] = "Parity"
    app.run()
    pair = shown(app)["logs"]
    assert len(pair) == 2 and damaged not in pair and app.query_params["log"] == pair[0]
    assert shown(opened(view="Parity", log=damaged))["logs"] == [damaged]
