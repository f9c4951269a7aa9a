"""Our LPs in an unmodified vLLM: ``vllm serve MODEL --logits-processors engine.lp.vllm:DriftscopeLp``.

A request says which LP by ``vllm_xargs`` (``extra_args`` offline), as ``served`` has it:
``{"driftscope_lp": "exact", "driftscope_smiles": "CCO"}``. One without these is left alone, one that cannot be met is
refused when it is made.

One class for both of vLLM's runners, each of whose loaders asks for a base of its own. The first (a CPU has only this
one) tells what came, went and moved between the calls; the second names a slot for each row. Under the second the ids
are read from the device at each call with a row of ours, which waits for it.
"""

from __future__ import annotations

import functools
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from torch import Tensor
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor as FirstRunnerProcessor
from vllm.v1.sample.logits_processor import process_dict_updates

from engine.errors import DriftscopeError, one_line
from engine.lp.served import NAME, ServedLp
from engine.lp.served_rows import MOST_CONSTRAINTS, Blank, Compiler, ServedBatch, ServedRow, of_list
from engine.models.registry import load_registry
from engine.models.tags import tokenizer_of
from engine.text.tokenizers import TextTokenizer, load_tokenizer

try:
    from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as SecondRunnerProcessor
except ImportError:  # a vLLM of before its second runner

    class SecondRunnerProcessor:  # type: ignore[no-redef]
        """In its place."""


log = logging.getLogger(__name__)

UNFIT: dict[str, Callable[[SamplingParams], object]] = {
    "ignore_eos": lambda params: params.ignore_eos,
    "min_tokens": lambda params: params.min_tokens,
    "logit_bias": lambda params: params.logit_bias,
    "bad_words": lambda params: params.bad_words,
    "allowed_token_ids": lambda params: params.allowed_token_ids,
    "structured_outputs": lambda params: params.structured_outputs,
    "return_sampling_mask": lambda params: getattr(params, "return_sampling_mask", False),
    "trace_decode_token_ids": lambda params: getattr(params, "trace_decode_token_ids", None),
    "thinking_token_budget": lambda params: getattr(params, "thinking_token_budget", None),
}
"""What allows, forbids or forces tokens too: two of a kind cannot both be met."""
Answer = tuple[ServedRow, list[int]]
"""A row, and vLLM's own list of its ids, which grows."""


