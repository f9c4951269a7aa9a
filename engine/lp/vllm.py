"""Our LPs in an unmodified vLLM: ``vllm serve MODEL --logits-processors engine.lp.vllm:DriftscopeLp``.

A request says which LP by ``vllm_xargs`` (``extra_args`` offline), as ``served`` has it:
``{"driftscope_lp": "exact", "driftscope_smiles": "CCO"}``. One without these is left alone, one that cannot be met is
refused when it is made.

One class for both of vLLM's runners, each of whose loaders asks for a base of its own. The first (a CPU has only this
one) tells what came, went and moved between the calls; the second names a slot for each row. Under the second the ids
are read from the device at each call, which waits for it: no graph is broken, and no step overlaps the next.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from vllm.config import VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.v1.sample.logits_processor import LogitsProcessor as FirstRunnerProcessor
from vllm.v1.sample.logits_processor import process_dict_updates

from engine.errors import DriftscopeError, one_line
from engine.lp.served import NAME, ServedLp
from engine.lp.served_rows import Compiled, Compiler, ServedBatch, ServedRow
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
    "thinking_token_budget": lambda params: getattr(params, "thinking_token_budget", None),
}
"""What allows, forbids or forces tokens too: two of a kind cannot both be met."""
Answer = tuple[ServedRow, list[int]]
"""A row, and vLLM's own list of its ids, which grows."""


class DriftscopeLp(FirstRunnerProcessor, SecondRunnerProcessor):
    """Both runners make one an engine, and call it once a step."""

    def __init__(self, vllm_config: VllmConfig, state: Any, pin: bool | None = None) -> None:
        """``state``: the first runner's device, or what the second one shares of its requests."""
        self._compiler = compiler_of(vllm_config)
        is_first = isinstance(state, torch.device | str)
        self._device = torch.device(state) if is_first else state.device
        self._requests: Any = None if is_first else state
        self._batches: dict[int, ServedBatch] = {}  # by the constraint's identity; the compiler keeps it
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
            if compiler is not None and sampling_params.max_tokens is not None:
                compiler.check_limit(request, sampling_params.max_tokens)
            elif compiler is not None:
                compiler.compiled(request)
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
        """In place."""
        if ctx is None:
            of_rows = {place: (row, list(ids)) for place, (row, ids) in self._answers.items() if place < len(logits)}
        else:
            of_rows = self._of_slots(ctx)
        by_constraint: dict[int, list[int]] = {}
        for place, (row, _) in of_rows.items():
            by_constraint.setdefault(id(row.compiled.constraint), []).append(place)
        for key, places in by_constraint.items():
            rows = [of_rows[place][0] for place in places]
            if key not in self._batches:
                self._batches[key] = ServedBatch(rows[0].compiled.constraint, self._compiler.end_id, logits.device)
            self._batches[key].apply(logits, places, rows, [of_rows[place][1] for place in places])
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
            compiled, why = self._compiler.compiled(request), ""
            if params.max_tokens is not None:
                self._compiler.check_limit(request, params.max_tokens)
        except Exception as error:  # noqa: BLE001 - raised here it would end the server for everybody
            compiled, why = self._any_molecule(), one_line(str(error)) or type(error).__name__
        row = ServedRow(compiled)
        if why:
            row.fail(why)
        return row

    def _any_molecule(self) -> Compiled:
        return self._compiler.compiled(ServedLp("none", "C"))

    def _of_slots(self, ctx: Any) -> dict[int, Answer]:
        """By row of the logits; under speculation a request has a row more for each token that is proposed."""
        slots, behind = ctx.expanded_idx_mapping.tolist(), ctx.expanded_local_pos.tolist()
        fed, positions = ctx.input_ids.tolist(), ctx.pos.tolist()
        ours = [place for place, slot in enumerate(slots) if slot in self._slots]
        if not ours:
            return {}
        lengths = {place: positions[place] + 1 - behind[place] for place in ours}  # without what is proposed
        index = torch.tensor([slots[place] for place in ours], device=self._device)
        table = self._requests.all_token_ids.gpu[index, : max(lengths.values())].tolist()
        found: dict[int, Answer] = {}
        for place, ids in zip(ours, table, strict=True):
            row, proposed = self._slots[slots[place]], behind[place]
            prompt = int(self._requests.prompt_len.np[slots[place]])
            written = ids[prompt : lengths[place]]
            if proposed:
                row = row.twin()
                written += fed[place + 1 - proposed : place + 1]
            found[place] = row, written
        return found


def compiler_of(config: VllmConfig) -> Compiler:
    return Compiler(_tokenizer_of(config.model_config.tokenizer), config.model_config.get_vocab_size())


def _tokenizer_of(place: str) -> TextTokenizer:
    """As the registry has it where the model is registered: with other names of the tags."""
    for entry in load_registry().entries:
        if entry.folder is not None and Path(entry.folder).resolve() == Path(place).resolve():
            return tokenizer_of(entry)
    return load_tokenizer(place)


_compilers: list[Compiler] = []


def _compiler_here() -> Compiler | None:
    """That of the model of this process. ``validate_params`` is told nothing of the model, in the process that takes
    requests no processor is made, and nothing there names the configuration: so it is looked for once. None where there
    is none, or there are two."""
    if not _compilers:
        configs = [found for found in gc.get_objects() if type(found) is VllmConfig]
        places = {(config.model_config.tokenizer, config.model_config.get_vocab_size()) for config in configs}
        if len(places) != 1:
            return None
        _compilers.append(compiler_of(configs[0]))
    return _compilers[0]


def _check_beside(params: SamplingParams) -> None:
    for name, is_asked in UNFIT.items():
        if is_asked(params):
            raise DriftscopeError(f"{name} cannot be met beside {NAME}", "Leave one of the two out")
