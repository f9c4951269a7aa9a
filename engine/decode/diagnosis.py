"""What the model thought at a step: its own probabilities, beside what the constraint made of them.

All numbers are taken before any sampling filter: a log-softmax in float32 over the rows that have a token. The caller
leaves out the rows beyond the tokenizer's size, or sets them to minus infinity. A whole batch comes to the host in one
copy. This module knows masks, cells and nodes; how likely a token was drawn is asked of ``chances``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decode.chances import CHANCES, log_chances
from engine.decode.closing import CloseIds, close_mass
from engine.decode.presets import Sampling
from engine.decode.steps import Candidate, Diagnosis
from engine.lp.driver import LOST, State
from engine.lp.table import NO_ID, Automaton, Program

FORCED_RULE = "forced by the template"
END_RULE = "the end of the template: only the end token"
LOST_RULE = "nothing: a token came that was not legal"
_NUMBERS = 7 + len(CHANCES)  # in a row of `_numbers`, before its candidates


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


def blocks_and_rules(automaton: Automaton, programs: Sequence[Program], state: State) -> tuple[list[int], list[str]]:
    """Of each row, the block that it stands in, and what says which token may come."""
    blocks, rules = [], []
    for program, (cell, node) in zip(programs, torch.stack([state.cell, state.node], dim=1).tolist(), strict=True):
        own = min(cell, len(program) - 1)  # a row that has ended goes on in the padding of its batch
        blocks.append(block_of(program, own))
        rules.append(rule_of(automaton, program, own, node))
    return blocks, rules


def block_of(program: Program, cell: int) -> int:
    return -1 if cell == LOST else int(program.block[cell])


def rule_of(automaton: Automaton, program: Program, cell: int, node: int) -> str:
    """For people: the node's rule in a free cell, else what forced the token."""
    if cell == LOST:
        return LOST_RULE
    if program.forced[cell] == NO_ID:
        return automaton.rules[node]
    return END_RULE if cell == len(program) - 1 else FORCED_RULE


def _numbers(
    raw: Tensor,
    allowed: Tensor,
    tokens: Tensor,
    candidates: int,
    close_ids: CloseIds | None,
    sampling: Sampling | None,
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
    masses: Sequence[Tensor] = [log_p.new_zeros(len(log_p))] * 2
    if close_ids is not None:
        masses = close_mass(log_p, close_ids.closing, close_ids.going_on).unbind(dim=1)
    numbers = [
        p.gather(1, token)[:, 0],
        torch.where(alone, 1, share) * allowed.gather(1, token)[:, 0],
        log_mass.exp().clamp(max=1),
        (raw > raw.gather(1, token)).sum(dim=-1) + 1,
        torch.special.entr(p).sum(dim=-1),
        *masses,
        *chances.unbind(dim=1),
    ]
    ids = raw.topk(candidates, dim=-1).indices
    parts = [torch.stack([number.double() for number in numbers], dim=1), ids, p.gather(1, ids), allowed.gather(1, ids)]
    return torch.cat([part.double() for part in parts], dim=1)


def _diagnosis(row: Sequence[float], block: int, rule: str) -> Diagnosis:
    p_raw, p_lp, allowed_mass, rank, entropy_nat, closing, going_on, *logs = row[:_NUMBERS]
    count = (len(row) - _NUMBERS) // 3
    ids, chances, legal = (row[_NUMBERS + part * count :][:count] for part in range(3))
    likely = [Candidate(int(id_), p, bool(is_legal)) for id_, p, is_legal in zip(ids, chances, legal, strict=True)]
    # What is as likely comes in the order of ids; what cannot come at all is no candidate.
    top = sorted((token for token in likely if token.p_raw > 0), key=lambda token: (-token.p_raw, token.token_id))
    known = (log if math.isfinite(log) else None for log in logs)  # JSON has no infinity
    return Diagnosis(
        p_raw, p_lp, allowed_mass, int(rank), entropy_nat, tuple(top), block, rule, closing, going_on, *known
    )
