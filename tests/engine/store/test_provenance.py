"""What made a run: versions, and the commit of the checkout."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from engine import __version__
from engine.store import provenance


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    """Both are asked once a process."""
    for cached in (provenance.versions, provenance.git_commit):
        cached.cache_clear()
    yield
    for cached in (provenance.versions, provenance.git_commit):
        cached.cache_clear()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit and one file."""
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "file").write_text("a")
    for words in ("init -q", "add file", "-c user.name=a -c user.email=a@b commit -q -m first"):
        subprocess.run(["git", *words.split()], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_versions_of_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def version_but_of_torch(name: str) -> str:
        if name == "torch":
            raise PackageNotFoundError
        return version(name)

    monkeypatch.setattr(provenance, "version", version_but_of_torch)
    doc = json.loads(provenance.versions())
    assert (doc["driftscope"], doc["python"], "torch" in doc) == (__version__, platform.python_version(), False)
    assert {name: doc[name] for name in ("rdkit", "duckdb")} == {name: version(name) for name in ("rdkit", "duckdb")}


def test_the_commit_and_whether_files_had_changed(checkout: Path) -> None:
    commit = provenance.git_commit()
    assert commit is not None and len(commit) == 40
    (checkout / "new").touch()
    provenance.git_commit.cache_clear()
    assert provenance.git_commit() == commit, "a file that git does not know of changes nothing"
    (checkout / "file").write_text("b")
    assert provenance.git_commit() == commit, "asked once"
    provenance.git_commit.cache_clear()
    assert provenance.git_commit() == f"{commit}+"


@pytest.mark.usefixtures("checkout")
def test_outside_a_checkout_and_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit_with(owner: object, name: str, value: object) -> str | None:
        provenance.git_commit.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            return provenance.git_commit()

    assert commit_with(provenance, "ROOT", tmp_path / "elsewhere") is None
    assert commit_with(os, "environ", {**os.environ, "PATH": ""}) is None
