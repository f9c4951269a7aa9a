"""Tries that a guard threw away, as pages show them: which blocks went, for which check, and what was written there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.figures.words import counted, percent

WEIGHED = "weighed"
"""In place of a check, in runs of before this was taken away: drawn for the sample's log_weight alone."""


@dataclass(frozen=True, slots=True)
class ThrownText:
    """A row of ``tries``. Whole blocks: from the first that was drawn anew to the one that failed."""

    blocks: range
    check: str  # that failed
    text: str


def blocks_thrown(first: int, atoms: Iterable[int] | None) -> range:
    """``atoms`` are those by which the check failed; the last of them is that of the block written last."""
    return range(first, max([first, *(atoms or ())]) + 1)


def checks_by_block(thrown: Iterable[tuple[range, str]]) -> dict[int, list[str]]:
    """Of each block that was drawn anew: the check for which each of its tries was thrown away."""
    checks: dict[int, list[str]] = {}
    for blocks, check in thrown:
        for block in () if check == WEIGHED else blocks:
            checks.setdefault(block, []).append(check)
    return checks


def redrawn_words(checks: Iterable[str]) -> str:
    """``drawn 3 times; thrown away for: stereo``, of one block."""
    checks = list(checks)
    return f"drawn {len(checks) + 1} times; thrown away for: {', '.join(dict.fromkeys(checks))}"


UNLIKELY = 0.01


def descriptor_words(steps: Iterable[Mapping[str, Any]]) -> str:
    """Of a sample's kept steps: forced tokens of descriptors, such as ``[OH]``, that the model gave next to nothing."""
    forced = [
        step for step in steps
        if step["forced"] and step["p_raw"] is not None and re.search("[A-Za-z]", step["piece"] or "")
        and not re.search("[<>]|CONFORMER", step["piece"])
    ]  # fmt: skip
    unlikely = sorted((step for step in forced if step["p_raw"] < UNLIKELY), key=lambda step: float(step["p_raw"]))
    if not unlikely:
        return ""
    named = ", ".join(f"{step['piece']} ({percent(step['p_raw'])})" for step in unlikely[:3])
    return (
        f"{len(unlikely):,} of {counted(len(forced), 'forced token')} inside atom descriptors had less than "
        f"{100 * UNLIKELY:g} % with the model: {named}{', …' if len(unlikely) > 3 else ''}. "
        "The LP writes these atoms otherwise than the model does."
    )
