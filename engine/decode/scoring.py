"""Diagnostics of stored samples: their token ids are read once, teacher-forced, and never sampled again.

One pass of the layers over prompt and answer tells what a model thinks at every token; the output head runs on a
bounded number of positions at a time. A model that the fast backend cannot run is read by its own forward pass, one
sample at a time (`PlainReader`). What a constraint allows is what its driver says at the states that the tokens
lead through, so a sample may be asked what any LP would have allowed. Behind a token that was not allowed, nothing is.
The same pass tells how much of the model's mass wanted to close a block where an LP closed it by force. What it does
not know: text beyond the tokens that close a block or go on with a number.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel

from engine.decode.body import Body, KvCache, packed_layout
from engine.decode.diagnosis import blocks_and_rules, close_mass, closing_cells, diagnose
from engine.decode.plan import Sampling
from engine.decode.rows import check_logits, halved
from engine.decode.steps import CloseIds, Counters, Diagnosis
from engine.errors import ModelError
from engine.lp.constraint import HasAutomaton, check_rows
from engine.lp.driver import State, Tables
from engine.lp.table import Automaton, Program
from engine.models.loading import LoadedModel
from engine.text.blocks import CloseMass

READ_WIDTH = 256
"""Tokens of a row that are read in one pass."""
MOST_SCORES = 2**22
"""Scores that the head gives at once: 27 positions of a vocabulary of 151,936. More are slower on a CPU's caches."""
LEAST = 0.001
"""A token that is less likely, before the LP and after it, is no alternative."""
WALKED = 64
"""Samples that are followed together where no model is asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A sample as it was kept, and the program to ask: of the LP that made it, or of any other."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    program: Program

    @property
    def read(self) -> tuple[int, ...]:
        """What the model reads: nothing is asked behind the last token."""
        return (*self.prompt, *self.answer)[:-1]


@dataclass(frozen=True, slots=True)
class Scored:
    """What one pass tells of a sample."""

    diagnoses: list[Diagnosis]  # one a token of the answer, where they were asked for
    masses: dict[int, CloseMass]  # by block, where it was closed by force


@dataclass(frozen=True, slots=True, eq=False)
class PlainReader:
    """Any causal model of transformers, as it is."""

    model: PreTrainedModel
    positions: int

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def name(self) -> str:
        return str(self.model.name_or_path)

    @property
    def can_keep_few(self) -> bool:
        """Whether it computes the scores of an answer alone."""
        return "logits_to_keep" in inspect.signature(self.model.forward).parameters

    @property
    def vocab_rows(self) -> int:
        return int(self.model.config.get_text_config().vocab_size)


def reader_of(loaded: LoadedModel) -> Body | PlainReader:
    """What reads stored samples with the least work."""
    if loaded.why_not_fast:
        return PlainReader(loaded.model, loaded.positions)
    return Body(loaded.model, loaded.positions)


def score(
    body: Body | PlainReader,
    constraint: HasAutomaton,
    stored: Sequence[Stored],
    vocab_size: int,
    *,
    candidates: int | None = 10,
    close_ids: CloseIds | None = None,
    sampling: Sampling | None = None,
    batch_size: int = 8,
    counters: Counters | None = None,
    between: Callable[[], object] = lambda: None,
) -> Iterator[Scored]:
    """One a sample, in the order given. All of them are looked at before the first is read.

    ``vocab_size`` is the tokenizer's. The diagnoses are those that the fast backend gives while it samples the same
    tokens, to the precision of the model's dtype; with ``candidates`` None there are none, and the head runs where
    blocks were closed alone. ``close_ids`` asks for the masses where the program closed a block by force, which
    ``align`` wants to know. ``sampling`` is how the tokens were drawn: the diagnoses then say with which probability.
    ``counters`` learns of passes and of halved batches. ``between`` is called between parts of a fraction of a second,
    to pause or to raise.
    """
    check_stored(body, constraint, stored, vocab_size)
    counted = counters or Counters()

    @torch.inference_mode()
    def together(part: Sequence[Stored]) -> list[Scored]:
        batch = ReadBatch(body, constraint.automaton, part, vocab_size, counted, between)
        diagnoses = [list[Diagnosis]() for _ in part] if candidates is None else batch.diagnoses(candidates, sampling)
        masses = [dict[int, CloseMass]() for _ in part] if close_ids is None else batch.masses(close_ids)
        return list(map(Scored, diagnoses, masses))

    def in_batches() -> Iterator[Scored]:
        size, done = batch_size, 0
        while done < len(stored):
            part = stored[done : done + size]
            try:
                scored = together(part)
            except RuntimeError as error:
                size = halved(len(part), error, counted)
                continue
            done += len(part)
            yield from scored

    return in_batches()


def check_stored(body: Body | PlainReader, constraint: HasAutomaton, stored: Sequence[Stored], vocab_size: int) -> None:
    """An error where this model cannot read these."""
    check_rows(constraint, body.vocab_rows)
    for sample in stored:
        if len(sample.read) > body.positions:
            raise ModelError(
                f"a sample of {len(sample.read):,} tokens is longer than the model's context of {body.positions:,}",
                "Score it with a model of a longer context",
            )
        foreign = [id_ for id_ in (*sample.prompt, *sample.answer) if not 0 <= id_ < vocab_size]
        if foreign:
            raise ModelError(
                f"a sample holds the token {foreign[0]:,}, and the model's tokenizer has {vocab_size:,}",
                "Score it with a model of the tokenizer that it was made with",
            )


def alternatives(
    body: Body | PlainReader, constraint: HasAutomaton, stored: Stored, vocab_size: int
) -> list[tuple[int, float, float | None]]:
    """What might stand in place of the answer's last token, in one pass: all tokens that are likely before the LP or
    after it, and that token itself, each with its probability before the LP and among the tokens that the LP allows, 0
    for others. The likeliest after the LP come first. None where the LP does not allow the text before."""
    check_stored(body, constraint, [stored], vocab_size)
    with torch.inference_mode():
        batch = ReadBatch(body, constraint.automaton, [stored], vocab_size, Counters(), lambda: None)
        last = torch.tensor([len(stored.answer) - 1], device=body.device)
        raw = batch._scores(last)[0]  # [V]
        allowed = batch.tables.mask(State(batch.state.cell[last], batch.state.node[last]))[0, :vocab_size]
        p_raw, is_any = raw.softmax(dim=0), bool(allowed.any())
        p_lp = torch.where(allowed, raw, -torch.inf).softmax(dim=0).nan_to_num(0)
        is_shown = (p_raw >= LEAST) | (p_lp >= LEAST)
        is_shown[stored.answer[-1]] = True
        ids = is_shown.nonzero()[:, 0]
        rows = zip(ids.tolist(), p_raw[ids].tolist(), p_lp[ids].tolist(), strict=True)
    found = [(id_, before, after if is_any else None) for id_, before, after in rows]
    return sorted(found, key=lambda row: (-(row[2] or 0.0), -row[1]))


def forced_closes(constraint: HasAutomaton, stored: Sequence[Stored]) -> list[dict[int, int]]:
    """Of each sample, by block, the index in the answer of the token that its program closed the block with."""
    closes = []
    for start in range(0, len(stored), WALKED):
        batch = stored[start : start + WALKED]
        tables = Tables.of(constraint.automaton, [sample.program for sample in batch])
        cells = torch.stack([state.cell for state in walk(tables, padded([sample.answer for sample in batch]))], dim=1)
        closes += [_closes(sample, row) for sample, row in zip(batch, cells.tolist(), strict=True)]
    return closes


def _closes(sample: Stored, cells: Sequence[int]) -> dict[int, int]:
    """``cells`` are those before each token, and any behind."""
    closing, forced = closing_cells(sample.program), sample.program.forced
    return {
        closing[cell]: index
        for index, (cell, id_) in enumerate(zip(cells, sample.answer, strict=False))
        if cell in closing and forced[cell] == id_
    }


def walk(tables: Tables, ids: Tensor) -> Iterator[State]:
    """The states before each of the tokens [B, T], and the one behind the last."""
    state = tables.start()
    yield state
    for token in ids.unbind(dim=1):
        state = tables.step(state, token)
        yield state


def padded(rows: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> Tensor:
    """[B, T], with zeros on the right."""
    return pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True).to(device)


class ReadBatch:
    """Samples that were read together. N counts all tokens of their answers, sample by sample."""

    def __init__(
        self,
        body: Body | PlainReader,
        automaton: Automaton,
        stored: Sequence[Stored],
        vocab_size: int,
        counters: Counters,
        between: Callable[[], object],
    ) -> None:
        """Follow the states along the answers, and run the layers."""
        self.body, self.automaton, self.stored, self.vocab_size = body, automaton, stored, vocab_size
        self.between = between
        self.tables = Tables.of(automaton, [sample.program for sample in stored], body.device)
        answers = padded([sample.answer for sample in stored], body.device)
        lengths = torch.tensor([len(sample.answer) for sample in stored], device=body.device)
        is_token = torch.arange(answers.shape[1], device=body.device) < lengths[:, None]  # [B, T]
        self.sample, self.token = is_token.nonzero()[:, 0], answers[is_token]  # int64 [N] each
        states = list(walk(self.tables, answers))[:-1]  # [B] each, before each token
        self.state = State(lengths[:0], lengths[:0])
        if states:
            cells = torch.stack([state.cell for state in states], dim=1)  # [B, T]
            nodes = torch.stack([state.node for state in states], dim=1)  # [B, T]
            self.state = State(cells[is_token], nodes[is_token])  # [N] before each token
        of_body = _BodyScores if isinstance(body, Body) else _PlainScores
        self.raw_scores = of_body(body, stored, vocab_size, counters, between)  # type: ignore[arg-type]

    def diagnoses(self, candidates: int, sampling: Sampling | None) -> list[list[Diagnosis]]:
        diagnoses: list[Diagnosis] = []
        for part in self._chunks(torch.arange(len(self.token), device=self.token.device)):
            state = State(self.state.cell[part], self.state.node[part])
            sample = self.sample[part]
            allowed = self.tables.keep(sample).mask(state)[:, : self.vocab_size]
            programs = [self.stored[number].program for number in sample.tolist()]
            blocks, rules = blocks_and_rules(self.automaton, programs, state)
            diagnoses += diagnose(
                self._scores(part), allowed, self.token[part], candidates, blocks, rules, sampling=sampling
            )
        return list(map(list, self._by_sample(diagnoses)))

    def masses(self, ids: CloseIds) -> list[dict[int, CloseMass]]:
        closes = list(map(_closes, self.stored, self._by_sample(self.state.cell.tolist())))
        numbers = self._by_sample(range(len(self.token)))
        indices = [row[index] for row, by_block in zip(numbers, closes, strict=True) for index in by_block.values()]
        masses: list[CloseMass] = []
        for part in self._chunks(torch.tensor(indices, dtype=torch.int64, device=self.token.device)):
            masses += [CloseMass(*row) for row in close_mass(self._scores(part).log_softmax(dim=-1), ids).tolist()]
        in_order = iter(masses)
        return [{block: next(in_order) for block in by_block} for by_block in closes]

    def parts(self, indices: Tensor, *, has_lp: bool) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Of tokens [N] in parts that fit: scores before the LP [n, V], what may come [n, V], what came [n]."""
        for part in self._chunks(indices):
            scores, state = self._scores(part), State(self.state.cell[part], self.state.node[part])
            allowed = torch.ones_like(scores, dtype=torch.bool)
            if has_lp:
                allowed = self.tables.keep(self.sample[part]).mask(state)[:, : self.vocab_size]
            yield scores, allowed, self.token[part]

    def _by_sample(self, of_tokens: Sequence[Any]) -> list[Sequence[Any]]:
        """What there is of all N tokens, cut into samples."""
        lengths = [len(sample.answer) for sample in self.stored]
        return [of_tokens[end - length : end] for end, length in zip(accumulate(lengths), lengths, strict=True)]

    def _chunks(self, indices: Tensor) -> Iterator[Tensor]:
        """Indices [N] in parts with scores that fit."""
        for part in indices.split(max(1, MOST_SCORES // self.vocab_size)) if len(indices) else ():
            self.between()
            yield part

    def _scores(self, indices: Tensor) -> Tensor:
        """[n, V] before the LP, of the rows that have a token: those beyond would be minus infinity."""
        scores = self.raw_scores(indices)
        check_logits(scores, self.body.name)
        return scores


class _BodyScores:
    """Scores of any of the N tokens, from hidden states of all of them."""

    def __init__(
        self, body: Body, stored: Sequence[Stored], vocab_size: int, counters: Counters, between: Callable[[], object]
    ) -> None:
        self.head = body.head[:vocab_size]
        self.hidden, _ = read_hidden(body, stored, counters, between)  # [N, W] of all that is before each token

    def __call__(self, indices: Tensor) -> Tensor:
        return functional.linear(self.hidden[indices], self.head).float()


class _PlainScores:
    """The same of a model as it is: a sample is read when its first token is asked for, and its scores are kept until
    another sample's are."""

    def __init__(
        self,
        reader: PlainReader,
        stored: Sequence[Stored],
        vocab_size: int,
        counters: Counters,
        between: Callable[[], object],
    ) -> None:
        self.reader, self.stored, self.vocab_size = reader, stored, vocab_size
        self.counters, self.between = counters, between
        self.ends = torch.tensor([len(sample.answer) for sample in stored], device=reader.device).cumsum(0)
        self.read_sample = -1
        self.scores: Tensor | None = None  # [T, V] of that sample's answer

    def __call__(self, indices: Tensor) -> Tensor:
        samples = torch.searchsorted(self.ends, indices, right=True)
        parts = []
        for number in samples.unique().tolist():
            start = int(self.ends[number]) - len(self.stored[number].answer)
            parts.append(self._read(number)[indices[samples == number] - start].float())
        return torch.cat(parts)

    def _read(self, number: int) -> Tensor:
        if self.scores is None or number != self.read_sample:
            self.between()
            sample, self.scores = self.stored[number], None
            ids = torch.tensor([sample.read], device=self.reader.device)
            model: Any = self.reader.model
            keep = {"logits_to_keep": len(sample.answer)} if self.reader.can_keep_few else {}
            scores = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **keep).logits
            self.counters.forward_passes += 1
            self.read_sample, self.scores = number, scores[0, -len(sample.answer) :, : self.vocab_size]
        return self.scores


def read_hidden(
    body: Body, stored: Sequence[Stored], counters: Counters, between: Callable[[], object]
) -> tuple[Tensor, KvCache]:
    """[N, W] hidden states before each token of the answers, sample by sample, and the cache of what was read. Padding
    costs next to nothing."""
    ids = padded([sample.read for sample in stored], body.device)
    lengths, first, count = torch.tensor(
        [(len(sample.read), len(sample.prompt) - 1, len(sample.answer)) for sample in stored], device=body.device
    ).unbind(dim=1)  # [B] each; the first answer token is predicted by the last one of the prompt
    offset = count.cumsum(0) - count - first
    before = torch.zeros((int(count.sum()), body.width), dtype=body.dtype, device=body.device)
    cache = KvCache(body, len(stored), ids.shape[1])
    for start in range(0, ids.shape[1], READ_WIDTH):
        between()
        part = ids[:, start : start + READ_WIDTH]
        width = part.shape[1]
        layout = packed_layout(torch.full_like(lengths, start), (lengths - start).clamp(0, width), width, start + width)
        hidden = body(part.reshape(-1)[layout.slots], layout, cache)
        counters.forward_passes += 1
        is_needed = layout.positions >= first[layout.rows]
        before[(offset[layout.rows] + layout.positions)[is_needed]] = hidden[is_needed]
    return before, cache
