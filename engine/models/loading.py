"""Loads a registered checkpoint: an embedded one is expanded into the cache first, any other is read from its folder.

Any causal language model of transformers will do. Weights come from safetensors alone, and code in a checkpoint is
never run. What does not fit (vocabulary, end token, shapes, memory) is an error before the weights are read, but where
only transformers knows how stored tensors become those of the model: then, and of numbers that are NaN or infinite and
matrices of zeros alone, it is one as soon as they are read. Torch and transformers are imported where a model is made.
"""

from __future__ import annotations

import functools
import logging
import math
import re
import shutil
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from engine.errors import DriftscopeError, FileError, ModelError, shown
from engine.figures.words import parameter_count
from engine.models.architectures import FAMILIES, check_causal, family_of, positions_of, why_not_fast
from engine.models.devices import free_memory, pick_device
from engine.models.registry import OWN_TOKENIZER, TAGS, ModelEntry, load_registry
from engine.models.server import PROBE, ServedModel, served_model, server_address
from engine.models.shipped import HEAD, LIVE_IDS, ROWS, VOCAB_ROWS, WEIGHTS, expand, unpack
from engine.models.tags import tokenizer_of
from engine.paths import cache_folder
from engine.records import Alphabet
from engine.text.tokenizers import TextTokenizer, bin_tokens, load_tokenizer
from engine.user_files import parsed_json, publish

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

MOST_PADDING = 4_096  # rows beyond the tokenizer's size; models pad to a multiple of 64 to 1,024
MOST_POSITIONS = 2**24
_LOCAL = {"local_files_only": True, "trust_remote_code": False}
_FIX_PAIR = "Use config and weights of one checkpoint"
_LAYER = re.compile(r"(?:model\.|gpt_neox\.|transformer\.)?(?:layers|h|blocks)\.(\d+)\.")
_FIX_FILE = "Copy the file again, or delete its folder if it is in our cache"
FLOATS = {"F64", "F32", "F16", "BF16"}
BEGIN_TOKENS = ("<|begin_of_text|>", "<s>", "<bos>")
ROOM = 1.2
"""Memory that a model needs while it works, in sizes of its weights; activations and the cache come on top."""


@dataclass(frozen=True, slots=True, eq=False)
class LoadedModel:
    """A model on its device, in evaluation mode, and its tokenizer."""

    entry: ModelEntry
    model: PreTrainedModel
    tokenizer: TextTokenizer
    device: torch.device
    dtype: torch.dtype
    parameters: int
    begin_ids: tuple[int, ...] = ()  # that every prompt begins with
    warnings: tuple[str, ...] = ()  # what a user has to know of it
    unchecked: bool = False  # whether its tensors' names and shapes are compared only when the weights are read
    served: ServedModel | None = None  # the same model at a server

    @property
    def family(self) -> str:
        return family_of(self.model.config)

    @property
    def positions(self) -> int:
        """The longest text, prompt and answer together."""
        return positions_of(self.model.config)

    @property
    def vocab_rows(self) -> int:
        """Rows of the head; those from ``tokenizer.vocab_size`` on decode to nothing, and are masked on every path."""
        return int(self.model.config.get_text_config().vocab_size)

    @property
    def attention(self) -> str:
        return str(self.model.config.get_text_config()._attn_implementation)

    @property
    def why_not_fast(self) -> str:
        """Why the backend ``fast`` cannot run it; empty where it can."""
        return why_not_fast(self.model.config)


