"""Small tokenizers of other kinds than the field's two, made on the spot: any of them may come in a user's folder."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CORPUS = ["[C]<0.1234,-0.5678,1.0000>=[O]<12.3456,-7.8901,0.0000>([C@@H]<1.0,2.0,3.0>)[N+]<0.0,0.0,0.0> x y"] * 4


def small_byte_level(*, prefix_space: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=alphabet, special_tokens=["</s>"], show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def small_metaspace() -> Tokenizer:
    """As T5 has it: a space before the text, spaces written as ``▁``."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<unk>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def small_byte_fallback() -> Tokenizer:
    """As LLaMA 2 has it: what is not in the vocabulary is written in bytes."""
    tokens = ["<unk>", "</s>", "▁", *(f"<0x{byte:02X}>" for byte in range(256)), *"0123456789.,-<>[]()=@+HCNO"]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "</s>"])
    return tokenizer


def small_word_level() -> Tokenizer:
    """Every character a word."""
    words = ["[UNK]", *dict.fromkeys("0123456789.,-<>[]()=@+HCNO xy")]
    tokenizer = Tokenizer(models.WordLevel({word: rank for rank, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return tokenizer


SMALL_TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": small_byte_level,
    "prefix-space": functools.partial(small_byte_level, prefix_space=True),
    "metaspace": small_metaspace,
    "byte-fallback": small_byte_fallback,
    "word-level": small_word_level,
}
