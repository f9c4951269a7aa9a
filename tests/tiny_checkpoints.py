"""Checkpoints of many architectures with random weights and a small tokenizer of their own: anyone's folder, in small.

The tokenizers are trained here by Hugging Face's ``tokenizers``: one of bytes, as GPT-4 cuts them, and one as
SentencePiece has it, with ``▁`` for a space and before the first word.
"""

from __future__ import annotations

import functools
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from tests.small_models import temporary_folder

TAGS = ("[SMILES]", "[/SMILES]", "[CONFORMER]", "[/CONFORMER]")
PIECES = ["[C]<0>=[O]<1>([C@@H]<2>)[N+]<3>[C]<-4,-5,6>[c]<7.8>1[c]<9>[nH]<->[C@H](<[O-]>)[Cl]<>#[N]< ,-,.=[O]<"] * 9
SHAPE: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 1024,
}  # fmt: skip
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gemma3_text": {"sliding_window": 16, "sliding_window_pattern": 2, "final_logit_softcapping": 3.0},
    "mistral": {"sliding_window": 16},  # shorter than its texts
    "smollm3": {},
    "phi3": {},
    "gpt_neox": {},
    "qwen2": {},
    "olmo2": {},
    "qwen3_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
}
"""By ``model_type``, with what makes each one different from LLaMA."""
SPACED = ("gemma3_text", "mistral", "phi3")
"""Those whose tokenizer is like SentencePiece's."""


@functools.cache
def byte_tokenizer() -> str:
    """Its JSON: digits one by one, marks in runs."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(r"\p{N}|[^\p{N}\s]+|\s+"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, max_token_length=3, show_progress=False)
    tokenizer.train_from_iterator(PIECES, trainer)
    return _with_tags(tokenizer)


@functools.cache
def spaced_tokenizer() -> str:
    """Its JSON: no rule where a token may end, but no token has a digit and anything else."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="first", split=False), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=325, special_tokens=tokens, max_token_length=3, show_progress=False)
    tokenizer.train_from_iterator(PIECES, trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = document["added_tokens"][:1]  # bytes are no added tokens
    tokenizer = Tokenizer.from_str(json.dumps(document))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return _with_tags(tokenizer)


def _with_tags(tokenizer: Tokenizer) -> str:
    tokenizer.add_special_tokens(["<pad>", "<eos>", "<bos>"])
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return str(tokenizer.to_str())


def tiny_checkpoint(folder: Path, kind: str, tokenizer: str | None = None, **changes: Any) -> Path:
    """A folder as a trainer leaves it; ``tokenizer`` is JSON."""
    shutil.copytree(_weights(kind, json.dumps(changes)), folder)
    write_tokenizer(folder, tokenizer or (spaced_tokenizer() if kind in SPACED else byte_tokenizer()))
    return folder


def write_tokenizer(folder: Path, content: str, **more: Any) -> None:
    (folder / "tokenizer.json").write_text(content, encoding="utf-8")
    config: Mapping[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", **more}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


@functools.cache
def _weights(kind: str, changes: str) -> Path:
    """Made once a test run."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    own = Tokenizer.from_str(spaced_tokenizer() if kind in SPACED else byte_tokenizer())
    ids = {f"{name}_token_id": own.token_to_id(f"<{name}>") for name in ("pad", "eos", "bos")}
    size = own.get_vocab_size(with_added_tokens=True) + 7  # models pad theirs
    values = {**SHAPE, "vocab_size": size, **ids, **ARCHITECTURES.get(kind, {}), **json.loads(changes)}
    folder = temporary_folder() / "made"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**values))
        for weight in model.parameters():  # larger than a trainer begins with, so that tokens differ in probability
            if weight.ndim > 1:
                torch.nn.init.normal_(weight, std=0.2)
        model.save_pretrained(folder)
    return folder
