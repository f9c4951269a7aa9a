"""Preference pairs of a run, judged by Hugging Face's tokenizers and by readers of JSON lines."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from transformers import AutoTokenizer

from engine.chem.enriched import prompt_of
from engine.inspection import preference_pairs
from engine.inspection.preference_pairs import NO_IDS, TOKENISES_OTHERWISE, write_pairs
from engine.store.files import Files
from engine.store.store import VARIABLE, Store
from engine.text.tokenizer_build import folder_of
from engine.text.tokenizers import load_tokenizer, number_ids
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run, sample_row, step_row, write_run

TOKENIZERS = {"qwen": "qwen3", "llama": "llama3"}
SAMPLES = 3


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "store"))
    return Store(Files(tmp_path / "store"))


def texts(model: str) -> list[dict[str, Any]]:
    """Samples that the exact LP wrote, of the demo store."""
    sql = (
        "SELECT sample_id, smiles, text, token_ids, forced FROM samples WHERE run_id = $run ORDER BY sample_id LIMIT $n"
    )
    return DEMO_STORE.rows(sql, {"run": demo_run(model, "exact"), "n": SAMPLES})


def choices(sample: dict[str, Any]) -> Iterator[int]:
    return (pos for pos, forced in enumerate(sample["forced"]) if not forced)


def struck_run(store: Store, model: str, **about: Any) -> dict[tuple[int, int], list[int]]:
    """A run in which at each choice some tokens of numbers were struck, whatever they leave; these by sample and
    position."""
    tokenizer = load_tokenizer(TOKENIZERS[model])
    numbers = number_ids(tokenizer)
    likely = [numbers.digits[0][3], numbers.point, numbers.comma_minus, numbers.digits[-1][7]]
    samples, steps, struck = [], [], {}
    for sample in texts(model):
        samples.append(sample_row(**sample))
        for pos in choices(sample):
            taken = sample["token_ids"][pos]
            others = struck[sample["sample_id"], pos] = list(dict.fromkeys(id_ for id_ in likely if id_ != taken))
            tops = [{"token_id": others[0], "p_raw": 0.25, "allowed": True}]
            more = {"token_id": taken, "struck": others, "top_k": tops, "ln_p": -0.5, "ln_share": -0.1}
            steps.append(step_row(sample["sample_id"], pos, **more))
    write_run(store, f"{model}-shaped", samples, steps=steps, tokenizer=tokenizer.name, lp="shaped", **about)
    return struck


@pytest.mark.parametrize("model", TOKENIZERS)
def test_texts_and_ids_agree_by_the_tokenizer_of_hugging_face(tmp_path: Path, store: Store, model: str) -> None:
    struck = struck_run(store, model)
    written = {sample["sample_id"]: sample for sample in texts(model)}
    counts = write_pairs(store, f"{model}-shaped", tmp_path / "pairs.jsonl")
    hugging_face = AutoTokenizer.from_pretrained(folder_of(TOKENIZERS[model]))
    cut = lambda text: hugging_face(text)["input_ids"]  # noqa: E731
    seen = set()
    lines = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    for line in lines:
        sample, pos = written[line["sample_id"]], line["pos"]
        assert cut(line["prompt"]) == line["prompt_ids"]
        assert cut(line["prompt"] + line["chosen"]) == [*line["prompt_ids"], *line["chosen_ids"]]
        assert cut(line["prompt"] + line["rejected"]) == [*line["prompt_ids"], *line["rejected_ids"]]
        prompt = cut(prompt_of(sample["smiles"]))
        assert line["prompt_ids"] == [*prompt, *sample["token_ids"][:pos]]
        assert line["chosen_ids"] == [sample["token_ids"][pos]] and len(line["rejected_ids"]) == 1
        assert (prompt_of(sample["smiles"]) + sample["text"]).startswith(line["prompt"] + line["chosen"])
        seen.add((line["sample_id"], pos, line["rejected_ids"][0]))

    # What is left out is what Hugging Face's tokenizer cuts otherwise, and nothing else.
    expected = {(*at, id_) for at, ids in struck.items() for id_ in ids}
    assert seen <= expected and len(seen) == len(lines) == counts.pairs["struck"]
    for sample_id, pos, id_ in expected - seen:
        before = [*cut(prompt_of(written[sample_id]["smiles"])), *written[sample_id]["token_ids"][:pos]]
        assert cut(hugging_face.decode(before) + hugging_face.decode([id_])) != [*before, id_]
    assert counts.left_out == {TOKENISES_OTHERWISE: len(expected - seen)}
    assert len(seen) > 500 and len(expected - seen) > (0 if model == "qwen" else 50)
    assert counts.samples == SAMPLES


def test_the_file_reads_as_a_table_of_texts_ids_and_figures(tmp_path: Path, store: Store) -> None:
    struck = struck_run(store, "qwen")
    file = tmp_path / "pairs.jsonl.gz"
    (row,) = json.loads(run("export", "qwen-shaped", "--pairs", str(file), "--json").out)
    table = pd.read_json(file, lines=True)
    assert list(table)[:6] == ["prompt", "chosen", "rejected", "prompt_ids", "chosen_ids", "rejected_ids"]
    assert (row["pairs"], row["struck"], row["samples_with_pairs"]) == (len(table), len(table), SAMPLES)
    assert sum(row["left_out"].values()) == sum(map(len, struck.values())) - len(table)
    assert (table["chosen"].str.len() > 0).all() and (table["rejected"].str.len() > 0).all()
    assert (table["ln_p_chosen"] == -0.5).all() and (table["ln_share"] == -0.1).all()
    known = table["ln_p_rejected"].dropna()
    assert len(known) and known.round(6).eq(round(math.log(0.25), 6)).all()
    likeliest = [ids[0] == struck[at][0] for at, ids in zip(positions_of(table), table["rejected_ids"], strict=True)]
    assert (table["ln_p_rejected"].notna() == likeliest).all(), "of those among the likeliest alone"
    assert table["smiles"].nunique() == len({sample["smiles"] for sample in texts("qwen")})


def positions_of(table: pd.DataFrame) -> list[tuple[int, int]]:
    return list(zip(table["sample_id"], table["pos"], strict=True))


def test_groups_make_the_same_file_and_progress(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    struck_run(store, "qwen")
    write_pairs(store, "qwen-shaped", tmp_path / "whole.jsonl")
    monkeypatch.setattr(preference_pairs, "GROUP", 2)
    seen: list[tuple[int, int]] = []
    write_pairs(store, "qwen-shaped", tmp_path / "groups.jsonl", lambda *done: seen.append(done))
    assert (tmp_path / "groups.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert seen == [(2, SAMPLES), (3, SAMPLES)]


def test_an_error_midway_leaves_the_file_as_it_was(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck_run(store, "qwen")
    monkeypatch.setattr(preference_pairs, "GROUP", 2)
    file = tmp_path / "pairs.jsonl"
    file.write_text("before")

    def stop(done: int, samples: int) -> None:
        if done > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_pairs(store, "qwen-shaped", file, stop)
    assert file.read_text() == "before" and [path.name for path in tmp_path.glob("*pairs*")] == ["pairs.jsonl"]
    assert not list(tmp_path.glob(".*"))
    assert "already exists" in run("export", "qwen-shaped", "--pairs", str(file)).error
    assert run("export", "qwen-shaped", "--pairs", str(file), "--force").code == 0
    assert len(file.read_text().splitlines()) > 100


def test_a_sample_without_ids_is_left_out_and_counted(tmp_path: Path, store: Store) -> None:
    steps = [step_row(0, 7, struck=[15, 16], top_k=[])]
    write_run(store, "no-ids", [sample_row(0, token_ids=None)], steps=steps, tokenizer="qwen3", lp="shaped")
    result = run("export", "no-ids", "--pairs", str(tmp_path / "pairs.jsonl"))
    assert result.code == 0 and f"left out: 2 pairs: {NO_IDS}" in result.err
    assert (tmp_path / "pairs.jsonl").read_bytes() == b""


def test_a_run_without_struck_tokens_says_how_to_get_them(tmp_path: Path, store: Store) -> None:
    (sample,) = texts("qwen")[:1]
    write_run(store, "bare", [sample_row(**sample)], tokenizer="qwen3", lp="shaped")
    write_run(store, "kept", [sample_row(**sample)], steps=[step_row(0, 0)], tokenizer="qwen3", lp="exact")
    write_run(store, "foreign", [sample_row(**sample)], steps=[step_row(0, 0, struck=[15])], lp="shaped")
    file = tmp_path / "pairs.jsonl"
    expected = {"bare": "has no kept steps", "kept": "no token was struck", "foreign": "does not name its tokenizer"}
    for name, problem in expected.items():
        result = run("export", name, "--pairs", str(file))
        assert (result.code, result.out) == (2, "") and problem in result.error
        assert name == "foreign" or "--lp shaped --keep-steps N" in result.error
    assert not file.exists()
    both = run("export", "kept", "--pairs", str(file), "--sdf", str(file))
    assert both.code == 2 and "in one form of report" in both.error


def test_pairs_of_a_run_are_the_tokens_that_it_struck(tmp_path: Path, store: Store) -> None:
    words = ("--model", "demo-qwen", "--lp", "shaped", "--keep-steps", "1", "--threads", "1")
    (made,) = run_json("run", "C[C@H](N)C(=O)O", *words)
    file = tmp_path / "pairs.jsonl.gz"
    (row,) = json.loads(run("export", made["run_id"], "--as", "pairs", str(file), "--json").out)
    assert row["pairs"] + sum(row["left_out"].values()) == made["struck_tokens"] > 0
    lines = list(map(json.loads, gzip.decompress(file.read_bytes()).splitlines()))
    (sample,) = store.rows("SELECT text, token_ids FROM samples")
    for line in lines:
        assert line["source"] == "struck" and line["chosen_ids"] != line["rejected_ids"]
        assert sample["token_ids"][line["pos"]] == line["chosen_ids"][0]
