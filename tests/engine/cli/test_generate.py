"""``generate``, the list of ``models``, and ``prepare``: what they write, refuse and leave out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from engine import assets
from engine.cli import entries
from engine.errors import AssetError, TokenizerError
from engine.models.registry import USER_VARIABLE
from engine.text import tokenizer_build, tokenizers
from tests.cli import keys, run, run_json
from tests.small_models import small_folder, use_small_model, write_registry

SAMPLE_KEYS = ["smiles", "text", "token_ids", "passed", "clean", "issues", "stop_reason", "tokens", "forced_tokens"]
ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1")


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of random weights: under the exact LP its texts are right all the same."""
    use_small_model(monkeypatch)


def test_samples_as_json_and_in_a_terminal() -> None:
    words = ("generate", "CCCCC=O", "OCC", *ASKED, "--n", "2", "--seed", "3")
    document = run_json(*words)
    assert keys(document, ["samples", "decode_s", "tokens", "forward_passes"])
    assert [sample["smiles"] for sample in document["samples"]] == ["CCCCC=O", "CCCCC=O", "CCO", "CCO"]
    for sample in document["samples"]:
        assert keys(sample, SAMPLE_KEYS)
        assert sample["clean"] and sample["passed"] and sample["issues"] == [] and sample["stop_reason"] == "end"
        assert sample["tokens"] == len(sample["token_ids"]) and 0 < sample["forced_tokens"] < sample["tokens"]
        assert sample["text"].startswith("[CONFORMER][C]<") and sample["text"].endswith(">[/CONFORMER]")
    assert document["tokens"] == sum(sample["tokens"] for sample in document["samples"])
    for more in (["--batch-size", "1"], ["--backend", "hf"]):
        assert run_json(*words, *more)["samples"] == document["samples"]
    shown = run(*words)
    lines = [f"{sample['smiles']} clean\n{sample['text']}" for sample in document["samples"]]
    assert shown.out.splitlines() == "\n".join(lines).splitlines()
    assert "of 4: 4 passed, 4 decodes, 4 clean; " in shown.err


