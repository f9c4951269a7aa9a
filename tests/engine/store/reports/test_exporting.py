"""Runs out as report files: what came in comes out again, and a measured run says what the format has keys for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engine.chem.enriched import prompt_of
from engine.decode.samples import Reader
from engine.errors import StoreError
from engine.lp_records import LPS, split_cleanup
from engine.records import TRIMMED4
from engine.store.entries import Entry
from engine.store.reports import GENERATIONS
from engine.store.reports.exporting import export_report, report_bytes
from engine.store.reports.importing import import_report
from engine.store.sample_rows import Row, block_rows, sums_of, tables_of, written_row
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.text.tokenizers import load_tokenizer
from tests.engine.store.reports.documents import CLEAN, JUNK, document, file_of, imported, store_in
from tests.strategies import molecule
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


def measured(folder: Path, texts: list[tuple[str, int, str]], lp: str, **row: Any) -> Entry:
    """A run of (SMILES, generation, text), as the engine would have written it."""
    base, cleanup = split_cleanup(lp)
    reader = Reader(load_tokenizer("qwen3"), base, LPS[base].placeholder, TRIMMED4, cleanup=cleanup)
    samples, blocks = list[Row](), list[Row]()
    for number, (smiles, generation, text) in enumerate(texts):
        ids = [*reader.tokenizer.encode(text), reader.tokenizer.end_id or 0]
        flags = [False] * len(ids)
        sample = reader.read(molecule(smiles), ids, flags, "end", sample_id=number, generation=generation)
        samples.append(written_row(sample, heavy_atoms=molecule(smiles).heavy_atoms))
        blocks += block_rows(number, sample.blocks)
    staging = Staging.create(store_in(folder).home, RUN, "measured-1", {**RUN_VALUES, "lp": lp, **row})
    staging.add(tables_of(staging.id, samples, blocks), range(len(samples)), sums=sums_of(samples, blocks))
    return staging.publish(sums_of(samples, blocks))


# --- imported runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("indent", [None, 3])
def test_a_file_comes_out_byte_for_byte(tmp_path: Path, indent: int | None) -> None:
    content = document(text_after=1, nested={"a": [1e300, "的", None]}) | {"reported": 5, "entry": "x", "main": []}
    content["passes"][0] |= {"all_generations": [{"decoded_text": "", "raw_text": 2}], "issues": ["\\ud83d"]}
    raw = b"\xef\xbb\xbf" + json.dumps(content, indent=indent).encode()
    entry = import_report(store_in(tmp_path), file_of(tmp_path, raw, "run.json.gz"), label="mine")
    export_report(store_in(tmp_path).annotate(entry.id, label="other", notes="a note"), tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == raw
    assert import_report(store_in(tmp_path), tmp_path / "out.json").id == entry.id


def test_gz_by_the_suffix_and_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    entry = imported(tmp_path, document())
    export_report(entry, tmp_path / "out.JSON.GZ")
    first = (tmp_path / "out.JSON.GZ").read_bytes()
    assert json.loads(gzip.decompress(first)) == document()
    export_report(entry, tmp_path / "out.JSON.GZ")
    assert (tmp_path / "out.JSON.GZ").read_bytes() == first
    (tmp_path / "folder.json").mkdir()
    for name in ("nowhere/out.json", "folder.json"):
        with pytest.raises(StoreError, match=r"cannot be written: .*\. Give another place"):
            export_report(entry, tmp_path / name)
    assert [path.name for path in tmp_path.glob(".*")] == []


# --- measured and reported runs -----------------------------------------------------------------------------------


def test_a_measured_run_says_what_the_format_has(tmp_path: Path) -> None:
    texts = [("CC=O", 0, JUNK), ("CCO", 0, CLEAN), ("CC=O", 1, CLEAN), ("CCO", 1, JUNK)]
    said = json.loads(report_bytes(measured(tmp_path, texts, "none")))
    chars = sum(len(text) for _, _, text in texts)
    assert said["metadata"] == {
        "timestamp": "2026-01-02T03:04:05+00:00",
        "model_alias": "demo-qwen",
        "model_step": "final",
        "tokenizer_name": "qwen3",
        "logit_processor_enabled": False,
        "sampling": "qwen3",
        "batch_size": 32,
        "sample_size": 2,
        "num_generations": 2,
        "total_generations": 4,
        "kv_cache": "static",
        "attention": "sdpa",
    }
    assert (said["time_taken"], said["total_chars_raw"], said["total_chars_clean"]) == (2.0, chars, chars)
    assert said["throughput_chars_per_sec"] == chars / 2
    prompt = prompt_of("CC=O")
    (passed,) = said["passes"]
    texts_of = {"decoded_text": prompt + JUNK, GENERATIONS: [prompt + JUNK, prompt + CLEAN]}
    assert passed == document()["passes"][0] | texts_of
    (failure,) = said["failures"]
    assert failure["prompt_smiles"] == "CCO" and failure["extracted_smiles"] == "CC=O"
    assert failure["issues"] == ["generated conformer <> prompt SMILES mismatch"]
    assert failure["generation_has_same_molecular_graph"] is False


@pytest.mark.parametrize(
    ("lp", "number", "family"),
    [
        ("none", "1.25", "Qwen"),
        ("exact", "1.25", "LLaMA"),
        ("truncating", "1.25", "Qwen"),
        ("group-v2.1", "1.2345", "Qwen"),
        ("group-v2.1", "1.2345", "LLaMA"),
        ("group-v3.9", "1.234", "Qwen"),
        ("group-v4.3+cleanup", "1.234", "LLaMA"),
    ],
)
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
    added |= {"reported_passes", "reported_failures", "notes", "counted_by"}
    assert {key: value for key, value in back.row.items() if key not in lost | added} == {
        key: value for key, value in entry.row.items() if key not in lost
    }
    names = "smiles, generation, text, passed, clean, issues, same_graph, extracted_smiles, atoms, heavy_atoms, drift"
    blocks = "sample_id, block, atom, element, text, x, y, z, template_free, needed, drift, kinds, junk_text"
    for sql in (f"SELECT {names} FROM samples ORDER BY sample_id", f"SELECT {blocks} FROM blocks ORDER BY ALL"):
        assert store_in(tmp_path / "back").rows(sql) == store_in(tmp_path).rows(sql)


def test_a_placeholder_of_ones_own_goes_along(tmp_path: Path) -> None:
    entry = measured(tmp_path, [("CC=O", 0, CLEAN)], "group-v2.1", placeholder="1.2,3.4,5.6")
    back = imported(tmp_path / "back", json.loads(report_bytes(entry)))
    assert back.row["placeholder"] == "1.2,3.4,5.6"
    assert store_in(tmp_path / "back").rows("SELECT DISTINCT template_free FROM blocks") == [{"template_free": 11}]


def test_a_reported_run_has_nothing_to_export(tmp_path: Path) -> None:
    (entry,) = publish_reported(store_in(tmp_path), dict(list(load_reported().items())[:1]))
    with pytest.raises(StoreError, match="no samples to export"):
        export_report(entry, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
