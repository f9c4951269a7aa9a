"""What the model thought at a step: its own probabilities, next to what the constraint made of them.

Probabilities are taken before any sampling filter: a log-softmax in float32 over the rows that have a token. The caller
leaves out the rows beyond the tokenizer's size, or sets them to minus infinity. A whole batch comes to the host in one
copy.

- `log_chances`: with which probability a token was drawn. The set that top-k, top-p or min-p keep is found again from
  scores that another pass may have given, to the precision of the model's dtype. The token did come, so it counts as
  kept, with all that are as likely.
- `close_mass`: an LP that forces a block's close hides whether its number was complete. The mass of all tokens that
  begin by closing a block, against that of all which go on with its numbers, tells.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from engine.decode.plan import Sampling
from engine.decode.sampling import MOST_SORTED
from engine.decode.steps import Candidate, CloseIds, Diagnosis
from engine.lp.driver import LOST, State
from engine.lp.table import NO_ID, Automaton, Program
from engine.lp.vocabulary import vocabulary_of
from engine.text.tokenizers import TextTokenizer

FORCED_RULE = "forced by the template"
END_RULE = "the end of the template: only the end token"
LOST_RULE = "nothing: a token came that was not legal"
CHANCES = ("ln_p", "ln_p_tempered", "ln_mass", "ln_q")
"""Natural logarithms: of the token's probability before the LP, the same at the sampling's temperature, of the mass of
all tokens that the LP allows at that temperature, and of the probability that the token was drawn with."""
_NUMBERS = 7 + len(CHANCES)  # in a row of `_numbers`, before its candidates
_NEAR = 1e-4  # within rounding of the bound, all columns are sorted


@functools.lru_cache(maxsize=16)
def close_ids(tokenizer: TextTokenizer, device: torch.device | str = "cpu") -> CloseIds:
    """Closing: ordinary tokens that begin with ``>``. Going on: digits, ``.``, ``,``, ``,-`` and ``-`` alone."""
    vocabulary = vocabulary_of(tokenizer)
    closing = np.array([tokenizer.raw(id_).startswith(b">") for id_ in range(len(vocabulary.digits))])
    going_on = (vocabulary.digits > 0) | (vocabulary.mark > 0)
    ordinary = ~vocabulary.is_special
    return CloseIds(*(torch.from_numpy(np.flatnonzero(flags & ordinary)).to(device) for flags in (closing, going_on)))


def close_mass(raw_log_p: Tensor, ids: CloseIds) -> Tensor:
    """[N, 2] the masses of closing and of going on, from the log-probabilities before the LP [N, V]."""
    parts = [raw_log_p[:, part].double().exp().sum(dim=-1) for part in (ids.closing, ids.going_on)]
    return torch.stack(parts, dim=1).clamp(max=1)


def closing_cells(program: Program) -> dict[int, int]:
    """The cells that close a block by force, each with its block: the forced one behind the block's last free one."""
    is_free, block = program.forced == NO_ID, program.block
    ends = is_free[:-1] & ~is_free[1:] & (block[:-1] >= 0) & (block[1:] == block[:-1])
    return {cell + 1: int(block[cell]) for cell in np.flatnonzero(ends).tolist()}


def blocks_and_rules(automaton: Automaton, programs: Sequence[Program], state: State) -> tuple[list[int], list[str]]:
    """Of each row, the block that it is in (-1: none), and what says, for people, which token may come."""
    blocks, rules = [], []
    for program, (cell, node) in zip(programs, torch.stack([state.cell, state.node], dim=1).tolist(), strict=True):
        last = len(program) - 1
        clamped = min(cell, last)  # a row that has ended goes on in the padding of its batch
        blocks.append(-1 if cell == LOST else int(program.block[clamped]))
        if cell == LOST:
            rules.append(LOST_RULE)
        elif program.forced[clamped] == NO_ID:
            rules.append(automaton.rules[node])
        else:
            rules.append(END_RULE if clamped == last else FORCED_RULE)
    return blocks, rules


def diagnose(
    raw: Tensor,
    allowed: Tensor,
    tokens: Tensor,
    candidates: int,
    blocks: Sequence[int],
    rules: Sequence[str],
    close_ids: CloseIds | None = None,
    sampling: Sampling | None = None,
) -> list[Diagnosis]:
    """One a row: scores before the LP [B, V], what the LP allows bool [B, V], the tokens that came int64 [B]."""
    numbers = _numbers(raw.float(), allowed, tokens, min(candidates, raw.shape[1]), close_ids, sampling).tolist()
    return [_diagnosis(*row) for row in zip(numbers, blocks, rules, strict=True)]