def load_model(
    entry: ModelEntry, device: str = "auto", dtype: str | None = None, attention: str = "sdpa"
) -> LoadedModel:
    """The model on ``device`` (auto: a GPU when there is one) in ``dtype`` (the entry's without it)."""
    from transformers import AutoModelForCausalLM

    outline, target = load_outline(entry, dtype, attention), pick_device(device)
    free, needed = free_memory(target.type), outline.parameters * outline.dtype.itemsize
    if free is not None and needed * ROOM > free:
        problem = f"{entry.name} takes {needed / 2**30:.1f} GiB on {target.type}, where {free / 2**30:.1f} GiB are free"
        raise ModelError(problem, "Use another device, or a smaller dtype such as bfloat16")
    folder, kind = model_folder(entry), AutoModelForCausalLM
    options = {"dtype": outline.dtype, "attn_implementation": outline.attention, "use_safetensors": True}
    with _reading(entry, folder):
        read: Any = kind.from_pretrained(str(folder), **_LOCAL, **options, output_loading_info=True)
    model, report = read
    if missing := sorted(report["missing_keys"]):
        raise ModelError(f"{entry.name} has no tensor {shown(missing[0])}, which config.json asks for", _FIX_PAIR)
    _check_numbers(model, weight_files(folder))
    # Whatever config.json says: no later step may tie or drop a head that the weights have.
    model.config.tie_word_embeddings = outline.model.config.tie_word_embeddings
    for warning in outline.warnings:
        log.warning("%s", warning)
    return replace(outline, model=model.to(target).eval(), device=target)


def served_as(loaded: LoadedModel, url: str | None = None) -> LoadedModel:
    """The model at a server too, of ``url`` or of the environment. Its outline is enough where nothing is scored."""
    entry = loaded.entry
    folder = [] if entry.folder is None else [str(entry.folder)]
    names = [entry.alias, entry.name, *folder]
    return replace(loaded, served=served_model(server_address(url), names, loaded.tokenizer.encode(PROBE)))


def load_outline(entry: ModelEntry, dtype: str | None = None, attention: str = "sdpa") -> LoadedModel:
    """The model without its weights, checked: enough to plan what another machine computes, whatever its size."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

    if entry.problem:
        raise ModelError(f"{entry.name}: {entry.problem}", f"Correct it in {entry.source}, or `models rm {entry.name}`")
    folder, kind = model_folder(entry), AutoModelForCausalLM
    check_causal(folder)
    tokenizer = tokenizer_of(entry)
    wanted: torch.dtype = getattr(torch, dtype or entry.dtype)
    with _reading(entry, folder):
        config: Any = AutoConfig.from_pretrained(str(folder), **_LOCAL)
    shapes, positions = tensor_shapes(weight_files(folder)), positions_of(config)
    layers = len({match[1] for match in map(_LAYER.match, shapes) if match})
    wanted_layers = config.get_text_config().num_hidden_layers
    is_known = config.model_type in FAMILIES
    if (is_known and wanted_layers != layers) or not 1 <= positions <= MOST_POSITIONS:
        facts = f"config.json {wanted_layers} and max_position_embeddings {positions:,}"
        raise ModelError(f"{entry.name} has {layers} layers, {facts}", _FIX_PAIR)
    if getattr(config.get_text_config(), "attn_logit_softcapping", None):
        attention = "eager"  # the only one that caps
    with _reading(entry, folder), torch.device("meta"):
        model: Any = kind.from_config(config, dtype=wanted, attn_implementation=attention).eval()
        if (folder / "generation_config.json").is_file():
            model.generation_config = GenerationConfig.from_pretrained(str(folder))
        expected, rows, head = _stored_shapes(model)
    config, end = model.config, model.generation_config.eos_token_id
    text_config = config.get_text_config()
    _check_vocabulary(entry.name, text_config.vocab_size, text_config.eos_token_id if end is None else end, tokenizer)
    try:
        _check_shapes(entry.name, expected, shapes, {rows, head} if config.tie_word_embeddings else set())
        unchecked = False
    except ModelError:
        if is_known:
            raise
        unchecked = True  # transformers may rename what is stored, or leave it out
    has_own_head = config.tie_word_embeddings and {rows, head} <= shapes.keys()
    config.tie_word_embeddings &= not has_own_head
    warning = f"{entry.name} has tie_word_embeddings true in config.json, but its own {head}, which is used"
    warnings = (warning,) * has_own_head + _bins_hint(entry, tokenizer)
    parameters, begin = sum(map(math.prod, shapes.values())), begin_ids(entry, folder, tokenizer)
    return LoadedModel(entry, model, tokenizer, model.device, wanted, parameters, begin, warnings, unchecked)


def _stored_shapes(model: PreTrainedModel) -> tuple[dict[str, tuple[int, ...]], str, str]:
    """The shapes that a file of this model's weights has by name, and the names of its embedding and its head."""
    from transformers.core_model_loading import revert_weight_conversion

    weights: dict[str, Any] = model.state_dict()
    stored = {name: tuple(weight.shape) for name, weight in revert_weight_conversion(model, weights).items()}
    names = []
    for module in (model.get_input_embeddings(), model.get_output_embeddings()):
        parts = [name for name, part in model.named_modules(remove_duplicate=False) if part is module]
        name = f"{parts[0]}.weight" if parts else ""
        renamed = revert_weight_conversion(model, {name: weights[name]}) if name in weights else {}
        names.append(next(iter(renamed), name))
    return stored, names[0], names[1]