class DriftscopeLp(FirstRunnerProcessor, SecondRunnerProcessor):
    """Both runners make one an engine, and call it once a step."""

    def __init__(self, vllm_config: VllmConfig, state: Any, pin: bool | None = None) -> None:
        """``state``: the first runner's device, or what the second one shares of its requests."""
        model = vllm_config.model_config
        self._compiler = Compiler(_tokenizer_of(model.tokenizer), model.get_vocab_size())
        is_first = isinstance(state, torch.device | str)
        self._device = torch.device(state) if is_first else state.device
        self._requests: Any = None if is_first else state
        self._any = self._compiler.compiled(ServedLp("none", "C"))  # for requests that may only end
        self._blank = Blank()
        self._batches: dict[int, ServedBatch] = {}  # by the identity of the constraint, which each holds
        self._answers: dict[int, Answer] = {}  # of the first runner, by row
        self._slots: dict[int, ServedRow] = {}  # of the second

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """``ValueError``, which a server answers with 400, for what cannot be met."""
        try:
            request = ServedLp.of(sampling_params.extra_args)
            if request is None:
                return
            _check_beside(sampling_params)
            compiler = _compiler_here()
            if compiler is not None:
                compiler.check(request, sampling_params.max_tokens)
        except DriftscopeError as error:
            raise ValueError(str(error)) from error

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: Any) -> None:
        """Of the first runner."""
        process_dict_updates(self._answers, batch_update, self._begun)

    def add_request(self, req_idx: int, sampling_params: SamplingParams) -> bool:
        """Of the second runner, whose slots are used again."""
        self._slots.pop(req_idx, None)
        row = self._row(sampling_params)
        if row is not None:
            self._slots[req_idx] = row
        return row is not None

    def apply(self, logits: Tensor, ctx: Any = None) -> Tensor:
        """In place, or into memory that the next call uses again."""
        of_rows = self._followed() if ctx is None else self._followed_slots(ctx)
        by_constraint: dict[int, list[int]] = {}
        for place in sorted(of_rows):
            by_constraint.setdefault(id(of_rows[place].compiled.constraint), []).append(place)
        if len(self._batches) > MOST_CONSTRAINTS:
            self._batches = {key: batch for key, batch in self._batches.items() if key in by_constraint}
        for key, places in by_constraint.items():
            rows = [of_rows[place] for place in places]
            if key not in self._batches:
                constraint, end_id = rows[0].compiled.constraint, self._compiler.end_id
                self._batches[key] = ServedBatch(constraint, end_id, logits.device, self._blank)
            logits = self._batches[key].apply(logits, places, rows)
        return logits

    def _begun(self, params: SamplingParams, prompt: list[int] | None, ids: list[int]) -> Answer | None:
        row = self._row(params)
        return None if row is None else (row, ids)

    def _row(self, params: SamplingParams) -> ServedRow | None:
        """None for a request that is left alone. What was not refused when it was made may only end."""
        arguments = params.extra_args or {}
        if NAME not in arguments:
            return None
        try:
            request = ServedLp.of(arguments)
            assert request is not None
            self._compiler.check(request, params.max_tokens)
            return ServedRow(self._compiler.compiled(request))
        except Exception as error:  # noqa: BLE001 - raised here it would end the server for everybody
            return ServedRow(self._any, refused=one_line(str(error)) or type(error).__name__)

    def _followed(self) -> dict[int, ServedRow]:
        """By row of the logits."""
        for row, ids in self._answers.values():
            row.follow(len(ids), of_list(ids), self._compiler.end_id)
        return {place: row for place, (row, _) in self._answers.items()}

    def _followed_slots(self, ctx: Any) -> dict[int, ServedRow]:
        """By row of the logits; under speculation a request has a row more for each token that is proposed."""
        if not any(slot in self._slots for slot in ctx.idx_mapping_np.tolist()):
            return {}
        layout = (ctx.expanded_idx_mapping, ctx.expanded_local_pos, ctx.input_ids, ctx.pos)
        slots, behind, fed, positions = torch.stack([part.long() for part in layout]).tolist()
        found: dict[int, ServedRow] = {}
        counts = {
            place: max(0, positions[place] + 1 - behind[place] - int(self._requests.prompt_len.np[slot]))
            for place, slot in enumerate(slots) if slot in self._slots
        }  # fmt: skip
        tails = self._tails({slots[place]: count for place, count in counts.items()})
        for place, count in counts.items():
            row, proposed = self._slots[slots[place]], fed[place + 1 - behind[place] : place + 1]
            written = functools.partial(self._ids, slots[place], count, *tails[slots[place]])
            row.follow(count, written, self._compiler.end_id)
            if proposed:  # behind the request's own row
                row, ids = row.twin(), [*row.written, *proposed]
                row.follow(len(ids), of_list(ids), self._compiler.end_id)
            found[place] = row
        return found

    def _tails(self, counts: dict[int, int]) -> dict[int, tuple[int, list[int]]]:
        """By slot the answer's ids from the last one that was followed on, and its number: one transfer."""
        starts = {slot: max(0, min(count, len(self._slots[slot].written)) - 1) for slot, count in counts.items()}
        width = max(counts[slot] - start for slot, start in starts.items())
        if width <= 0:
            return dict.fromkeys(counts, (0, []))
        first = torch.tensor([int(self._requests.prompt_len.np[slot]) + start for slot, start in starts.items()])
        columns = first[:, None] + torch.arange(width)
        table = self._requests.all_token_ids.gpu
        index = torch.tensor(list(counts))[:, None].to(self._device)
        ids = table[index, columns.clamp(max=table.shape[1] - 1).to(self._device)].tolist()
        return {
            slot: (start, of_slot[: counts[slot] - start])
            for (slot, start), of_slot in zip(starts.items(), ids, strict=True)
        }

    def _ids(self, slot: int, count: int, start: int, tail: list[int], wanted: int) -> list[int]:
        """A slot's ids from ``wanted`` on: known already, or read where a row begins anew."""
        if wanted >= start:
            return tail[wanted - start :]
        prompt = int(self._requests.prompt_len.np[slot])
        ids: list[int] = self._requests.all_token_ids.gpu[slot, prompt + wanted : prompt + count].tolist()
        return ids


def _tokenizer_of(place: str) -> TextTokenizer:
    """As the registry has it where the model is registered: with other names of the tags. A hub's name is that of the
    folder that vLLM has just read."""
    if not Path(place).exists():
        place = snapshot_download(place, local_files_only=True)
    for entry in load_registry().entries:
        if entry.folder is not None and Path(entry.folder).resolve() == Path(place).resolve():
            return tokenizer_of(entry)
    return load_tokenizer(place)


Place = tuple[str, int]
"""A model's tokenizer, and the rows of its head."""
_known_models: set[Place] = set()


def _compiler_here() -> Compiler | None:
    """That of the model of this process: ``validate_params`` is told nothing of it, and where requests are taken no
    processor is made. None where there is no model, or several: a request does not say which.
    A model that this process loads later is taken for the first one."""
    if not _known_models:
        _known_models.update(_models_here())
    return _compiler_of(*_known_models) if len(_known_models) == 1 else None


def _models_here() -> set[Place]:
    """Of the configurations in this process, which nothing names. A server has put them out of the collector's sight
    before its first request."""
    is_frozen = gc.get_freeze_count() > 0
    if is_frozen:
        gc.unfreeze()
    configs = [found for found in gc.get_objects() if type(found) is VllmConfig]
    if is_frozen:
        gc.freeze()
    return {(config.model_config.tokenizer, config.model_config.get_vocab_size()) for config in configs}


@functools.lru_cache(maxsize=1)
def _compiler_of(place: Place) -> Compiler:
    return Compiler(_tokenizer_of(place[0]), place[1])


def _check_beside(params: SamplingParams) -> None:
    for name, is_asked in UNFIT.items():
        if is_asked(params):
            raise DriftscopeError(f"{name} cannot be met beside {NAME}", "Leave one of the two out")
