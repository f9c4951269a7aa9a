"""Loads a registered checkpoint: an embedded one is expanded into the cache first, any other is read from its folder.

Weights come from safetensors alone, and code in a checkpoint is never run. What does not fit (vocabulary, end token,
shapes, memory) is an error before the weights are read. Loading imports torch and transformers; finding the
folder does not, unless an embedded model has to be expanded.
"""

from __future__ import annotations

import functools
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError, shown
from engine.folders import publish
from engine.models.devices import free_memory, pick_device
from engine.models.fit import ConfigFacts, check_vocabulary, check_weights, read_config
from engine.models.headers import Header, read_headers
from engine.models.registry import OWN_TOKENIZER, ModelEntry
from engine.models.tensor_table import FIX_PAIR
from engine.paths import cache_folder
from engine.text.tokenizers import TextTokenizer, load_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

EXPANDED_FORMAT = 1
"""Raise this when the expanded files change, so that folders of older versions are left alone."""
BEGIN_TOKENS = ("<|begin_of_text|>", "<s>", "<bos>")
OUTLINE = "meta"
"""Torch's name for the device of tensors that have a shape and no content."""
ATTEMPTS = 2
ROOM = 1.2
"""Memory that a model needs while it works, in sizes of its weights; activations and the cache come on top."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model on its device, in evaluation mode, and its tokenizer."""

    entry: ModelEntry
    model: PreTrainedModel
    tokenizer: TextTokenizer
    config: ConfigFacts
    device: torch.device
    dtype: torch.dtype
    parameters: int
    begin_ids: tuple[int, ...] = ()  # that every prompt begins with

    @property
    def family(self) -> str:
        return self.config.family

    @property
    def is_outline(self) -> bool:
        """Whether it has shapes only, and no weights."""
        return self.device.type == OUTLINE

    @property
    def positions(self) -> int:
        """The longest text, prompt and answer together."""
        return int(self.model.config.max_position_embeddings)

    @property
    def vocab_rows(self) -> int:
        """Rows of the head; those from ``tokenizer.vocab_size`` on decode to nothing, and are masked on every path."""
        return self.config.vocab_rows


def load_model(
    entry: ModelEntry, device: str = "auto", dtype: str | None = None, attention: str = "sdpa"
) -> LoadedModel:
    """The model on ``device`` (auto: a GPU when there is one) in ``dtype`` (the entry's without it)."""
    import torch

    folder, tokenizer, config, header, warnings = checked(entry)
    target = pick_device(device)
    wanted: torch.dtype = getattr(torch, dtype or entry.dtype)
    free, weight_bytes = free_memory(target.type), header.parameters * wanted.itemsize
    if free is not None and weight_bytes * ROOM > free:
        raise ModelError(
            f"{entry.name} takes {weight_bytes / 2**30:.1f} GiB on {target.type}, "
            f"where {free / 2**30:.1f} GiB are free",
            "Use another device, or a smaller dtype such as bfloat16",
        )
    model: Any = _loaded(entry, folder, wanted, attention)
    if header.has_own_head:
        model.config.tie_word_embeddings = False  # whatever config.json says: no later step may tie or drop the head
    for warning in warnings:
        log.warning("%s", warning)
    model.to(target).eval()
    begin = begin_ids(entry, folder, tokenizer)
    return LoadedModel(entry, model, tokenizer, config, target, wanted, header.parameters, begin)


