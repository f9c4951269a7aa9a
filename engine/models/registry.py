"""The model registry: which checkpoint an alias and a step stand for, and how that model reads and writes.

``data/models.toml`` names the embedded models; two files of the user add to them: the one that ``DRIFTSCOPE_MODELS``
names, and ``models.toml`` in the user's store, which `models add` writes where none is named (docs/formats.md has every
key).
A file is read strictly: what is unknown or of the wrong type is named. A file of bins that is gone or damaged is the
problem of the one entry that names it: that entry is listed, and can be taken out, but not loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

from engine.chem.bin_files import given_bins, read_bin_file
from engine.errors import FileError, RegistryError, nearest, shown
from engine.paths import DATA, read_toml, store_folder, user_path
from engine.records import DESCRIPTORS, SHORTEST4, Alphabet, Descriptors, NumberFormat

EMBEDDED = DATA / "models.toml"
USER_VARIABLE = "DRIFTSCOPE_MODELS"
OWN_TOKENIZER = "own"
TAGS = ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")

Dtype = Literal["float32", "bfloat16", "float16"]

_TYPES: dict[str, type] = {
    **dict.fromkeys("alias step folder shipped sha256 tokenizer dtype notes card descriptors bins".split(), str),
    "decimals": list,
    "tags": list,
    "integer_digits": int,
    "bos": bool,
}
_CHOICES = {"dtype": get_args(Dtype), "descriptors": DESCRIPTORS}
_PAIR = re.compile(r"[0-9.]+ [0-9.]+")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One checkpoint. Either ``folder`` is set, or ``shipped`` and its ``sha256``."""

    alias: str
    step: str
    tokenizer: str
    numbers: NumberFormat
    source: Path  # the registry file
    folder: Path | None = None
    shipped: Path | None = None
    sha256: str = ""
    card: Path | None = None
    dtype: Dtype = "float32"
    descriptors: Descriptors = "plain"  # that its texts are written with
    tags: tuple[str, ...] = ()  # tokens that stand for each of ``TAGS``; empty: these themselves
    bos: bool | None = None  # whether prompts begin with BOS; None: as its tokenizer does
    notes: str = ""
    problem: str = ""  # its file of bins cannot be read; ``numbers`` are those of no model then

    @property
    def name(self) -> str:
        return f"{self.alias}:{self.step}"


@dataclass(frozen=True, slots=True)
class Registry:
    """All entries, in the order of their files."""

    entries: tuple[ModelEntry, ...]

    def find(self, name: str, step: str | None = None) -> ModelEntry:
        """``alias`` with a step, or ``alias:step``; without a step the alias's last one."""
        alias, _, named = name.partition(":")
        if named and step and named != step:
            raise RegistryError(f"two steps are given: {shown(named)} and {shown(step)}", "Give one")
        wanted, of_alias = step or named, [entry for entry in self.entries if entry.alias == alias]
        if not of_alias:
            near = nearest(alias, (entry.alias for entry in self.entries))
            raise RegistryError(f"there is no model {shown(alias)}", f"{near} (`models add FOLDER` adds one)")
        matches = [entry for entry in of_alias if wanted in ("", entry.step)]
        if not matches:
            near = nearest(wanted, (entry.step for entry in of_alias))
            raise RegistryError(f"the model {alias} has no step {shown(wanted)}", near)
        return matches[-1]


def load_registry(files: Iterable[Path] | None = None) -> Registry:
    """The embedded models and the user's, or those of the files that are given."""
    files = [EMBEDDED, *user_files()] if files is None else files
    entries: dict[str, ModelEntry] = {}
    for entry in (entry for path in files for entry in read_registry(path)):
        other = entries.setdefault(entry.name, entry)
        if other is not entry:
            sources = f"{shown(other.source, 200)} and {shown(entry.source, 200)}"
            raise RegistryError(f"{entry.name} is registered twice, in {sources}", "Rename one of them")
    return Registry(tuple(entries.values()))


def user_files() -> list[Path]:
    """Those that are read: the named one, which has to be there, and the store's own, where there is one."""
    named, usual = os.environ.get(USER_VARIABLE), usual_file()
    files = [user_path(named, USER_VARIABLE, RegistryError)] if named else []
    is_same = bool(files) and files[0].exists() and usual.exists() and files[0].samefile(usual)
    return files if is_same or not usual.is_file() else [*files, usual]


def usual_file() -> Path:
    """Next to the user's runs."""
    return store_folder() / "models.toml"


def written_file() -> Path:
    """The one that `models add` writes."""
    named = os.environ.get(USER_VARIABLE)
    return user_path(named, USER_VARIABLE, RegistryError) if named else usual_file()


def entry_of_folder(folder: Path, tokenizer: str | None = None) -> ModelEntry:
    """An entry for an unregistered checkpoint. It may write any number of up to four decimals."""
    name = _NAME.search(folder.name)
    alias = name.group() if name else "checkpoint"
    return ModelEntry(alias, "path", tokenizer or OWN_TOKENIZER, SHORTEST4, source=folder, folder=folder)


