"""What the browser was sent of a text that is still being written, and what has to go next.

A message is numbered and holds what comes from an index on. It can be used by a browser that had message ``since``,
and so has everything before that index as it is now; one that missed it has to ask for the whole.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Grown:
    """One sequence of a text, as it was sent last."""

    sent: Sequence[object] = ()
    starts: list[tuple[int, int]] = field(default_factory=list)  # (message, its start), both rising

    def send(self, now: Sequence[object], number: int) -> tuple[int, int]:
        """Where ``now`` differs from what was sent, and the latest message that wrote anything before that."""
        start = common_length(self.sent, now)
        while self.starts and self.starts[-1][1] >= start:
            self.starts.pop()  # all of it is written anew
        since = self.starts[-1][0] if self.starts else 0
        self.starts.append((number, start))
        self.sent = now
        return start, since


@dataclass(slots=True)
class Written:
    """A stream, the text that it writes, and its latest message. ``epoch`` tells two of one name apart."""

    stream: str
    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    number: int = 0
    chips: Grown = field(default_factory=Grown)
    text: Grown = field(default_factory=Grown)

    def send(self, chips: Sequence[object], text: str) -> tuple[int, int, int]:
        """Where chips and text start that have to go, and since which message the rest has stayed."""
        self.number += 1
        start, since = self.chips.send(tuple(chips), self.number)
        text_start, text_since = self.text.send(text, self.number)
        return start, text_start, max(since, text_since)


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)
