"""Runs out as report files: what came in comes out again, and a measured run says what the format has keys for."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from engine.chem.enriched import prompt_of
from engine.decode.samples import Reader
from engine.errors import StoreError
from engine.lp_records import LPS, split_cleanup
from engine.records import TRIMMED4
from engine.store.entries import Entry
from engine.store.reports.exporting import export_report, report_of
from engine.store.reports.format import compact
from engine.store.reports.importing import import_report
from engine.store.sample_rows import StoredSample, sums_of, tables_of
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import sample_row, write_run
from tests.engine.store.reports.documents import (
    CLEAN,
    JUNK,
    PROMPT,
    document,
    file_of,
    imported,
    one_text,
    random_document,
    store_in,
)
from tests.strategies import molecule, seeds
from tests.support import sized
from tools.reported import load_reported, publish_reported

RUN_VALUES = {
    "origin": "measured",
    "created_at": "2026-01-02T03:04:05+00:00",
    "model_alias": "demo-qwen",
    "model_step": "final",
    "model_family": "Qwen",
    "tokenizer": "qwen3",
    "sampling": "qwen3",
    "batch_size": 32,
    "generations": 2,
    "kv_cache": "static",
    "attention": "sdpa",
    "seed": 7,
    "wall_s": 2.0,
}


def content_of(store: Store) -> list[list[dict[str, Any]]]:
    tables = ("runs", "samples", "blocks")
    return [store.rows(f"SELECT * FROM {table} ORDER BY ALL") for table in tables]


def measured(folder: Path, texts: list[tuple[str, int, str]], lp: str, **row: Any) -> Entry:
    """A run of (SMILES, generation, text), as the engine would have written it."""
    base, cleanup = split_cleanup(lp)
    reader = Reader(load_tokenizer("qwen3"), base, LPS[base].placeholder, TRIMMED4, cleanup=cleanup)
    samples = []
    for number, (smiles, generation, text) in enumerate(texts):
        ids = [*reader.tokenizer.encode(text), reader.tokenizer.end_id or 0]
        flags = [False] * len(ids)
        one = reader.read(molecule(smiles), ids, flags, "end", sample_id=number, generation=generation)
        samples.append(StoredSample.of(one, molecule(smiles).heavy_atoms))
    staging = Staging.create(store_in(folder).home, RUN, "measured-1", {**RUN_VALUES, "lp": lp, **row})
    staging.add(tables_of(staging.id, samples), range(len(samples)), sums=sums_of(samples))
    return staging.publish(sums_of(samples))


# --- imported runs ------------------------------------------------------------------------------------------------


@given(seeds())
@settings(max_examples=sized(25, 500))
def test_a_file_comes_out_as_it_went_in(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("round")
    content = random_document(seed)
    entry = imported(folder, content)
    assert compact(report_of(entry)) == compact(content)
    export_report(entry, folder / "run.json")
    assert compact(json.loads((folder / "run.json").read_bytes())) == compact(content)
    assert import_report(store_in(folder), folder / "run.json").id == entry.id


@given(seeds())
@settings(max_examples=sized(8, 100))
def test_the_second_import_has_the_same_rows(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("round")
    first, second = folder / "first", folder / "second"
    second.mkdir()
    export_report(imported(first, random_document(seed)), second / "run.json")
    import_report(store_in(second), second / "run.json")
    assert content_of(store_in(first)) == content_of(store_in(second))


def test_the_files_of_today_come_out_again(tmp_path: Path) -> None:
    content = document()
    content["passes"][0]["all_generations"] = [content["passes"][0]["decoded_text"], f"{PROMPT}{JUNK}<|endoftext|>"]
    assert report_of(imported(tmp_path, content)) == content


@pytest.mark.parametrize(
    "generations",
    [
        [],
        [f"{PROMPT}{CLEAN}"],
        [f"{PROMPT}{JUNK}"],
        [f"{PROMPT}{JUNK}", f"{PROMPT}{CLEAN}", f"{PROMPT}{CLEAN}"],
        [{"decoded_text": f"{PROMPT}{CLEAN}"}, {"decoded_text": "", "main": 1, "entry": 2}],
        None,
        [{"decoded_text": f"{PROMPT}{JUNK}", "a": 1}, {"decoded_text": "x", "b": 2}, {"decoded_text": "y"}],
    ],
)
@pytest.mark.parametrize("is_pass", [True, False])
def test_generations_come_out_as_they_were_listed(generations: Any, is_pass: bool, tmp_path: Path) -> None:
    content = one_text(f"{PROMPT}{CLEAN}")
    item = content["passes"][0] | {"all_generations": generations}
    doubled = [item, item | {"extra": 1}, content["passes"][0]]  # the same prompt in item after item
    content["passes" if is_pass else "failures"] = doubled
    if not is_pass:
        content["passes"] = []
    assert report_of(imported(tmp_path, content)) == content


def test_gz_by_the_suffix_and_into_an_open_file(tmp_path: Path) -> None:
    entry = imported(tmp_path, document())
    export_report(entry, tmp_path / "out.JSON.GZ")
    assert json.loads(gzip.decompress((tmp_path / "out.JSON.GZ").read_bytes())) == document()
    first = (tmp_path / "out.JSON.GZ").read_bytes()
    export_report(entry, tmp_path / "out.JSON.GZ")
    assert (tmp_path / "out.JSON.GZ").read_bytes() == first
    buffer = io.BytesIO()
    export_report(entry, buffer)
    assert json.loads(buffer.getvalue()) == document()


def test_a_place_that_cannot_be_written_keeps_what_is_there(tmp_path: Path) -> None:
    entry = imported(tmp_path, document())
    with pytest.raises(StoreError, match="cannot be written"):
        export_report(entry, tmp_path / "nowhere" / "out.json")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        export_report(entry, tmp_path / "folder.json")
    assert [path.name for path in tmp_path.glob(".*")] == []


# --- measured and reported runs -----------------------------------------------------------------------------------


def test_a_measured_run_says_what_the_format_has(tmp_path: Path) -> None:
    texts = [("CC=O", 0, JUNK), ("CCO", 0, CLEAN), ("CC=O", 1, CLEAN), ("CCO", 1, JUNK)]
    said = report_of(measured(tmp_path, texts, "none"))
    chars = sum(len(text) for _, _, text in texts)
    assert said["metadata"] == {
        "timestamp": "2026-01-02T03:04:05+00:00", "model_alias": "demo-qwen", "model_step": "final",
        "tokenizer_name": "qwen3", "logit_processor_enabled": False, "sampling": "qwen3", "batch_size": 32,
        "sample_size": 2, "num_generations": 2, "total_generations": 4, "kv_cache": "static", "attention": "sdpa",
    }  # fmt: skip
    assert (said["time_taken"], said["total_chars_raw"], said["total_chars_clean"]) == (2.0, chars, chars)
    assert said["throughput_chars_per_sec"] == chars / 2
    prompt = prompt_of("CC=O")
    assert said["passes"] == [
        {
            "prompt_smiles": "CC=O",
            "generated_smiles": "CC=O",
            "smiles_exact_match": True,
            "has_real_coordinates": True,
            "parse_success": True,
            "decoded_text": prompt + JUNK,
            "all_generations": [prompt + JUNK, prompt + CLEAN],
        }
    ]
    (failure,) = said["failures"]
    assert failure["prompt_smiles"] == "CCO" and failure["extracted_smiles"] == "CC=O"
    assert failure["issues"] == ["generated conformer <> prompt SMILES mismatch"]
    assert failure["generation_has_same_molecular_graph"] is False


@pytest.mark.parametrize(
    ("lp", "number"),
    [
        ("none", "1.25"),
        ("exact", "1.25"),
        ("truncating", "1.25"),
        ("group-v2.1", "1.2345"),
        ("group-v3.9", "1.234"),
        ("group-v4.3", "1.234"),
        ("group-v4.3+cleanup", "1.234"),
    ],
)
@pytest.mark.parametrize("family", ["Qwen", "LLaMA"])
def test_a_measured_run_comes_back_as_far_as_the_format_goes(lp: str, number: str, family: str, tmp_path: Path) -> None:
    """The numbers are as long as the LP's placeholder: under a position LP all tokens then stand in their places."""
    block = f"<{number},{number},{number}>"
    whole = f"[CONFORMER][2H]{block}[O]{block}[2H]{block}[/CONFORMER]"
    texts = [
        ("[2H]O[2H]", 0, whole),
        ("[2H]O[2H]", 1, whole),
        ("CC=O", 0, f"[CONFORMER][C]{block}[C]<1"),
        ("CC=O", 1, ""),
    ]
    entry = measured(tmp_path, texts, lp, model_family=family, model_alias=f"demo-{family}")
    export_report(entry, tmp_path / "run.json")
    back = imported(tmp_path / "back", (tmp_path / "run.json").read_bytes())
    lost = {"run_id", "origin", "source", "extra", "seed", "tokens", "forced_tokens"}
    added = {"top_k", "top_p", "min_p", "temperature", "vocab_size", "molecules", "placeholder", "descriptors"}
    added |= {"reported_passes", "reported_failures", "notes"}
    assert {key: value for key, value in back.row.items() if key not in lost | added} == {
        key: value for key, value in entry.row.items() if key not in lost
    }
    names = "smiles, generation, text, passed, clean, issues, same_graph, extracted_smiles, atoms, heavy_atoms, drift"
    blocks = "sample_id, block, atom, element, text, x, y, z, template_free, needed, drift, kinds, junk_text"
    for sql in (f"SELECT {names} FROM samples ORDER BY sample_id", f"SELECT {blocks} FROM blocks ORDER BY ALL"):
        assert store_in(tmp_path / "back").rows(sql) == store_in(tmp_path).rows(sql)


