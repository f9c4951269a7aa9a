"""The model registry: which checkpoint an alias and a step stand for, and how that model reads and writes.

``data/models.toml`` names the embedded models; a user's own file, named by ``DRIFTSCOPE_MODELS``, adds to them:

    [[model]]
    alias = "m380_conf_v2"
    step = "2e"
    folder = "/data/checkpoints/m380/2e"   # Hugging Face, weights as safetensors; relative to this file
    tokenizer = "llama3"                   # qwen3, llama3, a path, or "own": the checkpoint's
    decimals = [0, 4]                      # least and most that it writes; [4, 4] without it
    integer_digits = 3
    descriptors = "with-hydrogens"         # it was trained on [OH], [NH2]; plain, [O] and [N], without it
    bos = true                             # whether prompts begin with BOS; without it, as its tokenizer.json adds one
    dtype = "bfloat16"                     # computed in; float32 without it
    notes = "two epochs, drug-like molecules"

A file is read strictly: what is unknown or of the wrong type is named. Whether a checkpoint exists and fits is for
``loading``; this module imports neither torch nor transformers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

from engine.errors import FileFormatError, RegistryError, nearest, shown
from engine.models.layout import VOCAB_ROWS
from engine.paths import DATA, read_toml, user_path
from engine.records import DESCRIPTORS, SHORTEST4, Descriptors, NumberFormat

EMBEDDED = DATA / "models.toml"
USER_VARIABLE = "DRIFTSCOPE_MODELS"
OWN_TOKENIZER = "own"

Dtype = Literal["float32", "bfloat16", "float16"]

_TEXTS = "alias step folder shipped sha256 tokenizer dtype notes card".split()
_TYPES: dict[str, type] = {
    **dict.fromkeys(_TEXTS, str), "decimals": list, "integer_digits": int, "descriptors": str, "bos": bool
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One checkpoint. Either ``folder`` is set, or ``shipped`` and its ``sha256``."""

    alias: str
    step: str
    tokenizer: str
    numbers: NumberFormat
    dtype: Dtype
    notes: str
    source: Path  # the registry file
    folder: Path | None = None
    shipped: Path | None = None
    sha256: str = ""
    card: Path | None = None
    descriptors: Descriptors = "plain"  # that its texts are written with
    bos: bool | None = None  # whether prompts begin with BOS; None: as its tokenizer does

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
        wanted = step or named or None
        if named and step and named != step:
            raise RegistryError(f"two steps are given: {shown(named)} and {shown(step)}", "Give one")
        of_alias = [entry for entry in self.entries if entry.alias == alias]
        if not of_alias:
            near = nearest(alias, (entry.alias for entry in self.entries))
            raise RegistryError(f"there is no model {shown(alias)}", f"{near} ({USER_VARIABLE} names a file with more)")
        matches = [entry for entry in of_alias if wanted in (None, entry.step)]
        if not matches:
            near = nearest(wanted or "", (entry.step for entry in of_alias))
            raise RegistryError(f"the model {alias} has no step {shown(wanted)}", near)
        return matches[-1]


def load_registry(files: Iterable[Path] | None = None) -> Registry:
    """The embedded models and the user's, or those of the files that are given."""
    chosen = list(registry_files() if files is None else files)
    entries = [entry for path in chosen for entry in read_registry(path)]
    seen: dict[tuple[str, str], ModelEntry] = {}
    for entry in entries:
        other = seen.setdefault((entry.alias, entry.step), entry)
        if other is not entry:
            places = " and ".join(dict.fromkeys(shown(path, 200) for path in (other.source, entry.source)))
            raise RegistryError(f"{entry.name} is registered twice, in {places}", "Rename one of them")
    return Registry(tuple(entries))


def entry_of_folder(folder: Path, tokenizer: str | None = None) -> ModelEntry:
    """An entry for an unregistered checkpoint. It may write any number of up to four decimals."""
    name = _NAME.search(folder.name)
    return ModelEntry(
        alias=name.group() if name else "checkpoint",
        step="path",
        tokenizer=tokenizer or OWN_TOKENIZER,
        numbers=SHORTEST4,
        dtype="float32",
        notes="",
        source=folder,
        folder=folder,
    )


def registry_files() -> list[Path]:
    chosen = os.environ.get(USER_VARIABLE)
    return [EMBEDDED, user_path(chosen, USER_VARIABLE, RegistryError)] if chosen else [EMBEDDED]


def read_registry(path: Path) -> list[ModelEntry]:
    try:
        return read_toml(path, "TOML file", partial(_entries, path))
    except FileFormatError as error:
        fix = f"Correct it, or {USER_VARIABLE}"
        if path == EMBEDDED:
            fix = "It ships with the project: restore it from the repository"
        raise RegistryError(f"the model registry {error.what}", fix) from error


