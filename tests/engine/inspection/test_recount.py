"""Stored runs counted again: what today's rules make of the stored texts is what a run that is made today has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.comparing.measures import run_name, run_names
from engine.errors import RunError
from engine.inspection.constrained import with_verdict
from engine.inspection.judging import judge_run
from engine.inspection.recount import former_runs, recount_run
from engine.inspection.runs import run_facts
from engine.inspection.sample import inspect_sample
from engine.questions.compare_advice import setting_of, unknown_of
from engine.store.entries import Entry, has_former_counts
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.schema import BLOCKS, RUN, SAMPLES
from engine.store.staging import rewrite_run
from engine.store.store import DEMO, Store
from tests.cli import run as command
from tests.crafted import copied, craft, craft_sheet, without
from tests.engine.inspection.made import demo_run
from tests.engine.store.reports.documents import document, file_of
from tests.engine.store.stored_runs import assert_whole, store_at

JUNK, EXACT = demo_run("llama", "group-v2.1"), demo_run("qwen", "exact")


@pytest.fixture
def own(tmp_path: Path) -> Store:
    for run_id in (JUNK, EXACT):
        folder = f"runs/run_id={run_id}"
        shutil.copytree(DEMO / folder, tmp_path / "store" / folder)
    store = store_at(tmp_path / "store")
    for run_id in (JUNK, EXACT):
        recount_run(store, run_id)
    return store


def as_before(store: Store, run_id: str) -> Entry:
    """A measured run as the former rules left it: complete blocks whose model had all its decimals are cut."""
    entry = store.entry(run_id)
    rows = entry.read(BLOCKS.name).to_pylist()
    for row in rows:
        row["kinds"] = ["cut"] if row["kinds"] == ["unverified"] else row["kinds"]
    columns = {"cut_blocks": 1_000, "unverified_blocks": 0, "clean": 64, "usable": 99, "counted_by": None}
    return rewrite_run(entry, {BLOCKS.name: BLOCKS.rows(rows)}, columns)


def tables_of(entry: Entry) -> dict[str, pa.Table]:
    return {name: entry.read(name) for name in entry.parts}


def test_a_run_of_former_counts_is_named_and_counted_again_as_it_would_be_made_today(own: Store) -> None:
    as_made, tables = own.entry(JUNK), tables_of(own.entry(JUNK))
    former = as_before(own, JUNK)
    assert has_former_counts(former) and tables_of(former) != tables
    assert "group-v2.1 (former counts)" in run_name(former)
    assert "(former counts)" in run_facts(own, JUNK).name
    assert any("found by former rules" in words for words in inspect_sample(own, JUNK, 0).missing)
    assert former_runs(own) == [former]
    again = recount_run(own, JUNK)
    assert tables_of(again.entry) == tables and again.entry.row == as_made.row
    assert again.changed["cut_blocks"] == (1_000, as_made.row["cut_blocks"])
    assert again.words.endswith(f"usable 99 -> {as_made.row['usable']}") and "counted_by" not in again.words
    assert "(former counts)" not in run_name(again.entry) and former_runs(own) == []
    assert_whole(own)


MADE = [("llama", "none"), ("qwen", "group-v4.3"), ("llama", "group-v4.3"), ("qwen", "guarded")]


@pytest.mark.parametrize("parts", MADE)
def test_counting_again_changes_no_byte_of_what_is_current(parts: tuple[str, str], tmp_path: Path) -> None:
    run_id = demo_run(*parts)
    folder = tmp_path / f"runs/run_id={run_id}"
    shutil.copytree(DEMO / f"runs/run_id={run_id}", folder)
    rewrite_run(store_at(tmp_path).entry(run_id), {}, {})  # in the present version
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert former_runs(store_at(tmp_path)) == []
    again = recount_run(store_at(tmp_path), run_id)  # a run of before its LP was checked
    assert set(again.changed) == (set() if "none" in parts else {"constrained", "constrained_why"})
    now = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert now | {"run.json": b""} == before | {"run.json": b""}
    assert recount_run(store_at(tmp_path), run_id).changed == {}
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == now


CHECKED = ("constrained", "constrained_why")
LATER = {
    "samples": ["conformers", "passed_each", "clean_each", "usable_each"],
    "blocks": ["conformer"],
    "steps": ["conformer"],
}


def test_a_verdict_of_today_does_not_hide_that_an_earlier_version_counted_less(tmp_path: Path) -> None:
    """The bug: judging writes a run in the present version, with nulls for what came later; its rules were today's, so
    that nothing counted it again."""
    run_id = demo_run("llama", "exact")
    store, entry = copied(tmp_path, RUN, run_id)
    rewrite_run(entry, {}, {})  # in the present version
    entry = judge_run(store, run_id, workers=1).entry  # in the present words
    as_made, sheet = tables_of(entry), entry.row
    for table, columns in LATER.items():
        craft(entry, table, without(columns))
    names = [name for name in sheet if "conformers" in name]
    craft_sheet(entry, lambda now: [now.update(schema=8), *(now["row"].pop(name) for name in names)])
    judged = judge_run(store, run_id, workers=1).entry
    assert judged.row["counted_by"] == sheet["counted_by"] and "conformers" not in judged.row
    assert former_runs(store) == [judged] and not has_former_counts(judged)
    again = recount_run(store, run_id)
    counts = "conformers unknown -> 64, passed_conformers unknown -> 64, clean_conformers unknown -> 64"
    assert again.words == f"{counts}, constrained unknown -> in its language"
    assert (
        again.entry.row == {**sheet, **{name: again.entry.row[name] for name in CHECKED}} and former_runs(store) == []
    )
    assert {name: again.entry.read(name) for name in ("samples", "blocks")} == {
        name: as_made[name] for name in ("samples", "blocks")
    }


def test_where_the_model_closes_its_blocks_the_rules_agree(own: Store) -> None:
    entry = rewrite_run(own.entry(EXACT), {}, {"counted_by": None})
    assert not has_former_counts(entry) and run_names([entry]) == {EXACT: "exact"}


def test_what_an_earlier_version_had_no_column_for_is_unknown_until_it_is_counted(own: Store) -> None:
    rows = [row | {"decodes": None} for row in own.entry(EXACT).read(SAMPLES.name).to_pylist()]
    missing = dict.fromkeys(("decodes", "counted_by", "constrained"))
    former = rewrite_run(own.entry(EXACT), {SAMPLES.name: SAMPLES.rows(rows)}, missing)
    assert former_runs(own) == [former] and not has_former_counts(former)
    again = recount_run(own, EXACT)
    assert again.words == "decodes unknown -> 64, constrained unknown -> in its language" and former_runs(own) == []
    assert all(again.entry.read(SAMPLES.name)["decodes"].to_pylist())


def test_a_continuation_that_is_stored_decides_and_is_kept(own: Store) -> None:
    blocks = own.entry(JUNK).read(BLOCKS.name).to_pylist()
    before = own.entry(JUNK).row["cut_blocks"]
    cut = next(row for row in blocks if row["kinds"] == ["cut"])
    key = (cut["sample_id"], cut["block"])
    longer = recount_run(own, JUNK, {key: cut["text"] + "1"})
    assert longer.entry.row["cut_blocks"] == before and set(longer.changed) <= {"counted_by"}
    equal = recount_run(own, JUNK, {key: cut["text"]})
    assert equal.entry.row["cut_blocks"] == before - 1
    rows = equal.entry.read(BLOCKS.name)
    is_it = pc.and_(pc.equal(rows["sample_id"], key[0]), pc.equal(rows["block"], key[1]))
    (row,) = rows.filter(is_it).to_pylist()
    assert (row["kinds"], row["continued_text"], row["drift"]) == (["exact"], cut["text"], 0)
    assert recount_run(own, JUNK).changed == {}


def test_an_import_is_read_again_from_the_file_that_it_keeps(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    fresh = with_verdict(import_report(store, file_of(tmp_path, document())))
    tables = tables_of(fresh)
    store.annotate(fresh.id, label="mine")
    rows = [row | {"kinds": ["cut"], "drift": 7} for row in fresh.read(BLOCKS.name).to_pylist()]
    columns = {"descriptors": "plain", "cut_blocks": 6, "counted_by": None}
    rewrite_run(fresh, {BLOCKS.name: BLOCKS.rows(rows)}, columns)
    assert has_former_counts(store.entry(fresh.id))
    again = recount_run(store, fresh.id)
    words = "Counted again: its texts have descriptors with-hydrogens, it was stored with plain."
    assert again.entry.row == {**fresh.row, "notes": f"{fresh.row['notes']} {words}"}
    assert tables_of(again.entry) == tables
    assert store.entry(fresh.id).row["label"] == "mine"
    assert again.changed["descriptors"] == ("plain", fresh.row["descriptors"])


def test_an_import_without_an_lp_may_have_other_descriptors_too(tmp_path: Path) -> None:
    store = store_at(tmp_path / "store")
    fresh = import_report(store, file_of(tmp_path, document(logit_processor_enabled=False)))
    assert fresh.row["lp"] == "none" and not has_former_counts(fresh)
    assert has_former_counts(rewrite_run(fresh, {}, {"counted_by": None}))


def test_whether_a_sample_is_usable_follows_and_its_molecules_verdict_stays(own: Store) -> None:
    entry = own.entry(EXACT)
    usable = entry.read(SAMPLES.name)["usable"].to_pylist()
    rows = [row | {"clean": False, "usable": False} for row in entry.read(SAMPLES.name).to_pylist()]
    rewrite_run(entry, {SAMPLES.name: SAMPLES.rows(rows)}, {"clean": 0, "usable": 0})
    again = recount_run(own, EXACT).entry
    assert again.read(SAMPLES.name)["usable"].to_pylist() == usable
    assert (again.row["usable"], again.row["clean"]) == (sum(usable), 64) == (entry.row["usable"], entry.row["clean"])


def test_what_cannot_be_counted_again_is_left_as_it_is_and_named(own: Store, tmp_path: Path) -> None:
    former = as_before(own, JUNK)
    lost = rewrite_run(former, {}, {"tokenizer": "of-somebody", "model_alias": "gone"})
    with pytest.raises(RunError, match="cannot be counted again"):
        recount_run(own, JUNK)
    assert own.entry(JUNK).parts == lost.parts
    result = command("verify", "--recount", "--json", "--store", str(own.home.root))
    rows = {(row["id"], row["state"]): row["what"] for row in json.loads(result.out)}
    assert "of-somebody" in rows[JUNK, "former counts"] and (JUNK, "whole") in rows and result.code == 0


@pytest.mark.parametrize("table", ["samples", "blocks"])
def test_a_damaged_run_is_left_and_named(own: Store, table: str) -> None:
    path = Path(as_before(own, JUNK).path(table))
    path.write_bytes(bytes(path.stat().st_size))
    result = command("verify", "--recount", "--json", "--store", str(own.home.root))
    states = [row["state"] for row in json.loads(result.out) if row["id"] == JUNK]
    assert states == ["former counts", "damaged"] and result.code == 2
    assert own.snapshot().entry(JUNK).row["cut_blocks"] == 1_000


def test_the_command_counts_again_and_says_what_changed(own: Store) -> None:
    as_before(own, JUNK)
    folder = str(own.home.root)
    assert "1 run with former counts" in command("verify", "--store", folder).err
    result = command("verify", "--recount", "--store", folder)
    assert f"recounted: {JUNK}: clean 64 -> 0, cut_blocks 1000 -> " in result.out and result.code == 0
    assert "former" not in command("verify", "--store", folder).err
    assert former_runs(Store(Files(own.home.root))) == []


def test_advice_names_the_former_counts_that_it_compares(own: Store) -> None:
    runs = {"group-v2.1": [as_before(own, JUNK)], "exact": [own.entry(EXACT)]}
    setting, former = setting_of(own.entry(EXACT)), "they have former counts, `verify --recount`."
    assert unknown_of(runs, [], [], setting, "")[-1] == f"Cut blocks of group-v2.1: {former}"
    recount_run(own, JUNK)
    assert former not in " ".join(unknown_of({"group-v2.1": [own.entry(JUNK)]}, [], [], setting, ""))
