"""Where a checkpoint's texts end: where plain ``generate`` of transformers stops with the same folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan, preset
from engine.jobs.service import Models
from engine.lp.constraint import LpParameters
from engine.lp.processor import logits_processor
from engine.models.loading import load_model
from engine.models.registry import ModelEntry, entry_of_folder
from engine.models.shipped import WEIGHTS
from engine.models.tags import tokenizer_name, tokenizer_of
from engine.records import NumberFormat
from engine.text.tokenizers import load_tokenizer
from tests.tiny_checkpoints import TAGS, byte_tokenizer, tiny_checkpoint, write_tokenizer

IDS = {token: Tokenizer.from_str(byte_tokenizer()).token_to_id(token) for token in ("<eos>", "<pad>", "[/CONFORMER]")}
EOS, PAD, CLOSE = IDS.values()
FORM = NumberFormat(1, 2, 1)


def checkpoint(folder: Path, ends: Any, *, named: str = "<eos>", loud: int | None = None) -> Path:
    """``ends`` and ``named``: of generation_config.json and tokenizer_config.json; ``loud``: what it soon writes."""
    tiny_checkpoint(folder, "qwen2")
    config = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**config, "eos_token_id": ends}))
    write_tokenizer(folder, byte_tokenizer(), eos_token=named)
    if loud is not None:
        tensors = load_file(folder / WEIGHTS)
        tensors["lm_head.weight"][loud] *= 2.5
        for id_ in {EOS, PAD, CLOSE} - {loud}:
            tensors["lm_head.weight"][id_] *= 0
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    return folder


def entry_of(folder: Path) -> ModelEntry:
    return entry_of_folder(folder)


@pytest.mark.parametrize(
    ("ends", "named", "expected", "at_close"),
    [
        (EOS, "<eos>", (EOS,), False),
        (PAD, "<eos>", (PAD,), False),
        ([PAD, EOS], "<eos>", (EOS, PAD), False),
        ([PAD, EOS], "", (EOS, PAD), False),
        (CLOSE, "<eos>", (EOS,), True),
        ([CLOSE, PAD], "[/CONFORMER]", (PAD,), True),
        (None, "<pad>", (EOS,), False),  # config.json has <eos>
    ],
)
def test_the_ends_are_those_of_generate(
    tmp_path: Path, ends: Any, named: str, expected: tuple[int, ...], at_close: bool
) -> None:
    folder = checkpoint(tmp_path / "made", ends, named=named)
    by_checkpoint, by_folder = tokenizer_of(entry_of(folder)), load_tokenizer(str(folder))
    for tokenizer in (by_checkpoint, by_folder):
        close = (CLOSE,) if at_close else ()
        assert (tokenizer.end_ids, tokenizer.end_id, tokenizer.close_ids) == (expected, expected[0], close)


@pytest.mark.parametrize("backend", ["fast", "hf"])
@pytest.mark.parametrize(("ends", "loud"), [(PAD, PAD), ([EOS, PAD], PAD), (CLOSE, CLOSE), ([EOS, CLOSE], CLOSE)])
def test_without_an_lp_a_text_stops_where_generate_stops(tmp_path: Path, ends: Any, loud: int, backend: Any) -> None:
    folder = checkpoint(tmp_path / "made", ends, loud=loud)
    prompt = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(prompt_of("CC=O"), add_special_tokens=False).ids
    plain = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
    written = plain.generate(
        input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
        max_new_tokens=200, pad_token_id=EOS,
    )[0, len(prompt) :].tolist()  # fmt: skip
    assert written[-1] == loud and 1 <= len(written) < 200
    loaded = load_model(entry_of(folder), "cpu")
    plan = Plan("none", sampling=preset("greedy"), limit=200, backend=backend)
    (sample,) = Generation(loaded, [parse_smiles("CC=O")], plan).run()
    end = loaded.tokenizer.end_id
    follows = [] if end == loud else [end]
    assert list(sample.token_ids) == [*written, *follows] and sample.stop_reason == "end"
    assert list(sample.forced) == [False] * len(written) + [True] * len(follows)
    text = written if loud == CLOSE else written[:-1]
    assert sample.text == Tokenizer.from_file(str(folder / "tokenizer.json")).decode(text, skip_special_tokens=False)
    if loud == CLOSE:
        (several,) = Generation(loaded, [parse_smiles("CC=O")], replace(plan, conformers=2)).run()
        assert len(several.token_ids) > len(sample.token_ids), "it ends one conformer, not an answer of several"


def test_the_processor_ends_texts_where_generate_stops(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "made", PAD)
    plain = AutoModelForCausalLM.from_pretrained(str(folder)).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompt = tokenizer.encode(prompt_of("CO"), add_special_tokens=False).ids
    rows = plain.config.vocab_size
    given = logits_processor("exact", ["CO"], str(folder), rows, LpParameters(form=FORM))
    written = plain.generate(
        input_ids=torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), do_sample=False,
        max_new_tokens=200, pad_token_id=PAD, logits_processor=[given],
    )[0, len(prompt) :].tolist()  # fmt: skip
    assert written[-1] == PAD and tokenizer.decode(written, skip_special_tokens=False).endswith("[/CONFORMER]<pad>")


def test_a_changed_end_is_read_again_and_folders_that_differ_in_it_alone_are_kept_apart(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "made", EOS)
    assert tokenizer_of(entry_of(folder)).end_id == EOS
    checkpoint(tmp_path / "other", PAD, named="<pad>")
    for name in ("generation_config.json", "tokenizer_config.json"):
        (folder / name).write_text((tmp_path / "other" / name).read_text())
        assert tokenizer_of(entry_of(folder)).end_id == PAD, f"{name} was changed, tokenizer.json was not"
    names = ("<smi>", "</smi>", "<conf>", "</conf>")
    content = byte_tokenizer()
    for tag, name in zip(TAGS, names, strict=True):
        content = content.replace(f'"{tag}"', f'"{name}"')
    ends = []
    for number, token in enumerate(("<eos>", "<pad>")):
        plain = tmp_path / f"tokenizer{number}"
        plain.mkdir()
        write_tokenizer(plain, content, eos_token=token)
        entry = ModelEntry("a", "1", str(plain), FORM, source=tmp_path, folder=plain, tags=names)
        ends.append(tokenizer_of(entry).end_id)
    assert ends == [EOS, PAD]


def test_a_model_that_the_app_keeps_is_loaded_again_once_its_end_is_another(tmp_path: Path) -> None:
    folder, models = checkpoint(tmp_path / "made", EOS), Models()
    entry = entry_of(folder)
    kept = models.get(entry, "cpu")
    assert models.get(entry, "cpu") is kept
    checkpoint(tmp_path / "other", PAD)
    (folder / "generation_config.json").write_text((tmp_path / "other" / "generation_config.json").read_text())
    assert (kept.tokenizer.end_id, models.get(entry, "cpu").tokenizer.end_id) == (EOS, PAD)


def test_a_built_in_tokenizer_ends_texts_as_the_checkpoint_that_it_is_registered_for(tmp_path: Path) -> None:
    """As Qwen's chat models have it: either of two tokens."""
    plain = load_tokenizer("qwen3")
    ends = [plain.id_of("<|im_end|>"), plain.id_of("<|endoftext|>")]
    for named, expected in ((ends, (ends[1], ends[0])), (ends[0], (ends[0],)), (ends[1], (ends[1],))):
        (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": named}))
        entry = ModelEntry("a", "1", "qwen3", FORM, source=tmp_path, folder=tmp_path)
        tokenizer = tokenizer_of(entry)
        assert tokenizer.end_ids == expected and (tokenizer is plain) == (expected == plain.end_ids)
        assert tokenizer.text_length([5, *expected]) == 1


@pytest.mark.parametrize(
    ("alias", "tokenizer", "name"),
    [
        ("m380", "own", "m380"),
        ("m380", "qwen3", "qwen3"),
        ("m380", "/data/tokenizers/chem", "chem"),
        ("m380", "/data/tokenizers/chem/tokenizer.json", "chem"),
        ("qwen3", "own", "qwen3 (own)"),  # no built-in one
        ("m380", "/data/qwen3", "qwen3 (own)"),
    ],
)
def test_runs_call_a_tokenizer_by_a_name_and_not_by_its_path(alias: str, tokenizer: str, name: str) -> None:
    entry = ModelEntry(alias, "1", tokenizer, FORM, source=Path("/data"), folder=Path("/data/checkpoints/2e"))
    assert tokenizer_name(entry) == name
