"""The tokenizer of a registered checkpoint: its own folder's or another one, which ends texts as the checkpoint does,
with the field's tags in place of those that the registry names for them.

A tokenizer with ``<smi>`` where the field has ``[SMILES]`` is written once more, into the cache, with the tags' names
changed and nothing else: the ids stay, and all that reads or writes texts sees the field's tags.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.errors import FileError, TokenizerError, shown
from engine.models.registry import OWN_TOKENIZER, TAGS, ModelEntry
from engine.paths import cache_folder
from engine.text.tokenizer_build import (
    MOST_FILE_BYTES,
    RECIPES,
    TOKENIZER_CONFIG,
    built_in,
    end_ids_of_folder,
    folder_of,
)
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from engine.user_files import open_file, parsed_json, publish


def tokenizer_of(entry: ModelEntry) -> TextTokenizer:
    tokenizer = load_tokenizer(tokenizer_place(entry), tokenizer_name(entry))
    ends = () if entry.folder is None else end_ids_of_folder(entry.folder)
    if not ends or {*ends} == {*tokenizer.end_ids}:
        return tokenizer
    return load_tokenizer(tokenizer_place(entry), tokenizer_name(entry), ends)


def tokenizer_name(entry: ModelEntry) -> str:
    """What runs call it: a built-in one's name, the model's where it is its own, else its folder's. No path, which a
    run that is shared would tell of this machine."""
    if entry.tokenizer in RECIPES:
        return entry.tokenizer
    path = Path(entry.tokenizer)
    name = path.parent.name if path.suffix == ".json" else path.name
    if entry.tokenizer == OWN_TOKENIZER:
        name = entry.alias
    return f"{name} ({OWN_TOKENIZER})" if name in RECIPES else name


def tokenizer_place(entry: ModelEntry) -> str:
    """What ``load_tokenizer`` takes."""
    place = str(entry.folder) if entry.tokenizer == OWN_TOKENIZER and entry.folder else entry.tokenizer
    return tagged_tokenizer(place, entry.tags) if entry.tags else place


def tagged_tokenizer(place: str, tags: Sequence[str]) -> str:
    """A folder in the cache; ``tags`` are what stands for each of ``TAGS``."""
    if place in RECIPES:
        built_in(place)
        source = folder_of(place)
    else:
        source = Path(place)
    file = source / "tokenizer.json" if source.is_dir() else source
    if not file.is_file():
        raise TokenizerError(f"{shown(source, 200)} has no tokenizer.json, in which tags can be renamed", "Convert it")
    with open_file(file) as opened:
        content = opened.read(MOST_FILE_BYTES + 1)
    config = file.with_name(TOKENIZER_CONFIG)
    ends = config.read_bytes() if config.is_file() else b""
    key = hashlib.sha256(content + ends + json.dumps(list(tags)).encode()).hexdigest()[:16]
    folder = cache_folder() / "tokenizers" / f"tagged-{key}"
    if folder.is_dir():
        return str(folder)
    try:
        document = _renamed(parsed_json(content), dict(zip(tags, TAGS, strict=True)), str(place))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise FileError(f"{shown(file, 200)} is no tokenizer ({error})", "Give a Hugging Face folder") from error

    def fill(aside: Path) -> None:
        (aside / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
        if ends:
            (aside / config.name).write_bytes(ends)

    return str(publish(folder, fill, "the tokenizer cache"))


def _renamed(document: Any, names: dict[str, str], place: str) -> Any:
    added = {token["content"]: token for token in document["added_tokens"]}
    for old, tag in names.items():
        if old not in added:
            problem = f"the tokenizer {shown(place, 200)} has no added token {shown(old)}, which is to stand for {tag}"
            raise TokenizerError(problem, "Name one of its added tokens for each of the four tags")
        if tag in added and tag != old:
            problem = f"the tokenizer {shown(place, 200)} has both {tag} and {shown(old)}, which is to stand for it"
            raise TokenizerError(problem, "Leave `tags` out")
        added[old]["content"] = tag
    vocabulary = document["model"].get("vocab")
    if isinstance(vocabulary, dict):
        document["model"]["vocab"] = {names.get(token, token): id_ for token, id_ in vocabulary.items()}
    elif isinstance(vocabulary, list):
        document["model"]["vocab"] = [[names.get(token, token), score] for token, score in vocabulary]
    return document
