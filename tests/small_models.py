"""Models that are made on the spot: shipped files and Hugging Face folders with random weights, small but whole."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from engine.models.registry import USER_VARIABLE
from engine.models.shipped import ROWS, VOCAB_ROWS, Shipped
from engine.text.tokenizers import load_tokenizer
from tools.training.shapes import ModelShape, pack

SMALL = {
    **dict.fromkeys(("qwen3", "qwen3-bins"), ModelShape("qwen3", 32, 1, 2, 1, 48)),
    "llama3": ModelShape("llama", 32, 1, 2, 1, 48),
}
LIVE = {"qwen3": [17, 24, 25, 151_643, 151_669, 151_671], "llama3": [17, 24, 25, 128_001, 128_256, 128_257]}


def small_shipped(tokenizer: str = "qwen3", seed: int = 0) -> Shipped:
    """A body of ``transformers`` with fresh weights, in the shipped form."""
    import torch

    shape = SMALL[tokenizer]
    torch.manual_seed(seed)
    live = np.array(LIVE[tokenizer], dtype=np.int32)
    model = shape.model(shape.config(len(live), end=0))
    body = {name: value.numpy().astype(np.float16) for name, value in model.state_dict().items()}
    body.pop("lm_head.weight")
    rows = body.pop(ROWS)
    tail = np.random.default_rng(seed).normal(0, 0.1, shape.width).astype(np.float32)
    about = {"alias": "small", "tokens": 0}
    return Shipped(asdict(shape), tokenizer, live, rows, tail, 0.02, f"small {seed}", body, about)


def write_registry(folder: Path, *models: str) -> Path:
    """A registry file of [[model]] tables, each given as its lines."""
    path = folder / "models.toml"
    path.write_text("\n".join(f"[[model]]\n{model}\n" for model in models), encoding="utf-8")
    return path


def registered(folder: Path, shipped: Shipped, alias: str = "small", step: str = "final", extra: str = "") -> Path:
    """A registry file with this model alone, and the shipped file beside it."""
    content = pack(shipped)
    (folder / f"{alias}.safetensors").write_bytes(content)
    return write_registry(folder, shipped_lines(alias, step, content, shipped.tokenizer) + extra)


def shipped_lines(alias: str, step: str, content: bytes, tokenizer: str) -> str:
    return (
        f'alias = "{alias}"\nstep = "{step}"\nshipped = "{alias}.safetensors"\n'
        f'sha256 = "{hashlib.sha256(content).hexdigest()}"\ntokenizer = "{tokenizer}"\ndecimals = [1, 4]\n'
    )


def small_folder(folder: Path, tokenizer: str = "qwen3", *, rows: int | None = None, end: int | None = None) -> Path:
    """An ordinary Hugging Face folder with random weights, as ``save_pretrained`` writes it."""
    made = _folder(
        tokenizer, rows or VOCAB_ROWS[tokenizer], load_tokenizer(tokenizer).end_id or 0 if end is None else end
    )
    return Path(shutil.copytree(made, folder, dirs_exist_ok=True))


def use_small_model(patch: pytest.MonkeyPatch) -> None:
    """The command line knows a model ``small`` of random weights; its cache is that of all such tests."""
    patch.setenv(USER_VARIABLE, str(_registry()))
    patch.setenv("DRIFTSCOPE_CACHE", str(_registry().parent / "cache"))


@cache
def _folder(tokenizer: str, rows: int, end: int) -> Path:
    """Made once a test run: drawing the weights takes longer than copying them."""
    import torch

    shape, folder = SMALL[tokenizer], temporary_folder()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape.model(shape.config(rows, end=end)).save_pretrained(folder)
    return folder


def temporary_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="driftscope-small-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _registry() -> Path:
    """Made, and its model expanded, once a test run."""
    folder = temporary_folder()
    (folder / "cache").mkdir()
    (folder / "cache" / "tokenizers").symlink_to(Path.home() / ".cache" / "driftscope" / "tokenizers")
    return registered(folder, small_shipped())
