"""Sampling as ``transformers`` defines it, on any set of logits, with randomness that belongs to the sample alone.

The order is that of ``generate``: temperature, top-k, top-p, min-p. On the legal rows of a constraint the result is the
same as on the full vocabulary with all other rows at minus infinity, since none of the filters looks at those. A
number drawn for (seed, sample, step) is a hash of the three: a sample comes out the same in any batch, place and order.
Which rows are legal, and which token a row stands for, is not known here.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.decode.plan import Sampling

CHUNK = 512
FEW_CHUNKS, ROWS_AT_ONCE = 4, 4
"""Up to how many chunks a row is summed as a whole; and how many rows at once by chunks on a CPU."""
MOST_SORTED = 512
"""The likeliest columns among which a nucleus is sought first."""
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 53


def sample(logits: Tensor, sampling: Sampling, uniform: Tensor) -> Tensor:
    """[B] the columns drawn from logits [B, L], minus infinity where illegal, by each row's uniform number [B].

    As ``generate``'s warpers, a softmax and `draw` would have it, but for ties at the k-th place, and without a softmax
    or a sort over the whole width where top-k or top-p leave few columns.
    """
    if sampling.is_greedy:
        return logits.argmax(dim=-1)
    width = logits.shape[-1]
    if 0 < sampling.top_k < width:
        return _sample_among(*_likeliest(logits, sampling.top_k), None, sampling, uniform)
    if sampling.top_p < 1:
        few = min(width, MOST_SORTED)
        values, columns = logits.topk(few, dim=-1)
        total = None if few == width else (logits / sampling.temperature).logsumexp(dim=-1, keepdim=True)
        is_blind = logits.device.type == "cuda"  # a look at the numbers would end the capture of a graph
        if total is not None:
            held = (values / sampling.temperature - total).exp().sum(dim=-1)
            if is_blind or not bool((held > sampling.top_p).all()):
                values, columns = logits.sort(dim=-1, descending=True)
        return _sample_among(values, columns, total, sampling, uniform)
    logits = logits.float()
    peak = logits.amax(dim=-1, keepdim=True)
    if width <= FEW_CHUNKS * CHUNK:
        return draw(_weigh(logits, peak, sampling, torch.empty_like(logits)), uniform)
    return _sample_by_chunks(logits, peak, sampling, uniform)


def _weigh(logits: Tensor, peak: Tensor, sampling: Sampling, out: Tensor) -> Tensor:
    """``out``, with chances over that of the likeliest token; 0 where that is less than min-p."""
    torch.sub(logits, peak, out=out)
    if sampling.temperature != 1.0:
        out.div_(sampling.temperature)
    out.exp_()
    return out.mul_(out >= sampling.min_p) if sampling.min_p > 0 else out


def _sample_by_chunks(logits: Tensor, peak: Tensor, sampling: Sampling, uniform: Tensor) -> Tensor:
    """Draws from wide logits [B, L]: chunks are summed, and the one that the draw falls into is looked at again.

    On a CPU a few rows at a time go through one buffer: those of a whole batch would leave the processor's cache
    between two operations.
    """
    rows, width = logits.shape
    at_once = min(rows, ROWS_AT_ONCE) if logits.device.type == "cpu" else rows
    buffer = logits.new_zeros((at_once, width + -width % CHUNK))
    sums = []
    for part, top in zip(logits.split(at_once), peak.split(at_once), strict=True):
        weights = buffer[: len(part)]
        _weigh(part, top, sampling, weights[:, :width])
        sums.append(weights.unflatten(1, (-1, CHUNK)).sum(dim=2))
    ends = torch.cat(sums).to(uniform.dtype).cumsum(dim=-1)
    target = uniform[:, None] * ends[:, -1:]
    chunk = _passing(ends, target)[:, None]
    columns = chunk * CHUNK + torch.arange(CHUNK, device=logits.device)
    inside = logits.gather(1, columns.clamp(max=width - 1))
    weights = _weigh(inside, peak, sampling, inside).masked_fill_(columns >= width, 0.0)
    before = torch.nn.functional.pad(ends, (1, 0)).gather(1, chunk)
    return chunk[:, 0] * CHUNK + _passing(weights.to(uniform.dtype).cumsum(dim=-1), target - before)


def _likeliest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``topk``; on a CPU from the chunks with the largest maxima alone, as no others can hold one of these columns."""
    whole = logits.shape[-1] // CHUNK
    if logits.device.type != "cpu" or whole < 4 * count:
        return logits.topk(count, dim=-1)
    chunks = logits[:, : whole * CHUNK].unflatten(1, (whole, CHUNK))
    chosen = chunks.amax(dim=2).topk(count, dim=-1).indices  # [B, K]
    ids = (chosen[..., None] * CHUNK + torch.arange(CHUNK)).flatten(1)
    rest = torch.arange(whole * CHUNK, logits.shape[-1]).expand(len(ids), -1)
    ids = torch.cat([ids, rest], dim=1)
    values, indices = logits.gather(1, ids).topk(count, dim=-1)
    return values, ids.gather(1, indices)


