"""Loading: embedded models through the cache, anyone's folders as they lie, and one clear error for each misfit."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers import logging as transformers_logging

from engine.errors import AssetError, FileError, ModelError
from engine.models import devices, loading, shipped
from engine.models.devices import idle_cores, pick_device, usable_cores
from engine.models.loading import load_model, load_outline, model_folder, sized, summarise
from engine.models.registry import USER_VARIABLE, ModelEntry, load_registry
from engine.models.shipped import HEAD, ROWS, VOCAB_ROWS, WEIGHTS
from engine.text import tokenizer_build
from engine.text.tokenizer_build import NAMES
from tests.small_models import registered, small_folder, small_shipped, write_registry


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, but for the tokenizers, which are built already."""
    folder = tmp_path / "cache"
    folder.mkdir()
    (folder / "tokenizers").symlink_to(tokenizer_build.folder_of("qwen3").parent, target_is_directory=True)
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(folder))
    return folder


@pytest.fixture
def embedded(tmp_path: Path) -> ModelEntry:
    return load_registry([registered(tmp_path, small_shipped())]).find("small")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return small_folder(tmp_path / "mine")


def entry_of(folder: Path, tokenizer: str = "qwen3", **more: object) -> ModelEntry:
    lines = f'alias = "mine"\nstep = "1"\nfolder = "{folder.name}"\ntokenizer = "{tokenizer}"\n'
    entry = load_registry([write_registry(folder.parent, lines)]).find("mine")
    return replace(entry, **more)  # type: ignore[arg-type]


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# --- embedded models --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_an_embedded_model_loads_as_plain_transformers_loads_it(tmp_path: Path, name: str) -> None:
    entry = load_registry([registered(tmp_path, small_shipped(name))]).find("small")
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    assert not summarise(entry)["expanded"]
    loaded, folder = load_model(entry, "cpu"), str(model_folder(entry))
    assert (loaded.family, loaded.vocab_rows) == ({"qwen3": "Qwen", "llama3": "LLaMA"}[name], VOCAB_ROWS[name])
    assert (loaded.dtype, loaded.device, loaded.model.training) == (torch.float32, torch.device("cpu"), False)
    facts = summarise(entry)
    assert (facts["family"], facts["vocab_size"], facts["problem"]) == (loaded.family, VOCAB_ROWS[name], "")
    assert facts["parameters"] == loaded.parameters == sum(weight.numel() for weight in loaded.model.parameters())
    assert facts["expanded"] and facts["fits"][0] == "cpu"
    plain, ours = AutoModelForCausalLM.from_pretrained(folder).state_dict(), loaded.model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in plain.items())
    ids = AutoTokenizer.from_pretrained(folder)("[SMILES]CC=O[/SMILES]", add_special_tokens=False)["input_ids"]
    assert ids == loaded.tokenizer.encode("[SMILES]CC=O[/SMILES]")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before


def test_a_model_is_expanded_once_and_damage_to_it_is_named(
    embedded: ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = model_folder(embedded)
    monkeypatch.setattr(shipped, "expand", None)
    assert model_folder(embedded) == folder
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-1])
    with pytest.raises(FileError, match=rf"{folder}.* damaged .*delete its folder if it is in our cache"):
        load_model(embedded, "cpu")