def _entries(path: Path, document: Mapping[str, Any]) -> list[ModelEntry]:
    models = document.get("model", [])
    others = [key for key in document if key != "model"]
    if others or not isinstance(models, list) or not all(isinstance(model, dict) for model in models):
        unknown = ", ".join(map(shown, others)) or "'model'"
        raise RegistryError(f"the model registry {shown(path, 200)} holds {unknown}", "It holds [[model]] tables only")
    return [_EntryReader(path, number, model).entry() for number, model in enumerate(models, start=1)]


class _EntryReader:
    """One [[model]] table; every error names the file and the table."""

    def __init__(self, path: Path, number: int, table: dict[str, Any]) -> None:
        self._path = path
        self._table = table
        self._where = f"the model registry {shown(path, 200)}, model {number}"

    def entry(self) -> ModelEntry:
        self._check_keys()
        folder, shipped = self._place("folder"), self._place("shipped")
        if (folder is None) == (shipped is None):
            raise self._wrong(
                "folder", "is for a checkpoint's folder, `shipped` for an embedded model", "Give one of the two"
            )
        if shipped is not None and self._text("tokenizer") not in VOCAB_ROWS:
            raise self._wrong(
                "tokenizer", "of a shipped model is a built-in one", f"Use one of {', '.join(VOCAB_ROWS)}"
            )
        sha256 = self._text("sha256")
        if bool(shipped) != bool(_SHA256.fullmatch(sha256)):
            raise self._wrong("sha256", "belongs to `shipped`, and has 64 hexadecimal digits")
        return ModelEntry(
            alias=self._name("alias"),
            step=self._name("step"),
            tokenizer=self._tokenizer(),
            numbers=self._numbers(),
            dtype=self._dtype(),
            notes=self._text("notes"),
            source=self._path,
            folder=folder,
            shipped=shipped,
            sha256=sha256,
            card=self._place("card"),
            descriptors=self._descriptors(),
            bos=self._table.get("bos"),
        )

    def _check_keys(self) -> None:
        for key, value in self._table.items():
            if key not in _TYPES:
                raise RegistryError(f"{self._where}: the key {shown(key)} is unknown", f"Known are {', '.join(_TYPES)}")
            if not isinstance(value, _TYPES[key]) or isinstance(value, bool) != (_TYPES[key] is bool):
                raise self._wrong(key, f"is {shown(value)}, which is of the wrong type")
        missing = [key for key in ("alias", "step", "tokenizer") if not self._table.get(key)]
        if missing:
            raise self._wrong(missing[0], "is missing")

    def _name(self, key: str) -> str:
        text = self._text(key)
        if not _NAME.fullmatch(text):
            raise self._wrong(key, f"is {shown(text)}", "Use at most 64 letters, digits, points, `_` and `-`")
        return text

    def _tokenizer(self) -> str:
        """A built-in name, ``own``, or a path, which is relative to the registry file."""
        text = self._text("tokenizer")
        place = self._path_of(text)
        return str(place) if "/" in text or place.exists() else text

    def _numbers(self) -> NumberFormat:
        decimals = self._table.get("decimals", [4, 4])
        if len(decimals) != 2 or not all(type(count) is int for count in decimals):
            raise self._wrong("decimals", f"is {shown(decimals)}", "Give the least and the most, such as [1, 4]")
        try:
            return NumberFormat(decimals[0], decimals[1], self._table.get("integer_digits", 3))
        except ValueError as error:
            raise RegistryError(f"{self._where}: {error}", "Correct `decimals` or `integer_digits`") from error

    def _descriptors(self) -> Descriptors:
        text = self._text("descriptors") or "plain"
        if text not in DESCRIPTORS:
            raise self._wrong("descriptors", f"is {shown(text)}", f"Use one of {', '.join(DESCRIPTORS)}")
        return text

    def _dtype(self) -> Dtype:
        text = self._text("dtype") or "float32"
        if text not in get_args(Dtype):
            raise self._wrong("dtype", f"is {shown(text)}", f"Use one of {', '.join(get_args(Dtype))}")
        return cast("Dtype", text)

    def _place(self, key: str) -> Path | None:
        text = self._text(key)
        return self._path_of(text) if text else None

    def _path_of(self, text: str) -> Path:
        return self._path.parent / user_path(text, self._where, RegistryError)

    def _text(self, key: str) -> str:
        return str(self._table.get(key, ""))

    def _wrong(self, key: str, what: str, fix: str = "Correct it") -> RegistryError:
        return RegistryError(f"{self._where}: `{key}` {what}", fix)
