"""The user's registry as a file that commands and pages write: an entry is added at its end, or taken out; all else in
it, comments too, stays as it is. A file that cannot be changed so is left alone, and said to be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import RegistryError, nearest, shown
from engine.models.registry import (
    EMBEDDED,
    ModelEntry,
    entry_of_table,
    load_registry,
    read_registry,
    user_files,
    written_file,
)
from engine.user_files import read_text, writing

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*model[ \t]*\]\][ \t]*(?:#.*)?$", re.MULTILINE)
_BY_HAND = "Edit it by hand (docs/formats.md)"


def entry_to_add(table: Mapping[str, Any]) -> ModelEntry:
    """The entry as it will be read; an error where it is none, or its name is taken."""
    path = written_file()
    entry = entry_of_table(path, table)
    taken = {other.name: other for other in load_registry(_readable()).entries}
    if other := taken.get(entry.name):
        problem = f"there is a model {entry.name} already, in {shown(other.source, 200)}"
        raise RegistryError(problem, "Choose another alias or step")
    return entry


def add_entry(table: Mapping[str, Any]) -> ModelEntry:
    """Write it into the user's file, which is made where there is none."""
    entry, path = entry_to_add(table), written_file()
    before = read_text(str(path)) if path.is_file() else ""
    if before and not before.endswith("\n"):
        before += "\n"
    gap = "\n" if before.strip() else ""
    lines = "".join(f"{key} = {_toml(value)}\n" for key, value in table.items())
    _replace(path, f"{before}{gap}[[model]]\n{lines}", entry.name)
    return entry


def remove_entry(name: str) -> ModelEntry:
    """``alias``, where it has one step, or ``alias:step``. The checkpoint's folder stays."""
    entry = _own(name)
    path, names = entry.source, [other.name for other in read_registry(entry.source)]
    text = read_text(str(path))
    starts = [*(match.start() for match in _HEADER.finditer(text)), len(text)]
    if len(starts) != len(names) + 1:
        raise RegistryError(f"{shown(path, 200)} is not written table by table", _BY_HAND)
    number = names.index(entry.name)
    before, behind = text[: starts[number]].rstrip(), text[starts[number + 1] :]
    _replace(path, f"{before}\n\n{behind}".lstrip("\n"), without=entry.name)
    return entry


def _own(name: str) -> ModelEntry:
    """An entry of the user's files."""
    entries = [entry for path in _readable() for entry in read_registry(path)]
    named = [entry for entry in entries if name in (entry.name, entry.alias)]
    own = [entry for entry in entries if entry.source != EMBEDDED]
    matches = [entry for entry in named if entry in own]
    if len(matches) > 1:
        names = ", ".join(entry.name for entry in matches)
        raise RegistryError(f"{shown(name)} has several steps: {names}", "Name one as ALIAS:STEP")
    if matches:
        return matches[0]
    problem = f"{shown(name)} ships with the project" if named else f"there is no model {shown(name)} of your own"
    raise RegistryError(problem, nearest(name, (entry.name for entry in own)) if own else "`models` lists all")


def _readable() -> list[Path]:
    """The files that there are: the one that is named may be written first."""
    named = written_file()
    return [EMBEDDED, *([named] if named.is_file() else []), *(path for path in user_files() if path != named)]


def _replace(path: Path, text: str, added: str = "", without: str = "") -> None:
    """Whole or not at all, once it reads as the same entries with one more or less."""
    names = [entry.name for entry in read_registry(path)] if path.is_file() else []
    expected = [*(name for name in names if name != without), *([added] if added else [])]
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.write_text(text, encoding="utf-8")
        if [entry.name for entry in read_registry(aside)] != expected:
            raise RegistryError(f"{shown(path, 200)} is not written table by table", _BY_HAND)
    finally:
        aside.unlink(missing_ok=True)
    with writing(path) as file:
        file.write(text.encode())


def _toml(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