def test_what_goes_wrong_leaves_nothing_half_written(
    embedded: ModelEntry, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        real(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(AssetError, match=r"the model cache '.*' cannot be written \(No space left on device\)"):
            load_model(embedded, "cpu")
    assert embedded.shipped is not None
    content = embedded.shipped.read_bytes()
    for damaged in (content[:-1], content[:-1] + b"x", b""):
        embedded.shipped.write_bytes(damaged)
        with pytest.raises(FileError, match="the registry says"):
            load_model(embedded, "cpu")
        assert "the registry says" in summarise(embedded)["problem"]
    assert not list((cache / "models").glob("*"))


def test_what_a_shipped_model_cannot_be(embedded: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="small:final was trained with qwen3, the registry says 'llama3'"):
        model_folder(replace(embedded, tokenizer="llama3"))
    monkeypatch.setattr(loading, "free_memory", lambda device: 1000)
    assert summarise(embedded)["fits"] == []
    with pytest.raises(ModelError, match=r"small:final takes 0\.0 GiB on cpu, where 0\.0 GiB are free"):
        load_model(embedded, "cpu")


# --- anyone's folders -------------------------------------------------------------------------------------------------
def test_anyones_folder_loads_as_it_lies(mine: Path) -> None:
    """In its own precision, with its own tokenizer, in several files; code in it is never run."""
    (mine / "evil.py").write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass M: ...\n")
    edit_json(mine / "config.json", auto_map={"AutoModelForCausalLM": "evil.M", "AutoConfig": "evil.M"})
    shutil.copyfile(tokenizer_build.folder_of("qwen3") / "tokenizer.json", mine / "tokenizer.json")
    model = AutoModelForCausalLM.from_pretrained(str(mine), trust_remote_code=False)
    (mine / WEIGHTS).unlink()
    model.save_pretrained(mine / "parts", max_shard_size="1MB")
    for path in (mine / "parts").glob("model*"):
        path.rename(mine / path.name)
    before = sorted(path.name for path in mine.iterdir())
    assert sum(name.endswith(".safetensors") for name in before) > 1
    loaded = load_model(entry_of(mine, "own", dtype="bfloat16"), "cpu")
    assert loaded.dtype == next(loaded.model.parameters()).dtype == torch.bfloat16
    assert loaded.tokenizer.vocab_size == 151_673
    assert torch.equal(loaded.model.state_dict()[ROWS], model.state_dict()[ROWS].to(torch.bfloat16))
    assert sorted(path.name for path in mine.iterdir()) == before


def test_what_is_listed_of_a_checkpoint(tmp_path: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = entry_of(mine)
    monkeypatch.setenv(USER_VARIABLE, str(tmp_path / "models.toml"))
    facts = summarise(entry)
    assert (facts["family"], facts["vocab_size"], facts["place"], facts["problem"]) == ("Qwen", 151_936, str(mine), "")
    assert facts["size_mb"] == round((mine / WEIGHTS).stat().st_size / 1e6, 2)
    weights = AutoModelForCausalLM.from_pretrained(str(mine)).model.layers.named_parameters()
    count = sum(weight.numel() for _, weight in weights if weight.ndim == 2)
    assert sized("mine:1") == f"mine:1 ({count:,} weights in the layers)" and count < 10**6
    assert sized("demo-qwen:final") == "demo-qwen:final (2.4 M weights in the layers)"
    assert "do not fit together" in summarise(replace(entry, tokenizer="llama3"))["problem"]
    (mine / WEIGHTS).write_bytes(b"")
    assert "missing or damaged" in summarise(entry)["problem"]
    assert (sized("mine:1"), sized("nobody:1")) == ("mine:1", "nobody:1")


LAYER = "model.layers.0."
MISFITS: list[tuple[dict[str, object] | str, str]] = [
    ({"model_type": "t5"}, "has the model type 't5'. Only causal language models of transformers are run"),
    ({"model_type": "gpt2"}, "names 'Qwen3ForCausalLM'. The causal language model of the type gpt2 is GPT2LMHeadModel"),
    ({"model_type": "own", "auto_map": {"AutoModelForCausalLM": "own.Own"}}, "needs its own code .* is not run"),
    ({"model_type": None}, "has no model_type"),
    ({"hidden_size": "wide"}, "cannot be loaded from .*hidden_size"),
    ({"hidden_size": 64}, r"the shape \[151936, 32\], config.json says \[151936, 64\] .* tensors do not fit"),
    ({"num_key_value_heads": 2}, r"self_attn.k_proj.weight' with the shape \[16, 32\], config.json says \[32, 32\]"),
    ({"num_hidden_layers": 1_000, "layer_types": None}, "has 1 layers, config.json 1000"),
    ({"attention_bias": True}, f"has no tensor '{LAYER}self_attn.k_proj.bias'"),
    ({"tie_word_embeddings": False}, f"has no tensor '{HEAD}'"),
    ("{", r"mine:1 cannot be loaded from '.*' \(.*config"),
    ("\ufeff{}", r"mine:1 cannot be loaded from '.*': config.json begins with a BOM. Save it as UTF-8 without"),
]


@pytest.mark.parametrize(("change", "complaint"), MISFITS, ids=str)
def test_a_config_that_does_not_read_or_does_not_fit_its_weights(
    mine: Path, change: dict[str, object] | str, complaint: str
) -> None:
    """Said before a weight is read, of shapes alone."""
    if isinstance(change, str):
        (mine / "config.json").write_text(change)
    else:
        edit_json(mine / "config.json", **change)
    with pytest.raises(ModelError, match=complaint) as caught:
        load_outline(entry_of(mine))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("made", "tokenizer", "complaint"),
    [
        ({"rows": 151_643, "end": 7}, "qwen3", "mine:1 has 151,643 rows and the tokenizer 'qwen3' 151,673 tokens"),
        ({"rows": 151_936, "end": 7}, "llama3", "mine:1 has 151,936 rows and the tokenizer 'llama3' 128,330 tokens"),
        ({"end": 2}, "qwen3", "ends its texts with the id 2, which is '#' in the tokenizer 'qwen3'"),
        ({"end": 151_900}, "qwen3", "ends its texts with the id 151900, which is no token in the tokenizer 'qwen3'"),
        (None, "qwen3", r"mine:1 should be in '.*', but there is no such folder. Correct it in .*toml"),
    ],
)
def test_a_folder_that_does_not_fit_its_entry(
    tmp_path: Path, made: dict[str, Any] | None, tokenizer: str, complaint: str
) -> None:
    if made is not None:
        small_folder(tmp_path / "mine", **made)
    with pytest.raises(ModelError, match=complaint):
        load_model(entry_of(tmp_path / "mine", tokenizer))


def changed(**changes: torch.Tensor | None) -> Callable[[Path], None]:
    """Other tensors in the file of weights: None takes one away."""

    def change(folder: Path) -> None:
        tensors = {**load_file(folder / WEIGHTS), **changes}
        kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        save_file(kept, folder / WEIGHTS, metadata={"format": "pt"})

    return change


def cut(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-1000])


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def indexed(folder: Path) -> None:
    pickled(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "part.safetensors"}}')