def test_a_placeholder_of_ones_own_goes_along(tmp_path: Path) -> None:
    entry = measured(tmp_path, [("CC=O", 0, CLEAN)], "group-v2.1", placeholder="1.2,3.4,5.6")
    assert report_of(entry)["metadata"]["placeholder"] == "1.2,3.4,5.6"
    back = imported(tmp_path / "back", report_of(entry))
    assert back.row["placeholder"] == "1.2,3.4,5.6"
    assert store_in(tmp_path / "back").rows("SELECT DISTINCT template_free FROM blocks") == [{"template_free": 11}]


def test_what_cleanup_took_away_stands_beside_the_text(tmp_path: Path) -> None:
    entry = measured(tmp_path, [("CC=O", 0, CLEAN.replace("1.0>", "1.0amen>"))], "none+cleanup")
    (item,) = report_of(entry)["passes"]
    assert item["decoded_text"] == prompt_of("CC=O") + CLEAN
    assert item["raw_text"] == CLEAN.replace("1.0>", "1.0amen>")


def test_a_reported_run_has_nothing_to_export(tmp_path: Path) -> None:
    (entry,) = publish_reported(store_in(tmp_path), dict(list(load_reported().items())[:1]))
    with pytest.raises(StoreError, match="no samples to export"):
        export_report(entry, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(("extra", "why"), [("[" * 5_000, "nested too deep"), ("[]", "no object")])
def test_what_no_import_keeps_is_named(extra: str, why: str, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    write_run(store, "sample", [sample_row(0), sample_row(1, extra=extra)])
    write_run(store, "run", [sample_row(0)], extra=extra)
    for run_id, whose in (("sample", "sample 1"), ("run", "run")):
        with pytest.raises(StoreError, match=f"the extra of {whose} is .*{why}"):
            export_report(store.entry(run_id), tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_a_user_label_stays_out_of_the_file(tmp_path: Path) -> None:
    store, path = store_in(tmp_path), file_of(tmp_path, document())
    entry = import_report(store, path, label="mine")
    assert isinstance(entry, Entry)
    said = store.annotate(entry.id, label="another", notes="a note")
    assert report_of(said) == document()
