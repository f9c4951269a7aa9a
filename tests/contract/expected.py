"""What was recorded, less what an issue took away on purpose (gone.toml)."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from tests.contract.black_box import HERE
from tests.contract.inclusion import lost, paths

FILES = {"command": "options", "call": "answers", "link": "links", "old": "old_store"}
"""Kinds of entries of gone.toml, and the files in recorded/ that have them."""
WHOLE = {"call": "answer", "link": "shown", "old": "answer"}
"""Under which key an entry of such a file has what is compared."""


def recorded(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((HERE / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    return document


def gone() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads((HERE / "gone.toml").read_text("utf-8")).get("gone", [])
    return entries


def is_known(entry: dict[str, Any]) -> bool:
    """Whether an entry of gone.toml names one thing that is recorded, an issue and a reason."""
    kinds = set(entry) & set(FILES)
    if len(kinds) != 1 or set(entry) - {*kinds, "key", "issue", "reason"}:
        return False
    (kind,) = kinds
    document, name = recorded(FILES[kind]), entry[kind]
    if name not in document or not isinstance(entry.get("issue"), int) or not entry.get("reason"):
        return False
    return entry.get("key", "") in paths(document[name][WHOLE[kind]] if kind in WHOLE else document[name])


def is_gone(kind: str, name: str) -> bool:
    """Whether all of it is."""
    return any(entry.get(kind) == name and "key" not in entry for entry in gone())


def keys_gone(kind: str, name: str) -> set[str]:
    return {entry["key"] for entry in gone() if entry.get(kind) == name and "key" in entry}


def missing(kind: str, name: str, expected: Any, answer: Any) -> list[tuple[str, str]]:
    """What the answer lost of what is recorded and not gone on purpose: paths, and why."""
    keys = keys_gone(kind, name)
    return [loss for loss in lost(expected, answer) if not any(is_below(loss[0], key) for key in keys)]


def is_below(path: str, key: str) -> bool:
    return path == key or path.startswith(f"{key}/")
