"""Decoding in the plainest way there is: the whole text through the whole model for every token of every sample."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.chem.smiles import parse_smiles
from engine.decode.plan import Request, Sampling, requests_for
from engine.decode.sampling import draw, uniform
from engine.decode.scoring import Stored, walk
from engine.decode.steps import Back, Event, Stop
from engine.lp.constraint import Constraint, HasAutomaton, LpParameters, build_constraint
from engine.lp.driver import LOST, State, Tables
from engine.lp.table import NO_ID
from engine.models.shipped import VOCAB_ROWS
from engine.records import NumberFormat
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.small_models import SMALL

SMILES = ("CC=O", "C", "c1ccccc1[N+](=O)[O-]", "C[C@H](N)C(=O)O", "[NH4+]")
FORM = NumberFormat(1, 3, 2)
"""Shorter numbers than usual, so that whole answers stay short."""


@dataclass(slots=True)
class Written:
    """One sample as a stream tells it."""

    ids: list[int] = field(default_factory=list)
    forced: list[bool] = field(default_factory=list)
    reason: str = ""
    backs: list[Back] = field(default_factory=list)


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
    known = load_tokenizer(tokenizer)
    return known, build_constraint(lp, known, VOCAB_ROWS[tokenizer], LpParameters(**{"form": FORM, **parameters}))


def asked(
    constraint: Constraint,
    tokenizer: TextTokenizer,
    smiles: Sequence[str] = SMILES,
    limit: int | None = None,
    generations: int = 1,
) -> list[Request]:
    limits = None if limit is None else [limit] * len(smiles)
    molecules = [parse_smiles(one) for one in smiles]
    return requests_for(molecules, constraint, tokenizer, positions=4096, generations=generations, limits=limits)


def collected(events: Iterable[Event]) -> dict[int, Written]:
    found: dict[int, Written] = {}
    for event in events:
        sample = found.setdefault(event.sample, Written())
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
    return found


def probabilities(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
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
def written(model: Any, constraint: Constraint, request: Request, sampling: Sampling, seed: int, end: int) -> Written:
    tables = Tables.of(constraint.automaton, [request.program])
    state = tables.start() if request.start is None else State(*torch.tensor(request.start)[:, None])
    found = Written()
    while len(found.ids) < request.limit:
        ids = torch.tensor([[*request.prompt, *found.ids]])
        logits = model(ids, use_cache=False, logits_to_keep=1).logits[:, -1].float()
        mask = tables.mask(state)
        forced = int(tables.forced_id(state)[0])
        number = uniform(seed, torch.tensor([request.key]), torch.tensor([len(found.ids)]))
        chances = probabilities(logits.masked_fill(~mask, -torch.inf), sampling)
        id_ = forced if forced != NO_ID else int(draw(chances, number)[0])
        found.ids.append(id_)
        found.forced.append(forced != NO_ID)
        state = tables.step(state, torch.tensor([id_]))
        if id_ == end:
            found.reason = "end"
            return found
    found.reason = "length"
    return found


def admitted(constraint: HasAutomaton, stored: Sequence[Stored], end_id: int) -> list[bool]:
    """Whether each answer is one that its program admits, to the end token. Ids are judged, never text."""
    found = []
    for sample in stored:
        ids = torch.tensor([sample.answer])
        *_, last = walk(Tables.of(constraint.automaton, [sample.program]), ids)
        found.append(sample.answer[-1:] == (end_id,) and int(last.cell) != LOST)
    return found
