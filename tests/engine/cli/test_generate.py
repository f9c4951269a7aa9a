"""``generate`` in a terminal and as JSON: what it writes, what it refuses, what it leaves out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from engine.chem.structure_files import read_molecules
from engine.cli import entries
from tests.cli import keys, run, run_json
from tests.small_models import small_folder, use_small_model

SAMPLE_KEYS = ["smiles", "text", "token_ids", "passed", "clean", "issues", "stop_reason", "tokens", "forced_tokens"]
ASKED = ("--model", "small", "--decimals", "1-2", "--integer-digits", "1")


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of random weights: under the exact LP its texts are right all the same."""
    use_small_model(monkeypatch)


def test_numbers_without_a_point_are_written_and_read() -> None:
    given = ("--model", "small", "--decimals", "0-1", "--integer-digits", "1", "--n", "3")
    samples = run_json("generate", "CC=O", *given)["samples"]
    assert all(sample["clean"] for sample in samples)
    assert any(re.search(r"[<,]-?\d[,>]", sample["text"]) for sample in samples)


def test_samples_as_json() -> None:
    document = run_json("generate", "CC=O", "OCC", *ASKED, "--n", "2", "--seed", "3")
    assert keys(document, ["samples", "decode_s", "tokens", "forward_passes"])
    assert [sample["smiles"] for sample in document["samples"]] == ["CC=O", "CC=O", "CCO", "CCO"]
    for sample in document["samples"]:
        assert keys(sample, SAMPLE_KEYS)
        assert sample["clean"] and sample["passed"] and sample["issues"] == [] and sample["stop_reason"] == "end"
        assert sample["tokens"] == len(sample["token_ids"]) and 0 < sample["forced_tokens"] < sample["tokens"]
        assert sample["text"].startswith("[CONFORMER][C]<") and sample["text"].endswith(">[/CONFORMER]")
    assert document["tokens"] == sum(sample["tokens"] for sample in document["samples"])
    again = run_json("generate", "CC=O", "OCC", *ASKED, "--n", "2", "--seed", "3", "--batch-size", "1")
    assert again["samples"] == document["samples"]


def test_what_a_terminal_shows() -> None:
    """In the order asked; they are done in another: the longest molecule begins first."""
    result = run("generate", "CCCCC=O", "C", *ASKED)
    assert [line.partition("[CONFORMER]")[0] for line in result.out.splitlines()] == [
        "CCCCC=O clean",
        "",
        "C clean",
        "",
    ]
    assert "of 2: 2 passed, 2 decodes, 2 clean; " in result.err


def test_both_backends_write_the_same() -> None:
    fast, hf = (run_json("generate", "CC=O", *ASKED, "--backend", backend)["samples"] for backend in ("fast", "hf"))
    assert fast == hf


@pytest.mark.parametrize("lp", ["none", "group-v2.1", "v4.3", "truncating", "group-v4.3+cleanup"])
def test_other_lps_and_the_reports_names(lp: str) -> None:
    words = ("--processor-type", lp, "--max-new-tokens", "40", "--sampling-config", "greedy", "--num-generations", "1")
    (sample,) = run_json("generate", "CC=O", "--model-alias", "small", "--model-step", "final", *words)["samples"]
    assert sample["tokens"] == 40 or sample["stop_reason"] == "end"


def test_bins_are_written_read_and_exported(tmp_path: Path) -> None:
    path, bins = tmp_path / "out.sdf", ("--bins", "0.042", "21")
    (sample,) = run_json("generate", "CC=O", *ASKED, *bins)["samples"]
    assert re.fullmatch(r"\[CONFORMER\](=?\[[CO]\]<\d{4},\d{4},\d{4}>){3}\[/CONFORMER\]", sample["text"])
    assert sample["clean"] and sample["forced_tokens"]
    stated = run_json("decode", sample["text"], *bins)["coordinates"]
    assert [[block[axis] for axis in "xyz"] for block in sample["blocks"]] == stated
    assert run("generate", "CC=O", *ASKED, *bins, "--sdf", str(path)).code == 0
    (mol,) = read_molecules(path)
    assert np.allclose(mol.GetConformer().GetPositions(), stated, atol=1e-4)
    assert "the LP guarded is for decimals" in run("generate", "C", *ASKED, *bins, "--lp", "guarded").error


def test_threads_are_those_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    run_json("generate", "C", *ASKED, "--threads", "3")
    assert run_json("generate", "C", *ASKED)["threads"] == torch.get_num_threads()
    assert asked == [3, 1]  # the tests themselves have one
    assert "device cpu, threads 1" in run("generate", "C", *ASKED).err


def test_no_logit_processor_is_the_lp_none() -> None:
    given = ("generate", "CC=O", "--model", "small", "--max-new-tokens", "9")
    assert run_json(*given, "--no-logit-processor")["samples"] == run_json(*given, "--lp", "none")["samples"]


def test_equal_work_is_as_long_as_the_exact_lps() -> None:
    exact = run_json("generate", "CC=O", *ASKED)["samples"][0]
    none = run_json("generate", "CC=O", *ASKED, "--lp", "none", "--equal-work")["samples"][0]
    assert none["tokens"] == exact["tokens"]
    assert none["stop_reason"] == "length"


