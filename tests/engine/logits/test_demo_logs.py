"""The logs that ship: ours of both embedded models, clean, text by text."""

from __future__ import annotations

from engine.decode.log_recorder import ENGINE
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.schema import LOGIT_LOG
from engine.store.store import DEMO, Store

STORE = Store(Files(DEMO))
MOST_BYTES = 400_000
"""Of our own: other engines' lie beside them."""


def ours() -> list[Entry]:
    return [entry for entry in STORE.found(LOGIT_LOG).entries if entry.row["engine"] == ENGINE]


def test_both_models_logged_sixteen_texts() -> None:
    """When this fails, `make demo-logs` is due."""
    assert {entry.row["model"] for entry in ours()} == {"demo-qwen:final", "demo-llama:final"}
    for entry in ours():
        row = entry.row
        assert (row["origin"], row["precision"], row["flagged_values"]) == ("measured", "f32", 0)
        assert row["values_logged"] == 8 * row["entries"]
        (found,) = STORE.table("SELECT count(DISTINCT sequence) AS texts FROM logit_entries", of=[entry.id]).to_pylist()
        assert found["texts"] == 16
        steps = STORE.table("SELECT sequence, token_idx FROM logit_entries ORDER BY entry", of=[entry.id]).to_pylist()
        assert steps == sorted(steps, key=lambda step: (step["sequence"], step["token_idx"])), "one after the other"


def test_they_are_small() -> None:
    assert sum(part.bytes for entry in ours() for part in entry.parts.values()) < MOST_BYTES