def read_registry(path: Path) -> list[ModelEntry]:
    try:
        return read_toml(path, "model registry", partial(_entries, path))
    except FileError as error:
        raise RegistryError(error.what, f"Correct it, or {USER_VARIABLE}") from error


def _entries(path: Path, document: Mapping[str, Any]) -> list[ModelEntry]:
    tables = document.get("model", [])
    if set(document) - {"model"} or not all(isinstance(table, dict) for table in tables):
        raise ValueError(f"it holds {', '.join(map(shown, document))}, and not [[model]] tables only")
    return [_entry(path, number, table) for number, table in enumerate(tables, start=1)]


def entry_of_table(path: Path, table: Mapping[str, Any]) -> ModelEntry:
    """The entry that a table of this file would be."""
    try:
        entry = _entry(path, 0, table)
        if entry.problem:
            raise ValueError(entry.problem)
    except (ValueError, TypeError) as error:
        reason = str(error).removeprefix("model 0: ")
        raise RegistryError(f"the checkpoint cannot be registered: {reason}", "Correct it") from error
    return entry


def _entry(path: Path, number: int, table: Mapping[str, Any]) -> ModelEntry:
    def need(is_right: bool, problem: str) -> None:
        if not is_right:
            raise ValueError(f"model {number}: {problem}")

    fields = {key: value for key, value in table.items() if value != ""}
    for key, value in fields.items():
        need(key in _TYPES, f"the key {shown(key)} is unknown, known are {', '.join(_TYPES)}")
        need(type(value) is _TYPES[key], f"`{key}` is {shown(value)}, which is of the wrong type")
        choices = _CHOICES.get(key, [value])
        need(value in choices, f"`{key}` is {shown(value)}, not one of {', '.join(map(str, choices))}")
    for key in ("alias", "step", "tokenizer"):
        need(key in fields, f"`{key}` is missing")
    for key in ("alias", "step"):
        name = fields[key]
        need(bool(_NAME.fullmatch(name)), f"`{key}` is {shown(name)}, not at most 64 letters, digits, `.`, `_` and `-`")
    need(("folder" in fields) != ("shipped" in fields), "give one of `folder` and, for an embedded model, `shipped`")
    tags = _tags(fields, need)
    numbers, problem = _numbers(path, fields, need)
    for key in ("folder", "shipped", "card", "tokenizer"):
        if text := fields.get(key):
            target = _place(path, key, text)
            if key != "tokenizer":
                fields[key] = target
            elif "/" in text or target.exists():  # else it is one by its name
                fields[key] = str(target)
    return ModelEntry(numbers=numbers, tags=tags, source=path, problem=problem, **fields)


def _place(path: Path, key: str, text: str) -> Path:
    """A file that a registry names: relative ones begin at its folder."""
    return path.parent / user_path(text, f"{shown(path, 200)}, `{key}`", RegistryError)


def _numbers(path: Path, fields: dict[str, Any], need: Callable[[bool, str], None]) -> tuple[NumberFormat, str]:
    """The second: why its bins cannot be read."""
    if "bins" in fields:
        need(not {"decimals", "integer_digits"} & set(fields), "it has both `bins` and decimals: give one of them")
        try:
            return bins_of(fields.pop("bins"), path.parent), ""
        except FileError as error:
            return SHORTEST4, f"`bins`: {error.what}"
    decimals, digits = fields.pop("decimals", [4, 4]), fields.pop("integer_digits", 3)
    is_pair = len(decimals) == 2 and all(type(count) is int for count in decimals)
    need(is_pair, f"`decimals` is {shown(decimals)}, not the least and the most, such as [1, 4]")
    return NumberFormat(decimals[0], decimals[1], digits), ""


def bin_words(text: str) -> list[str]:
    """What was given as one text, as words of ``--bins``: a path, or `WIDTH RANGE`."""
    return text.split() if _PAIR.fullmatch(text) else [text]


def bins_of(text: str, folder: Path = Path()) -> Alphabet:
    """Those of a file, seen from the folder, or `WIDTH RANGE` of the older form."""
    words = bin_words(text)
    try:
        return given_bins(*words) if len(words) > 1 else read_bin_file(folder / user_path(text, "the bins"))
    except ValueError as error:
        fix = "Give a JSON file, or WIDTH RANGE such as 0.042 21"
        raise FileError(f"{shown(text)} are no bins: {error}", fix) from error


def _tags(fields: dict[str, Any], need: Callable[[bool, str], None]) -> tuple[str, ...]:
    tags = fields.pop("tags", [])
    are_tokens = all(isinstance(tag, str) and tag for tag in tags) and len(set(map(str, tags))) == len(tags)
    need(are_tokens and len(tags) in (0, len(TAGS)), f"`tags` is {shown(tags)}, not what stands for {', '.join(TAGS)}")
    return tuple(tags)
