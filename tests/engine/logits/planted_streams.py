"""Streams of log-probabilities with one planted cause each, from the demo models.

Texts are answers of runs that ship. Scores are of transformers' own forward pass, its own filters and the LPs' logits
processors: nothing of what is tested computes them. A token that a server could not have drawn has no value of it.

``TUNED`` are the pairs that the thresholds of engine/logits were chosen by; ``HELD_OUT`` were planted later, and no
threshold was chosen by them: other molecules, two more models, and causes of other sizes.
At first 17 of 20 were named: two rules were mended, and their pairs moved to ``TUNED``. Of their successors one showed
that the descriptors of an LP were missing; it stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
from engine.logits.mismatch import Cause
from engine.logits.token_streams import Logged, Streams, paired
from engine.lp.constraint import LpParameters
from engine.lp.processor import logits_processor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from tests.engine.inspection.made import DEMO_STORE

QWEN, LLAMA, MIXED, BINS = "demo-qwen", "demo-llama", "demo-qwen-l3", "demo-bins"
NONE, OLD, NEW = "none", "group-v2.1", "group-v4.3"
QWEN3 = {"temperature": 0.7, "top_k": 20, "top_p": 0.8}
TOKENS, SAMPLES = 72, 2
FIRST_HELD_OUT = 8  # molecule of a run
WARPERS: dict[str, Any] = {
    "temperature": TemperatureLogitsWarper,
    "top_k": TopKLogitsWarper,
    "top_p": TopPLogitsWarper,
    "min_p": MinPLogitsWarper,
}


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """Ids with the prompt's, and the scores of each token of the answer, before and after the LP."""

    model: str
    lp: str
    ids: list[int]
    prompt: int
    raw: Tensor  # [T, V]
    masked: Tensor  # [T, V]

    def served(self, **sampling: Any) -> np.ndarray:
        """Of each new token, after transformers' own temperature and filters."""
        scores = self.masked
        for name, warper in WARPERS.items():
            scores = warper(sampling[name])(None, scores) if name in sampling else scores
        of_ids = scores.log_softmax(-1).gather(1, torch.tensor(self.ids[self.prompt :])[:, None])[:, 0].double()
        return of_ids.where(of_ids.isfinite(), torch.nan).numpy()

    def in_dtype(self, dtype: str) -> Written:
        """By weights in ``dtype``, under the same mask."""
        loaded = model(self.model, dtype)
        scores = scores_of(loaded, self.ids, self.prompt)[:, : loaded.tokenizer.vocab_size]
        return replace(self, masked=scores.where(self.masked.isfinite(), self.masked))

    @property
    def trained(self) -> np.ndarray:
        return forward(model(self.model), self.ids)


Texts = tuple[Written, ...]


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


def of_bits(bits: int) -> Callable[[Tensor], Tensor]:
    """Whole numbers of so many bits, a scale for each row."""

    def weights_of(weights: Tensor) -> Tensor:
        step = weights.abs().amax(dim=1, keepdim=True) / (2 ** (bits - 1) - 1)
        return (weights / step).round() * step

    return weights_of


@torch.inference_mode()
def scores_of(loaded: LoadedModel, ids: Sequence[int], prompt: int) -> Tensor:
    return loaded.model(input_ids=torch.tensor([list(ids)])).logits[0, prompt - 1 : -1].float()


@torch.inference_mode()
def forward(loaded: LoadedModel, ids: Sequence[int]) -> np.ndarray:
    """Of all tokens but the first, which has 0, as trainers write it."""
    scores = scores_of(loaded, ids, 1)[:, : loaded.tokenizer.vocab_size]
    of_ids = scores.log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return np.array([0.0, *of_ids.double().tolist()])


def answers(name: str, lp: str, first: int) -> list[dict[str, Any]]:
    """demo-qwen-l3 wrote no run: it gets the texts of the model with its tokenizer."""
    writer = {MIXED: LLAMA}.get(name, name)
    runs = [entry for entry in DEMO_STORE.listing().entries if f"{writer}-final-{lp}-" in entry.id]
    id_ = next(entry.id for entry in runs if entry.row.get("backend") == "fast")
    sql = "SELECT smiles, token_ids FROM samples WHERE run_id = $run ORDER BY sample_id LIMIT $most OFFSET $first"
    return DEMO_STORE.table(sql, {"run": id_, "most": SAMPLES, "first": first}, of=[id_]).to_pylist()


def text_of(name: str, lp: str, smiles: str, answer: Sequence[int]) -> Written:
    """With scores of one pass; the LP's mask by its logits processor."""
    loaded = model(name)
    prompt = [*loaded.begin_ids, *loaded.tokenizer.encode(prompt_of(smiles))]
    ids, count = [*prompt, *answer], loaded.tokenizer.vocab_size
    raw = scores_of(loaded, ids, len(prompt))
    masked = raw.clone()
    for process in processors(name, lp, smiles):
        for place in range(len(raw)):
            masked[place] = process(torch.tensor([ids[: len(prompt) + place]]), raw[place : place + 1].clone())[0]
    return Written(name, lp, ids, len(prompt), raw[:, :count], masked[:, :count])


