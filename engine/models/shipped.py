"""The form in which an embedded model is shipped: its body, its live rows, one row for the tail, and a seed.

Some 5 MB instead of 80. Of 151,673 (Qwen) or 128,330 (LLaMA) token ids the training texts hold some 180 or 1,300. Every
other row of the vocabulary, the tail, would begin a full training as N(0, sigma²) noise and end it as one common row
plus its own first noise, since the softmax pushes all of them alike. So the common row, sigma and a seed are shipped,
and junk such as `amen` is as possible as in a fully trained model. ``tools/training/network.py`` trains it so.

The noise is made of bits and nothing else: SHAKE-128 of the seed, sixteen bits a number, (ones - 8) · sigma / 2, a
binomial of standard deviation sigma. No random generator and no floating-point function is in it: the same file gives
the same Hugging Face folder, byte by byte, on every machine.
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

from engine.errors import FileError, shown
from engine.text.tokenizer_build import built_in, folder_of
from engine.text.tokenizers import load_tokenizer

Weights = dict[str, NDArray[Any]]

WEIGHTS, ROWS, HEAD = "model.safetensors", "model.embed_tokens.weight", "lm_head.weight"
"""The file, the embedding and the output head, as ``transformers`` names them."""
LIVE_IDS, TAIL_ROW = "live.ids", "tail.row"
VOCAB_ROWS = {"qwen3": 151_936, "qwen3-bins": 151_936, "qwen3-codes": 151_936, "llama3": 128_330}
"""Rows of the embedding by tokenizer: Qwen's models pad theirs."""
SAMPLING: dict[str, Any] = {"do_sample": True, "temperature": 0.7, "top_p": 0.8, "top_k": 20}
"""What plain ``generate`` does with an embedded model unless it is set otherwise: the preset ``qwen3``."""


@dataclass(frozen=True, slots=True, eq=False)
class Shipped:
    """A model before it is expanded. ``body`` has the names of ``transformers``; ``about`` tells of its training."""

    shape: Mapping[str, Any]  # of the body, as `tools.training.shapes` has it
    tokenizer: str  # a built-in one
    live_ids: NDArray[np.int32]  # [n], sorted
    live_rows: NDArray[np.float16]  # [n, W]
    tail_row: NDArray[np.float32]  # [W]
    sigma: float
    seed: str
    body: Weights
    about: Mapping[str, Any]

    def rows(self) -> NDArray[np.float16]:
        """All rows of the embedding. Those beyond the tokenizer's size are no part of the tail: masked everywhere."""
        tail = np.delete(np.arange(load_tokenizer(self.tokenizer).vocab_size), self.live_ids)
        rows = np.empty((VOCAB_ROWS[self.tokenizer], len(self.tail_row)), dtype=np.float16)
        rows[:] = self.tail_row
        rows[tail] = tail_rows(self.tail_row, self.sigma, self.seed, len(tail))
        rows[self.live_ids] = self.live_rows
        return rows


def tail_rows(row: NDArray[np.float32], sigma: float, seed: str, count: int) -> NDArray[np.float32]:
    """The tail's rows, [count, W]: the common row and each one's own noise."""
    bits = np.frombuffer(hashlib.shake_128(seed.encode()).digest(2 * count * len(row)), dtype="<u2")
    rows: NDArray[np.float32] = np.bitwise_count(bits).reshape(count, len(row)).astype(np.float32)
    rows -= 8
    rows *= np.float32(sigma / 2)
    rows += row
    return rows


def unpack(path: Path, sha256: str) -> Shipped:
    """The shipped file, once its checksum has been found right."""
    content = path.read_bytes() if path.is_file() else b""
    checksum = hashlib.sha256(content).hexdigest()
    if checksum != sha256:
        problem = f"the shipped model {shown(path, 200)} has {len(content):,} bytes with SHA-256 {checksum}"
        fix = "Restore the file from the repository, or correct its checksum in the model registry"
        raise FileError(f"{problem}, the registry says {sha256 or 'none'}", fix)
    try:
        tensors = load(content)
        about = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
        return Shipped(
            shape=json.loads(about["shape"]),
            tokenizer=about["tokenizer"],
            live_ids=tensors.pop(LIVE_IDS),
            live_rows=tensors.pop(ROWS),
            tail_row=tensors.pop(TAIL_ROW),
            sigma=float(about["sigma"]),
            seed=about["seed"],
            body=tensors,
            about=json.loads(about["about"]),
        )
    except (SafetensorError, ValueError, KeyError) as error:
        problem = f"{shown(path, 200)} is not a shipped model ({type(error).__name__}: {error})"
        raise FileError(problem, "Register your own checkpoint as `folder`") from error


def expand(shipped: Shipped, folder: Path) -> None:
    """Write the Hugging Face folder into an empty one. What the disk refuses is an ``OSError``."""
    (folder / WEIGHTS).write_bytes(save({**shipped.body, ROWS: shipped.rows()}, metadata={"format": "pt"}))
    built_in(shipped.tokenizer)  # builds its folder where that is missing
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(folder_of(shipped.tokenizer) / file, folder / file)
    tokenizer, rows = load_tokenizer(shipped.tokenizer), VOCAB_ROWS[shipped.tokenizer]
    size = tokenizer.vocab_size
    end = tokenizer.end_id
    begin = tokenizer.id_of("<|begin_of_text|>")
    # Half precision is how the file is small; a CPU computes in single precision.
    config = config_of(shipped.shape, rows, end, begin) | {"dtype": "float32"}
    masked = {"suppress_tokens": list(range(size, rows))} if size < rows else {}
    generation = {**SAMPLING, "eos_token_id": end, "pad_token_id": end, **masked}
    for file, document in (("config.json", config), ("generation_config.json", generation)):
        (folder / file).write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def config_of(shape: Mapping[str, Any], vocab_size: int, end: int | None, begin: int | None = None) -> dict[str, Any]:
    """A config.json. ``end`` closes an answer, and fills rows that have ended."""
    return {
        "model_type": shape["family"],
        "architectures": ["Qwen3ForCausalLM" if shape["family"] == "qwen3" else "LlamaForCausalLM"],
        "vocab_size": vocab_size,
        "hidden_size": shape["width"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["width"] // shape["heads"],
        "intermediate_size": shape["inner"],
        "max_position_embeddings": shape["positions"],
        "rope_parameters": {"rope_type": "default", "rope_theta": shape["rope_theta"]},
        "tie_word_embeddings": True,
        "rms_norm_eps": 1e-6,
        "bos_token_id": begin,
        "eos_token_id": end,
        "pad_token_id": end,
    }
