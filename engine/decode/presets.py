"""What a user may choose about sampling, and the reports' presets. Nothing here draws: torch is not imported."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.errors import ConstraintError, nearest, shown


@dataclass(frozen=True, slots=True)
class Sampling:
    """Zero, or one for ``top_p``, switches a filter off. Greedy where the temperature is 0."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        fits = 0 <= self.temperature < math.inf and self.top_k >= 0 and 0 < self.top_p <= 1 and 0 <= self.min_p <= 1
        if not fits:
            raise ConstraintError(
                f"the sampling parameters {self} do not fit",
                "temperature (finite) and top-k are at least 0, top-p lies in (0, 1], min-p in [0, 1]",
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0

    @property
    def has_filters(self) -> bool:
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


PRESETS = {
    "greedy": Sampling(0.0),
    **{f"p{p}_t{t}": Sampling(t, top_p=p) for t in (1.0, 1.2, 1.4) for p in (1.0, 0.8, 0.6, 0.4)},
    "p0.8_t0.8": Sampling(0.8, top_p=0.8),
    **{f"minp{p}_t{t}": Sampling(t, min_p=p) for t in (0.8, 1.0, 1.2, 1.4) for p in (0.1, 0.075, 0.05)},
    "qwen3": Sampling(0.7, top_k=20, top_p=0.8),
}
"""By the reports' names; ``qwen3`` is what Qwen's own documentation asks for in place of greedy."""


def preset(name: str) -> Sampling:
    if name in PRESETS:
        return PRESETS[name]
    raise ConstraintError(f"there is no sampling preset {shown(name)}", nearest(name, PRESETS))