def _sample_among(values: Tensor, columns: Tensor, total: Tensor | None, sampling: Sampling, uniform: Tensor) -> Tensor:
    """Draws from logits in falling order [B, K] and their columns. ``total`` is the log mass where K is not all."""
    scores = values.float() / sampling.temperature
    chances = scores.softmax(dim=-1) if total is None else (scores - total).exp()
    if sampling.top_p < 1:
        before = chances.cumsum(dim=-1) - chances
        before[:, 0] = 0.0
        chances = torch.where(before < sampling.top_p, chances, 0.0)
    if sampling.min_p > 0:
        chances = torch.where(chances >= sampling.min_p * chances[:, :1], chances, 0.0)
    columns, order = columns.sort(dim=-1)
    index = draw(chances.gather(1, order), uniform)
    return columns.gather(1, index[:, None]).squeeze(1)


def draw(chances: Tensor, uniform: Tensor) -> Tensor:
    """The index at which the running sum of probabilities [B, L] passes each row's uniform number [B]."""
    sums = chances.to(uniform.dtype).cumsum(dim=-1)
    return _passing(sums, uniform[:, None] * sums[:, -1:])


def _passing(sums: Tensor, target: Tensor) -> Tensor:
    """The first index at which sums [B, L] are more than target [B, 1]; rounding may have made this the last sum."""
    below = sums[:, -1:].nextafter(torch.zeros_like(target))
    return (sums <= torch.minimum(target, below)).sum(dim=-1)


def uniform(seed: int, samples: Tensor, steps: Tensor) -> Tensor:
    """A number in [0, 1) for each (seed, sample, step): int64 [B] and [B] give float64 [B].

    A device that has no float64 gets the nearest float32 below one, made on the CPU.
    """
    if samples.device.type == "mps":
        return uniform(seed, samples.cpu(), steps.cpu()).float().clamp(max=1 - 2**-24).to(samples.device)
    mixed = _mix(samples * _signed(_GOLDEN) + _signed((seed * 0xD1342543DE82EF95 + 1) % 2**64))
    mixed = _mix(mixed + steps * _signed(_GOLDEN) + 1)
    return _shifted(mixed, 64 - _BITS).double() * 2.0**-_BITS


def is_broken(peak: Tensor) -> Tensor:
    """Whether the largest of a row's logits [B] is NaN, as it is if any of them is, or infinite: then no token is
    likelier than another. Minus infinity is a row without a legal token."""
    return peak.isnan() | peak.isposinf()


MOST_TRIES = 2**12 - 1
"""At one step that have numbers of their own."""


def steps_behind(rewinds: int, tries: int = 0) -> int:
    """Added to a step's number in what its draw is keyed by: a row that went back draws by numbers of its own, and so
    does one that draws again at the same step."""
    return (rewinds << 32) + (tries << 20)


def _mix(value: Tensor) -> Tensor:
    """The finaliser of splitmix64, on wrapping 64-bit integers."""
    value = (value ^ _shifted(value, 30)) * _signed(_MIX_1)
    value = (value ^ _shifted(value, 27)) * _signed(_MIX_2)
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, bits: int) -> Tensor:
    """Shifted to the right with zeros coming in."""
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
