"""Loading: embedded models through the cache, anyone's folders as they lie, and one clear error for each misfit."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.errors import AssetError, FileFormatError, ModelError
from engine.models import devices, loading, shipped
from engine.models.loading import LoadedModel, expanded_folder, load_model, load_outline, model_folder
from engine.models.registry import ModelEntry, load_registry
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


def entry_of(folder: Path, tokenizer: str = "qwen3", **more: object) -> ModelEntry:
    lines = f'alias = "mine"\nstep = "1"\nfolder = "{folder.name}"\ntokenizer = "{tokenizer}"\n'
    entry = load_registry([write_registry(folder.parent, lines)]).find("mine")
    return replace(entry, **more)  # type: ignore[arg-type]


def edit_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in (cache / "models").iterdir()] if (cache / "models").exists() else []


@pytest.mark.parametrize("name", NAMES)
def test_an_embedded_model_loads_and_writes(tmp_path: Path, name: str) -> None:
    entry = load_registry([registered(tmp_path, small_shipped(name))]).find("small")
    loaded = load_model(entry, "cpu")
    assert isinstance(loaded, LoadedModel)
    assert (loaded.family, loaded.vocab_rows) == ({"qwen3": "Qwen", "llama3": "LLaMA"}[name], VOCAB_ROWS[name])
    assert (loaded.dtype, loaded.device, loaded.model.training) == (torch.float32, torch.device("cpu"), False)
    assert loaded.parameters == sum(weight.numel() for weight in loaded.model.parameters())
    ids = torch.tensor([loaded.tokenizer.encode("[SMILES]CC=O[/SMILES]")])
    written = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8)  # type: ignore[operator]
    assert written.shape[1] > ids.shape[1]


def test_plain_transformers_loads_the_folder_too(embedded: ModelEntry) -> None:
    folder = model_folder(embedded)
    model = AutoModelForCausalLM.from_pretrained(str(folder))
    assert model.dtype == torch.float32
    ours = load_model(embedded, "cpu").model.state_dict()
    assert all(torch.equal(value, ours[name]) for name, value in model.state_dict().items())
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    text = "[SMILES]CC=O[/SMILES]"
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == load_model(embedded).tokenizer.encode(text)


def test_a_model_is_expanded_once(embedded: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = model_folder(embedded)
    assert folder == expanded_folder(embedded)
    monkeypatch.setattr(shipped, "expand", None)
    assert model_folder(embedded) == folder


def test_a_damaged_cache_is_named(embedded: ModelEntry) -> None:
    weights = model_folder(embedded) / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=rf"{weights}.* damaged .*delete its folder if it lies in our cache"):
        load_model(embedded, "cpu")


def test_a_full_disk_leaves_nothing_half_written(
    embedded: ModelEntry, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        real(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(AssetError, match=r"the model cache '.*' cannot be written \(No space left on device\)"):
        load_model(embedded, "cpu")
    assert leftovers(cache) == []
    monkeypatch.undo()


def test_a_cut_or_changed_shipped_file_leaves_nothing(embedded: ModelEntry, cache: Path) -> None:
    assert embedded.shipped is not None
    content = embedded.shipped.read_bytes()
    for damaged in (content[:-1], content[:-1] + b"x", b""):
        embedded.shipped.write_bytes(damaged)
        with pytest.raises(FileFormatError, match="the registry says"):
            load_model(embedded, "cpu")
    assert leftovers(cache) == []


def test_a_shipped_file_of_the_other_tokenizer(embedded: ModelEntry) -> None:
    with pytest.raises(ModelError, match="small:final was trained with qwen3, the registry says 'llama3'"):
        model_folder(replace(embedded, tokenizer="llama3"))


@pytest.mark.parametrize("name", NAMES)
def test_anyones_folder_loads_as_it_lies(tmp_path: Path, name: str) -> None:
    folder = small_folder(tmp_path / "mine", name)
    before = sorted(path.name for path in folder.iterdir())
    loaded = load_model(entry_of(folder, name, dtype="bfloat16"), "cpu")
    assert loaded.dtype == torch.bfloat16
    assert next(loaded.model.parameters()).dtype == torch.bfloat16
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_checkpoint_with_its_own_tokenizer(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    shutil.copyfile(tokenizer_build.folder_of("qwen3") / "tokenizer.json", folder / "tokenizer.json")
    loaded = load_model(entry_of(folder, "own"), "cpu")
    assert loaded.tokenizer.vocab_size == 151_673


def test_weights_in_several_files_load(tmp_path: Path) -> None:
    whole = small_folder(tmp_path / "whole")
    model = AutoModelForCausalLM.from_pretrained(str(whole))
    model.save_pretrained(tmp_path / "parts", max_shard_size="1MB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    loaded = load_model(entry_of(tmp_path / "parts"), "cpu")
    assert torch.equal(loaded.model.state_dict()[ROWS], model.state_dict()[ROWS])


def test_an_entry_to_nowhere(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match=r"mine:1 should be in '.*', but there is no such folder. Correct it in .*toml"
    ):
        load_model(entry_of(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("rows", "tokenizer", "complaint"),
    [
        (151_643, "qwen3", "mine:1 has 151,643 rows and the tokenizer 'qwen3' 151,673 tokens"),
        (151_936, "llama3", "mine:1 has 151,936 rows and the tokenizer 'llama3' 128,330 tokens"),
    ],
)
def test_a_vocabulary_that_does_not_fit(tmp_path: Path, rows: int, tokenizer: str, complaint: str) -> None:
    folder = small_folder(tmp_path / "mine", rows=rows, end=7)
    with pytest.raises(ModelError, match=complaint):
        load_model(entry_of(folder, tokenizer))


def test_a_tokenizer_without_the_tags(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    words = {f"word{number}": number for number in range(151_700)}
    document = {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "word0"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ModelError, match=r"has no token \[SMILES\]"):
        load_model(entry_of(folder, "own"))


@pytest.mark.parametrize(("end", "piece"), [(2, "'#'"), (151_900, "no token")])
def test_an_end_token_that_is_none(tmp_path: Path, end: int, piece: str) -> None:
    folder = small_folder(tmp_path / "mine", end=end)
    with pytest.raises(
        ModelError, match=f"ends its texts with the id {end}, which is {piece} in the tokenizer 'qwen3'"
    ):
        load_model(entry_of(folder))


LAYER = "model.layers.0."
MISFITS: list[tuple[dict[str, object], str]] = [
    ({"model_type": "gpt2"}, "has the model type 'gpt2'. Known are qwen3, llama"),
    ({"model_type": None}, "cannot be loaded from"),
    ({"hidden_size": "wide"}, "cannot be loaded from .*hidden_size"),
    ({"hidden_size": 64}, r"the shape \[151936, 32\], config.json says \[151936, 64\] .* tensors do not fit"),
    ({"intermediate_size": 64}, r"mlp.down_proj.weight' with the shape \[32, 48\], config.json says \[32, 64\]"),
    ({"num_key_value_heads": 2}, r"self_attn.k_proj.weight' with the shape \[16, 32\], config.json says \[32, 32\]"),
    ({"num_hidden_layers": 1_000_000, "layer_types": None}, "has 1 layers, config.json 1,000,000"),
    ({"attention_bias": True}, f"has no tensor '{LAYER}self_attn.k_proj.bias'"),
    ({"tie_word_embeddings": False}, f"has no tensor '{HEAD}'"),
]


@pytest.mark.parametrize(("changes", "complaint"), MISFITS, ids=str)
def test_a_config_that_does_not_fit_its_weights(tmp_path: Path, changes: dict[str, object], complaint: str) -> None:
    """Said before a weight is read, of shapes alone."""
    edit_json(small_folder(tmp_path / "mine") / "config.json", **changes)
    with pytest.raises(ModelError, match=complaint) as caught:
        load_outline(entry_of(tmp_path / "mine"))
    assert "\n" not in str(caught.value)


def test_weights_that_do_not_fit_their_config(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    tensors = load_file(folder / WEIGHTS)
    old = {f"{LAYER}self_attn.rotary_emb.inv_freq": torch.zeros(8)}  # nothing reads it
    save_file({**tensors, **old}, folder / WEIGHTS, metadata={"format": "pt"})
    assert load_model(entry_of(folder), "cpu").parameters > 0
    save_file({**tensors, "model.layers.0.extra": torch.zeros(3)}, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"does not ask for: 'model.layers.0.extra'"):
        load_model(entry_of(folder), "cpu")
    del tensors[ROWS]
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=rf"has no tensor '{HEAD}'.* \(2 tensors do not fit\)"):
        load_model(entry_of(folder), "cpu")


@pytest.mark.parametrize("content", [None, "", "[]", "{"])
def test_a_config_that_does_not_read(tmp_path: Path, content: str | None) -> None:
    config = small_folder(tmp_path / "mine") / "config.json"
    config.unlink() if content is None else config.write_text(content)
    with pytest.raises(ModelError, match=rf"mine:1 cannot be loaded from '{config.parent}' \(.*config"):
        load_model(entry_of(tmp_path / "mine"))


@pytest.mark.parametrize("kept", [0, 4, 8, 20, -1000, -1])
def test_a_truncated_checkpoint(tmp_path: Path, kept: int) -> None:
    weights = small_folder(tmp_path / "mine") / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:kept])
    with pytest.raises(FileFormatError, match=rf"the weights '{weights}' are missing or damaged"):
        load_model(entry_of(tmp_path / "mine"))


def test_quantized_weights_are_refused(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    tensors = load_file(folder / WEIGHTS)
    name = next(iter(tensors))
    save_file({**tensors, name: tensors[name].to(torch.int8)}, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(FileFormatError, match="quantized, of the type I8"):
        load_model(entry_of(folder))


def test_weights_in_no_form_that_is_read(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"a": "part.safetensors"}}')
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()
    with pytest.raises(FileFormatError, match=f"the weights '{folder}/part.safetensors' are missing or damaged"):
        load_model(entry_of(folder))
    for content in ("", "[]", "{}", '{"weight_map": 3}', None):
        index.unlink() if content is None else index.write_text(content)
        with pytest.raises(FileFormatError, match=f"'{folder}' has no .* pickled weights are not loaded"):
            load_model(entry_of(folder))


def test_code_in_a_checkpoint_is_never_run(tmp_path: Path) -> None:
    folder = small_folder(tmp_path / "mine")
    (folder / "evil.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nclass Model: ...\n"
    )
    edit_json(folder / "config.json", auto_map={"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Model"})
    load_model(entry_of(folder), "cpu")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("device", ["tpu9", "cuda"])
def test_a_device_that_is_not_there(embedded: ModelEntry, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelError, match="there is no"):
        load_model(embedded, device)


def test_a_model_that_does_not_fit_the_memory(embedded: ModelEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "free_memory", lambda device: 2**20)
    with pytest.raises(ModelError, match=r"small:final takes 0\.0 GiB on cpu, where 0\.0 GiB are free"):
        load_model(embedded, "cpu")


def test_free_memory_is_a_number_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (devices.free_memory("cpu") or 0) > 2**26
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.free_memory("cuda") is None


def test_transformers_is_left_as_it_was(embedded: ModelEntry) -> None:
    from transformers import logging as transformers_logging

    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    load_model(embedded, "cpu")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before


def test_rows_are_not_read_as_numbers_by_accident() -> None:
    """Half precision holds the noise: a tail row keeps its differences to the others."""
    rows = small_shipped().rows()
    assert len(np.unique(rows[1000:2000].view(np.uint16), axis=0)) == 1000
