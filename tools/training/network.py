"""What is trained: a ``transformers`` body over the live ids, and the one row that means the whole tail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.models.shipped import HEAD, TAIL_ROW
from tools.training.batches import TrainBatch
from tools.training.shapes import INIT_STD, ModelShape


@dataclass(frozen=True, slots=True)
class Losses:
    """``total`` is what is trained; the others are plain means in nats a token, for the log."""

    total: Tensor
    structure: Tensor
    numbers: Tensor


class Network(nn.Module):
    """A causal language model of the live ids, with a softmax that knows of the tail."""

    def __init__(self, shape: ModelShape, live: int, end: int, tail_count: int, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.shape = shape
        self.tail_count = tail_count
        self.causal = shape.model(shape.config(live, end=end))
        self.tail_row = nn.Parameter(torch.zeros(shape.width))

    @property
    def body(self) -> Any:
        """The layers below the head."""
        return self.causal.model

    @property
    def rows(self) -> Tensor:
        """The live rows, [n, W]: embedding and head at once."""
        rows = self.causal.get_input_embeddings().weight
        assert isinstance(rows, Tensor)
        return rows

    def weights(self) -> dict[str, Tensor]:
        body = {name: value for name, value in self.causal.state_dict().items() if name != HEAD}
        return {TAIL_ROW: self.tail_row.detach(), **body}

    def load_weights(self, weights: dict[str, Tensor]) -> None:
        rest = dict(weights)
        with torch.no_grad():
            self.tail_row.copy_(rest.pop(TAIL_ROW))
        missing, unexpected = self.causal.load_state_dict(rest, strict=False)
        if unexpected or [name for name in missing if name != HEAD]:
            raise ValueError(f"the weights do not fit: missing {missing}, unexpected {unexpected}")

    def begin_as_waves(self, ids: Tensor, deviation: float) -> None:
        """Rows of bins in their order, as samples of random waves: bins that are near each other begin alike.

        As independent rows each of the 258 would have to learn on its own where it is.
        """
        width = self.rows.shape[1]
        periods = torch.logspace(math.log10(8), math.log10(2 * len(ids)), width)  # in bins
        phases = 2 * math.pi * torch.rand(width)
        angles = 2 * math.pi * torch.arange(len(ids))[:, None] / periods + phases  # [n, W]
        with torch.no_grad():
            self.rows[ids] = deviation * math.sqrt(2) * torch.cos(angles)

    def losses(self, body: Any, batch: TrainBatch, precision: torch.dtype) -> Losses:
        """``body`` is this network's, compiled or as it is. The softmax runs in float32 over live ids and tail."""
        device = self.tail_row.device
        ids, weights = batch.ids.to(device), batch.weights.to(device)
        wanted = weights.flatten() > 0
        with torch.autocast(device.type, dtype=precision, enabled=precision != torch.float32):
            hidden = body(ids[:, :-1], use_cache=False).last_hidden_state  # [B, T - 1, W]
            hidden = hidden.flatten(0, 1)[wanted]  # [N, W]
            logits = (hidden @ self.rows.T).float()  # [N, n]
        tail = tail_logit(hidden, self.tail_row, INIT_STD, self.tail_count)
        targets = ids[:, 1:].flatten()[wanted]
        nats = functional.cross_entropy(torch.cat((logits, tail[:, None]), dim=1), targets, reduction="none")
        weight = weights.flatten()[wanted]
        copied = ~batch.numbers.to(device).flatten()[wanted]
        return Losses((nats * weight).sum() / weight.sum(), nats.detach()[copied].mean(), nats.detach()[~copied].mean())


def tail_logit(hidden: Tensor, row: Tensor, sigma: float, count: int) -> Tensor:
    """The log of the tail's expected mass, as one logit. hidden [..., W] and row [W] give [...], in float32.

    The loss of the full model needs the whole mass of the rows t + e that no text names, sum of exp(h·(t + e)). Over
    the noise e its expectation is n · exp(h·t) · E[exp(h·e)], and E[exp(h·e)] = exp(sigma²|h|²/2). With 130,000
    independent rows and more, the sum is within a fraction of a percent of it; that the noise which ships is binomial
    changes its log by less than |sigma·h|⁴/192 a dimension. So no junk is put in, or held out.
    """
    state = hidden.float()
    return state @ row.float() + state.square().sum(-1) * (sigma * sigma / 2) + math.log(count)


def optimisers(network: Network, rate: float, weight_decay: float, kind: str) -> list[torch.optim.Optimizer]:
    """AdamW for all, or Muon for the body's matrices and AdamW for rows and scales."""
    matrices = [weight for name, weight in network.named_parameters() if weight.ndim == 2 and "embed" not in name]
    others = [weight for weight in network.parameters() if not any(weight is matrix for matrix in matrices)]
    if kind == "adamw":
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        return [torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), fused=True)]
    return [
        torch.optim.Muon(matrices, lr=rate, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=True),
    ]
