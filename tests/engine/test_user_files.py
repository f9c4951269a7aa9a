"""What users bring as a file and is none, or is another kind, or grows when it is unpacked: every reader refuses it."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import user_files
from engine.chem.molecule_files import read_molecule_file
from engine.chem.structure_files import read_molecules
from engine.errors import DriftscopeError, FileFormatError
from engine.logits.ingest import add_file
from engine.paths import read_toml
from engine.profile.ingest import add_trace
from engine.store.files import Files
from engine.store.reports.importing import import_report
from engine.store.store import Store
from engine.user_files import open_file, parsed_json
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
        FileFormatError, match=r"is (?:no plain file|a folder|a directory)\. Give|is not of a known kind"
    ):
        READERS[reader](store, make(tmp_path / "one"))


def test_a_command_refuses_a_pipe_as_text(tmp_path: Path) -> None:
    result = run("junk", "--file", str(made_pipe(tmp_path / "one")))
    assert result.code == 2 and "it is no plain file" in result.err


@pytest.mark.parametrize(
    "text",
    [
        f"root:{SECRET}:0:0\nC {SECRET}\n",
        f"{SECRET} a b\n",
        f'{SECRET} = "{SECRET}"\n',
        f'{{"{SECRET}": "{SECRET}"}}\n',
        f'["{SECRET}"]\n',
        f"{SECRET},{SECRET}2,{SECRET}3\n{SECRET},b,c\n",
        f"-----BEGIN KEY-----\n{SECRET}\n-----END KEY-----\n",
        f"\0{SECRET}",
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_nothing_of_another_kind_of_file_is_quoted(store: Store, tmp_path: Path, reader: str, text: str) -> None:
    path = tmp_path / "passwd"
    path.write_text(text)
    try:
        READERS[reader](store, path)
        message = ""
    except DriftscopeError as error:
        message = str(error)
    assert SECRET[:4] not in message


@pytest.mark.parametrize("fill", [b" ", b"\n"])
@pytest.mark.parametrize("reader", ["trace"])
def test_a_bomb_is_refused_where_it_grows_too_much(
    store: Store, tmp_path: Path, reader: str, fill: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_files, "LEAST_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(fill * 1_000_000, 1) + gzip.compress(fill * 9_000_000))
    with pytest.raises(FileFormatError, match=r"inflates to over|a line 1 of over"):
        READERS[reader](store, path)


def test_a_file_reads(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    with open_file(tmp_path / "a") as file:
        assert file.read() == b"text"
    for path in (tmp_path / "none", Path("a\0b")):
        with pytest.raises(FileFormatError, match="cannot be read"):
            open_file(path)


UNREADABLE = {"nested too deep": b"[" * 50_000, "thousands of digits": b"[" + b"9" * 5_000 + b"]", "UTF-8": b'["\xff"]'}


@pytest.mark.parametrize("reason", UNREADABLE)
def test_json_that_cannot_be_read_is_a_named_error_without_its_content(reason: str) -> None:
    content = UNREADABLE[reason]
    with pytest.raises(ValueError, match=reason) as caught:
        parsed_json(content)
    assert "9" not in str(caught.value) and "sys." not in str(caught.value)


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


def test_what_follows_the_end_of_a_gz_file_is_not_quoted(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "report.json.gz"
    path.write_bytes(gzip.compress(b"{}") + SECRET.encode())
    for reader in ("report", "molecules"):
        with pytest.raises(FileFormatError, match="gz") as caught:
            READERS[reader](store, path)
        assert SECRET[:2] not in str(caught.value)


def test_a_huge_toml_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("a" * 4_000_000)
    with pytest.raises(FileFormatError, match="has over 1 MB"):
        read_toml(path, "file", dict)
