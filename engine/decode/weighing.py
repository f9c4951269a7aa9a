"""What a guard leaves of the model's distribution, estimated while a row is written.

Each block is drawn until ``wanted`` draws of it have passed, and the last one is kept. Draws are independent: the last
passing one is distributed as the first, however many draws it took. The share of the model's mass that passes is
estimated without bias by (wanted - 1) / (draws - 1); the product over the blocks is the row's weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogWeight:
    """Natural logarithm of a sample's weight. The weight has no bias; its logarithm is low, by half of sd squared."""

    value: float
    sd: float  # estimated


@dataclass(slots=True)
class RowWeighing:
    """The weight of one row, block by block."""

    wanted: int  # draws of a block that have to pass; 0: the row has no weight, or none any more
    most_thrown: float  # draws, to weigh alone
    thrown: int = 0
    draws: int = 0  # of the block
    passed: int = 0  # of them
    log_weight: float = 0.0
    variance: float = 0.0

    def wants_another(self, *, passes: bool) -> bool:
        """Count a draw of the block; whether it is thrown away for the estimate alone.

        Not before a draw has passed: until then the guard decides as it does without a weight.
        """
        if not self.wanted:
            return False
        self.draws += 1
        self.passed += passes
        if not self.passed:
            return False
        if self.passed == self.wanted:
            self._finish_block()
            return False
        self.thrown += 1
        if self.thrown > self.most_thrown:
            self.give_up()
        return bool(self.wanted)

    def give_up(self) -> None:
        """The row gets no weight, and is no longer weighed."""
        self.wanted = 0

    @property
    def result(self) -> LogWeight | None:
        return LogWeight(self.log_weight, math.sqrt(self.variance)) if self.wanted else None

    def _finish_block(self) -> None:
        """Delta method: the variance of a share's logarithm is that of the share, over its square."""
        failed = self.draws - self.wanted
        if failed:
            self.log_weight += math.log((self.wanted - 1) / (self.draws - 1))
            self.variance += failed / ((self.wanted - 1) * (self.draws - 2))
        self.draws = self.passed = 0