def _numbers(
    raw: Tensor, allowed: Tensor, tokens: Tensor, candidates: int, close_ids: CloseIds | None, sampling: Sampling | None
) -> Tensor:
    """[B, 11 + 3 k] in float64, which holds ids as they are: the numbers, then ids, p_raw and legality of k ids."""
    log_p = raw.log_softmax(dim=-1)
    p = log_p.exp()
    token = tokens[:, None]
    if sampling is None:
        chances = log_p.new_full((len(log_p), len(CHANCES)), torch.nan)
    else:
        chances = log_chances(log_p, allowed, tokens, sampling)
    if sampling is not None and sampling.temperature in (0, 1):
        log_mass = chances[:, CHANCES.index("ln_mass")].to(log_p.dtype)
    else:
        log_mass = log_p.masked_fill(~allowed, -torch.inf).logsumexp(dim=-1)
    # The token's part of the allowed mass, from logarithms: a lone token's is 1 however unlikely it was.
    alone = allowed.sum(dim=1) == 1
    share = (log_p.gather(1, token)[:, 0] - log_mass).exp().clamp(max=1)
    share = share.nan_to_num(0)  # not a number where no allowed token has any mass
    masses = log_p.new_zeros((len(log_p), 2)) if close_ids is None else close_mass(log_p, close_ids)
    numbers = [
        p.gather(1, token)[:, 0],
        torch.where(alone, 1, share) * allowed.gather(1, token)[:, 0],
        log_mass.exp().clamp(max=1),
        (raw > raw.gather(1, token)).sum(dim=-1) + 1,
        torch.special.entr(p).sum(dim=-1),
    ]
    ids = raw.topk(candidates, dim=-1).indices
    parts = [torch.stack([number.double() for number in numbers], dim=1), masses, chances]
    parts += [ids, p.gather(1, ids), allowed.gather(1, ids)]
    return torch.cat([part.double() for part in parts], dim=1)


def _diagnosis(row: Sequence[float], block: int, rule: str) -> Diagnosis:
    p_raw, p_lp, allowed_mass, rank, entropy_nat, closing, going_on, *logs = row[:_NUMBERS]
    count = (len(row) - _NUMBERS) // 3
    ids, chances, legal = (row[_NUMBERS + part * count :][:count] for part in range(3))
    likely = [Candidate(int(id_), p, bool(is_legal)) for id_, p, is_legal in zip(ids, chances, legal, strict=True)]
    # What is as likely comes in the order of ids; what cannot come at all is no candidate.
    top = sorted((token for token in likely if token.p_raw > 0), key=lambda token: (-token.p_raw, token.token_id))
    finite = (log if math.isfinite(log) else None for log in logs)  # JSON has no infinity
    return Diagnosis(
        p_raw, p_lp, allowed_mass, int(rank), entropy_nat, tuple(top), block, rule, closing, going_on, *finite
    )


def log_chances(log_p: Tensor, allowed: Tensor, tokens: Tensor, sampling: Sampling) -> Tensor:
    """[B, 4] in float64, in the order of ``CHANCES``, from log-probabilities before the LP and its mask [B, V] each.

    Greedy sampling takes its token for certain, and has no temperature: the second and third are at temperature 1.
    ``ln_q`` is not a number where the token was not allowed.
    """
    token = tokens[:, None]
    is_plain = sampling.is_greedy or sampling.temperature == 1
    tempered = log_p if is_plain else (log_p / sampling.temperature).log_softmax(dim=-1)
    columns = allowed.any(dim=0).nonzero()[:, 0]  # sums over what nothing may come of cost more than the model's layers
    if len(columns) < allowed.shape[1] // 2:
        legal = tempered[:, columns].masked_fill(~allowed[:, columns], -torch.inf)
    else:
        legal = tempered.masked_fill(~allowed, -torch.inf)
    ln_p, ln_tempered = log_p.gather(1, token)[:, 0], tempered.gather(1, token)[:, 0]
    ln_mass = legal.logsumexp(dim=-1)
    if sampling.is_greedy:
        ln_q = torch.zeros_like(ln_p)
    else:
        ln_q = ln_tempered - (_kept_mass(legal, ln_mass, ln_tempered, sampling) if sampling.has_filters else ln_mass)
        ln_q = torch.where(allowed.sum(dim=1) == 1, 0.0, ln_q)
    ln_q = ln_q.masked_fill(~allowed.gather(1, token)[:, 0], torch.nan)
    return torch.stack([ln_p, ln_tempered, ln_mass, ln_q], dim=1).double()


def _kept_mass(legal: Tensor, ln_mass: Tensor, ln_token: Tensor, sampling: Sampling) -> Tensor:
    """[B] the log of the mass that the filters keep, of log-probabilities [B, V] that are minus infinity elsewhere."""
    width = legal.shape[1]
    values = legal
    total = ln_mass
    if 0 < sampling.top_k < width:
        values = legal.topk(sampling.top_k, dim=-1).values
        total = values.logsumexp(dim=-1)
    elif sampling.top_p < 1:
        values = legal.topk(min(width, MOST_SORTED), dim=-1).values
        enough = math.log(sampling.top_p) + _NEAR
        if len(values[0]) < width and bool((values.logsumexp(dim=-1) - ln_mass < enough).any()):
            values = legal.sort(dim=-1, descending=True).values
    is_kept = torch.ones_like(values, dtype=torch.bool)
    if sampling.top_p < 1:
        chances = (values - total[:, None]).exp()
        is_kept = chances.cumsum(dim=-1) - chances < sampling.top_p
        is_kept[:, 0] = True
    if sampling.min_p > 0:
        is_kept &= values >= values.amax(dim=-1, keepdim=True) + math.log(sampling.min_p)
    is_kept |= values >= ln_token[:, None]
    return values.masked_fill(~is_kept, -torch.inf).logsumexp(dim=-1)
