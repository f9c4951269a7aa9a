"""The table of file forms: each is found by its first bytes or its ending, and an error names all that is taken."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest

from engine.errors import FileError
from engine.file_forms import COMMANDS, FORMS, Becomes, endings_of, file_form, forms_of, saying_what_is_taken
from tests.cli import run


def test_each_ending_leads_to_one_form_of_what_a_file_becomes() -> None:
    """But for two, whose content tells."""
    pairs = Counter((becomes, ending) for form in FORMS for becomes in form.becomes for ending in form.endings)
    assert len(pairs) > 30
    assert [pair for pair, count in pairs.items() if count > 1] == [("run", ".json"), ("run", ".parquet")]
    assert endings_of("trace") == ["json", "csv", "tsv", "txt", "gz"]
    assert all(forms_of(becomes) for becomes in COMMANDS)


@pytest.mark.parametrize(
    ("name", "content", "becomes", "form"),
    [
        ("a.json", b"{}", "run", "report"),
        ("A.SDF.gz", b"\x1f\x8b", "run", "sdf"),
        ("a.json", b"PAR1", "pool", "parquet"),  # its bytes tell more than its name
        ("a.sdf", b"\x80\x04", "references", "pickle"),
        ("a.json", b"{}", "molecules", "jsonl"),
        ("a.json", b"{}", "trace", "trace"),
        ("a.json", b"{}", "log", "log"),
        ("qwen_lp_v38", b"{}", "run", "report"),  # of no known ending
        ("molecules", b"CC=O", "molecules", "list"),
    ],
)
def test_a_file_has_one_form(tmp_path: Path, name: str, content: bytes, becomes: Becomes, form: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert file_form(tmp_path / name, becomes).name == form


def test_a_form_that_becomes_something_else_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_bytes(b"\x80\x04")
    with pytest.raises(FileError, match=r"a\.smi' is a pickle of molecules\. Taken are lines of SMILES"):
        file_form(tmp_path / "a.smi", "molecules")


def test_a_pickle_of_before_is_no_list_and_an_error_says_once_what_is_taken(tmp_path: Path) -> None:
    (tmp_path / "old.pkl").write_bytes(pickle.dumps({"a": 1}, protocol=0))
    with pytest.raises(FileError, match=r"old\.pkl' is a pickle of molecules\. Taken are"):
        file_form(tmp_path / "old.pkl", "molecules")
    assert file_form(tmp_path / "old.pkl", "references").words == "a pickle of molecules"
    (tmp_path / "a.jsonl").write_bytes(b"PAR1")
    with pytest.raises(FileError) as error, saying_what_is_taken(tmp_path / "a.jsonl", "trace"):
        file_form(tmp_path / "a.jsonl", "trace")
    assert str(error.value).count("takes Chrome traces") == 1


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        (["import", "a.docx"], "run"),
        (["judge", "a.docx"], "pool"),
        (["references", "add", "a.docx", "--label", "a"], "references"),
        (["references", "make", "--smiles-file", "a.docx", "--label", "a"], "molecules"),
        (["trace", "add", "a.docx"], "trace"),
        (["logits", "add", "a.docx"], "log"),
    ],
)
def test_an_error_names_the_forms_that_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], becomes: Becomes
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    Path("a.docx").write_bytes(b"PK\x03\x04 no text\x00\xff")
    result = run(*words)
    assert result.code == 2 and "a.docx" in result.error
    assert all(f"{form.words} ({', '.join(form.endings)})" in result.error for form in forms_of(becomes))
