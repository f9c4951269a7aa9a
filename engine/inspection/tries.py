"""Tries that a guard threw away, as pages show them: which blocks went, for which check, and what was written there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

WEIGHED = "weighed"
"""In place of a check, in runs of before this was taken away: drawn for the sample's log_weight alone."""


@dataclass(frozen=True, slots=True)
class ThrownText:
    """A row of ``tries``. Whole blocks: from the first that was redrawn to the one that failed."""

    blocks: range
    check: str  # that failed
    text: str


def blocks_thrown(first: int, atoms: Iterable[int] | None) -> range:
    """``atoms`` are those by which the check failed; the last of them is that of the block written last."""
    return range(first, max([first, *(atoms or ())]) + 1)


def checks_by_block(thrown: Iterable[tuple[range, str]]) -> dict[int, list[str]]:
    """Of each block that was redrawn: the check for which each of its tries was thrown away."""
    checks: dict[int, list[str]] = {}
    for blocks, check in thrown:
        for block in () if check == WEIGHED else blocks:
            checks.setdefault(block, []).append(check)
    return checks


def redrawn_words(checks: Iterable[str]) -> str:
    """``drawn 3 times; thrown away for: stereo``, of one block."""
    checks = list(checks)
    return f"drawn {len(checks) + 1} times; thrown away for: {', '.join(dict.fromkeys(checks))}"
