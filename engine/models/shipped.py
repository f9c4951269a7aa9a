"""The form in which an embedded model is shipped: its body, its live rows, one row for the tail, and a seed.

Some 5 MB instead of 80: the other 130,000 rows of the vocabulary are the tail row and noise that the seed fixes (see
``tail`` for why that is what a full training ends with). ``expand`` writes the ordinary Hugging Face folder: all rows,
config, generation config and tokenizer. The same file gives the same folder, byte by byte, on every machine.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from engine.errors import FileFormatError, shown
from engine.models.headers import WEIGHTS
from engine.models.layout import LIVE_IDS, ROWS, SHAPE, TAIL_ROW, VOCAB_ROWS
from engine.models.shapes import ModelShape
from engine.models.tail import tail_rows
from engine.text.tokenizer_build import RECIPES, built_in, folder_of
from engine.user_files import open_regular, parsed_json, read_regular

Weights = dict[str, NDArray[Any]]

FORMAT = "driftscope shipped model 1"
MANIFEST = "driftscope.json"
"""Beside the weights of an expanded folder: their checksum."""
SAMPLING: dict[str, Any] = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
"""What plain ``generate`` does with an embedded model unless it is told otherwise: the preset ``qwen3``."""
_WHOLE = "Restore the file from the repository, or correct its checksum in the model registry"


@dataclass(frozen=True, slots=True, eq=False)
class Shipped:
    """A model before it is expanded. ``body`` has the names of ``transformers``; ``about`` tells of its training."""

    shape: ModelShape
    tokenizer: str  # a built-in one
    live_ids: NDArray[np.int32]  # [n], sorted
    live_rows: NDArray[np.float16]  # [n, W]
    tail_row: NDArray[np.float32]  # [W]
    sigma: float
    seed: str
    body: Weights
    about: Mapping[str, Any]

    def __post_init__(self) -> None:
        size, width = RECIPES[self.tokenizer].size, self.shape.width
        if self.live_rows.shape != (len(self.live_ids), width) or self.tail_row.shape != (width,):
            raise ValueError(f"{self.live_rows.shape} live rows for {len(self.live_ids)} ids of width {width}")
        is_sorted = self.live_ids.dtype == np.int32 and (np.diff(self.live_ids) > 0).all()
        if len(self.live_ids) == 0 or not is_sorted or not 0 <= self.live_ids[0] < size:
            raise ValueError("the live ids are not sorted ids of the tokenizer")
        if self.live_ids[-1] >= size:
            raise ValueError(f"live id {self.live_ids[-1]:,} is outside the tokenizer's {size:,}")

    def rows(self) -> NDArray[np.float16]:
        """All rows of the embedding. Those beyond the tokenizer's size are no part of the tail: masked everywhere."""
        size, total = RECIPES[self.tokenizer].size, VOCAB_ROWS[self.tokenizer]
        rows = np.empty((total, self.shape.width), dtype=np.float16)
        rows[size:] = self.tail_row
        is_tail = np.ones(size, dtype=bool)
        is_tail[self.live_ids] = False
        rows[:size][is_tail] = tail_rows(self.tail_row, self.sigma, self.seed, int(is_tail.sum()))
        rows[self.live_ids] = self.live_rows
        return rows


def pack(shipped: Shipped) -> bytes:
    about = {
        "format": FORMAT,
        SHAPE: json.dumps(shipped.shape.as_json()),
        "tokenizer": shipped.tokenizer,
        "sigma": repr(shipped.sigma),
        "seed": shipped.seed,
        "about": json.dumps(dict(shipped.about)),
    }
    tensors: Weights = {LIVE_IDS: shipped.live_ids, ROWS: shipped.live_rows, TAIL_ROW: shipped.tail_row}
    return bytes(save({**shipped.body, **tensors}, metadata=about))


def unpack(path: Path, sha256: str) -> Shipped:
    """The shipped file, once its checksum has been found right."""
    content = read_verified(path, sha256)
    try:
        return _unpacked(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{shown(path, 200)} is not a shipped model ({error})", _WHOLE) from error


def read_verified(path: Path, sha256: str) -> bytes:
    """The content of a file with this checksum."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise FileFormatError(
            f"the shipped model {shown(path, 200)} cannot be read ({error.strerror})", _WHOLE
        ) from error
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != sha256:
        raise FileFormatError(
            f"the shipped model {shown(path, 200)} has {len(content):,} bytes with SHA-256 {checksum}, "
            f"the registry says {sha256}",
            _WHOLE,
        )
    return content


def expand(shipped: Shipped, folder: Path) -> None:
    """Write the Hugging Face folder into an empty one. What the disk refuses is an ``OSError``."""
    content = save({**shipped.body, ROWS: shipped.rows()}, metadata={"format": "pt"})
    (folder / WEIGHTS).write_bytes(content)
    name = shipped.tokenizer
    built_in(name)  # builds its folder where that is missing
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(folder_of(name) / file, folder / file)
    _write_json(folder / "config.json", _config(shipped))
    end, padding = end_token(name), list(range(RECIPES[name].size, VOCAB_ROWS[name]))
    masked = {"suppress_tokens": padding} if padding else {}
    _write_json(folder / "generation_config.json", {**SAMPLING, "eos_token_id": end, "pad_token_id": end, **masked})
    _write_json(folder / MANIFEST, {"sha256": hashlib.sha256(content).hexdigest()})


def is_whole(folder: Path) -> bool:
    """Whether an expanded folder still holds the weights that were written."""
    try:
        manifest = parsed_json(read_regular(folder / MANIFEST))
        with open_regular(folder / WEIGHTS) as file:
            return bool(hashlib.file_digest(file, "sha256").hexdigest() == manifest["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def end_token(tokenizer: str) -> int:
    return _special_token(tokenizer, RECIPES[tokenizer].end)


def _special_token(tokenizer: str, text: str) -> int:
    return RECIPES[tokenizer].base_size + RECIPES[tokenizer].special.index(text)


def _unpacked(content: bytes) -> Shipped:
    header = parsed_json(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    if header["format"] != FORMAT:
        raise ValueError(f"its format is {shown(header['format'])}, this version reads {FORMAT}")
    tensors = load(content)
    return Shipped(
        shape=ModelShape(**parsed_json(header[SHAPE])),
        tokenizer=header["tokenizer"],
        live_ids=tensors.pop(LIVE_IDS),
        live_rows=tensors.pop(ROWS),
        tail_row=tensors.pop(TAIL_ROW),
        sigma=float(header["sigma"]),
        seed=header["seed"],
        body=tensors,
        about=parsed_json(header["about"]),
    )


def _config(shipped: Shipped) -> dict[str, Any]:
    name = shipped.tokenizer
    begin = _special_token(name, "<|begin_of_text|>") if name == "llama3" else None
    document: dict[str, Any] = shipped.shape.config(VOCAB_ROWS[name], end=end_token(name), begin=begin).to_dict()
    # Half precision is how the file is small; a CPU computes in single precision.
    document["dtype"] = "float32"
    document["architectures"] = ["Qwen3ForCausalLM" if shipped.shape.family == "qwen3" else "LlamaForCausalLM"]
    return document


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(dict(document), indent=1, sort_keys=True) + "\n", encoding="utf-8")
