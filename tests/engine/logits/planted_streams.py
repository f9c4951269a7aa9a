"""Streams of log-probabilities with one planted cause each, from the demo models: answers of runs
that ship, scores of transformers' own forward pass, its own filters and the LPs' logits processors. Nothing of what is
tested computes them. A token that a server could not have drawn has no value of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from engine.chem.enriched import prompt_of
from engine.logits.token_streams import Logged, Streams, paired
from engine.lp.constraint import LpParameters
from engine.lp.processor import logits_processor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.engine.inspection.made import DEMO_STORE, demo_run

TOKENS, SAMPLES = 72, 2


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Ids with the prompt's, and the scores of each token of the answer, before and after the LP."""

    ids: list[int]
    prompt: int
    raw: Tensor  # [T, V]
    masked: Tensor  # [T, V]

    def served(self, **sampling: Any) -> np.ndarray:
        """Of each new token, after transformers' own temperature and filters."""
        scores = self.masked
        for name, warper in WARPERS.items():
            scores = warper(sampling[name])(None, scores) if name in sampling else scores
        return self.of_tokens(scores)

    def scores_of(self, loaded: LoadedModel) -> Tensor:
        return scores_of(loaded, self.ids, self.prompt)[:, : loaded.tokenizer.vocab_size]

    def of_tokens(self, scores: Tensor) -> np.ndarray:
        of_ids = scores.log_softmax(-1).gather(1, torch.tensor(self.ids[self.prompt :])[:, None])[:, 0].double()
        return of_ids.where(of_ids.isfinite(), torch.nan).numpy()


WARPERS: dict[str, Any] = {
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
}


@cache
def model(name: str, dtype: str = "float32") -> LoadedModel:
    return load_model(load_registry().find(name), "cpu", dtype)


def coarse(name: str, weights: Callable[[Tensor], Tensor]) -> LoadedModel:
    loaded = load_model(load_registry().find(name), "cpu", "float32")
    with torch.no_grad():
        for matrix in loaded.model.parameters():
            if matrix.dim() > 1:
                matrix.copy_(weights(matrix))
    return loaded


def fp8(weights: Tensor) -> Tensor:
    return weights.to(torch.float8_e5m2).to(weights.dtype)


def int4(weights: Tensor) -> Tensor:
    step = weights.abs().amax(dim=1, keepdim=True) / 7
    return (weights / step).round() * step


@torch.inference_mode()
def scores_of(loaded: LoadedModel, ids: Sequence[int], prompt: int) -> Tensor:
    return loaded.model(input_ids=torch.tensor([list(ids)])).logits[0, prompt - 1 : -1].float()


@cache
def written(name: str, lp: str = "none") -> tuple[Written, ...]:
    """The first answers of a run that ships, cut, with scores of one pass; the LP's mask by its logits processor."""
    loaded, texts = model(name), list[Written]()
    for row in answers(f"{name.removeprefix('demo-')} {lp}"):
        prompt = [*loaded.begin_ids, *loaded.tokenizer.encode(prompt_of(row["smiles"]))]
        ids = [*prompt, *row["token_ids"][:TOKENS]]
        raw = scores_of(loaded, ids, len(prompt))
        form = LpParameters(form=loaded.entry.numbers)
        masked = raw.clone()
        if lp != "none":
            process = logits_processor(lp, [row["smiles"]], loaded.entry.tokenizer, loaded.vocab_rows, form)
            for place in range(len(raw)):
                masked[place] = process(torch.tensor([ids[: len(prompt) + place]]), raw[place : place + 1].clone())[0]
        raw, masked = raw[:, : loaded.tokenizer.vocab_size], masked[:, : loaded.tokenizer.vocab_size]
        texts.append(Written(ids, len(prompt), raw, masked))
    return tuple(texts)


@cache
def answers(run: str) -> list[dict[str, Any]]:
    model_name, lp = run.split()
    id_ = demo_run(model_name, lp)
    sql = "SELECT smiles, token_ids FROM samples WHERE run_id = $run ORDER BY sample_id LIMIT $most"
    return DEMO_STORE.table(sql, {"run": id_, "most": SAMPLES}, of=[id_]).to_pylist()


@torch.inference_mode()
def forward(loaded: LoadedModel, ids: Sequence[int]) -> np.ndarray:
    """Of all tokens but the first, which has 0, as trainers write it."""
    scores = loaded.model(input_ids=torch.tensor([list(ids)])).logits[0, :-1, : loaded.tokenizer.vocab_size].float()
    of_ids = scores.log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return np.array([0.0, *of_ids.double().tolist()])


def split_otherwise(loaded: LoadedModel, ids: Sequence[int], count: int, after: int) -> list[int]:
    """The same text: the first ``count`` tokens of two letters or more behind ``after`` as one token a character."""
    out: list[int] = []
    for place, id_ in enumerate(ids):
        piece = loaded.tokenizer.piece(id_)
        single = [loaded.tokenizer.encode(char) for char in piece]
        if place > after and count and 1 < len(piece) < 4 and all(len(of) == 1 for of in single):
            out += [of[0] for of in single]
            count -= 1
        else:
            out.append(id_)
    return out


def logged(texts: Sequence[Written], server: Sequence[np.ndarray], trainer: Sequence[np.ndarray],
           *, masks: bool = True) -> list[Logged]:  # fmt: skip
    """As a training program's file has them: both over all ids, the prompt's zero at the server."""
    rows = []
    for number, (text, control, test) in enumerate(zip(texts, server, trainer, strict=True)):
        full = np.concatenate([np.zeros(len(text.ids) - len(control)), control])
        used = np.arange(len(text.ids)) >= (text.prompt if masks else 1)
        rows.append(Logged(f"line {number}", np.array(text.ids), full, test, used))
    return rows


def pairs_of(texts: Sequence[Written], server: Sequence[np.ndarray], trainer: Sequence[np.ndarray],
             *, masks: bool = True) -> Streams:  # fmt: skip
    return paired(logged(texts, server, trainer, masks=masks), None)


@cache
def trained(texts: tuple[Written, ...], loaded: LoadedModel) -> list[np.ndarray]:
    return [forward(loaded, text.ids) for text in texts]
