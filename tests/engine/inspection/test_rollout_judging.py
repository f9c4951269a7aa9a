"""Rollouts read and judged: the rows of an imported report, what is kept when it stops, and what is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.chem.verdict import CRASH, TIME
from engine.errors import FileError
from engine.inspection import rollout_judging
from engine.inspection.faults import sample_words
from engine.inspection.judging import judge_run
from engine.inspection.rollout_judging import judge_rollouts, steps_of
from engine.store.entries import Entry, has_former_counts, is_unjudged
from engine.store.reports.exporting import report_bytes
from engine.store.reports.importing import import_report
from engine.store.reports.rollouts import import_completions
from engine.store.store import Store
from tests.engine.store.stored_runs import assert_whole, store_at
from tests.judge_processes import scripted_rollouts

ETHANAL = "[CONFORMER][C]<-1.45,0.01,0.0>[C]<-0.11,-0.45,0.0>=[O]<0.71,0.43,0.1>[/CONFORMER]"
LONG = ETHANAL.replace("-1.45,", "-4.45,")
MISREAD = ETHANAL.replace("-1.45,", "-1.45(cc6,")
OPEN = ETHANAL.removesuffix("[/CONFORMER]")
HAND = "[CONFORMER][C]<0.0,0.0,1.5>[C@H]<0.0,0.0,0.0>([O]<1.4,0.0,-0.5>)[F]<-0.6,1.2,-0.5>[/CONFORMER]"
TURNED = "[CONFORMER][C]<0.01,-1.45,1.0>[C]<-0.45,-0.11,1.0>=[O]<0.43,0.71,1.1>[/CONFORMER]"
ANSWERS = {
    "CC=O": [ETHANAL, LONG, MISREAD, OPEN, "", "no conformer", TURNED],
    "C[C@H](O)F": [HAND, HAND.replace("@", "@@")],
    "OCC": ["[CONFORMER][C]<-0.9,-0.2,0.0>[C]<0.4,0.5,0.0>[O]<1.4,-0.4,0.0>[/CONFORMER]<|endoftext|>"],
    "what?": [ETHANAL],
}
PAIRS = [(smiles, text) for smiles, texts in ANSWERS.items() for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


def opened(store: Store, folder: Path, pairs: Sequence[tuple[str, str]], step: int = 1) -> Entry:
    columns: dict[str, Any] = {
        "step": [step] * len(pairs),
        "prompt": [f"[SMILES]{smiles}[/SMILES]" for smiles, _ in pairs],
        "completion": [text for _, text in pairs],
        "reward": [float(number) for number in range(len(pairs))],
    }
    pq.write_table(pa.table(columns), path := folder / f"completions_{step:05d}.parquet")
    (entry,) = import_completions(store, path, warn=pytest.fail)
    return entry


def rows_of(store: Store, entry: Entry, table: str, order: str) -> list[dict[str, Any]]:
    return store.rows(f"SELECT * EXCLUDE (run_id) FROM {table} WHERE run_id = '{entry.id}' ORDER BY {order}")


def test_the_rows_are_those_of_a_report_that_is_judged(store: Store, tmp_path: Path) -> None:
    items = [{"prompt_smiles": smiles, "decoded_text": f"[SMILES]{smiles}[/SMILES]{text}"} for smiles, text in PAIRS]
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"metadata": {"logit_processor_enabled": False}, "failures": items}))
    by_report = judge_run(store, import_report(store, report).id, workers=1).entry
    entry = opened(store, tmp_path, PAIRS)
    assert is_unjudged(entry) and not is_unjudged(by_report)
    assert sample_words(rows_of(store, entry, "samples", "sample_id")[0], []).startswith("Its text is not read yet: ")
    seen: list[tuple[int, int]] = []
    judged = judge_run(store, entry.id, workers=1, progress=lambda done, samples: seen.append((done, samples)))
    assert seen[-1] == (len(PAIRS), len(PAIRS)) and not is_unjudged(judged.entry)
    unlike = {"generation", "stop_reason", "extra"}  # a report's item of one molecule is another item each time
    rows, expected = (
        [{name: row[name] for name in row.keys() - unlike} for row in rows_of(store, run, "samples", "sample_id")]
        for run in (judged.entry, by_report)
    )
    assert rows == expected and [row["smiles"] for row in rows][-2:] == ["CCO", "what?"]
    blocks = [rows_of(store, run, "blocks", "sample_id, block") for run in (judged.entry, by_report)]
    assert blocks[0] == blocks[1] != []
    counts = set(judged.entry.row) & set(by_report.row) - {
        *("run_id", "created_at", "source", "label", "notes", "extra", "model_alias", "molecules", "generations")
    }
    assert {name: judged.entry.row[name] for name in counts} == {name: by_report.row[name] for name in counts}
    assert {"passes", "clean", "usable", "judged", "misread_blocks", "counted_by"} <= counts
    assert judged.rates()["usable"] == judged.entry.row["usable"] / len(PAIRS)
    assert_whole(store)


def test_what_the_reader_misreads_and_which_answers_are_alike(store: Store, tmp_path: Path) -> None:
    entry = opened(store, tmp_path, PAIRS)
    judge_rollouts([entry], workers=1)
    rows = rows_of(store, entry, "rollouts", "sample_id")
    misread = [row["misread_ang"] for row in rows]
    assert misread[2] == pytest.approx(7.45) and [row for row in misread if row is not None] == [misread[2]]
    nearest = [row["nearest_ang"] for row in rows]
    # the same molecule turned by a quarter, and one with its first atom 3 Å farther away
    assert nearest[0] == nearest[6] == pytest.approx(0.0, abs=1e-6)
    far = [abs(before - after) for before, after in zip(distances(ETHANAL), distances(LONG), strict=True)]
    assert nearest[1] == pytest.approx((sum(each**2 for each in far) / 3) ** 0.5)
    assert nearest[3] is not None and nearest[4] is nearest[5] is nearest[9] is None
    assert nearest[7] == pytest.approx(0.0, abs=1e-6)  # of the other hand, which distances do not tell
    assert [row["rewards"][0]["value"] for row in rows] == list(range(len(PAIRS)))


def distances(text: str) -> list[float]:
    places = [tuple(map(float, part.split(">")[0].split(","))) for part in text.split("<")[1:]]
    pairs = ((0, 1), (0, 2), (1, 2))
    return [sum((a - b) ** 2 for a, b in zip(places[i], places[j], strict=True)) ** 0.5 for i, j in pairs]


@pytest.mark.parametrize("saved_s", [0.0, 1e9])
def test_a_run_that_is_stopped_goes_on_where_it_was(
    store: Store, tmp_path: Path, saved_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_judging, "AT_ONCE", 2)
    monkeypatch.setattr(rollout_judging, "SAVED_S", saved_s)
    entry = opened(store, tmp_path, PAIRS)
    whole = judge_rollouts([opened(store, tmp_path, PAIRS, step=2)], workers=1)[0]

    def stop(done: int, samples: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge_rollouts([entry], workers=1, progress=stop)
    stopped = store.entry(entry.id)
    done = store.rows(f"SELECT count(*) AS n FROM samples WHERE run_id = '{entry.id}' AND passed IS NOT NULL")[0]["n"]
    assert 0 < done < len(PAIRS) and is_unjudged(stopped) and stopped.row.get("passes") is None
    assert not has_former_counts(stopped)
    with pytest.raises(FileError, match=f"which texts of {entry.id} pass is not known yet. `judge {entry.id}` reads"):
        report_bytes(stopped)
    seen: list[int] = []
    (finished,) = judge_rollouts([stopped], workers=1, progress=lambda done, samples: seen.append(done))
    assert seen[0] >= done and not finished.row.get("extra")
    for table, order in (("samples", "sample_id"), ("blocks", "sample_id, block"), ("rollouts", "sample_id")):
        before, after = (rows_of(store, run, table, order) for run in (whole, finished))
        if table == "rollouts":  # an answer's nearest is of those that were judged with it
            before, after = ([{**row, "nearest_ang": None} for row in rows] for rows in (before, after))
        assert before == after, table
    names = ("samples", "passes", "clean", "usable", "judged", "blocks", "misread_blocks", "misread_most_ang")
    assert [finished.row[name] for name in names] == [whole.row[name] for name in names]
    assert_whole(store)


def test_one_that_takes_too_long_or_dies_does_not_keep_the_others(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout_judging, "_judging", scripted_rollouts)
    entry = opened(store, tmp_path, [("CC=O", ETHANAL), ("CC=O", "hang"), ("CC=O", "die")])
    (judged,) = judge_rollouts([entry], workers=2, limit_s=2.0)
    rows = rows_of(store, judged, "samples", "sample_id")
    assert [row["usable"] for row in rows] == [True, False, False]
    assert [row["failed"][0]["check"] for row in rows[1:]] == [TIME, CRASH]
    assert (judged.row["judged"], [row["text"] for row in rows[1:]]) == (3, ["hang", "die"])


def test_steps_are_those_of_one_training(store: Store, tmp_path: Path) -> None:
    runs = [opened(store, tmp_path, PAIRS[:1], step) for step in (30, 4, 100)]
    assert [run.row["training_step"] for run in steps_of(store, runs[0])] == [4, 30, 100]
