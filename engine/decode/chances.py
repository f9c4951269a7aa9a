"""With which probability a token was drawn, and how likely it was to the model: in logarithms, for any filters.

``engine.decode.sampling`` draws; this says the chance of what was drawn. The set that top-k, top-p or min-p keep is
found again from the scores, which another pass gives to the precision of the model's dtype alone. The token did come,
so it counts as kept, with all that are as likely.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from engine.decode.presets import Sampling
from engine.decode.sampling import MOST_SORTED

CHANCES = ("ln_p", "ln_p_tempered", "ln_mass", "ln_q")
"""Natural logarithms: of the token's probability before the LP, the same at the sampling's temperature, of the mass of
all tokens that the LP allows at that temperature, and of the probability that the token was drawn with."""


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
        ln_q = ln_tempered - (_kept(legal, ln_mass, ln_tempered, sampling) if sampling.has_filters else ln_mass)
        ln_q = torch.where(allowed.sum(dim=1) == 1, 0.0, ln_q)
    ln_q = ln_q.masked_fill(~allowed.gather(1, token)[:, 0], torch.nan)
    return torch.stack([ln_p, ln_tempered, ln_mass, ln_q], dim=1).double()


def _kept(legal: Tensor, ln_mass: Tensor, ln_token: Tensor, sampling: Sampling) -> Tensor:
    """[B] the log of the mass that the filters keep, of log-probabilities [B, V] that are minus infinity elsewhere."""
    values, total = _likeliest(legal, ln_mass, sampling)
    is_kept = torch.ones_like(values, dtype=torch.bool)
    if sampling.top_p < 1:
        chances = (values - total[:, None]).exp()
        is_kept = chances.cumsum(dim=-1) - chances < sampling.top_p
        is_kept[:, 0] = True
    if sampling.min_p > 0:
        is_kept &= values >= values.amax(dim=-1, keepdim=True) + math.log(sampling.min_p)
    is_kept |= values >= ln_token[:, None]
    return values.masked_fill(~is_kept, -torch.inf).logsumexp(dim=-1)


def _likeliest(legal: Tensor, ln_mass: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Those that the filters may keep [B, K], likeliest first where top-p asks, and the log of their whole [B]."""
    width = legal.shape[1]
    if 0 < sampling.top_k < width:
        values = legal.topk(sampling.top_k, dim=-1).values
        return values, values.logsumexp(dim=-1)
    if sampling.top_p == 1:
        return legal, ln_mass
    values = legal.topk(min(width, MOST_SORTED), dim=-1).values
    if len(values[0]) < width and bool((values.logsumexp(dim=-1) - ln_mass < math.log(sampling.top_p) + _NEAR).any()):
        values = legal.sort(dim=-1, descending=True).values
    return values, ln_mass


_NEAR = 1e-4
"""Within rounding of the bound, all columns are sorted."""
