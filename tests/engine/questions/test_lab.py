"""The lab's questions of texts in a terminal, against the tokenizers' Hugging Face form."""

from __future__ import annotations

import re

import pytest
from transformers import PreTrainedTokenizerFast

from engine.text.tokenizer_build import NAMES, folder_of
from tests.cli import run, run_json

TEXT = "[C]<6.9467,-1.369,0.8415amen>=[O]<-1.2034,-0.5100,0.8012>"
PLACEHOLDER = "0.0000,0.0000,0.0000"


def needs(name: str, block: str) -> int:
    """Tokens that have a character of the block's numbers."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder_of(name) / "tokenizer.json"))
    spans = tokenizer(f"=[O]<{block}>", add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    begin, end = len("=[O]<"), len("=[O]<") + len(block)
    return sum(first < end and last > begin for first, last in spans)


def test_a_text_has_its_tokens_and_the_drift_of_its_blocks() -> None:
    document = run_json("ask", "lab_text", TEXT)
    for name in NAMES:
        tokens = [row for row in document["tables"]["tokens"] if row["tokenizer"] == name]
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder_of(name) / "tokenizer.json"))
        assert [row["id"] for row in tokens] == tokenizer(TEXT, add_special_tokens=False)["input_ids"]
        assert "amen" in "".join(row["piece"] for row in tokens if row["is_junk"])
    (sound,) = [row for row in document["rows"] if not row["junk"]]
    titles = dict(zip(NAMES, [key for key in sound if key.endswith(": drift")], strict=True))
    for name, title in titles.items():
        drift = needs(name, PLACEHOLDER) - needs(name, sound["text"])
        assert sound[title].startswith(f"−{-drift} cut")
    assert "1 of 2 blocks not three numbers, 1 with a letter" in document["answer"]


def test_what_is_no_smiles_is_a_text() -> None:
    done = run("ask", "lab_text", "CC(")
    assert done.code == 0 and done.out.startswith("Read as plain text.") and "CC(" in done.out


def test_a_set_of_molecules_and_of_texts() -> None:
    options = ("--placeholders", f"{PLACEHOLDER} 0.000,0.000,0.000")
    document = run_json("ask", "lab_set", "CCO", "[C]<-1.0000,0.0000,0.0000>=[O]<1.0000,0.0000,0.0000>", *options)
    rows = document["rows"]
    assert {row["blocks"] for row in rows} == {5} and len(rows) == 2 * 3
    assert {row["placeholder"].removeprefix("fitted: ") for row in rows} >= {PLACEHOLDER, "0.000,0.000,0.000"}
    assert all(row["exact"] + row["junk_prone"] + row["cut"] == pytest.approx(1) for row in rows)


def test_of_a_set_what_cannot_be_read_is_left_out_or_one_line() -> None:
    done = run("ask", "lab_set", "CCO", "not-a-smiles")
    assert done.code == 0 and re.search("1 molecule left out: .*not-a-smiles", done.out)
    assert run("ask", "lab_set", "not-a-smiles").code == 2


def test_codes_are_judged_by_the_codebook_that_is_named_and_have_no_drift() -> None:
    text = "[CONFORMER][C]<3>[C]<1><4>=<300>[O][/CONFORMER]"
    rows = run_json("ask", "lab_text", text, "--bins", "256 codes of demo-codes")["rows"]
    assert [row["kinds"] for row in rows] == ["exact", "doubled code", "outside codes", "missing code"]
    assert set(rows[0]) == {"block", "atom", "text", "kinds", "junk"}
    rows = run_json("ask", "lab_text", text, "--bins", "4,096 codes of the group")["rows"]
    assert rows[2]["kinds"] == "exact"
