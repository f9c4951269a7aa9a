"""Names and patterns of files: what they match, and that a walk ends whatever lies on the disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine import file_patterns
from engine.errors import FileFormatError
from engine.file_patterns import expand


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
    for pattern in (1_300 * "../" + "*.json", "*/" + 1_200 * "../" + "x", 1_200 * "**/" + "x"):
        with pytest.raises(FileFormatError, match="a path of over 100 parts"):
            expand([pattern])


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
    with pytest.raises(FileFormatError, match="matches no file"):
        expand([inside / "*" / "a.json"])
    assert expand([inside / "away" / "*.json"]) == [inside / "away" / "a.json"], "a link that is named is followed"


def test_hidden_files_are_named_by_their_dot(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "a.json").write_text("{}")
    (tmp_path / ".b.json").write_text("{}")
    assert expand([tmp_path / ".*.json"]) == [tmp_path / ".b.json"]
    with pytest.raises(FileFormatError, match="matches no file"):
        expand([tmp_path / "**" / "*.json"])


@pytest.mark.parametrize(
    ("limit", "value", "told"),
    [
        ("MOST_ENTRIES", 15, "over 15 files and folders"),
        ("MOST_LEVELS", 3, "over 3 levels"),
        ("MOST_S", -1.0, "over -1 s of looking"),
    ],
)
def test_a_walk_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: float, told: str) -> None:
    for name in ("a/b/c/d/e", *map(str, range(15))):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(file_patterns, limit, value)
    with pytest.raises(FileFormatError, match=f"the patterns ask for {told}.*Name the folder"):
        expand([f"{tmp_path}/**/zzz"])


def test_a_walk_stops_when_told(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    folders: list[int] = []

    def tick() -> None:
        folders.append(1)
        if len(folders) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        expand([f"{tmp_path}/**/zzz"], tick)
    assert len(folders) == 2


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
