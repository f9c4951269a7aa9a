"""Log files into the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import FileError
from engine.logits import ingest
from engine.logits.health import findings_in
from engine.logits.ingest import LogNames, add_file
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store, damaged_parts
from tests.engine.logits.logs import clean, objects, text, write

ROWS = clean(6, 4)


def values(store: Store, log_id: str) -> list[dict[str, Any]]:
    sql = "SELECT * FROM logit_values WHERE log_id = $id ORDER BY entry, position"
    return store.rows(sql, {"id": log_id})


def test_a_log_comes_out_as_it_went_in(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", objects(ROWS, source="there", model="m", precision="F16", shape="[1,151936]"))
    (entry,) = add_file(store, path)
    row = entry.row
    assert (row["engine"], row["model"], row["precision"], row["source"]) == ("llama.cpp", "m", "F16", "there")
    assert (row["entries"], row["values_logged"], row["length"], row["dtype"]) == (6, 24, 151936, "f32")
    assert (row["first_token"], row["last_token"], row["file"], row["origin"]) == (0, 5, "a.jsonl", "imported")
    assert (row["flagged_values"], row.get("cause"), findings_in(entry), row["is_cut"]) == (0, None, [], False)
    assert not damaged_parts(entry)
    cells = values(store, entry.id)
    assert [cell["value"] for cell in cells] == ROWS.reshape(-1).tolist()
    assert [(cell["token_idx"], cell["position"]) for cell in cells] == [(t, p) for t in range(6) for p in range(4)]
    assert {(cell["checkpoint"], tuple(cell["flags"])) for cell in cells} == {("logits", ())}
    entries = store.rows("SELECT * FROM logit_entries ORDER BY entry")
    assert [entry["line"] for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry["top"] for entry in entries] == ROWS.argmax(axis=1).tolist()
    assert [entry["largest"] for entry in entries] == ROWS.max(axis=1).tolist()


def test_several_engines_models_and_precisions_are_as_many_logs(store: Store, tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"team": "ours"},
        {"team": None, "engine": "e"},
        {"model": "m"},
        {"precision": "Q4"},
    ]
    lines = [line for kind in kinds for line in objects(ROWS, **kind)]
    mixed = lines[::2] + lines[1::2]
    logs = add_file(store, write(tmp_path / "a.jsonl.gz", mixed))
    names = {(log.row["engine"], log.row.get("model"), log.row.get("precision")) for log in logs}
    ours = {("llama.cpp", None, None), ("llama.cpp", "m", None), ("llama.cpp", None, "Q4")}
    assert names == {("ours", None, None), ("e", None, None), *ours}
    assert [log.row["entries"] for log in logs] == [6] * 5
    assert {entry.id for entry in store.listing(LOGIT_LOG).entries} == {log.id for log in logs}


def test_a_truncated_last_line_is_kept_up_to_there_and_said(store: Store, tmp_path: Path) -> None:
    content = text(objects(ROWS))
    (entry,) = add_file(store, write(tmp_path / "a.jsonl", content[:-10]))
    assert (entry.row["entries"], entry.row["is_cut"], entry.row["left_out"]) == (5, True, 0)
    assert "truncated" in entry.row["notes"]
    (entry,) = add_file(store, write(tmp_path / "b.jsonl", content[:-1]))  # whole, without its line break
    assert (entry.row["entries"], entry.row["is_cut"]) == (6, False)
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(write(tmp_path / "d.jsonl.gz", content).read_bytes()[:-8])
    (entry,) = add_file(store, path, LogNames("cut"))
    assert (entry.row["entries"], entry.row["is_cut"]) == (6, True)


def test_lines_that_are_no_entries_are_counted_and_named(store: Store, tmp_path: Path) -> None:
    lines = text(objects(ROWS)).splitlines(keepends=True)
    content = b"loading model\n" + lines[0] + b'\n{"values": [1, tr\r\n' + b"".join(lines[1:])
    (entry,) = add_file(store, write(tmp_path / "a.jsonl", content))
    assert (entry.row["entries"], entry.row["left_out"], entry.row["is_cut"]) == (6, 2, False)
    assert "2 lines could not be read (line 1: it is no JSON; line 4: it is no JSON)" in entry.row["notes"]


def test_a_file_is_stored_once(store: Store, tmp_path: Path) -> None:
    lines = objects(ROWS)
    (entry,) = add_file(store, write(tmp_path / "a.jsonl", lines))
    (again,) = add_file(store, write(tmp_path / "b.jsonl.gz", lines))
    assert again.id == entry.id
    assert len(store.listing(LOGIT_LOG).entries) == 1


def test_sequences_begin_where_tokens_do_not_rise(store: Store, tmp_path: Path) -> None:
    lines = objects(ROWS, source="a") + objects(ROWS + 1, source="a") + objects(ROWS + 2, source="b")
    mixed = [line for three in zip(lines[:6], lines[12:], strict=True) for line in three] + lines[6:12]
    add_file(store, write(tmp_path / "a.jsonl", mixed))
    sql = "SELECT sequence, source, list(token_idx ORDER BY entry) AS tokens FROM logit_entries GROUP BY ALL ORDER BY 1"
    rows = store.rows(sql)
    assert [(row["sequence"], row["source"]) for row in rows] == [(0, "a"), (1, "b"), (2, "a")]
    assert all(row["tokens"] == [0, 1, 2, 3, 4, 5] for row in rows)


def test_blocks_come_to_what_one_block_does(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clean(300, 8)
    rows[100, 3] = 1e30
    rows[150:160] = rows[149]
    path = write(tmp_path / "a.jsonl", objects(rows))
    (whole,) = add_file(store, path)
    monkeypatch.setattr("engine.logits.ingest.BATCH_VALUES", 500)
    (parts,) = add_file(store, path, LogNames("parts"))
    assert [value["flags"] for value in values(store, whole.id)] == [
        value["flags"] for value in values(store, parts.id)
    ]
    same = ("entries", "flagged_values", "flagged_entries", "garbage_entries", "cause", "least", "largest", "findings")
    assert [whole.row[key] for key in same] == [parts.row[key] for key in same]
    assert whole.row["flagged_values"] == 81


def test_a_file_that_begins_with_no_entry_for_long_is_not_read_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """5 million lines, 10 KB of gz, took a minute and a half."""
    monkeypatch.setattr(ingest, "MOST_BAD_LINES", 3)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x\n" * 2 + b'{"values": [1]}\n' + b"x\n" * 5)
    assert add_file(store, path)[0].row["left_out"] == 7
    path.write_bytes(b"x\n" * 3 + b'{"values": [1]}\n')
    with pytest.raises(FileError, match="no logit entry: line 1: it is no JSON"):
        add_file(store, path)


MANY = b"".join(b'{"engine": "e%d", "values": [1, 2]}\n' % number for number in range(1_000))


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "no logit entry"), (b"[1, 2]\n", "no logit entry"), (MANY, "over 64 engines")]
)
def test_a_file_that_is_refused_leaves_nothing(store: Store, tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(FileError, match=why):
        add_file(store, write(tmp_path / "a.jsonl", content))
    assert not store.home.folders("staging") and not store.listing(LOGIT_LOG).entries
