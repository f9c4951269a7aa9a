"""``prepare``: what it reports and how it ends. The asset itself is tested in test_assets.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import assets
from engine.cli.main import main
from engine.errors import AssetError, TokenizerError
from engine.text import tokenizer_build, tokenizers


class World:
    """What ``prepare`` meets: which tokenizers load, which are built, whether 3Dmol.js can be had."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broken: set[str] = set()
        self.asset_problem = ""
        self.loaded: list[str] = []
        self.brought = 0

    def load(self, name: str) -> None:
        if name in self.broken:
            raise TokenizerError(f"the tokenizer {name} is damaged", "Delete its cache")
        self.loaded.append(name)

    def built_in(self, name: str) -> None:
        self.load(name)
        self.build(name)

    def folder_of(self, name: str) -> Path:
        return self.root / name

    def build(self, *names: str) -> None:
        for name in names:
            self.folder_of(name).mkdir()

    def look(self, static: Path) -> Path:
        if self.asset_problem:
            raise AssetError(self.asset_problem, "Bring it by hand")
        return static / assets.FILE_NAME

    def bring(self, static: Path) -> Path:
        self.brought += 1
        return self.look(static)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    monkeypatch.setattr(tokenizers, "load_tokenizer", made.load)
    monkeypatch.setattr(tokenizer_build, "folder_of", made.folder_of)
    monkeypatch.setattr(tokenizer_build, "built_in", made.built_in)
    monkeypatch.setattr(assets, "three_d_mol", made.look)
    monkeypatch.setattr(assets, "bring_three_d_mol", made.bring)
    return made


def call(*words: str) -> int:
    return main(["prepare", *words])


def test_all_is_made_ready(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert all(world.folder_of(name).is_dir() for name in ("qwen3", "llama3")), "the caches, too"
    assert world.brought == 1
    assert "ready  yes" in capsys.readouterr().out


def test_the_app_does_without_the_3d_view(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.asset_problem = "3Dmol.js cannot be brought"
    assert call() == 0
    said = capsys.readouterr().err
    assert "3Dmol-min.js: 3Dmol.js cannot be brought. Bring it by hand" in said
    assert "except for the 3D view" in said


def test_the_app_does_not_do_without_a_tokenizer(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.broken = {"llama3"}
    assert call() == 2
    assert "llama3: the tokenizer llama3 is damaged. Delete its cache\n" in capsys.readouterr().err


def test_check_makes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.build("qwen3")
    assert call("--check") == 2
    assert world.loaded == ["qwen3"]
    assert world.brought == 0
    assert "llama3: the tokenizer llama3 is not built yet. Run `make prepare`\n" in capsys.readouterr().err


@pytest.mark.parametrize(("problem", "code"), [("", 0), ("3Dmol.js is missing", 2)])
def test_check_ends_by_what_is_missing(world: World, problem: str, code: int) -> None:
    world.build("qwen3", "llama3")
    world.asset_problem = problem
    assert call("--check") == code


def test_json_is_one_document(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.asset_problem = "3Dmol.js is missing"
    assert call("--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "ready": False,
        "parts": [
            {"name": "qwen3", "needed": True, "problem": ""},
            {"name": "llama3", "needed": True, "problem": ""},
            {"name": "3Dmol-min.js", "needed": False, "problem": "3Dmol.js is missing. Bring it by hand"},
        ],
    }