NORM = "model.norm.weight"


@pytest.mark.parametrize(
    ("change", "error", "complaint"),
    [
        (changed(**{f"{LAYER}extra": torch.zeros(3)}), ModelError, f"does not ask for: '{LAYER}extra'"),
        (changed(**{ROWS: None}), ModelError, rf"has no tensor '{HEAD}'"),
        (changed(**{NORM: torch.zeros(32, dtype=torch.int8)}), FileError, "quantized, of the type I8"),
        (cut, FileError, "the weights '.*safetensors' are missing or damaged"),
        (indexed, FileError, "the weights '.*part.safetensors' are missing or damaged"),
        (pickled, FileError, "has no .* pickled weights are not loaded"),
    ],
)
def test_weights_that_do_not_fit_or_are_damaged(
    mine: Path, change: Callable[[Path], None], error: type[Exception], complaint: str
) -> None:
    changed(**{f"{LAYER}self_attn.rotary_emb.inv_freq": torch.zeros(8)})(mine)  # of older files; nothing reads it
    assert load_model(entry_of(mine), "cpu").parameters > 0
    change(mine)
    with pytest.raises(error, match=complaint):
        load_model(entry_of(mine), "cpu")


def filled(name: str, value: float) -> Callable[[Path], None]:
    """One number of a tensor is ``value``; all of them where that is 0."""

    def change(folder: Path) -> None:
        tensor = load_file(folder / WEIGHTS)[name].clone()
        tensor[... if value == 0 else -1] = value
        changed(**{name: tensor})(folder)

    return change


