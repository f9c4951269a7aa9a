"""A run from molecules to the store: what it holds, what stopping it loses, and what taking it up again says."""

from __future__ import annotations

import itertools
import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from engine.chem.smiles import parse_smiles
from engine.chem.verdict import JudgeSettings
from engine.errors import ConstraintError, DriftscopeError, RunError
from engine.inspection.judging import judge_run
from engine.inspection.recount import recount_run
from engine.jobs import plan
from engine.jobs import run as run_module
from engine.jobs.cluster import resumed
from engine.jobs.plan import RunPlan
from engine.jobs.progress import PartProgress, ProgressFile
from engine.jobs.run import Run, begin, molecules_of
from engine.lp_records import GuardSettings
from engine.records import MoleculeVerdict
from engine.store.files import Files
from engine.store.schema import RUN, RUNS
from engine.store.staging import unfinished_ids
from engine.store.store import Store
from tests.engine.jobs.small_runs import content, finished, loaded, molecules, opened, plan_of, started, stopped
from tests.engine.store.stored_runs import store_at


def test_its_sheet_adds_up_what_its_tables_hold(folder: Path, tmp_path: Path) -> None:
    entry = finished(started(tmp_path, folder, 5, plan={"lp": "group-v2.1"}))
    store = Store(Files(tmp_path))
    (counted,) = store.rows(
        "SELECT count(*) AS samples, sum(passed::INT) AS passes, sum(clean::INT) AS clean, sum(tokens) AS tokens, "
        "sum(forced_tokens) AS forced_tokens, sum(blocks) AS blocks, sum(bad_blocks) AS bad_blocks, "
        "sum(cut_blocks) AS cut_blocks FROM samples"
    )
    assert {name: int(value) for name, value in counted.items()} == {name: entry.row[name] for name in counted}
    (blocks,) = store.rows("SELECT count(*) AS blocks, sum(('cut' IN kinds)::INT) AS cut FROM blocks")
    assert (blocks["blocks"], int(blocks["cut"])) == (entry.row["blocks"], entry.row["cut_blocks"])
    assert entry.row["forward_passes"] > 0
    assert entry.row["wall_s"] >= entry.row["decode_s"] > 0
    assert entry.row["peak_memory_mb"] > 100
    assert entry.row["unverified_blocks"] == 0  # the model was asked what it wanted
    assert set(entry.row) <= set(RUNS.names)
    assert json.loads(entry.row["versions"])["python"].startswith("3.")


def test_rmsd_is_there_where_it_was_asked_for_and_the_graph_is_right(folder: Path, tmp_path: Path) -> None:
    entry = finished(started(tmp_path, folder, 3, rmsd=2, plan={"limit": None}))
    rows = content(entry)["samples"]
    assert all((row["rmsd_ang"] is not None) == row["same_graph"] for row in rows)
    assert entry.row["rmsd_samples"] == len(rows) == 3
    assert entry.row["rmsd_ang"] == pytest.approx(sum(row["rmsd_ang"] for row in rows) / 3)
    without = finished(started(tmp_path, folder, 3))
    assert all(row["rmsd_ang"] is None for row in content(without)["samples"])
    assert "rmsd_ang" not in without.row and "rmsd_samples" not in without.row


def test_a_run_that_is_judged_while_it_is_written_has_what_judging_it_later_finds(folder: Path, tmp_path: Path) -> None:
    inline = finished(started(tmp_path / "a", folder, 3, judge=True, strain=True, plan={"limit": None}))
    later = finished(started(tmp_path / "b", folder, 3, plan={"limit": None}))
    assert all(row["usable"] is None and row["failed"] is None for row in content(later)["samples"])
    judged = judge_run(store_at(tmp_path / "b"), later.id, JudgeSettings(strain="force-field"), workers=1)
    of_verdict = [column.name for column in fields(MoleculeVerdict) if column.name != "right_each"]
    names = [*of_verdict, "usable", "usable_each"]
    rows = [[row[name] for name in names] for row in content(inline)["samples"]]
    assert rows == [[row[name] for name in names] for row in content(judged.entry)["samples"]]
    assert any(row["failed"] for row in content(inline)["samples"]), "random coordinates are wrong"
    assert {name: inline.row[name] for name in judged.columns} == judged.columns
    assert "judged_with" not in later.row and "judged" not in later.row


def test_groups_are_of_like_length_and_hold_every_molecule_once(folder: Path) -> None:
    plan = plan_of(folder, group=3)
    groups = plan.groups([5, 9, 5, 7, 1, 9, 2])
    assert groups == [[1, 5, 3], [0, 2, 6], [4]]
    assert plan_of(folder, group=0, plan={"generations": 30}).molecules_a_group == 1


def test_a_plan_comes_back_from_its_sheet(folder: Path) -> None:
    plan = plan_of(folder, keep_steps=3, label="ü", judge=True, plan={"lp": "truncating", "placeholder": "0.0,0.0,0.0"})
    assert RunPlan.read(json.loads(json.dumps(asdict(plan)))) == plan