def processors(name: str, lp: str, smiles: str) -> list[Any]:
    entry, rows = model(name).entry, model(name).vocab_rows
    form = LpParameters(form=entry.numbers)
    return [] if lp == NONE else [logits_processor(lp, [smiles], entry.tokenizer, rows, form)]


@cache
def shipped(name: str, lp: str = NONE, first: int = 0) -> Texts:
    """Answers of a run from its molecule ``first`` on, cut."""
    return tuple(text_of(name, lp, row["smiles"], row["token_ids"][:TOKENS]) for row in answers(name, lp, first))


def others(name: str, lp: str = NONE, part: int = 0) -> Texts:
    """Of molecules that ``TUNED`` does not have."""
    return shipped(name, lp, FIRST_HELD_OUT + SAMPLES * part)


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


def pairs_of(texts: Texts, server: Sequence[np.ndarray], trainer: Sequence[np.ndarray] = (),
             *, has_mask: bool = True) -> Streams:  # fmt: skip
    """As a training program's file has them: both over all ids, the prompt's zero at the server."""
    streams: list[list[Logged]] = [[], []]
    test = trainer or [text.trained for text in texts]
    for number, (text, *values) in enumerate(zip(texts, server, test, strict=True)):
        for stream, of_text in zip(streams, values, strict=True):
            full = np.concatenate([np.zeros(len(text.ids) - len(of_text)), of_text])
            full[: text.prompt if has_mask else 1] = np.nan
            stream.append(Logged(f"line {number}", np.array(text.ids), full))
    return paired(*streams)


# --- one cause each ---------------------------------------------------------------------------------------------------


def shifted(texts: Texts, lag: int) -> Streams:
    return pairs_of(texts, [text.served() for text in texts], [np.roll(text.trained, lag) for text in texts])


def with_prompts(texts: Texts) -> Streams:
    """The prompts count, which the server has zeros for."""
    return pairs_of(texts, [text.served() for text in texts], has_mask=False)


def with_padding(texts: Texts, count: int, value: float) -> Streams:
    """The last tokens have the value that a program fills up with: TRL 1, others 0."""
    full = [text.served() for text in texts]
    return pairs_of(texts, [np.append(values[:-count], [value] * count) for values in full])


def retokenised(texts: Texts, count: int) -> Streams:
    """The server wrote ids that the tokenizer does not give its text; the trainer scored those that it gives."""
    both: list[list[Logged]] = [[], []]
    for number, text in enumerate(texts):
        loaded = model(text.model)
        for rows, ids in zip(both, (split_otherwise(loaded, text.ids, count, text.prompt + 10), text.ids), strict=True):
            values = forward(loaded, ids)
            values[: text.prompt] = np.nan
            rows.append(Logged(f"line {number}", np.array(ids), values))
    return paired(*both)


def split_by_trainer(texts: Texts, count: int = 3) -> Streams:
    """The same in one file: the trainer's values are by index those of the ids that the text has when split again."""
    loaded = model(texts[0].model)
    texts = tuple(replace(text, ids=split_otherwise(loaded, text.ids, count, text.prompt + 10)) for text in texts)
    again = [forward(loaded, loaded.tokenizer.encode(loaded.tokenizer.decode(text.ids))) for text in texts]
    trainer = [
        np.append(values, np.full(len(text.ids) - len(values), np.nan))
        for values, text in zip(again, texts, strict=True)
    ]
    return pairs_of(texts, [text.trained[text.prompt :] for text in texts], trainer)


def served(texts: Texts, **sampling: Any) -> Streams:
    """The server's stream is processed, the trainer's raw."""
    return pairs_of(texts, [text.served(**sampling) for text in texts])


def quantised(texts: Texts, weights: Callable[[Tensor], Tensor]) -> Streams:
    loaded = coarse(texts[0].model, weights)
    return pairs_of(texts, [forward(loaded, text.ids)[text.prompt :] for text in texts])


def healthy(texts: Texts, dtype: str = "bfloat16", **sampling: Any) -> Streams:
    """The server has the same mask, temperature and filters as the trainer, and the weights in another format."""
    trainer = [np.append(np.zeros(text.prompt), text.served(**sampling)) for text in texts]
    return pairs_of(texts, [text.in_dtype(dtype).served(**sampling) for text in texts], trainer)


