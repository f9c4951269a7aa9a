"""The shipped form: it packs, it expands to the same folder everywhere, and damage is named."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from engine.errors import FileError
from engine.models.loading import summarise
from engine.models.registry import EMBEDDED, ModelEntry, read_registry
from engine.models.shipped import ROWS, VOCAB_ROWS, Shipped, expand, tail_rows, unpack
from engine.text.tokenizer_build import NAMES, RECIPES
from tests.small_models import small_shipped
from tests.support import ROOT
from tools.training.shapes import pack


def written(folder: Path, content: bytes) -> tuple[Path, str]:
    path = folder / "model.safetensors"
    path.write_bytes(content)
    return path, hashlib.sha256(content).hexdigest()


def expanded(folder: Path, shipped: Shipped) -> Path:
    folder.mkdir()
    expand(shipped, folder)
    return folder


def test_what_is_packed_comes_back(tmp_path: Path) -> None:
    shipped = small_shipped()
    again = unpack(*written(tmp_path, pack(shipped)))
    assert (again.shape, again.tokenizer, again.sigma, again.seed) == (shipped.shape, "qwen3", 0.02, "small 0")
    assert again.about == {"alias": "small", "tokens": 0}
    for name in ("live_ids", "live_rows", "tail_row"):
        np.testing.assert_array_equal(getattr(again, name), getattr(shipped, name))
    assert again.body.keys() == shipped.body.keys()
    assert all(np.array_equal(again.body[name], value) for name, value in shipped.body.items())


@pytest.mark.parametrize("name", NAMES)
def test_the_expanded_rows_are_live_rows_and_the_tail(tmp_path: Path, name: str) -> None:
    shipped = small_shipped(name)
    rows = load_file(expanded(tmp_path / "a", shipped) / "model.safetensors")[ROWS]
    assert rows.shape == (VOCAB_ROWS[name], 32)
    assert rows.dtype == np.float16
    np.testing.assert_array_equal(rows[shipped.live_ids], shipped.live_rows)
    size = RECIPES[name].size
    assert (rows[size:] == shipped.tail_row.astype(np.float16)).all()  # padded rows: masked, and no part of the tail
    tail = np.delete(rows[:size].astype(np.float32), shipped.live_ids, axis=0)
    assert tail.std(axis=0) == pytest.approx(np.full(32, 0.02), rel=0.02)
    np.testing.assert_allclose(tail.mean(axis=0), shipped.tail_row, atol=1e-3)


def test_generate_masks_the_rows_that_no_token_has(tmp_path: Path) -> None:
    qwen, llama = (expanded(tmp_path / name, small_shipped(name)) for name in NAMES)
    assert json.loads((qwen / "generation_config.json").read_text())["suppress_tokens"] == [*range(151_673, 151_936)]
    assert "suppress_tokens" not in json.loads((llama / "generation_config.json").read_text())


def test_tail_rows_are_what_they_were_when_the_first_model_was_shipped() -> None:
    rows = tail_rows(np.zeros(8, dtype=np.float32), 0.02, "demo-qwen 0", 100)
    assert hashlib.sha256(rows.tobytes()).hexdigest() == (
        "6d0fa00ff67c889d85a83eadcb28bafe835c7e367408946e50654ebbd033ef6c"
    )
    longer = tail_rows(np.zeros(8, dtype=np.float32), 0.02, "demo-qwen 0", 40_000)  # over more than one part
    np.testing.assert_array_equal(longer[:100], rows)


def test_a_wrong_checksum_names_both_and_other_content_is_no_shipped_model(tmp_path: Path) -> None:
    path, sha256 = written(tmp_path, pack(small_shipped()))
    with pytest.raises(FileError, match=rf"SHA-256 {sha256}, the registry says {'0' * 64}\. Restore"):
        unpack(path, "0" * 64)
    path.unlink()
    with pytest.raises(FileError, match=r"has 0 bytes with SHA-256"):
        unpack(path, sha256)
    numbers = {"a": np.zeros(3, dtype=np.float16)}
    for content in (b"", b"none at all", save(numbers, metadata={"format": "pt"}), pack(small_shipped())[:-100]):
        with pytest.raises(FileError, match=r"is not a shipped model \("):
            unpack(*written(tmp_path, content))


# --- the models that ship -------------------------------------------------------------------------------------------
ENTRIES = read_registry(EMBEDDED)
MOST_WEIGHTS = 22 * 2**20
MOST_TREE = 36 * 2**20

each = pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])


@each
def test_its_files_belong_together(entry: ModelEntry) -> None:
    assert entry.shipped is not None
    assert entry.card is not None
    facts = summarise(entry)
    assert facts["problem"] == ""
    about = unpack(entry.shipped, entry.sha256).about
    assert about["alias"] == entry.alias
    document = json.loads(entry.card.with_suffix(".json").read_text(encoding="utf-8"))
    assert document["facts"]["tokens"] == about["tokens"]
    assert document["quality"]["parameters"] == facts["parameters"]
    text = entry.card.read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert pictures and all((entry.card.parent / picture).is_file() for picture in pictures)


def test_the_weights_and_the_tree_are_small_enough() -> None:
    assert sum(entry.shipped.stat().st_size for entry in ENTRIES if entry.shipped) <= MOST_WEIGHTS
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    files = [ROOT / name.decode() for name in listed if name]
    assert sum(path.stat().st_size for path in files if path.is_file()) <= MOST_TREE
