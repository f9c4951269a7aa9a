"""A model of 48 rows and a constraint over them, small enough to be asked thousands of times; and loops by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.decode.hf import HfBackend
from engine.decode.plan import DecodeOptions, Request, Sampling
from engine.decode.sampling import draw, uniform
from engine.decode.steps import Back, Counters, Event, Stop
from engine.lp.constraint import HasAutomaton
from engine.lp.driver import Tables
from engine.lp.table import ILLEGAL, NEXT, NO_ID, STAY, SYMBOLS, Automaton, Cells, Program
from engine.lp.unconstrained import Unconstrained
from tests.engine.decode.reference import probabilities
from tools.training.shapes import ModelShape

END, OPEN, CLOSE = 0, (5, 6), 7
LETTERS = range(10, 30)
TOKENS, ROWS = 40, 48
GREEDY, PLAIN = Sampling(0.0), Sampling()


class Letters:
    """OPEN, any number of letters, CLOSE, the end. Half of the letters are legal at the first place only."""

    name = "letters"

    def __init__(self) -> None:
        classes = np.zeros(ROWS, dtype=np.int16)
        classes[list(LETTERS)] = 1
        classes[list(LETTERS)[::2]] = 2
        goto = np.full((3, 3 + SYMBOLS), ILLEGAL, dtype=np.int16)
        move = np.full(goto.shape, STAY, dtype=np.int8)
        goto[0, [1, 2]] = 1
        goto[1, [1, 3]] = 1
        goto[2, 3] = 1
        move[:, 3] = NEXT
        self.automaton = Automaton(classes, goto, move, ("any letter", "a letter, or the close", "the close"))

    def program(self, close: int = CLOSE, entry: int = 0) -> Program:
        """``entry`` 2 begins where nothing but the close may come; NO_ID as the close is none."""
        cells = Cells()
        cells.force(OPEN)
        cells.choose(entry, 0, (close, NO_ID))
        cells.force([END])
        return cells.program()


LETTERS_ONLY = Letters()
NO_LP = Unconstrained(TOKENS, ROWS)


def tiny_model(seed: int = 0) -> Any:
    """Weights wide enough that what came before matters."""
    torch.manual_seed(seed)
    shape = ModelShape("qwen3", 16, 1, 2, 1, 24)
    model: Any = shape.model(shape.config(ROWS, end=END)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.ndim == 1 else 0.0, 0.3)
    return model


def requests(count: int, constraint: HasAutomaton = LETTERS_ONLY, limit: int = 30, **changes: Any) -> list[Request]:
    """Prompts of different length, and keys that are no order."""
    if isinstance(constraint, Letters):
        program = constraint.program()
    else:
        cells = Cells()
        cells.choose(0, -1)
        program = cells.program()
    given = {"program": program, "limit": limit, **changes}
    return [
        Request(sample=100 + number, key=7 * number + 3, prompt=tuple(range(31, 33 + number % 5)), **given)
        for number in range(count)
    ]


def decoded(
    model: Any,
    given: Sequence[Request],
    sampling: Sampling = GREEDY,
    constraint: HasAutomaton = LETTERS_ONLY,
    *,
    counters: Counters | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    **options: Any,
) -> list[Event]:
    """All events of a run."""
    backend = HfBackend(model, constraint, END, TOKENS)
    found = DecodeOptions(sampling, **options)
    return list(backend.run(given, found, Counters() if counters is None else counters, cancelled))


def texts(events: Sequence[Event]) -> dict[int, list[int]]:
    """Ids by sample. Each step is the next of its sample, and nothing follows a stop."""
    ids: dict[int, list[int]] = {}
    stopped = set()
    for event in events:
        assert event.sample not in stopped
        if isinstance(event, Stop):
            stopped.add(event.sample)
            ids.setdefault(event.sample, [])
        elif isinstance(event, Back):
            del ids[event.sample][event.pos :]
        else:
            assert event.pos == len(ids.setdefault(event.sample, []))
            ids[event.sample].append(event.token_id)
    return ids


def stops(events: Sequence[Event]) -> dict[int, str]:
    """Reasons by sample; two of one sample would be an error of ``texts``."""
    texts(events)
    return {event.sample: event.reason for event in events if isinstance(event, Stop)}


@torch.inference_mode()
def by_hand(
    model: Any, constraint: HasAutomaton, request: Request, end: int, sampling: Sampling = GREEDY, seed: int = 0
) -> tuple[list[int], list[bool], list[tuple[Tensor, Tensor]]]:
    """Ids, which of them were forced, scores and masks: no cache, no padding, no ``generate``, one row."""
    tables = Tables.of(constraint.automaton, [request.program])
    state = tables.start()
    ids: list[int] = []
    forced, seen = [], []
    while len(ids) < request.limit and (not ids or ids[-1] != end):
        written = torch.tensor([[*request.prompt, *ids]])
        raw, mask = model(written, use_cache=False, logits_to_keep=1).logits[:, -1].float(), tables.mask(state)
        scores = raw.masked_fill(~mask, -torch.inf)
        number = uniform(seed, torch.tensor([request.key]), torch.tensor([len(ids)]))
        token = scores.argmax(dim=1) if sampling.is_greedy else draw(probabilities(scores, sampling), number)
        forced.append(constraint.name != "none" and int(tables.forced_id(state)) != NO_ID)
        seen.append((raw[0], mask[0]))
        ids.append(int(token))
        state = tables.step(state, token)
    return ids, forced, seen
