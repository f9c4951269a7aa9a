"""Preference pairs of a run, judged by Hugging Face's tokenizers and by readers of JSON lines."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom
from transformers import AutoTokenizer

from engine.chem.enriched import prompt_of
from engine.chem.left_places import Left
from engine.chem.stereo import AskedStereo
from engine.inspection import preference_pairs
from engine.inspection.lost_token import TextMolecule, boxes_of, splits_of
from engine.inspection.preference_pairs import NO_IDS, TOKENISES_OTHERWISE, write_pairs
from engine.store.files import Files
from engine.store.store import VARIABLE, Store
from engine.text.blocks import READ_FORMAT, find_blocks
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
    assert numbers.comma_minus is not None
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
        assert cut(f"{hugging_face.decode(before)}{hugging_face.decode([id_])}") != [*before, id_]
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


# --- tokens that lost a molecule --------------------------------------------------------------------------------------


def lost_run(store: Store, model: str, samples: Sequence[dict[str, Any]]) -> str:
    """A run of the exact LP with these samples, searched."""
    run_id = f"{model}-lost"
    written = [sample_row(**sample) for sample in samples]
    write_run(store, run_id, written, tokenizer=TOKENIZERS[model], lp="exact", descriptors="plain")
    found = json.loads(run("lost", run_id, "--json").out)
    assert found["stored"] and found["searched"] == len(samples)
    return run_id


@pytest.mark.parametrize("model", TOKENIZERS)
@pytest.mark.parametrize(
    ("numbers", "rejected"), [("9.0,0.0,0.0", "9"), ("-5.0,0.0,0.0", None), ("1.9,0.0,0.0", "9"), ("0.3,0.2,0.1", None)]
)
def test_a_lost_bond_is_paired_with_the_nearest_length_that_is_allowed(
    tmp_path: Path, store: Store, model: str, numbers: str, rejected: str | None
) -> None:
    """Of C and O alone, by RDKit's own bounds of their distance, in the narrowest tolerance."""
    tokenizer = load_tokenizer(TOKENIZERS[model])
    text = f"[CONFORMER][C]<0.0,0.0,0.0>[O]<{numbers}>[/CONFORMER]"
    ids = [*tokenizer.encode(text), tokenizer.end_id]
    run_id = lost_run(store, model, [{"sample_id": 0, "smiles": "CO", "text": text, "token_ids": ids}])
    counts = write_pairs(store, run_id, tmp_path / "pairs.jsonl")
    assert (counts.pairs, counts.left_out) == ({"lost": 1}, {})
    (line,) = map(json.loads, (tmp_path / "pairs.jsonl").read_text().splitlines())
    assert line["prompt"] + line["rejected"] == (prompt_of("CO") + text)[: len(line["prompt"] + line["rejected"])]
    assert rejected in (None, line["rejected"][:1]) and line["source"] == "lost"

    bounds = rdDistGeom.GetMoleculeBoundsMatrix(Chem.AddHs(Chem.MolFromSmiles("CO")))
    least, most = bounds[1, 0] * 0.95, bounds[0, 1] * 1.05
    if line["prompt"].endswith("[O]<1."):
        decimals = len(line["chosen"])
        allowed = [
            f"{n:0{decimals}d}" for n in range(10**decimals) if least - 1 < (n + 1) / 10**decimals < most + 0.2 - 1
        ]
        reach = [n for n in allowed if 1 + int(n) / 10**decimals <= most]
        assert line["chosen"] in reach
        assert line["chosen"][0] == max(reach)[0], "the nearest to 1.9"
    elif rejected == "9":
        assert (line["prompt"][-4:], line["chosen"]) == ("[O]<", "1"), "1 to 2 holds the bond, 9 to 10 does not"


@pytest.mark.parametrize("model", TOKENIZERS)
def test_behind_a_right_token_no_loss_is_proved(tmp_path: Path, store: Store, model: str) -> None:
    """The proof by intervals, which finds lost tokens, knows nothing of the points by which right ones are found."""
    sql = "SELECT sample_id, smiles, text, token_ids FROM samples WHERE run_id = $run ORDER BY sample_id LIMIT 24"
    samples = DEMO_STORE.rows(sql, {"run": demo_run(model, "exact")})
    run_id = lost_run(store, model, samples)
    counts = write_pairs(store, run_id, tmp_path / "pairs.jsonl")
    marks = {
        row["sample_id"]: row for row in store.rows("SELECT * FROM lost ORDER BY sample_id, conformer DESC, block DESC")
    }
    lines = list(map(json.loads, (tmp_path / "pairs.jsonl").read_text().splitlines()))
    assert len(lines) + sum(counts.left_out.values()) == len(marks) > len(lines) > 5
    hugging_face = AutoTokenizer.from_pretrained(folder_of(TOKENIZERS[model]))
    for line in lines:
        for name in ("chosen", "rejected"):
            ids = hugging_face(line["prompt"] + line[name])["input_ids"]
            assert ids == line["prompt_ids"] + line[f"{name}_ids"]
        mark = marks[line["sample_id"]]
        assert (line["pos"], line["rejected"]) == (mark["pos"], mark["piece"])
        assert state_behind(line, line["rejected"], TOKENIZERS[model]) is Left.NONE
        assert state_behind(line, line["chosen"], TOKENIZERS[model]) is not Left.NONE


def state_behind(line: dict[str, Any], token: str, tokenizer: str) -> Left:
    """What bounds of intervals say of the block that a token belongs to."""
    text = (line["prompt"] + token).partition("[/SMILES]")[2]
    molecule = TextMolecule(line["smiles"], "mol_fast")
    blocks = find_blocks(text)
    positions, known = np.zeros((len(molecule.text_atoms), 3)), np.zeros(len(molecule.text_atoms), dtype=bool)
    done = [block for block in blocks if block.closed]
    for atom, block in enumerate(done):
        positions[atom], known[atom] = list(map(float, block.content.split(","))), True
    atom = len(done) - blocks[-1].closed
    known[atom] = True
    goals = AskedStereo.of(molecule.mol, molecule.heavy).chosen(positions, known)
    checks = molecule.checks(atom, positions, known, goals)
    if blocks[-1].closed:
        return Left.NONE if checks.failed() else Left.SOME
    splits = splits_of(load_tokenizer(tokenizer))
    return checks.left(*boxes_of(blocks[-1].content, "", splits, READ_FORMAT), 1e-4)
