"""What users bring as a file and is none, or is another kind, or grows when it is unpacked: every reader refuses it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.chem.molecule_files import read_molecule_file
from engine.chem.structure_files import read_molecules
from engine.errors import FileFormatError
from engine.logits.ingest import add_file
from engine.paths import read_toml
from engine.profile.ingest import add_trace
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.store import Store
from engine.user_files import expand, open_file, parsed_json
from tests.cli import run

SECRET = "hunter2"
READERS: dict[str, Callable[[Store, Path], object]] = {
    "trace": add_trace,
    "logits": add_file,
    "report": import_report,
    "molecules": lambda _, path: read_molecule_file(path),
    "structures": lambda _, path: read_molecules(path),
    "toml": lambda _, path: read_toml(path, "file", dict),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Files(tmp_path / "store"))


def made_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def made_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(path))
    return path


@pytest.mark.parametrize("make", [made_pipe, made_socket, lambda _: Path("/dev/zero"), lambda path: path.parent])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_never_opened(
    store: Store, tmp_path: Path, reader: str, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        FileFormatError, match=r"is (?:no plain file|a folder|a directory)\. Give|is no SDF or MOL file"
    ):
        READERS[reader](store, make(tmp_path / "one"))


def test_a_command_refuses_a_pipe_as_text(tmp_path: Path) -> None:
    result = run("junk", "--file", str(made_pipe(tmp_path / "one")))
    assert result.code == 2 and "it is no plain file" in result.err


def test_a_file_reads(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    with open_file(tmp_path / "a") as file:
        assert file.read() == b"text"
    for path in (tmp_path / "none", Path("a\0b")):
        with pytest.raises(FileFormatError, match="cannot be read"):
            open_file(path)


@pytest.mark.parametrize("content", [b"[" * 50_000, b"[" + b"9" * 5_000 + b"]", b'["\xff"]'])
def test_json_that_cannot_be_read_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"deep|digits|decode"):
        parsed_json(content)


@pytest.mark.parametrize("command", [["run", "--smiles-file"], ["generate", "--file"]])
def test_a_line_that_is_no_smiles_is_named_by_its_number_alone(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "pw.smi").write_text(f"CC=O\n{SECRET}:x:0:0\n")
    asked = ["--model", "demo-qwen", "--max-new-tokens", "8", "--store", str(tmp_path / "store")]
    result = run(*command, str(tmp_path / "pw.smi"), *asked[: 4 if command[0] == "generate" else 6])
    assert result.code == 0 and SECRET not in result.out + result.err
    assert "2: it is no SMILES that can be read at position" in result.err


def test_a_log_line_that_is_nested_too_deep_is_no_entry(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"token_idx":0,"logits":' + "[" * 50_000 + "]" * 50_000 + "}\n")
    with pytest.raises(FileFormatError, match=r"line 1: it is no JSON"):
        add_file(store, path)


def test_a_huge_toml_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("a" * 4_000_000)
    with pytest.raises(FileFormatError, match="has over 1 MB"):
        read_toml(path, "file", dict)


def test_patterns_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a.json", "b.json.gz", "c[1].json", "deep/er/d.json", "deep/e.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)

    def found(*patterns: str) -> list[str]:
        return [path.as_posix() for path in expand(patterns)]

    assert found("*.json") == ["a.json", "c[1].json"]
    assert found("**/*.json") == ["a.json", "c[1].json", "deep/er/d.json"]
    assert found("b.json.gz", "a.json", "*.json*") == ["b.json.gz", "a.json", "c[1].json"]
    assert found("c[1].json") == ["c[1].json"]
    assert found(str(tmp_path / "deep/**")) == [str(tmp_path / "deep/e.txt"), str(tmp_path / "deep/er/d.json")]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert found("~/a.json") == [str(tmp_path / "a.json")]
    for pattern in ("*.csv", "nowhere.json", "a\0b", "**/\0", "", "~nobody-of-that-name/*.json", "[", "x" * 5_000):
        with pytest.raises(FileFormatError, match="matches no file"):
            expand(["a.json", pattern])
    with pytest.raises(FileFormatError, match="is a folder"):
        expand(["deep"])


def test_hidden_files_are_named_by_their_dot(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "a.json").write_text("{}")
    (tmp_path / ".b.json").write_text("{}")
    assert expand([str(tmp_path / ".*.json")]) == [tmp_path / ".b.json"]
    with pytest.raises(FileFormatError, match="matches no file"):
        expand([str(tmp_path / "**" / "*.json")])
