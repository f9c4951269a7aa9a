"""What a tokenizer alone decides of a text, as the reports' figures on tokens need it: counts, drift, blocked tokens.

Nothing of models, time or generated text is here. The figures themselves are claims (``claims.token_claims``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.text.drift import needed_tokens
from engine.text.template import block_spans, build_template
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a quantity is measured, what it is called, and the relative error that a rounded figure may have."""

    label: str
    measure: Callable[[str, TextTokenizer], int]
    tolerance: float = 0.0
    unit: str = "tokens"

    def agrees(self, measured: float, least: float | None, most: float | None) -> bool:
        """Whether a report can mean this figure by one from ``least`` to ``most``; None is an open end."""
        low, high = least or 0.0, math.inf if most is None else most
        off_by = max(low - measured, measured - high, 0.0)
        return off_by <= self.tolerance * low


def _tokens(text: str, tokenizer: TextTokenizer) -> int:
    return len(tokenizer.encode(text))


def _free(text: str, tokenizer: TextTokenizer) -> int:
    return int(needed_tokens([_with_atoms(text)], tokenizer)[0].sum())


def _drift(text: str, tokenizer: TextTokenizer) -> int:
    """FREE positions of the default placeholder minus the tokens that this block needs."""
    template = build_template(_with_atoms(text), tokenizer, DEFAULT_PLACEHOLDER)
    return template.free - _free(text, tokenizer)


def _angle_tokens(text: str, tokenizer: TextTokenizer) -> int:
    """Ordinary tokens with a '<' or '>' in them, which a position LP blocks at every FREE position."""
    return len(tokenizer.ids_containing("<>"))


def _with_atoms(text: str) -> str:
    """A block alone becomes the block of a carbon: only after an atom is it a block."""
    return text if len(block_spans(text)) else f"[C]{text}"


QUANTITIES: dict[str, Quantity] = {
    "tokens": Quantity("tokens", _tokens),
    "drift": Quantity("drift, in tokens", _drift),
    "vocab_size": Quantity("vocabulary size", lambda _, tokenizer: tokenizer.vocab_size),
    # The reports round to the hundred: a twentieth more or less is the same figure.
    "angle_tokens": Quantity("tokens with < or >", _angle_tokens, tolerance=0.05),
}