def load_outline(entry: ModelEntry, dtype: str | None = None, attention: str = "sdpa") -> LoadedModel:
    """The model without its weights: enough to plan what another machine computes, whatever its size."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    folder, tokenizer, config, header, _ = checked(entry)
    wanted: torch.dtype = getattr(torch, dtype or entry.dtype)
    kind: Any = AutoModelForCausalLM
    try:
        with quiet_transformers(), torch.device(OUTLINE):
            config_object = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
            model = kind.from_config(config_object, dtype=wanted, attn_implementation=attention)
    except Exception as error:  # a bad config can raise anything
        raise _not_loaded(entry, folder, error) from error
    begin = begin_ids(entry, folder, tokenizer)
    return LoadedModel(entry, model.eval(), tokenizer, config, torch.device(OUTLINE), wanted, header.parameters, begin)


def model_folder(entry: ModelEntry) -> Path:
    """The Hugging Face folder of an entry, made first if it is an embedded one whose folder is not there."""
    if entry.folder is not None:
        if not entry.folder.is_dir():
            raise ModelError(
                f"{entry.name} should be in {shown(entry.folder, 200)}, but there is no such folder",
                f"Correct it in {entry.source}",
            )
        return entry.folder
    return _expanded(entry)


def expanded_folder(entry: ModelEntry) -> Path:
    """Where an embedded model is expanded, whether it is there yet or not."""
    return cache_folder() / "models" / f"{entry.alias}-{entry.step}-{entry.sha256[:16]}-{EXPANDED_FORMAT}"


def tokenizer_of(entry: ModelEntry, folder: Path) -> TextTokenizer:
    return load_tokenizer(str(folder) if entry.tokenizer == OWN_TOKENIZER else entry.tokenizer)


def begin_ids(entry: ModelEntry, folder: Path, tokenizer: TextTokenizer) -> tuple[int, ...]:
    """What a prompt begins with: nothing, or the BOS that the checkpoint's own tokenizer adds or the registry asks for.

    The embedded models were trained without.
    """
    if entry.shipped is not None or entry.bos is False:
        return ()
    own = load_tokenizer(str(folder)) if (folder / "tokenizer.json").is_file() else tokenizer
    found = [tokenizer.id_of(own.piece(id_)) for id_ in own.begin_ids]
    if entry.bos and not found:
        found = [next((id_ for id_ in map(tokenizer.id_of, BEGIN_TOKENS) if id_ in tokenizer.added), None)]
    ids = tuple(id_ for id_ in found if id_ is not None)
    if len(ids) < len(found):
        raise ModelError(
            f"prompts of {entry.name} should begin with BOS, which its tokenizer {shown(tokenizer.name)} does not have",
            f"Correct `tokenizer`, or set `bos = false`, in {entry.source}",
        )
    return ids


def checked(entry: ModelEntry) -> tuple[Path, TextTokenizer, ConfigFacts, Header, tuple[str, ...]]:
    """A checkpoint's folder, tokenizer, config and header, which fit together, and its warnings.

    ``ModelError`` says what does not fit.
    """
    folder = model_folder(entry)
    tokenizer = tokenizer_of(entry, folder)
    config = read_config(folder)
    check_vocabulary(config, tokenizer, entry.name)
    header = read_headers(folder)
    return folder, tokenizer, config, header, check_weights(config, header, entry.name)


def _expanded(entry: ModelEntry) -> Path:
    from engine.models.shipped import expand, is_whole, unpack

    assert entry.shipped is not None
    folder = expanded_folder(entry)
    for _ in range(ATTEMPTS):  # another process may remove the folder that this one has just written
        if folder.is_dir() and is_whole(folder):
            return folder
        if folder.is_dir():
            log.warning("the expanded model in %s is damaged; making it again", folder)
            shutil.rmtree(folder, ignore_errors=True)
        shipped = unpack(entry.shipped, entry.sha256)
        if shipped.tokenizer != entry.tokenizer:
            raise ModelError(
                f"{entry.name} was trained with {shipped.tokenizer}, the registry says {shown(entry.tokenizer)}",
                f"Correct it in {entry.source}",
            )
        publish(folder, functools.partial(expand, shipped), "the model cache")
    if is_whole(folder):
        return folder
    raise ModelError(f"the expanded model {shown(folder, 200)} stays damaged", "Delete it, and check the disk")


def _loaded(entry: ModelEntry, folder: Path, dtype: torch.dtype, attention: str) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    kind: Any = AutoModelForCausalLM
    try:
        with quiet_transformers():  # its report on names and shapes is given below, in one line
            model, report = kind.from_pretrained(
                str(folder),
                dtype=dtype,
                attn_implementation=attention,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # else its error points to its report, which nobody sees
            )
    except Exception as error:  # bad configs and weights can raise anything
        raise _not_loaded(entry, folder, error) from error
    _check_report(entry, report)
    loaded: PreTrainedModel = model
    return loaded


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Switches off its warnings and progress bars for a while."""
    from transformers import logging as transformers_logging

    level, bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if bar:
            transformers_logging.enable_progress_bar()


def _check_report(entry: ModelEntry, report: dict[str, Any]) -> None:
    """A model with missing or ignored weights is an error, also where ``tensor_table`` saw none."""
    for what, names in (
        ("lacks the weights", report.get("missing_keys")),
        ("has weights that the architecture does not know", report.get("unexpected_keys")),
        ("has weights of another shape", report.get("mismatched_keys")),
    ):
        if names:
            first = sorted(map(str, names))[0]
            raise ModelError(f"{entry.name} {what}: {shown(first)}, {len(names)} in all", FIX_PAIR)


def _not_loaded(entry: ModelEntry, folder: Path, error: Exception) -> ModelError:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    reason = " ".join(lines[:2] if lines[0].endswith(":") else lines[:1])[:200]  # without a heading alone
    return ModelError(f"{entry.name} cannot be loaded from {shown(folder, 200)} ({reason})", FIX_PAIR)