Planted = tuple[Cause, str, str, Callable[[], Streams]]  # cause, model, the server's LP
TUNED: dict[str, Planted] = {
    "late": ("shifted by one", QWEN, "", lambda: shifted(shipped(QWEN), 1)),
    "early": ("shifted by one", LLAMA, "", lambda: shifted(shipped(LLAMA), -1)),
    "prompts count": ("masked tokens compared", QWEN, "", lambda: with_prompts(shipped(QWEN))),
    "8 of padding count": ("masked tokens compared", LLAMA, "", lambda: with_padding(shipped(LLAMA), 8, 1)),
    "1 token split": ("retokenised", QWEN, "", lambda: retokenised(shipped(QWEN), 1)),
    "8 tokens split": ("retokenised", LLAMA, "", lambda: retokenised(shipped(LLAMA), 8)),
    "split by the trainer": ("retokenised", QWEN, "", lambda: split_by_trainer(shipped(QWEN))),
    "T 0.8": ("temperature", QWEN, "", lambda: served(shipped(QWEN), temperature=0.8)),
    "T 1.2": ("temperature", LLAMA, "", lambda: served(shipped(LLAMA), temperature=1.2)),
    "T 1.4": ("temperature", QWEN, "", lambda: served(shipped(QWEN), temperature=1.4)),
    "top-p 0.8": ("filters' mass", QWEN, "", lambda: served(shipped(QWEN), top_p=0.8)),
    "top-k 5": ("filters' mass", LLAMA, "", lambda: served(shipped(LLAMA), top_k=5)),
    "min-p 0.2": ("filters' mass", LLAMA, "", lambda: served(shipped(LLAMA), min_p=0.2)),
    "v2.1, Qwen": ("the LP's mask", QWEN, OLD, lambda: served(shipped(QWEN, OLD))),
    "v2.1, LLaMA": ("the LP's mask", LLAMA, OLD, lambda: served(shipped(LLAMA, OLD))),
    "v4.3": ("the LP's mask", QWEN, NEW, lambda: served(shipped(QWEN, NEW))),
    "T 1.2, top-p 0.8": ("raw against processed", QWEN, "", lambda: served(shipped(QWEN), temperature=1.2, top_p=0.8)),
    "qwen3 under v2.1": ("raw against processed", LLAMA, OLD, lambda: served(shipped(LLAMA, OLD), **QWEN3)),
    "fp8": ("precision", QWEN, "", lambda: quantised(shipped(QWEN), fp8)),
    "int4": ("precision", LLAMA, "", lambda: quantised(shipped(LLAMA), of_bits(4))),
    # These two were held out, and not named until their rules were mended; other sizes are in their places there.
    "min-p 0.15": ("filters' mass", QWEN, "", lambda: served(others(QWEN), min_p=0.15)),
    "T 1.1 under v4.3": ("raw against processed", QWEN, NEW, lambda: served(others(QWEN, NEW), temperature=1.1)),
}
HELD_OUT: dict[str, Planted] = {
    "late": ("shifted by one", BINS, "", lambda: shifted(others(BINS), 1)),
    "early": ("shifted by one", MIXED, "", lambda: shifted(others(MIXED, part=1), -1)),
    "prompts count": ("masked tokens compared", BINS, "", lambda: with_prompts(others(BINS, part=1))),
    "3 of padding count": ("masked tokens compared", MIXED, "", lambda: with_padding(others(MIXED), 3, 0)),
    "20 of padding count": ("masked tokens compared", QWEN, "", lambda: with_padding(others(QWEN), 20, 1)),
    "3 tokens split": ("retokenised", MIXED, "", lambda: retokenised(others(MIXED, part=2), 3)),
    "split by the trainer": ("retokenised", LLAMA, "", lambda: split_by_trainer(others(LLAMA), 1)),
    "T 0.6": ("temperature", MIXED, "", lambda: served(others(MIXED), temperature=0.6)),
    "T 0.93": ("temperature", LLAMA, "", lambda: served(others(LLAMA), temperature=0.93)),
    "T 1.15": ("temperature", BINS, "", lambda: served(others(BINS), temperature=1.15)),
    "top-p 0.87": ("filters' mass", BINS, "", lambda: served(others(BINS), top_p=0.87)),
    "top-k 12": ("filters' mass", MIXED, "", lambda: served(others(MIXED), top_k=12)),
    "min-p 0.13": ("filters' mass", LLAMA, "", lambda: served(others(LLAMA, part=1), min_p=0.13)),
    "v2.1": ("the LP's mask", MIXED, OLD, lambda: served(others(MIXED, OLD))),
    "v4.3": ("the LP's mask", LLAMA, NEW, lambda: served(others(LLAMA, NEW))),
    "T 0.9, top-p 0.9": ("raw against processed", MIXED, "", lambda: served(others(MIXED), temperature=0.9, top_p=0.9)),
    "T 0.85 under v2.1": ("raw against processed", BINS, OLD, lambda: served(others(BINS, OLD), temperature=0.85)),
    "T 0.6, top-k 20, top-p 0.95": (
        "raw against processed", LLAMA, "", lambda: served(others(LLAMA), temperature=0.6, top_k=20, top_p=0.95)
    ),
    "fp8": ("precision", MIXED, "", lambda: quantised(others(MIXED), fp8)),
    "int5": ("precision", BINS, "", lambda: quantised(others(BINS), of_bits(5))),
}  # fmt: skip