def test_diagnostics_are_a_step_each() -> None:
    (sample,) = run_json("generate", "C", *ASKED, "--diagnostics")["samples"]
    assert len(sample["steps"]) == sample["tokens"]
    assert all(0 <= step["p_raw"] <= step["p_lp"] <= 1 for step in sample["steps"])


def test_a_molecule_that_cannot_be_read_is_left_out_and_told() -> None:
    result = run("generate", "CC=O", "C1C", "[C]", *ASKED, "--json")
    assert result.code == 0
    assert [sample["smiles"] for sample in result.document["samples"]] == ["CC=O"]
    assert [one["smiles"] for one in result.document["skipped"]] == ["C1C", "[C]"]
    assert len(result.err.splitlines()) == 2


def test_molecules_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "some.smi").write_text("CC=O acetaldehyde\n\nCO\n")
    named = run_json("generate", "--file", str(tmp_path / "some.smi"), *ASKED)
    piped = run_json("generate", "-", *ASKED, stdin=b"CC=O acetaldehyde\n\nCO\n")
    assert [sample["smiles"] for sample in named["samples"]] == ["CC=O", "CO"]
    assert named["samples"] == piped["samples"]


def test_a_list_of_too_many_lines_is_refused_before_any_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """300,000 that are no molecule took 0.9 GB and 34 s, and a file may have 32 million."""
    monkeypatch.setattr(entries, "MOST_LINES", 3)
    result = run("generate", "-", *ASKED, stdin=b"C\r\n" * 4)
    assert (result.code, result.out) == (2, "") and "over 3 lines of molecules" in result.error


def test_conformers_as_sdf(tmp_path: Path) -> None:
    path = tmp_path / "out.sdf"
    result = run("generate", "CC=O", "CCO", *ASKED, "--sdf", str(path))
    assert f"{path}: 2 conformers" in result.err
    mols = list(Chem.SDMolSupplier(str(path)))
    assert [Chem.MolToSmiles(Chem.RemoveHs(mol)) for mol in mols] == ["CC=O", "CCO"]
    assert all(mol.GetConformer().Is3D() for mol in mols)


def test_a_checkpoint_that_no_registry_names(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine", "qwen3")
    given = ("--model-path", str(folder), "--tokenizer-name", "qwen3", "--decimals", "1", "--integer-digits", "1")
    (sample,) = run_json("generate", "CC=O", *given)["samples"]
    assert sample["clean"]


REFUSED: dict[str, tuple[list[str], str]] = {
    "lp": (["CC=O", "--model", "small", "--lp", "exat"], "no LP 'exat'. Did you mean exact"),
    "model": (["CC=O", "--model", "smal"], "no model 'smal'. Did you mean small"),
    "step": (["CC=O", "--model", "small", "--step", "finale"], "no step 'finale'. Did you mean final"),
    "preset": (["CC=O", "--model", "small", "--sampling", "qwen2"], "no sampling preset 'qwen2'. Did you mean qwen3"),
    "compile": (["CC=O", "--model", "small", "--backend", "hf", "--compile"], "hf is not compiled"),
    "backend": (["CC=O", "--model", "small", "--backend", "fest"], "no backend 'fest'. Did you mean fast"),
    "smiles": (["C1C", "--model", "small"], "SMILES 'C1C' cannot be read"),
    "all": (["C1C", "x", "--model", "small"], "2 of the first 2 molecules cannot be used"),
    "nothing": (["--model", "small"], "no molecule is given"),
    "no model": (["CC=O"], "give either --model or --model-path"),
    "two models": (["CC=O", "--model", "small", "--model-path", "."], "give either --model or --model-path"),
    "placeholder": (["CC=O", "--model", "small", "--placeholder", "0.0"], "the LP exact has no placeholder"),
    "two lps": (
        ["CC=O", "--model", "small", "--lp", "none", "--no-logit-processor"],
        "--no-logit-processor is --lp none",
    ),
    "limit": (["CC=O", "--model", "small", "--max-new-tokens", "0"], "of at most 0 tokens"),
    "equal": (["CC=O", "--model", "small", "--equal-work", "--max-new-tokens", "9"], "equal work sets the limits"),
    "time": (["CC=O", "--model", "small", "--time-limit", "-1"], "Invalid value for '--time-limit'"),
    "temperature": (["CC=O", "--model", "small", "--temperature", "-1"], "Invalid value for '--temperature'"),
    "endless temperature": (
        ["CC=O", "--model", "small", "--temperature", "1e400"],
        "Invalid value for '--temperature'",
    ),
    "top k": (["CC=O", "--model", "small", "--top-k", "9" * 30], "Invalid value for '--top-k'"),
    "decimals": (["CC=O", "--model", "small", "--decimals", "4-1"], "there is no such number format"),
    "no decimals": (["CC=O", "--model", "small", "--decimals", "0"], "got 0, 0"),
    "device": (["CC=O", "--model", "small", "--device", "tpu9"], "there is no device 'tpu9'"),
    "large": (["C" * 5_100, "--model", "small"], "the limit is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_input_is_one_line(name: str) -> None:
    words, told = REFUSED[name]
    assert told in run("generate", *words).error


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
