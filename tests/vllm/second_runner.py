"""Plays vLLM's second runner, which needs a GPU: its own loader, its own records, tensors on the CPU in place of its
buffers. Run by vLLM's Python; prints what each row allowed, step by step, as one JSON document.

As there: slots are used again, rows change their order at each step, a prompt is read in parts, rows of others stand
between, and a request that is speculated on has a row for each token that is proposed.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import SamplingParams
from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsContext, LogitsProcRequestState
from vllm.v1.worker.gpu.sample.logits_processor.loader import (
    _load_v2_logitsprocs_by_fqcns,
    build_custom_logits_processors_params_validator,
)

NAME = "engine.lp.vllm:DriftscopeLp"
SLOTS, LENGTH = 6, 512
READ_AT_ONCE, MOST_PROPOSED = 3, 2
"""Tokens of a prompt that is read in parts, and of a draft."""
ENDED, THROWN_OUT, PROPOSED = 0.05, 0.03, 0.5
"""The shares of requests, at a step, that their user ends, that lose their place and are read anew, and that a draft
model proposes tokens for."""


@dataclass
class Asked:
    arguments: dict[str, Any]
    prompt: list[int]
    slot: int
    written: list[int] = field(default_factory=list)
    read: int = 0  # of all that is known

    @property
    def known(self) -> list[int]:
        return [*self.prompt, *self.written]


class Runner:
    """The requests' buffers and the processor, as the runner has them."""

    def __init__(self, folder: str) -> None:
        config = EngineArgs(model=folder, enforce_eager=True, dtype="float32").create_engine_config()
        (kind,) = _load_v2_logitsprocs_by_fqcns([NAME])
        self.vocab = config.model_config.get_vocab_size()
        self.ids = torch.zeros((SLOTS, LENGTH), dtype=torch.int32)
        self.prompts = np.zeros(SLOTS, dtype=np.int32)
        lengths = torch.zeros(SLOTS, dtype=torch.int32)
        state = LogitsProcRequestState(
            device=torch.device("cpu"),
            max_num_reqs=SLOTS,
            vocab_size=self.vocab,
            all_token_ids=SimpleNamespace(gpu=self.ids),
            prompt_len=SimpleNamespace(np=self.prompts),
            prefill_len=SimpleNamespace(np=self.prompts),
            total_len=SimpleNamespace(gpu=lengths),
        )
        self.processor = kind(config, state)
        self.validate = build_custom_logits_processors_params_validator([NAME])

    def add(self, asked: Asked) -> bool:
        params = SamplingParams(max_tokens=300, extra_args=asked.arguments or None)
        self.validate(params)
        self.ids[asked.slot] = 7  # what the slot held before
        self.ids[asked.slot, : len(asked.prompt)] = torch.tensor(asked.prompt, dtype=torch.int32)
        self.prompts[asked.slot] = len(asked.prompt)
        return bool(self.processor.add_request(asked.slot, params))

    def apply(self, rows: list[tuple[Asked, list[int]]], logits: torch.Tensor) -> torch.Tensor:
        """Rows with what is proposed behind what is written; each is a request's rows in a line."""
        slots, behind, fed, positions = [], [], [], []
        for asked, proposed in rows:
            known = asked.known[: asked.read]
            for at, id_ in enumerate([known[-1], *proposed]):
                slots.append(asked.slot)
                behind.append(at)
                fed.append(id_)
                positions.append(len(known) - 1 + at)
        of_rows = torch.tensor(slots)
        of_requests = [asked.slot for asked, _ in rows]
        context = LogitsContext(
            expanded_idx_mapping=of_rows,
            idx_mapping=torch.tensor(of_requests),
            idx_mapping_np=np.array(of_requests),
            expanded_local_pos=torch.tensor(behind),
            input_ids=torch.tensor(fed),
            pos=torch.tensor(positions),
            seq_lens_upper_bound_np=np.array(positions) + 1,
        )
        self.processor.apply_staged_writes()
        out: torch.Tensor = self.processor.apply(logits, context)
        return out

    def write(self, asked: Asked, ids: list[int]) -> None:
        start = len(asked.prompt) + len(asked.written)
        self.ids[asked.slot, start : start + len(ids)] = torch.tensor(ids, dtype=torch.int32)
        asked.written += ids
        asked.read += len(ids)


def allowed(row: torch.Tensor) -> list[int]:
    """The ids, where they are few; of a row that is left alone how many are finite."""
    ids = torch.isfinite(row).nonzero().flatten().tolist()
    return ids if len(ids) < 2_000 else [-len(ids)]


def main(folder: str, requests: list[dict[str, Any]], steps: int, end: int) -> None:
    runner, draw = Runner(folder), random.Random(1)
    free, waiting, running = list(range(SLOTS)), list(requests), list[Asked]()
    taken, seen = [], list[dict[str, Any]]()
    for step in range(steps):
        while free and waiting:
            request = waiting.pop(0)
            asked = Asked(request["arguments"], request["prompt"], free.pop(draw.randrange(len(free))))
            taken.append(runner.add(asked))
            running.append(asked)
        draw.shuffle(running)
        for asked in running:
            if draw.random() < THROWN_OUT:
                asked.read = 0
            asked.read = min(len(asked.known), asked.read + READ_AT_ONCE)
        scores = torch.Generator().manual_seed(step)
        of_rows = [torch.randn((MOST_PROPOSED + 1, runner.vocab), generator=scores) for _ in running]
        rows = []
        for asked, logits in zip(running, of_rows, strict=True):
            proposed = []
            if asked.read == len(asked.known) and asked.written and draw.random() < PROPOSED:
                # What will be chosen, as a good draft says; behind it anything.
                alone = runner.apply([(asked, [])], logits[:1].clone())
                proposed = [int(alone[0].argmax()), draw.randrange(5, 60)][: draw.randint(1, MOST_PROPOSED)]
            rows.append((asked, proposed))
        given = torch.cat([part[: 1 + len(proposed)] for part, (_, proposed) in zip(of_rows, rows, strict=True)])
        out = runner.apply(rows, given.clone())
        at = 0
        for asked, proposed in rows:
            of_request = out[at : at + 1 + len(proposed)]
            is_reading = asked.read < len(asked.known)
            for number, row in enumerate(of_request):
                is_kept = bool(torch.equal(row, given[at + number])) if not asked.arguments else None
                seen.append(
                    {
                        "arguments": asked.arguments,
                        "written": [*asked.written, *proposed[:number]],
                        "proposed": number,
                        "is_reading": is_reading,
                        "allowed": allowed(row),
                        "is_kept": is_kept,
                    }
                )
            if not is_reading:
                accepted, choice = [], int(of_request[0].argmax())
                for number, id_ in enumerate(proposed):  # as long as the draft is what would be chosen
                    if id_ != choice:
                        break
                    accepted.append(id_)
                    choice = int(of_request[number + 1].argmax())
                runner.write(asked, [*accepted, choice])
            at += 1 + len(proposed)
        for asked in list(running):
            if end in asked.written or draw.random() < ENDED:
                running.remove(asked)
                free.append(asked.slot)
    json.dump({"taken": taken, "seen": seen}, sys.stdout)


if __name__ == "__main__":
    document = json.loads(sys.argv[2])
    main(sys.argv[1], **document)
