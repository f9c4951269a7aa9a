"""Names and patterns of files, and what they match."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine.errors import FileFormatError
from engine.user_files import expand


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


def test_a_walk_follows_no_link_to_a_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a.json").write_text("{}")
    (inside / "again").symlink_to(inside)
    (inside / "away").symlink_to(outside)
    (inside / "linked.json").symlink_to(outside / "a.json")  # a file is no walk
    (inside / "broken.json").symlink_to(tmp_path / "nowhere")
    for pattern in ("**/*.json", "**", "**/**/*.json", "**/**/**/**"):
        assert [path.name for path in expand([inside / pattern])] == ["a.json", "linked.json"]
    assert len(expand([inside / "*" / "a.json"])) == 2, "one step is one step, as in a shell"
    assert expand([inside / "away" / "*.json"]) == [inside / "away" / "a.json"], "a link that is named is followed"


def test_hidden_files_are_named_by_their_dot(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "a.json").write_text("{}")
    (tmp_path / ".b.json").write_text("{}")
    assert expand([tmp_path / ".*.json"]) == [tmp_path / ".b.json"]
    with pytest.raises(FileFormatError, match="matches no file"):
        expand([tmp_path / "**" / "*.json"])


def test_a_folder_that_may_not_be_entered_does_not_end_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "open"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").touch()
    stat = os.stat

    def refused(path: Any, **how: Any) -> os.stat_result:
        if "closed/" in os.fspath(path):
            raise PermissionError(13, "Permission denied", path)
        return stat(path, **how)

    monkeypatch.setattr(os, "stat", refused)
    for pattern in ("**/a.json", "*/a.json", "**/*.json"):
        assert expand([tmp_path / pattern]) == [tmp_path / "open/a.json"]