def with_room_set_aside(folder: Path) -> None:
    """A download that was broken off behind its first half."""
    content = (folder / WEIGHTS).read_bytes()
    half = len(content) // 2
    (folder / WEIGHTS).write_bytes(content[:half] + bytes(len(content) - half))


QUERIES = f"{LAYER}self_attn.q_proj.weight"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (filled(QUERIES, math.nan), f"hold NaN in '{QUERIES}'"),
        (filled(ROWS, math.nan), f"hold NaN in '{ROWS}'"),
        (filled(NORM, math.inf), f"hold infinite values in '{NORM}'"),
        (filled(QUERIES, -math.inf), f"hold infinite values in '{QUERIES}'"),
        (filled(QUERIES, 0.0), f"hold zeros alone in '{QUERIES}'"),
        (with_room_set_aside, f"hold zeros alone in '{LAYER}.*'"),
    ],
)
def test_weights_that_are_no_numbers_or_zeros_alone(
    mine: Path, change: Callable[[Path], None], complaint: str, dtype: str
) -> None:
    filled(NORM, 0.0)(mine)  # a vector may be
    assert load_model(entry_of(mine, dtype=dtype), "cpu").parameters > 0
    change(mine)
    with pytest.raises(FileError, match=f"the weights '.*{WEIGHTS}' {complaint}. Copy the file again, or") as raised:
        load_model(entry_of(mine, dtype=dtype), "cpu")
    assert "float16" not in str(raised.value)


def test_what_float16_cannot_hold_is_told_from_damage(mine: Path) -> None:
    filled(QUERIES, 1e6)(mine)
    assert load_model(entry_of(mine), "cpu").parameters > 0
    with pytest.raises(FileError, match=f"infinite values in '{QUERIES}'.* too large for float16: use bfloat16"):
        load_model(entry_of(mine), "cpu", "float16")


# --- devices, and the cores that a decoding may take ------------------------------------------------------------------
def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda answer=cuda: answer)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda answer=mps: answer)
        assert pick_device("auto").type == expected
    for name, message in (("cuda", "no CUDA device"), ("mps", "no MPS device"), ("meta", "'meta'")):
        with pytest.raises(ModelError, match=message):
            pick_device(name)


def ticks(busy: Sequence[int]) -> str:
    """Of cores whose clock ticked 20 times, so many of them for other programs."""
    lines = [f"cpu{core} {100 + used} 5 50 {10**6 + 19 - used} 1 0 0 0 7 0" for core, used in enumerate(busy)]
    return "\n".join(["cpu  1 2 3 4 5 6 7 8 9 0", *lines, "intr 1 2", ""])


def test_cores_that_others_use_now_are_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load average of the last minute counted a build that had ended: one core was taken of two idle ones."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (30.0, 30.0, 30.0))
    assert usable_cores() == 8
    for allotted, cores in (("3", 3), ("64", 8), ("", 8), ("0", 8), ("x", 8)):
        monkeypatch.setenv("SLURM_CPUS_ON_NODE", allotted)  # of a job that may run on all of them
        assert usable_cores() == cores
    start = "\n".join(f"cpu{core} 100 5 50 {10**6} 0 0 0 0 7 0" for core in range(9))
    for busy, idle in (([0] * 8, 8), ([20, 20, 14, *[0] * 5, 20], 5), ([20] * 9, 1), ([1] * 8, 8)):
        texts = iter([start, ticks(busy)])
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: next(texts))  # noqa: B023 - read at once
        monkeypatch.setattr(devices, "MOMENT_S", 0.0)
        assert idle_cores() == idle
        assert not list(texts)


def test_all_cores_are_taken_where_nothing_tells_who_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    for stat in ("", "cpu0 0 0 0 0 0 0 0 0 0 0\n", "cpu0 x\n", "cpu 1 2\n"):
        monkeypatch.setattr(Path, "read_text", lambda *_, stat=stat, **__: stat)
        assert idle_cores() == usable_cores() == 1
