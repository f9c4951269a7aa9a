"""Log-probabilities as a server tells them: read from its answers, checked, and made what is known of a step.

vLLM tells those of the model before any mask (its ``logprobs_mode`` raw_logprobs), unless it is started otherwise: then
they are of what the LP left, and would be taken for the model's. That is found by forced tokens: before the mask the
one of many is hardly ever certain, behind it every one is, with a log-probability of exactly 0. Until one was below 0
no probability is shown. Where an LP forces nothing (``none``, ``grammar``) it is not found, and the server is believed.

A server tells neither the entropy nor the mass that an LP allows, but of a forced token, which is all of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.decode.diagnosis import END_RULE, FORCED_RULE, LOST_RULE
from engine.decode.steps import Candidate, Diagnosis
from engine.lp.follower import Follower
from engine.lp.table import NO_ID, Program

MOST_ALTERNATIVES = 20
"""vLLM refuses to tell more, unless it is started with a larger --max-logprobs."""
ENOUGH_FORCED = 8
"""Forced tokens, all with 0, by which a server's log-probabilities are held to be of what the LP left."""
ROUNDING, LEAST = 1e-4, -9_999.0
"""How far above 0 a log-probability may be told, and what vLLM says for minus infinity."""
ID_PREFIX = "token_id:"
MASKED_NOTE = (
    "no probabilities: the server's are of what the LP left, not the model's (start it with --logprobs-mode "
    "raw_logprobs)"
)


@dataclass(frozen=True, slots=True)
class Chance:
    """Of one token of an answer, and the likeliest ones at its place."""

    ln_p: float
    rank: int | None  # None where the server does not say, and it is none of the likeliest
    top: tuple[tuple[int, float], ...]


def asked_of(candidates: int) -> int:
    """How many alternatives a request asks for; the token itself comes besides, or is one of them."""
    return max(1, min(candidates, MOST_ALTERNATIVES))


def read_chances(told: Any, ids: Sequence[int], asked: int, vocab_rows: int) -> list[Chance]:
    """Of a choice's ``logprobs``, in the form of completions or of ids alone; ``ValueError`` where they are no
    log-probabilities of these ids."""
    try:
        if "content" in told:
            chances = [_of_content(entry, id_) for entry, id_ in zip(told["content"], ids, strict=True)]
        else:
            parts = zip(told["token_logprobs"], told["top_logprobs"], ids, strict=True)
            chances = [_of_names(ln_p, top, asked) for ln_p, top, _ in parts]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it has no log-probability of each token") from error
    if any(not 0 <= id_ < vocab_rows for chance in chances for id_, _ in chance.top):
        raise ValueError("an alternative is no token of the model")
    return chances


def _of_content(entry: dict[str, Any], id_: int) -> Chance:
    if entry["token_id"] != id_:
        raise ValueError("it is of other tokens")
    top = [(other["token_id"], _number(other["logprob"])) for other in entry["top_logprobs"]]
    rank = entry.get("rank")
    return _chance(_number(entry["logprob"]), rank if type(rank) is int and rank > 0 else None, top)


def _of_names(told: Any, named: dict[str, Any], asked: int) -> Chance:
    """The rank is known of the likeliest alone, as many as were asked for."""
    ln_p = _number(told)
    top = [(int(name.removeprefix(ID_PREFIX)), _number(other)) for name, other in named.items()]
    likelier = sum(other > ln_p for _, other in top)
    return _chance(ln_p, likelier + 1 if likelier < asked else None, top)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not LEAST <= value <= ROUNDING:
        raise ValueError("one is no number up to 0")
    return min(0.0, float(value))


def _chance(ln_p: float, rank: int | None, top: list[tuple[int, float]]) -> Chance:
    if any(type(id_) is not int for id_, _ in top):
        raise ValueError("an alternative is no id")
    return Chance(ln_p, rank, tuple(sorted(top, key=lambda pair: (-pair[1], pair[0]))))


class RawCheck:
    """Whether a server's log-probabilities are those of the model before the LP: None as long as that is not known."""

    def __init__(self, *, has_forced: bool) -> None:
        self.is_raw: bool | None = None if has_forced else True
        self._certain = 0

    def see(self, follower: Follower, ids: Sequence[int], chances: Sequence[Chance]) -> bool:
        """Looks at ids that come next, before they are taken; whether what is told may be shown."""
        if self.is_raw is None:
            ahead = copy.copy(follower)
            forced = [chance.ln_p for id_, chance in zip(ids, chances, strict=True) if ahead.take(id_)]
            self._certain += sum(ln_p == 0 for ln_p in forced)
            if any(ln_p < 0 for ln_p in forced):
                self.is_raw = True
            elif self._certain >= ENOUGH_FORCED:
                self.is_raw = False
        return self.is_raw is True


def diagnosis_of(chance: Chance, follower: Follower, program: Program, rules: Sequence[str]) -> Diagnosis:
    """Of the token that comes next, before it is taken."""
    is_forced = follower.forced_id != NO_ID
    likely = [Candidate(id_, math.exp(ln_p), follower.allows(id_)) for id_, ln_p in chance.top if ln_p > LEAST]
    p_raw, last = math.exp(chance.ln_p), len(program) - 1
    rule = LOST_RULE if follower.is_lost else rules[follower.node]
    if not follower.is_lost and program.forced[follower.cell] != NO_ID:
        rule = END_RULE if follower.cell == last else FORCED_RULE
    return Diagnosis(
        p_raw=p_raw,
        p_lp=1.0 if is_forced else None,
        allowed_mass=p_raw if is_forced else None,
        rank_raw=chance.rank,
        entropy_nat=None,
        top_k=tuple(likely),
        block=-1 if follower.is_lost else int(program.block[follower.cell]),
        rule=rule,
        ln_p=chance.ln_p if chance.ln_p > LEAST else None,
    )
