"""What tests of the live page share: a registry with a small model, quick and without sense."""

from __future__ import annotations

from pathlib import Path

from tests.small_models import small_folder, write_registry

MODEL = "small:random"


def small_registry(folder: Path) -> Path:
    """Qwen's tokenizer, and random weights: under no LP it writes anything that a vocabulary holds."""
    (folder / "small").mkdir()
    small_folder(folder / "small")
    lines = 'alias = "small"\nstep = "random"\nfolder = "small"\ntokenizer = "qwen3"\ndecimals = [1, 4]'
    return write_registry(folder, lines)