def test_a_checkpoint_that_no_registry_names_and_the_reports_names_of_options(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine", "qwen3")
    words = ("--model-path", str(folder), "--tokenizer-name", "qwen3", "--processor-type", "generic")
    more = ("--max-new-tokens", "40", "--sampling-config", "greedy", "--num-generations", "1")
    (sample,) = run_json("generate", "CC=O", *words, *more)["samples"]
    assert sample["tokens"] == 40 or sample["stop_reason"] == "end"


def test_the_plan_has_what_the_options_say() -> None:
    exact = run_json("generate", "CC=O", *ASKED)["samples"][0]
    words = ("generate", "CC=O", *ASKED, "--equal-work", "--diagnostics")
    none = run_json(*words, "--no-logit-processor")["samples"][0]
    assert (none["tokens"], none["stop_reason"]) == (exact["tokens"], "length")
    assert len(none["steps"]) == none["tokens"]
    short = ("--model", "small", "--decimals", "0-1", "--integer-digits", "1", "--n", "3")
    samples = run_json("generate", "CC=O", *short)["samples"]
    assert all(sample["clean"] for sample in samples)
    assert any(re.search(r"[<,]-?\d[,>]", sample["text"]) for sample in samples)


def test_threads_are_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    counts: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", counts.append)
    run_json("generate", "C", *ASKED, "--threads", "3")
    assert run_json("generate", "C", *ASKED)["threads"] == torch.get_num_threads()
    assert counts == [3, 1]  # the tests themselves have one
    assert "device cpu, threads 1" in run("generate", "C", *ASKED).err


def test_a_molecule_that_cannot_be_read_is_left_out_and_told() -> None:
    result = run("generate", "CC=O", "C1C", "[C]", *ASKED, "--json")
    assert result.code == 0
    assert [sample["smiles"] for sample in result.document["samples"]] == ["CC=O"]
    assert [row["smiles"] for row in result.document["skipped"]] == ["C1C", "[C]"]
    assert len(result.err.splitlines()) == 2


def test_a_list_of_too_many_lines_is_refused_before_any_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """300,000 that are no molecule took 0.9 GB and 34 s, and a file may have 32 million."""
    monkeypatch.setattr(entries, "MOST_LINES", 3)
    result = run("generate", "-", *ASKED, stdin=b"C\r\n" * 4)
    assert (result.code, result.out) == (2, "") and "over 3 lines of molecules" in result.error


def test_ctrl_c_keeps_what_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.decode.generation import Generation

    whole = Generation.events

    def stopped(self: Generation, *given: Any) -> Any:
        for event in whole(self, *given):
            yield event
            if self.samples:
                raise KeyboardInterrupt

    monkeypatch.setattr(Generation, "events", stopped)
    result = run("generate", "C", "CCCC", *ASKED, "--json")
    assert result.code == 130
    assert len(result.document["samples"]) == 1


SMALL = "CC=O --model small"
REFUSED = [
    (f"{SMALL} --lp exat", "no LP 'exat'. Did you mean exact"),
    ("CC=O --model smal", "no model 'smal'. Did you mean small"),
    (f"{SMALL} --backend hf --compile", "hf is not compiled"),
    ("C1C x --model small", "2 of the first 2 molecules cannot be used"),
    ("CC=O", "give either --model or --model-path"),
    ("CC=O --model-path . --step final", "--step belongs to --model"),
    (f"{SMALL} --lp none --no-logit-processor", "--no-logit-processor is --lp none"),
    (f"{SMALL} --max-new-tokens 0", "of at most 0 tokens"),
    (f"{SMALL} --temperature 1e400", "Invalid value for '--temperature'"),
    (f"{SMALL} --bins 0.042 21 --lp truncating", "the LP truncating is for decimals"),
    (f"{SMALL} --device tpu9", "there is no device 'tpu9'"),
    (f"{SMALL} --log-logits x", "neither a number from 1 to 999,999 nor ids"),
    (f"{SMALL} --profile --profile-output no/such/x.json", "there is no folder"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_wrong_input_is_one_line(line: str, said: str) -> None:
    assert said in run("generate", *line.split()).error


# --- models -----------------------------------------------------------------------------------------------------------


def entry(name: str) -> str:
    return f'alias = "{name}"\nstep = "1"\nfolder = "{name}"\ntokenizer = "qwen3"\n'


def test_a_broken_model_is_named_among_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = entry("gone") + 'notes = "a\\u001b[2J\\u202eb\\nfake:1"\n'
    monkeypatch.setenv(USER_VARIABLE, str(write_registry(tmp_path, evil)))
    result = run("models")
    assert result.code == 0 and result.err.startswith("gone:1 should be in")
    assert "\ngone " in result.out and r"a\x1b[2J\u202eb\nfake:1" in result.out
    assert all(line.isprintable() for line in result.out.splitlines())
    assert run("models", "gone").code == 2
    assert "there is no model 'nobody'" in run("models", "nobody").error
    monkeypatch.setenv(USER_VARIABLE, str(tmp_path / "none.toml"))
    assert "Correct it, or DRIFTSCOPE_MODELS" in run("models").error


# --- prepare ----------------------------------------------------------------------------------------------------------


def test_prepare_makes_what_is_missing_and_ends_by_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def build(name: str) -> None:
        made.append(name)
        (tmp_path / name).mkdir(exist_ok=True)

    def problems(*words: str) -> tuple[int, list[str]]:
        result = run("prepare", *words, "--json")
        parts = result.document["parts"]
        assert [part["needed"] for part in parts] == [True, True, False]
        assert result.document["ready"] == (not any(part["problem"] for part in parts))
        return result.code, [part["problem"] for part in parts]

    lacking = Mock(side_effect=AssetError("no 3Dmol.js", "Bring it"))
    monkeypatch.setattr(tokenizers, "load_tokenizer", Mock())
    monkeypatch.setattr(tokenizer_build, "folder_of", lambda name: tmp_path / name)
    monkeypatch.setattr(tokenizer_build, "built_in", build)
    for name in ("three_d_mol", "bring_three_d_mol"):
        monkeypatch.setattr(assets, name, lacking)
    none = "the tokenizer {} is not built yet. Run `make prepare`"
    assert problems("--check") == (2, [none.format("qwen3"), none.format("llama3"), "no 3Dmol.js. Bring it"])
    assert made == []
    assert problems() == (0, ["", "", "no 3Dmol.js. Bring it"]) and made == ["qwen3", "llama3"]
    assert problems("--check") == (2, ["", "", "no 3Dmol.js. Bring it"])
    for name in ("three_d_mol", "bring_three_d_mol"):
        monkeypatch.setattr(assets, name, Mock())
    assert problems("--check") == (0, ["", "", ""])
    monkeypatch.setattr(
        tokenizers, "load_tokenizer", Mock(side_effect=[None, TokenizerError("it is damaged", "Delete it")])
    )
    assert problems() == (2, ["", "it is damaged. Delete it", ""])
