"""Bringing MOSES: a good package, a damaged or wrong one, none at all. No test reaches a network."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import AssetError, FileFormatError
from tools.training import moses
from tools.training.moses import MosesFile, bring_moses, download_package, moses_folder, read_csv, read_moses

CONTENT = gzip.compress(b"SMILES,SPLIT\nCCO,test\nc1ccccc1,test\n", mtime=0)
MEMBER = "moses/dataset/data/test.csv.gz"
WHEEL = "molsets-0.3.1-py3-none-any.whl"


@pytest.fixture(autouse=True)
def small_moses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of the test's own, and a test split of two molecules."""
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    wanted = MosesFile(MEMBER, hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(moses, "FILES", {"test": wanted})


def package(content: bytes = CONTENT, member: str = MEMBER) -> Callable[[Path], None]:
    """A download that leaves a wheel with one file."""

    def download(folder: Path) -> None:
        with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
            wheel.writestr(member, content)

    return download


def no_download(folder: Path) -> None:
    raise AssertionError("nothing should be downloaded")


def left_behind() -> list[str]:
    return sorted(path.name for path in moses_folder().glob("*")) if moses_folder().exists() else []


def test_a_split_is_brought_once_and_read_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moses, "download_package", package())
    rows = read_moses("test")
    assert next(rows) == "CCO"
    monkeypatch.setattr(moses, "download_package", no_download)
    assert list(read_moses("test")) == ["CCO", "c1ccccc1"]
    assert left_behind() == ["test.csv.gz"]


def test_a_damaged_file_in_the_cache_is_brought_again() -> None:
    path = bring_moses("test", download=package())
    path.write_bytes(CONTENT[:-5])
    assert bring_moses("test", download=package()) == path
    assert path.read_bytes() == CONTENT


def nothing(folder: Path) -> None:
    """A pip that is content and leaves no wheel."""


def no_archive(folder: Path) -> None:
    (folder / WHEEL).write_bytes(b"no archive")


@pytest.mark.parametrize(
    ("download", "message"),
    [
        (package(b"something else"), "is not the file that it should be: its SHA-256 is [0-9a-f]{64}, not "),
        (package(member="moses/README"), f"has no file {MEMBER}"),
        (nothing, "left 0 wheels instead of one"),
        (no_archive, "is damaged: File is not a zip file"),
    ],
)
def test_a_package_that_does_not_fit_is_refused_and_leaves_nothing(download: moses.Download, message: str) -> None:
    with pytest.raises(AssetError, match=message):
        bring_moses("test", download=download)
    assert left_behind() == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "file"))
    with pytest.raises(AssetError, match=r"test\.csv\.gz cannot be (read|written): Not a directory"):
        bring_moses("test", download=package())


def fake_pip(
    monkeypatch: pytest.MonkeyPatch, result: subprocess.CompletedProcess[bytes] | Exception
) -> list[list[str]]:
    calls: list[list[str]] = []

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        calls.append(command)
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(subprocess, "run", run)
    return calls


OFFLINE = b"""WARNING: Retrying after connection broken
ERROR: Could not find a version that satisfies the requirement molsets==0.3.1 (from versions: none)
ERROR: No matching distribution found for molsets==0.3.1

[notice] A new release of pip is available
"""


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (
            subprocess.CompletedProcess([], 1, b"", OFFLINE),
            "failed: 'ERROR: No matching distribution found for molsets",
        ),
        (subprocess.CompletedProcess([], 1, b"", b"/usr/bin/python: No module named pip\n"), "No module named pip"),
        (subprocess.CompletedProcess([], 1, b"", b""), "failed: 'it said nothing'"),
        (subprocess.TimeoutExpired("pip", 900), "took over 900 s"),
        (FileNotFoundError(2, "No such file or directory"), "does not start: No such file or directory"),
    ],
)
def test_a_pip_that_fails_says_why_and_what_to_do(
    result: subprocess.CompletedProcess[bytes] | Exception,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    fake_pip(monkeypatch, result)
    with pytest.raises(AssetError, match=message) as raised:
        download_package(tmp_path)
    assert "Connect to the network once" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_pip_takes_the_pinned_wheel_without_dependencies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    calls = fake_pip(monkeypatch, subprocess.CompletedProcess([], 0, b"", b""))
    download_package(tmp_path)
    (command,) = calls
    assert command[1:4] == ["-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "molsets==0.3.1", str(tmp_path)} <= set(command)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"ID,SPLIT\n1,test\n", mtime=0), "has no column SMILES"),
        (CONTENT[:-10], "cannot be read"),
        (b"plain text", "cannot be read"),
        (gzip.compress(b"SMILES\n\xff\n", mtime=0), "cannot be read"),
    ],
    ids=["no column", "cut short", "not packed", "not UTF-8"],
)
def test_a_file_that_is_no_moses_file_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "test.csv.gz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        list(read_csv(path))