def test_a_plan_that_does_not_read_is_one_line(folder: Path) -> None:
    sheet = json.loads(json.dumps(asdict(plan_of(folder))))
    damages: list[dict[str, Any]] = [{"plan": None}, {"model": {"unknown": 1}}, {"plan": {}}, {"more": 1}]
    for damage in damages:
        with pytest.raises(RunError, match="cannot be read"):
            RunPlan.read(sheet | damage)


# --- stopping and going on ----------------------------------------------------------------------------------------
GUARD = GuardSettings(2, 1, ("bonds", "stereo"), 1.5)


@pytest.mark.parametrize("lp", ["exact", "guarded"])
def test_a_stopped_run_goes_on_to_the_same_content(lp: str, folder: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"keep_steps": 3, "group": 1, "plan": {"lp": lp, "guard": GUARD, "limit": 40}}
    whole = content(finished(started(tmp_path / "a", folder, 3, **settings)))
    assert bool(whole.get("tries")) == (lp == "guarded")
    run = started(tmp_path / "b", folder, 3, **settings)
    stopped(run)
    assert unfinished_ids(Files(tmp_path / "b"), RUN) == [run.staging.id]
    assert Store(Files(tmp_path / "b")).listing().entries == ()
    again = opened(run.staging, run.loaded)
    assert again.left() == [1, 2] and again.plan.plan.guard == GUARD
    entry = finished(again)
    assert content(entry) == whole
    assert (entry.row["resumed"], entry.row["checked_samples"], entry.row["diverged_samples"]) == (1, 1, 0)
    assert (entry.row["samples"], entry.row["threads"]) == (3, torch.get_num_threads())
    assert unfinished_ids(Files(tmp_path / "b"), RUN) == []


def test_samples_that_come_out_otherwise_are_counted_and_told(folder: Path, tmp_path: Path) -> None:
    run = started(tmp_path, folder, 4)
    stopped(run)
    again = opened(run.staging, run.loaded)
    # Stands for a device that adds up otherwise.
    again.plan = replace(again.plan, plan=replace(again.plan.plan, seed=1))
    entry = finished(again)
    assert (entry.row["resumed"], entry.row["checked_samples"], entry.row["diverged_samples"]) == (1, 2, 2)
    assert entry.row["notes"] == "2 of 2 finished samples differed when the run was resumed."


@pytest.mark.parametrize(
    ("files", "damage"),
    [
        ("samples-*.parquet", lambda content: content[:-7]),
        ("samples-*.parquet", lambda content: content[:9] + bytes(9) + content[18:]),
        ("group-*.json", lambda content: content[:-7]),
    ],
)
def test_a_group_that_is_damaged_is_written_anew(
    folder: Path, tmp_path: Path, files: str, damage: Callable[[bytes], bytes]
) -> None:
    """The bugs: other bytes of the same number were seen when all other groups had been written; a shorter file, or a
    damaged sheet, led to the same without a word."""
    whole = content(finished(started(tmp_path / "a", folder, 4)))
    run = started(tmp_path / "b", folder, 4)
    list(run.progress())
    run.staging.release()
    (damaged, *_) = sorted((tmp_path / "b" / "staging" / run.staging.id).glob(files))
    damaged.write_bytes(damage(damaged.read_bytes()))
    again = resumed(run.staging.files, None, run.staging.id)
    assert isinstance(again, Run) and len(again.left()) == 1
    note = "group 0000-00000 is damaged: its samples are written again"
    assert again.notes == [note]
    entry = finished(again)
    assert content(entry) == whole and note in entry.row["notes"]


def test_what_an_earlier_version_did_not_count_is_unknown_where_it_cannot_be_counted(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(tmp_path, folder, 4)
    stopped(run)
    (path,) = (tmp_path / "staging" / run.staging.id).glob("group-*.json")
    group = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(group | {"sums": {k: v for k, v in group["sums"].items() if k != "decodes"}}), "utf-8")
    again = opened(run.staging, run.loaded)
    assert again.now().decodes is None and "decode" not in again.now().words() and "clean" in again.now().words()
    monkeypatch.setattr(run_module, "recount_run", Mock(side_effect=RunError("it cannot be read", "Register it")))
    entry = finished(again)
    assert "decodes" not in entry.row and entry.row["samples"] == 4
    assert again.notes == [
        "it cannot be read. Register it. Until then, counts that an earlier version did not have are unknown."
    ]
    monkeypatch.undo()
    assert recount_run(Store(Files(tmp_path)), entry.id).entry.row["decodes"] is not None


def test_a_run_that_was_removed_ends_at_its_next_group_and_does_not_come_back(folder: Path, tmp_path: Path) -> None:
    run = started(tmp_path, folder, 4)
    progress = run.progress()
    next(_ for _ in progress if run.finished)
    shutil.rmtree(tmp_path / "staging" / run.staging.id)
    with pytest.raises(RunError, match=rf"{run.staging.id} was removed while it was written\. Begin it again"):
        list(progress)
    assert len(run.finished) == 1 and run.staging.files.folders("staging") == []


# --- what cannot be -----------------------------------------------------------------------------------------------
def test_progress_adds_up_to_what_is_written(folder: Path, tmp_path: Path) -> None:
    run = started(tmp_path, folder, 5, group=2)
    updates = list(run.progress())
    assert [progress.done for progress in updates] == [1, 2, 3, 4, 5]
    last, rows = run.now(), content(run.publish())
    assert (updates[-1].done, updates[-1].work) == (last.done, last.work) == (5, 1)
    assert (updates[-1].tokens, updates[-1].blocks) == (last.tokens, last.blocks)
    assert (last.tokens, last.blocks) == (sum(row["tokens"] for row in rows["samples"]), len(rows["blocks"]))


def test_a_clock_set_back_by_an_hour_at_each_look_changes_no_figure(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours, first = itertools.count(), datetime(2026, 10, 25, 12, tzinfo=UTC)

    class SetBack(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> SetBack:
            return cls.fromtimestamp((first - timedelta(hours=next(hours))).timestamp(), tz)

    for module in (plan, run_module):
        monkeypatch.setattr(module, "datetime", SetBack)
    monkeypatch.setattr(time, "time", lambda: SetBack.now(UTC).timestamp())
    run = started(tmp_path, folder, 4)
    stopped(run)
    again = opened(run.staging, run.loaded)
    updates = list(again.progress())
    assert [now.seconds for now in updates] == sorted(now.seconds for now in updates) and updates[0].seconds >= 0
    assert all((now.seconds_left or 0) >= 0 for now in updates) and next(hours) > 4
    row = again.publish().row
    assert min(row[name] for name in ("wall_s", "template_s", "decode_s")) >= 0


def test_a_prompt_longer_than_the_context_is_refused_before_anything_is_written(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, long = loaded(folder), parse_smiles("[13CH3]" + "[13CH2]" * 10 + "C")
    monkeypatch.setattr(model.model.config, "max_position_embeddings", 30)
    with pytest.raises(ConstraintError, match="the model's context 30"):
        begin(Files(tmp_path), model, [*molecules(30), long], plan_of(folder))
    assert list(tmp_path.iterdir()) == []


def test_an_lp_that_cannot_write_the_run_is_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    plan = plan_of(folder, plan={"lp": "truncating", "placeholder": "a<b"})
    with pytest.raises(DriftscopeError, match="placeholder"):
        begin(Files(tmp_path), loaded(folder), molecules(2), plan)
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_lost_its_molecules_says_so(folder: Path, tmp_path: Path) -> None:
    run = started(tmp_path, folder, 2)
    path = tmp_path / "staging" / run.staging.id / "molecules.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    for _ in ("torn", "missing"):
        with pytest.raises(RunError, match=r"molecules of .* are lost\. Start a new run"):
            molecules_of(run.staging)
        path.unlink(missing_ok=True)


# --- lines of progress ----------------------------------------------------------------------------------------------
def test_the_last_word_of_each_part_counts(tmp_path: Path) -> None:
    progress, path = ProgressFile(tmp_path / "progress"), tmp_path / "progress"
    first = {"part": 0, "parts": 2}
    figures = {"run_id": "a", "samples": 4, "done": 1, "work": 0.25, "began": 0.25, "seconds": 2.0, "written": 1}
    lines = [
        first | figures,
        first | {"done": 2, "work": 0.5, "seconds": 3.0},
        first | {"part": 1, "run_id": "b"},
        first | {"state": "done", "work": 1.0},
    ]
    written = [json.dumps(line) + "\n" for line in lines]
    path.write_text(written[0][:20])
    assert progress.parts() == ()
    path.write_text(written[0])
    (part,) = progress.parts()
    assert (part.run_id, part.done, part.has_ended, part.began, part.samples_a_second) == ("a", 1, False, 0.25, 0.5)
    assert part.seconds_left is None, "it began at a quarter, and nothing tells how fast it is"
    path.write_text("".join(written[:2]))
    (part,) = progress.parts()
    assert (part.samples, part.done) == (4, 2) and part.seconds_left == pytest.approx(6.0)
    path.write_text("".join(written))
    assert [(part.run_id, part.state) for part in progress.parts()] == [("a", "done"), ("b", "running")]


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "progress").write_bytes(
        b'\xff\xfe\n\n{"part": 0, "par\n{"part": 0, "parts": 1, "file": "x.json", "samples": 10, "else": 1}\n'
    )
    assert ProgressFile(tmp_path / "progress").parts() == (PartProgress(0, 1, file="x.json", samples=10),)
