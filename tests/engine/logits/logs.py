"""Logs made for tests: clean values as an engine computes them, and each kind of damage put into them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.logits.ingest import LogNames, add_file
from engine.store.entries import Entry
from engine.store.store import Store

Rows = NDArray[np.float64]


def clean(tokens: int = 40, width: int = 12, seed: int = 0) -> Rows:
    """[tokens, width] as single precision has them: around 2, with a few tokens that the model is certain of."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(2, 3, (tokens, width))
    rows[np.arange(tokens), rng.integers(0, width, tokens)] += 18
    return rows.astype(np.float32).astype(np.float64)


def singles(*bits: int) -> Rows:
    """Numbers of single precision with these bits."""
    return np.array(bits, dtype=np.uint32).view(np.float32).astype(np.float64)


def objects(rows: Rows, **said: Any) -> list[dict[str, Any]]:
    """A log's lines; ``said`` replaces what they usually say."""
    usual = {"checkpoint": "logits", "team": "llama.cpp", "dtype": "f32", "shape": f"[{rows.shape[1]}]"}
    return [{**usual, "token_idx": token, "values": row, **said} for token, row in enumerate(rows.tolist())]


def text(lines: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def write(path: Path, content: bytes | Iterable[Mapping[str, Any]]) -> Path:
    """Compressed where the name says so."""
    content = content if isinstance(content, bytes) else text(content)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def new_log(store: Store, path: Path, names: LogNames | None = None) -> Entry:
    (entry,) = add_file(store, path, names)
    return entry