def _bins_hint(entry: ModelEntry, tokenizer: TextTokenizer) -> tuple[str, ...]:
    """What its tokenizer's added tokens say of a model that is not registered as one of bins."""
    numbers = "" if isinstance(entry.numbers, Alphabet) else bin_tokens(tokenizer)
    which = "as models of bins have, and no `bins` in its registry: its texts count as decimals"
    return (f"{entry.name} has {numbers}, {which}",) if numbers else ()


def model_folder(entry: ModelEntry) -> Path:
    """The Hugging Face folder of an entry, made first if it is an embedded one without a folder."""
    if entry.folder is not None:
        if not entry.folder.is_dir():
            problem = f"{entry.name} should be in {shown(entry.folder, 200)}, but there is no such folder"
            raise ModelError(problem, f"Correct it in {entry.source}")
        return entry.folder
    assert entry.shipped is not None
    folder = expanded_folder(entry)
    if folder.is_dir():
        return folder
    shipped = unpack(entry.shipped, entry.sha256)
    if shipped.tokenizer != entry.tokenizer:
        problem = f"{entry.name} was trained with {shipped.tokenizer}, the registry says {shown(entry.tokenizer)}"
        raise ModelError(problem, f"Correct it in {entry.source}")
    return publish(folder, functools.partial(expand, shipped), "the model cache")


def expanded_folder(entry: ModelEntry) -> Path:
    """Where an embedded model is expanded, whether it is there yet or not. The last figure is the form's version."""
    return cache_folder() / "models" / f"{entry.alias}-{entry.step}-{entry.sha256[:16]}-1"


def begin_ids(entry: ModelEntry, folder: Path, tokenizer: TextTokenizer) -> tuple[int, ...]:
    """What a prompt begins with: nothing, or the BOS that the checkpoint's tokenizer adds or the registry asks for."""
    if entry.shipped is not None or entry.bos is False:  # the embedded models were trained without
        return ()
    is_elsewhere = entry.tokenizer != OWN_TOKENIZER and (folder / "tokenizer.json").is_file()
    own_tokenizer = load_tokenizer(str(folder)) if is_elsewhere else tokenizer
    pieces = [own_tokenizer.piece(id_) for id_ in own_tokenizer.begin_ids]
    if entry.bos and not pieces:
        pieces = [token for token in BEGIN_TOKENS if tokenizer.id_of(token) in tokenizer.added][:1]
    ids = tuple(id_ for id_ in map(tokenizer.id_of, pieces) if id_ is not None)
    if len(ids) < max(len(pieces), bool(entry.bos)):
        problem = f"prompts of {entry.name} should begin with BOS, which {shown(tokenizer.name)} does not have"
        raise ModelError(problem, f"Correct `tokenizer`, or set `bos = false`, in {entry.source}")
    return ids


def _check_vocabulary(where: str, rows: int, end: int | list[int] | None, tokenizer: TextTokenizer) -> None:
    """Every id has a row, few rows have no id, the tags are tokens, and the model ends with an end token."""
    size = tokenizer.vocab_size
    name = shown(tokenizer.name)
    fix = "Register the tokenizer that it was trained with"
    if not size <= rows <= size + MOST_PADDING:
        problem = f"{where} has {rows:,} rows and the tokenizer {name} {size:,} tokens: they do not fit together"
        raise ModelError(problem, fix)
    if missing := [tag for tag in TAGS if tokenizer.id_of(tag) is None]:
        fix += ", or name what stands for the tags (`tags`)"
        raise ModelError(f"the tokenizer {name} of {where} has no token {missing[0]}", fix)
    for id_ in (value for value in (end if isinstance(end, list) else [end]) if isinstance(value, int)):
        if id_ >= size or id_ not in tokenizer.added:
            piece = shown(tokenizer.piece(id_)) if id_ < size else "no token"
            problem = f"{where} ends its texts with the id {id_}, which is {piece} in the tokenizer {name}"
            raise ModelError(problem, "Correct eos_token_id in its config.json, or name the right tokenizer")


