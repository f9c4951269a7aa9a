"""What users bring as a file and is none or another kind: every reader refuses it. What is written appears whole."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.chem.molecule_files import read_molecule_file
from engine.chem.structure_files import read_molecules
from engine.errors import FileError
from engine.logits.ingest import add_file
from engine.paths import read_toml
from engine.profile.ingest import add_trace
from engine.store.reports.importing import import_report
from engine.store.store import Store
from engine.user_files import expand, open_file, parsed_json, writing
from tests.cli import run

READERS: dict[str, Callable[[Store, Path], object]] = {
    "trace": add_trace,
    "logits": add_file,
    "report": import_report,
    "molecules": lambda _, path: read_molecule_file(path),
    "structures": lambda _, path: read_molecules(path),
    "toml": lambda _, path: read_toml(path, "file", dict),
}


def made_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def made_socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))
    return path


@pytest.mark.parametrize("make", [made_pipe, made_socket, lambda _: Path("/dev/zero"), lambda path: path.parent])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_no_regular_file_is_never_opened(
    store: Store, tmp_path: Path, reader: str, make: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=r"is (?:no plain file|a folder|a directory)\. Give|is no SDF or MOL file"):
        READERS[reader](store, make(tmp_path / "one"))


def test_a_command_refuses_a_pipe_as_text(tmp_path: Path) -> None:
    result = run("junk", "--file", str(made_pipe(tmp_path / "one")))
    assert result.code == 2 and "it is no plain file" in result.err


def test_a_file_reads(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    with open_file(tmp_path / "a") as file:
        assert file.read() == b"text"
    for path in (tmp_path / "none", Path("a\0b")):
        with pytest.raises(FileError, match="cannot be read"):
            open_file(path)


@pytest.mark.parametrize("content", [b"[" * 50_000, b"[" + b"9" * 5_000 + b"]", b'["\xff"]'])
def test_json_that_cannot_be_read_is_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"deep|digits|decode"):
        parsed_json(content)


def test_a_line_that_is_no_smiles_is_named_by_its_number_alone(tmp_path: Path) -> None:
    (tmp_path / "pw.smi").write_text("CC=O\nhunter2:x:0:0\n")
    result = run("generate", "--file", str(tmp_path / "pw.smi"), "--model", "demo-qwen", "--max-new-tokens", "8")
    assert result.code == 0 and "hunter2" not in result.out + result.err
    assert "2: it is no SMILES that can be read at position" in result.err


def test_patterns_name_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("a.json", "b.json.gz", "c[1].json", "deep/er/d.json", "deep/e.txt")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)

    def expanded(*patterns: str) -> list[str]:
        return [path.as_posix() for path in expand(patterns)]

    assert expanded("*.json") == ["a.json", "c[1].json"]
    assert expanded("**/*.json") == ["a.json", "c[1].json", "deep/er/d.json"]
    assert expanded("b.json.gz", "a.json", "*.json*") == ["b.json.gz", "a.json", "c[1].json"]
    assert expanded("c[1].json") == ["c[1].json"]
    assert expanded(str(tmp_path / "deep/**")) == [str(tmp_path / "deep/e.txt"), str(tmp_path / "deep/er/d.json")]
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/a.json") == [str(tmp_path / "a.json")]
    for pattern in ("*.csv", "nowhere.json", "a\0b", "**/\0", "", "~nobody-of-that-name/*.json", "[", "x" * 5_000):
        with pytest.raises(FileError, match="matches no file"):
            expand(["a.json", pattern])
    with pytest.raises(FileError, match="is a folder"):
        expand(["deep"])

    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "a.json").write_text("{}")
    (tmp_path / ".b.json").write_text("{}")
    assert expanded(".*.json") == [".b.json"] and ".git/a.json" not in expanded("**/*.json")


def test_a_full_disk_leaves_what_was_there_and_nothing_beside_it(tmp_path: Path) -> None:
    """`decode --sdf` left a cut file under its final name."""
    file = tmp_path / "out.sdf"
    file.write_text("before")

    def allow_no_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    text = "[C]<1.0,2.0,3.0>[C]<2.5,2.0,3.0>"
    command = [sys.executable, "-B", "-m", "engine", "decode", text, "--sdf", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=allow_no_bytes)
    assert done.returncode == 2 and "File too large" in done.stderr and str(file) in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.sdf"] and file.read_text() == "before"


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with writing(tmp_path / "link") as file:
        file.write(b"whole")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"whole"
    reader, writer = os.pipe()
    with writing(Path(f"/dev/fd/{writer}")) as file:
        file.write(b"piped")
    assert os.read(reader, 5) == b"piped"
    os.close(reader)
    os.close(writer)


def test_a_link_to_itself_is_named(tmp_path: Path) -> None:
    """It was an error that was not foreseen."""
    loop = tmp_path / "loop.sdf"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match=f"it is a link to itself: '{loop}'"), writing(loop):
        raise AssertionError
    assert [path.name for path in tmp_path.iterdir()] == ["loop.sdf"]
    result = run("decode", "[C]<1.0,2.0,3.0>[C]<2.5,2.0,3.0>", "--sdf", str(loop))
    assert "it is a link to itself" in result.error


def test_what_raises_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), writing(tmp_path / "mine"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []
