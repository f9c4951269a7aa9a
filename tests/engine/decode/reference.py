"""Decoding in the plainest way there is: the whole text through the whole model for every token of every sample.

On models of random weights: one of 48 rows, under a toy LP, that may be asked thousands of times, and one a tokenizer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.chem.smiles import parse_smiles
from engine.decode.body import Body
from engine.decode.fast import FastBackend
from engine.decode.hf import HfBackend
from engine.decode.plan import Context, DecodeOptions, Request, Sampling, requests_for
from engine.decode.sampling import draw, uniform
from engine.decode.steps import Back, Counters, Diagnosis, Event, Stop
from engine.lp.constraint import Constraint, HasAutomaton, LpParameters, build_constraint
from engine.lp.driver import State, Tables
from engine.lp.table import ILLEGAL, NEXT, NO_ID, STAY, SYMBOLS, Automaton, Cells, Program
from engine.lp.unconstrained import Unconstrained
from engine.models.shipped import VOCAB_ROWS
from engine.records import GROUP_UNIFORM, NumberFormat
from engine.text.tokenizer_build import QWEN_BINS
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.small_models import SMALL
from tools.training.shapes import ModelShape

GREEDY, PLAIN = Sampling(0.0), Sampling()
BACKENDS = ("fast", "static", "hf")

# --- a toy of 48 rows -------------------------------------------------------------------------------------------------
END, OPEN, CLOSE = 0, (5, 6), 7
LETTERS = range(10, 30)
TOKENS, ROWS = 40, 48


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


def tiny_requests(
    count: int, constraint: HasAutomaton = LETTERS_ONLY, limit: int = 24, **changes: Any
) -> list[Request]:
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


# --- real tokenizers --------------------------------------------------------------------------------------------------
SMILES = ("CC=O", "C", "c1ccccc1[N+](=O)[O-]", "C[C@H](N)C(=O)O", "[NH4+]")
FORM = NumberFormat(1, 3, 2)
"""Shorter numbers than usual, so that whole answers stay short."""


def fresh_model(tokenizer: str = "qwen3") -> Any:
    """Random weights, the head's apart from the embedding's: tied ones would repeat the token that came last."""
    shape = SMALL[tokenizer]
    torch.manual_seed(0)
    model = shape.model(shape.config(VOCAB_ROWS[tokenizer], end=0)).eval()
    torch.nn.init.normal_(model.model.embed_tokens.weight, 0.0, 0.3)
    model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.3)
    return model


small_model = functools.cache(fresh_model)
"""For tests that change nothing of it."""


@functools.cache
def made(lp: str, tokenizer: str = "qwen3", **parameters: Any) -> tuple[TextTokenizer, Constraint]:
    loaded = load_tokenizer(tokenizer)
    form = GROUP_UNIFORM if tokenizer == QWEN_BINS else FORM
    return loaded, build_constraint(lp, loaded, VOCAB_ROWS[tokenizer], LpParameters(**{"form": form, **parameters}))


def requests_of(
    constraint: Constraint,
    tokenizer: TextTokenizer,
    smiles: Sequence[str] = SMILES,
    limit: int | None = None,
    generations: int = 1,
) -> list[Request]:
    limits = None if limit is None else [limit] * len(smiles)
    molecules = [parse_smiles(text) for text in smiles]
    return requests_for(molecules, constraint, Context(tokenizer, 4096), generations=generations, limits=limits)


# --- backends ---------------------------------------------------------------------------------------------------------
def backend_of(
    kind: str, model: Any, constraint: HasAutomaton, tokenizer: TextTokenizer | None = None
) -> FastBackend | HfBackend:
    """One of BACKENDS, over the toy's rows where no tokenizer is given."""
    end, size = (END, TOKENS) if tokenizer is None else (tokenizer.end_id or 0, tokenizer.vocab_size)
    if kind == "hf":
        return HfBackend(model, constraint, end, size)
    return FastBackend(model, constraint, end, size, is_static=kind == "static")


def events_of(
    backend: FastBackend | HfBackend,
    requests: Sequence[Request],
    sampling: Sampling = PLAIN,
    *,
    counters: Counters | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    **options: Any,
) -> list[Event]:
    given = DecodeOptions(sampling, **{"seed": 5, "batch_size": 3, **options})
    return list(backend.run(requests, given, Counters() if counters is None else counters, cancelled))


