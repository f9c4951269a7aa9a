"""``logits`` from the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.jobs.progress import ProgressFile
from tests.cli import keys, run, run_json
from tests.engine.logits.logs import clean, objects, text, write


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    rows = clean(50, 12)
    rows[:10, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 10)
    write(tmp_path / "a.jsonl", objects(rows))
    write(tmp_path / "b.jsonl.gz", objects(clean(50, 12) + 1e-5, team="worker-orcd", model="Qwen2.5-0.5B"))
    return tmp_path


def test_logs_are_added_listed_shown_and_asked(place: Path) -> None:
    (row,) = run_json("logits", "add", str(place / "a.jsonl"), "--model", "Phi-3", "--precision", "Q4_K_M")
    assert keys(row, ["log_id", "engine", "model", "precision", "source", "entries"])
    assert (row["engine"], row["model"], row["precision"]) == ("llama.cpp", "Phi-3", "Q4_K_M")
    counts = [row[name] for name in ("entries", "flagged_entries", "garbage_entries", "cause")]
    assert counts == [50, 10, 10, "uninitialised"]
    assert [one["log_id"] for one in run_json("logits", "list")] == [row["log_id"]]
    shown = run_json("logits", "show", row["log_id"][-6:])
    assert keys(shown, ["damaged_share", "garbage_share", "positions", "flags", "findings"])
    assert (shown["damaged_share"], shown["garbage_share"]) == (0.2, 0.2)
    assert [one["position"] for one in shown["positions"]] == [0]
    (counted,) = run_json(
        "sql",
        "SELECT log_id, engine, count(*) AS n, count_if(len(flags) > 0) AS flagged "
        "FROM logit_logs JOIN logit_values USING (log_id) GROUP BY ALL",
    )
    assert counted == {"log_id": row["log_id"], "engine": "llama.cpp", "n": 600, "flagged": 10}


def test_tables_and_sentences(place: Path) -> None:
    added = run("logits", "add", str(place / "*.jsonl*"))
    assert (added.code, added.err) == (0, "")
    assert "uninitialised" in added.out
    assert "worker-orcd" in added.out
    shown = run("logits", "show", "llama.cpp").out
    assert shown.startswith("20.0 % of the 50 entries (600 values) of llama.cpp are damaged: 10 values")
    assert "By the report's rule (a huge number) 20.0 % of the entries are garbage." in shown
    assert run("logits", "show", "worker").out.startswith("No sign of damage in the 50 entries")


def test_parity(place: Path) -> None:
    run("logits", "add", str(place / "*.jsonl*"))
    found = run_json("logits", "parity", "worker", "llama.cpp")
    assert (found["supported"], found["entries"], found["flagged_positions"]) == ("skip 0", 50, [0])
    text_ = run("logits", "parity", "worker", "llama.cpp").out
    assert "filter without a flagged value: “skip 0”" in text_


def test_a_file_is_read_once_and_removed(place: Path) -> None:
    (row,) = run_json("logits", "add", str(place / "a.jsonl"))
    again = run("logits", "add", str(place / "a.jsonl"), "--json")
    assert again.document[0]["log_id"] == row["log_id"]
    assert "is already in the store" in again.err
    assert "nothing was removed" in run("logits", "rm", row["log_id"]).error
    assert run_json("logits", "rm", row["log_id"], "--yes") == [{"log_id": row["log_id"]}]
    assert run_json("logits", "list") == []


def test_who_watches_hears_how_far_it_is(place: Path) -> None:
    progress = place / "progress.jsonl"
    (place / "empty.jsonl").write_bytes(b"")
    write(place / "c.jsonl", text(objects(clean(5, 3)))[:-20])
    run("logits", "add", str(place / "a.jsonl"))
    files = [str(place / name) for name in ("a.jsonl", "empty.jsonl", "b.jsonl.gz", "c.jsonl")]
    found = run("logits", "add", *files, "--progress", str(progress))
    assert found.code == 0 and "truncated" in found.err and "left out" in found.err
    parts = ProgressFile(progress).parts()
    assert [part.state for part in parts] == ["there", "failed", "done", "done"]
    assert [(part.part, part.parts, part.file) for part in parts][1] == (1, 4, "empty.jsonl")
    assert "no logit entry" in parts[1].error
    assert (parts[2].done, parts[2].work) == (50, 1.0)
    listed = [one["log_id"] for one in run_json("logits", "list")]
    assert sorted({made_id_ for part in parts for made_id_ in part.made_ids}) == sorted(listed)


def test_mistakes_are_one_line(place: Path) -> None:
    (place / "empty.jsonl").write_bytes(b"")
    assert "no logit entry" in run("logits", "add", str(place / "empty.jsonl")).error
    assert "matches no file" in run("logits", "add", str(place / "none.jsonl")).error
    assert "there is no logit log 'none'" in run("logits", "show", "none").error
