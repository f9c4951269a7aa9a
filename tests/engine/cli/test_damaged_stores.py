"""Stores that are full of damage, or of texts that nobody wrote: what commands say of them stays short."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.store.store import VARIABLE
from tests.cli import run
from tests.engine.store.stored_runs import store_at, written


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = store_at(tmp_path).home
    for name in ("one", "two"):
        written(home, name, notes="x" * 4_000_000 if name == "two" else None)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_of_much_damage_some_is_named(place: Path) -> None:
    for number in range(40):
        (place / "runs" / f"run_id=gone{number}").mkdir()
    *named, last = run("runs").err.splitlines()
    assert len(named) == 10 and last == "left out: 30 more; `verify` names all"
    assert run("verify").out.count("gone") == 40


def test_a_text_of_megabytes_is_shown_cut(place: Path) -> None:
    assert 10_000 < len(run("show", "two").out) < 30_000
    assert len(run("show", "two", "--json").document[0]["notes"]) == 4_000_000


@pytest.mark.parametrize("command", [["verify"], ["sql", "SELECT 1 FROM runs"], ["runs"]])
def test_a_store_that_is_not_there_is_said_to_be_none(tmp_path: Path, command: list[str]) -> None:
    result = run(*command, "--store", str(tmp_path / "typo"))
    said = "typo' has no run;" if command == ["runs"] else "typo' does not exist: it reads as an empty store"
    assert result.code == 0 and result.err.count("\n") <= 2 and said in result.err