def weight_files(folder: Path) -> list[Path]:
    """Of a Hugging Face folder: the one file, or those that its index names."""
    whole, index = folder / WEIGHTS, folder / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    try:
        return sorted({folder / name for name in parsed_json(index.read_bytes())["weight_map"].values()})
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        problem = f"{shown(folder, 200)} has no {WEIGHTS}, and no {index.name} that can be read"
        fix = "Save the model with save_pretrained(folder), which writes safetensors: pickled weights are not loaded"
        raise FileError(problem, fix) from error


def tensor_shapes(files: Iterable[Path]) -> dict[str, tuple[int, ...]]:
    """Of each tensor by name, from the files' headers alone."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in files:
        try:
            with safe_open(path, "numpy") as file:
                parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                shapes |= {name: tuple(part.get_shape()) for name, part in parts.items()}
                kinds = {part.get_dtype() for name, part in parts.items() if name != LIVE_IDS} - FLOATS
        except (OSError, SafetensorError) as error:
            problem = f"the weights {shown(path, 200)} are missing or damaged ({error})"
            raise FileError(problem, _FIX_FILE) from error
        if kinds:
            problem = f"the weights {shown(path, 200)} are quantized, of the type {', '.join(sorted(kinds))}"
            raise FileError(problem, "Save them as floating-point numbers")
    return shapes


def _check_shapes(where: str, expected: dict[str, Any], stored: dict[str, Any], tied: set[str]) -> None:
    """The weights are those that the config asks for: no tensor too few or too many, each of its shape. Of those that
    are ``tied`` one is enough."""
    needed = set(expected) - (tied if tied & set(stored) else set())
    # Old checkpoints hold the rotations' frequencies, which nothing reads.
    names = {name for name in stored if not name.endswith("rotary_emb.inv_freq")}
    wrong = [f"has no tensor {shown(name)}, which config.json asks for" for name in sorted(needed - names)]
    wrong += [f"has weights that config.json does not ask for: {shown(name)}" for name in sorted(names - set(expected))]
    wrong += [
        f"has {shown(name)} with the shape {list(stored[name])}, config.json says {list(expected[name])}"
        for name in sorted(names & set(expected))
        if stored[name] != expected[name]
    ]
    if wrong:
        others = f" ({len(wrong)} tensors do not fit)" if len(wrong) > 1 else ""
        raise ModelError(f"{where} {wrong[0]}{others}", _FIX_PAIR)


def _check_numbers(model: PreTrainedModel, files: Iterable[Path]) -> None:
    """Every number is finite, and no matrix is zero throughout, as where a download was broken off. A vector may be
    (biases are); what was damaged into other finite numbers is not seen. One read of the weights, without a copy."""
    import torch

    for name, weight in model.named_parameters():
        least, most = (float(end) for end in weight.detach().aminmax())  # NaN if one of them is
        if not math.isfinite(least + most):
            found = "NaN" if math.isnan(least) else "infinite values"
        elif weight.ndim > 1 and least == most == 0:
            found = "zeros alone"
        else:
            continue
        stored_as = {name, HEAD} if name == ROWS else {name}  # one of the two where they are tied
        files = list(files)
        path = next((path for path in files if stored_as & tensor_shapes([path]).keys()), files[0])
        fix = _FIX_FILE
        if weight.dtype == torch.float16 and found != "zeros alone":
            fix += "; if the file is whole, its numbers are too large for float16: use bfloat16 or float32"
        raise FileError(f"the weights {shown(path, 200)} hold {found} in {shown(name)}", fix)


@contextmanager
def _reading(entry: ModelEntry, folder: Path) -> Iterator[None]:
    """Without warnings and progress bars of transformers, and with its errors in one line: bad files can raise any."""
    from transformers import logging as transformers_logging

    level, has_bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    except Exception as error:
        reason = str(error)[:300] or type(error).__name__
        with suppress(OSError):
            if (folder / "config.json").read_bytes().startswith(BOM_UTF8):
                problem = f"{entry.name} cannot be loaded from {shown(folder, 200)}: config.json begins with a BOM"
                raise ModelError(problem, "Save it as UTF-8 without a byte order mark") from error
        raise ModelError(f"{entry.name} cannot be loaded from {shown(folder, 200)} ({reason})", _FIX_PAIR) from error
    finally:
        transformers_logging.set_verbosity(level)
        if has_bar:
            transformers_logging.enable_progress_bar()


# --- a list of models -------------------------------------------------------------------------------------------------


def summarise(entry: ModelEntry) -> dict[str, Any]:
    """One line of a list of models, an embedded one without torch; ``problem`` says what cannot be read."""
    family = rows = parameters = size_mb = None
    is_expanded = False
    fits = []
    problem = ""
    why = ""
    warnings: tuple[str, ...] = ()
    try:
        if entry.shipped is not None:
            shipped = unpack(entry.shipped, entry.sha256)
            family, rows = FAMILIES[shipped.shape["family"]], VOCAB_ROWS[shipped.tokenizer]
            parameters = rows * len(shipped.tail_row) + sum(weights.size for weights in shipped.body.values())
            is_expanded, files = expanded_folder(entry).is_dir(), [entry.shipped]
        else:
            model = load_outline(entry)
            family = model.family
            rows = model.vocab_rows
            parameters = model.parameters
            warnings = model.warnings
            why = model.why_not_fast
            files = weight_files(model_folder(entry))
        size_mb = round(sum(file.stat().st_size for file in files) / 1e6, 2)
        needed = parameters * (4 if entry.dtype == "float32" else 2) * ROOM
        # Torch, which takes seconds to import, is asked only where the GPU driver's tool exists.
        for device in ["cpu", "cuda"] if shutil.which("nvidia-smi") else ["cpu"]:
            fits += [device] if needed <= (free_memory(device) or 0) else []
    except (DriftscopeError, OSError) as error:
        problem = str(error)
    backend = None
    if not problem:
        backend = "hf" if why else "fast"
    return {
        "alias": entry.alias,
        "step": entry.step,
        "family": family,
        "tokenizer": entry.tokenizer,
        "vocab_size": rows,  # of the embedding
        "parameters": parameters,
        "size_mb": size_mb,  # of the weights on disk
        "dtype": entry.dtype,
        "backend": backend,  # that `auto` chooses
        "why_not_fast": why,
        **_numbers_of(entry),
        "embedded": entry.shipped is not None,
        "expanded": is_expanded,  # whether the cache holds an embedded model's folder
        "fits": fits,  # devices with room for it
        "place": str(entry.shipped or entry.folder),
        "card": str(entry.card) if entry.card else None,
        "source": str(entry.source),
        "notes": entry.notes,
        "problem": problem,
        "warnings": list(warnings),  # of a model that can be loaded
    }


def _numbers_of(entry: ModelEntry) -> dict[str, Any]:
    """How it writes them: in decimals or in bins. Nothing is known where its bins cannot be read."""
    numbers = entry.numbers
    if entry.problem:
        return dict.fromkeys(("numbers", "decimals", "integer_digits", "bins"))
    name = numbers.words.partition(", ")[0]
    if isinstance(numbers, Alphabet):
        return {"numbers": name, "decimals": None, "integer_digits": None, "bins": numbers.words}
    decimals = [numbers.least_decimals, numbers.most_decimals]
    return {"numbers": name, "decimals": decimals, "integer_digits": numbers.most_integer_digits, "bins": None}


def sized(model: str) -> str:
    """``alias:step`` and the size of its layers; the name alone where it is not registered or cannot be read."""
    try:
        entry = load_registry().find(model)
        files = [entry.shipped] if entry.shipped else weight_files(model_folder(entry))
        shapes = tensor_shapes(files)
    except DriftscopeError:
        return model
    layers = [math.prod(shape) for name, shape in shapes.items() if _LAYER.match(name) and len(shape) > 1]
    return f"{model} ({parameter_count(sum(layers))} weights in the layers)"