@dataclass(slots=True)
class Written:
    """One sample as a stream tells it, or as the plainest loop writes it."""

    ids: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    reason: str = ""
    backs: list[Back] = field(default_factory=list)
    seen: list[tuple[Tensor, Tensor]] = field(default_factory=list, compare=False)  # scores and mask of a step


def collected(events: Iterable[Event]) -> dict[int, Written]:
    samples: dict[int, Written] = {}
    for event in events:
        sample = samples.setdefault(event.sample, Written())
        assert not sample.reason, "a step or a stop behind a stop"
        if isinstance(event, Stop):
            sample.reason = event.reason
        elif isinstance(event, Back):
            assert 0 < event.pos < len(sample.ids)
            del sample.ids[event.pos :], sample.forced[event.pos :]
            sample.backs.append(event)
        else:
            assert event.pos == len(sample.ids)
            sample.ids.append(event.token_id)
            sample.forced.append(event.forced)
    return samples


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """What ``generate`` would sample from, by its own warpers."""
    if sampling.is_greedy:
        return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).float()
    warpers = LogitsProcessorList([TemperatureLogitsWarper(sampling.temperature)])
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        warpers.append(MinPLogitsWarper(sampling.min_p))
    ids: Any = torch.zeros((len(logits), 1), dtype=torch.int64)
    scores: Any = logits.clone()
    return warpers(ids, scores).softmax(dim=-1)


@torch.inference_mode()
def written(
    model: Any, constraint: HasAutomaton, request: Request, sampling: Sampling, seed: int = 5, end: int = END
) -> Written:
    tables = Tables.of(constraint.automaton, [request.program])
    state = tables.start() if request.start is None else State(*torch.tensor(request.start)[:, None])
    sample = Written(reason="length")
    while len(sample.ids) < request.limit and sample.reason != "end":
        ids = torch.tensor([[*request.prompt, *sample.ids]])
        logits = model(ids, use_cache=False, logits_to_keep=1).logits[:, -1].float()
        mask = tables.mask(state)
        forced = int(tables.forced_id(state)[0])
        number = uniform(seed, torch.tensor([request.key]), torch.tensor([len(sample.ids)]))
        chances = probabilities(logits.masked_fill(~mask, -torch.inf), sampling)
        id_ = forced if forced != NO_ID else int(draw(chances, number)[0])
        sample.ids.append(id_)
        sample.forced.append(forced != NO_ID)
        sample.seen.append((logits[0], mask[0]))
        state = tables.step(state, torch.tensor([id_]))
        if id_ == end:
            sample.reason = "end"
    return sample


def same(diagnoses: Sequence[Diagnosis], expected: Sequence[Diagnosis | None]) -> None:
    close: Any = functools.partial(pytest.approx, rel=2e-4, abs=1e-9)
    assert len(diagnoses) == len(expected)
    for got, wanted in zip(diagnoses, expected, strict=True):
        assert wanted is not None
        assert (got.block, got.rule) == (wanted.block, wanted.rule)
        for name in ("p_raw", "p_lp", "allowed_mass", "entropy_nat"):
            assert getattr(got, name) == close(getattr(wanted, name)), name
        for name in ("ln_p", "ln_p_tempered", "ln_mass", "ln_q"):
            assert getattr(got, name) == pytest.approx(getattr(wanted, name), abs=3e-4), name
        assert abs((got.rank_raw or 0) - (wanted.rank_raw or 0)) <= 2, "two of 150,000 may be as good as equal"
        assert [candidate.p_raw for candidate in got.top_k] == close([candidate.p_raw for candidate in wanted.top_k])
        assert [(candidate.token_id, candidate.allowed) for candidate in got.top_k] == [
            (candidate.token_id, candidate.allowed) for candidate in wanted.top_k
        ]


def each_pass(patch: Any, backend: FastBackend | HfBackend | Body, do: Callable[[int, int], None]) -> None:
    """Before each pass of the model, with its number from 0 and its rows."""
    passes = iter(range(10**6))
    if isinstance(backend, HfBackend):
        forward = backend._model.forward

        @functools.wraps(forward)
        def passed(*args: Any, **kwargs: Any) -> Any:
            do(next(passes), len(kwargs["input_ids"]))
            return forward(*args, **kwargs)

        patch.setattr(backend._model, "forward", passed)
        return
    whole = Body.__call__

    def called(body: Body, ids: Tensor, layout: Any, cache: Any) -> Tensor:
        do(next(passes), layout.grid[0])
        return whole(body, ids, layout, cache)

    patch.setattr(Body, "__call__", called)
