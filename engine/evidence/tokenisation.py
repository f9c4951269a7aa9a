"""The reports' figures on tokens, each measured again with the real tokenizers.

The figures are data (``data/claims/tokenisation.toml``); the verdict of each is computed when it is asked for. Only
counts that a tokenizer alone decides are here: nothing of models, time or generated text. ``claims`` has these
claims among all others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from engine.errors import FileFormatError, shown
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.paths import DATA
from engine.text.drift import needed_tokens
from engine.text.template import block_spans, build_template
from engine.text.tokenizers import TextTokenizer, load_tokenizer

CLAIMS_FILE = DATA / "claims" / "tokenisation.toml"

UNBOUNDED = 10**9
"""The upper end of a claim that gives none."""

Verdict = Literal["reproduced", "contradicted"]


@dataclass(frozen=True, slots=True)
class TokenClaim:
    """One figure of a report: ``least`` and ``most`` are equal where it gives a single number."""

    report: str
    section: str
    quantity: str
    tokenizer: str
    text: str
    least: int
    most: int
    note: str
    id: str = ""
    also: tuple[str, ...] = ()  # other sections that repeat it
    highlight: bool = False

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise FileFormatError(f"a claim of report {self.report} has the unknown quantity {shown(self.quantity)}")
        if self.least > self.most:
            raise FileFormatError(f"a claim of report {self.report} runs from {self.least} to {self.most}")

    @property
    def reported(self) -> str:
        if self.most == UNBOUNDED:
            return f"{self.least:,} or more"
        return f"{self.least:,}" if self.least == self.most else f"{self.least:,} to {self.most:,}"


@dataclass(frozen=True, slots=True)
class TokenFinding:
    """A claim beside what the tokenizer gives; ``off_by`` is zero inside the reported range."""

    claim: TokenClaim
    measured: int
    off_by: int
    verdict: Verdict


def load_claims(path: Path = CLAIMS_FILE) -> list[TokenClaim]:
    """The claims as data, in the order of the reports."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
        return [_claim(table) for table in tables]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{shown(path, 200)} is no file of claims ({error})") from error


def findings(claims: list[TokenClaim]) -> list[TokenFinding]:
    """Every claim measured now."""
    results = []
    for claim in claims:
        quantity = QUANTITIES[claim.quantity]
        measured = quantity.measure(claim.text, load_tokenizer(claim.tokenizer))
        off_by = min(measured - claim.least, 0) + max(measured - claim.most, 0)
        is_within = abs(off_by) <= quantity.tolerance * claim.least
        results.append(TokenFinding(claim, measured, off_by, "reproduced" if is_within else "contradicted"))
    return results


def _claim(table: dict[str, Any]) -> TokenClaim:
    if "reported_at_least" in table:
        least, most = table["reported_at_least"], UNBOUNDED
    else:
        reported = table["reported"]
        least, most = reported if isinstance(reported, list) else (reported, reported)
    words = {name: str(table[name]) for name in ("report", "section", "quantity", "tokenizer")}
    rest = {name: table.get(name, "") for name in ("text", "note", "id")}
    also, highlight = tuple(table.get("also", ())), bool(table.get("highlight"))
    return TokenClaim(**words, **rest, least=least, most=most, also=also, highlight=highlight)


# --- what can be measured -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a quantity is measured, what it is called, and the relative error that a rounded figure may have."""

    label: str
    measure: Callable[[str, TextTokenizer], int]
    tolerance: float = 0.0
    unit: str = "tokens"


def _tokens(text: str, tokenizer: TextTokenizer) -> int:
    return len(tokenizer.encode(text))


def _free(text: str, tokenizer: TextTokenizer) -> int:
    return int(needed_tokens([_with_atoms(text)], tokenizer)[0].sum())


def _drift(text: str, tokenizer: TextTokenizer) -> int:
    """FREE positions of the default placeholder minus the tokens that this block needs."""
    template = build_template(_with_atoms(text), tokenizer, DEFAULT_PLACEHOLDER)
    return template.free - _free(text, tokenizer)


def _digit_tokens(text: str, tokenizer: TextTokenizer) -> int:
    """Digits in the longest token that is digits alone."""
    runs = (re.fullmatch(r"\d+", piece.piece) for piece in tokenizer.tokens("0123456789" * 3))
    return max(len(run.group()) for run in runs if run)


def _angle_tokens(text: str, tokenizer: TextTokenizer) -> int:
    """Ordinary tokens with a '<' or '>' in them, which a position LP blocks at every FREE position."""
    return len(tokenizer.ids_containing("<>"))


def _with_atoms(text: str) -> str:
    """A block alone becomes the block of a carbon: only after an atom is it a block."""
    return text if len(block_spans(text)) else f"[C]{text}"


QUANTITIES: dict[str, Quantity] = {
    "tokens": Quantity("tokens", _tokens),
    "free": Quantity("FREE positions", _free),
    "copy": Quantity("COPY tokens", lambda text, tokenizer: _tokens(text, tokenizer) - _free(text, tokenizer)),
    "drift": Quantity("drift, in tokens", _drift),
    "vocab_size": Quantity("vocabulary size", lambda _, tokenizer: tokenizer.vocab_size),
    "digit_tokens": Quantity("digits a token, at most", _digit_tokens, unit="digits"),
    # The reports round to the hundred: a twentieth more or less is the same figure.
    "angle_tokens": Quantity("tokens with < or >", _angle_tokens, tolerance=0.05),
    "masked_entries": Quantity(  # FREE positions times blocked tokens: the scores that a blocklist LP overwrites
        "masked scores, three blocks",
        lambda text, tokenizer: _free(text, tokenizer) * _angle_tokens(text, tokenizer),
        tolerance=0.05,
        unit="scores",
    ),
}
