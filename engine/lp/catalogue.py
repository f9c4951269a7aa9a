"""All constraints by the names that the reports and the command line use, and the parameters that each one takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.errors import ConstraintError, nearest, shown
from engine.lp.constraint import Constraint
from engine.lp.exact import ExactConstraint
from engine.lp.position import LAST_POSITIONS, PositionConstraint
from engine.lp.truncating import TruncatingConstraint
from engine.lp.unconstrained import Unconstrained
from engine.records import TRIMMED4, NumberFormat
from engine.text.template import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.text.tokenizers import TextTokenizer


@dataclass(frozen=True, slots=True)
class LpInfo:
    """``placeholder`` is the default one, "" where the LP has none."""

    name: str
    what: str
    placeholder: str


MOST_LAST_POSITIONS = 64


@dataclass(frozen=True, slots=True)
class LpParameters:
    """What a user may choose. An empty placeholder means the LP's own.

    ``last_positions`` is how far from a block's end the LPs that keep marks out of it look ahead.
    ``never_end`` takes the end token from ``none``, whose texts then stop at their limits: work of equal length.
    """

    placeholder: str = ""
    form: NumberFormat = TRIMMED4
    last_positions: int = LAST_POSITIONS
    never_end: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.last_positions <= MOST_LAST_POSITIONS:
            raise ConstraintError(
                f"{self.last_positions} last positions cannot be kept free of marks",
                f"Give a number from 0 to {MOST_LAST_POSITIONS}",
            )


LPS = {
    info.name: info
    for info in (
        LpInfo("none", "no constraint", ""),
        LpInfo("position-blocklist", "by position; < and > are blocked where numbers belong", DEFAULT_PLACEHOLDER),
        LpInfo("position-blocklist-short", "the same, no mark in a block's last two positions", SHORT_PLACEHOLDER),
        LpInfo("position-allowlist", "by position; only digits and marks where numbers belong", SHORT_PLACEHOLDER),
        LpInfo("adaptive-placeholder", "by position, with a placeholder fitted to coordinates", DEFAULT_PLACEHOLDER),
        LpInfo("truncating", "by position; the model may end a block early", DEFAULT_PLACEHOLDER),
        LpInfo("exact", "an automaton of the numbers themselves: no drift, no junk, no cut", ""),
    )
}
ALIASES = {
    "generic": "position-blocklist",
    "v3.8": "position-blocklist",
    "v3.9": "position-blocklist-short",
    "v4.3": "position-allowlist",
}
"""The reports' processor types."""


CLEANUP = "cleanup"
"""The reports' third solution, a step after any LP: ``position-blocklist+cleanup``; alone it follows no LP."""


def split_cleanup(name: str) -> tuple[str, bool]:
    """The LP of a name, and whether a cleanup follows."""
    if name == CLEANUP:
        return "none", True
    lp = name.removesuffix(f"+{CLEANUP}")
    return lp, lp != name


def lp_info(name: str) -> LpInfo:
    """The LP of this name, or of a report's name for it."""
    known = ALIASES.get(name, name)
    if known in LPS:
        return LPS[known]
    raise ConstraintError(f"there is no LP {shown(name)}", nearest(name, [*LPS, *ALIASES, CLEANUP]))


def full_name(name: str) -> str:
    """The LP's own name for any that it goes by, with its cleanup."""
    lp, cleanup = split_cleanup(name)
    return lp_info(lp).name + (f"+{CLEANUP}" if cleanup else "")


def build_constraint(
    name: str, tokenizer: TextTokenizer, vocab_rows: int, parameters: LpParameters | None = None
) -> Constraint:
    """The constraint for a model with this tokenizer and so many rows."""
    info = lp_info(name)
    given = parameters or LpParameters()
    if given.placeholder and not info.placeholder:
        raise ConstraintError(f"the LP {info.name} has no placeholder", "Leave --placeholder out")
    return _MAKERS[info.name](tokenizer, vocab_rows, replace(given, placeholder=given.placeholder or info.placeholder))


def _position(name: str, *, numeric: bool, last_marks: bool) -> Callable[..., Constraint]:
    def make(tokenizer: TextTokenizer, rows: int, given: LpParameters) -> Constraint:
        return PositionConstraint(
            name,
            tokenizer,
            given.placeholder,
            rows,
            numeric=numeric,
            last_marks=last_marks,
            last_positions=given.last_positions,
        )

    return make


def _unconstrained(tokenizer: TextTokenizer, rows: int, given: LpParameters) -> Constraint:
    end = () if tokenizer.end_id is None or not given.never_end else (tokenizer.end_id,)
    return Unconstrained(tokenizer.vocab_size, rows, end)


_MAKERS: dict[str, Callable[[TextTokenizer, int, LpParameters], Constraint]] = {
    "none": _unconstrained,
    "position-blocklist": _position("position-blocklist", numeric=False, last_marks=True),
    "position-blocklist-short": _position("position-blocklist-short", numeric=False, last_marks=False),
    "position-allowlist": _position("position-allowlist", numeric=True, last_marks=False),
    "adaptive-placeholder": _position("adaptive-placeholder", numeric=False, last_marks=True),
    "truncating": lambda tokenizer, rows, given: TruncatingConstraint(tokenizer, given.placeholder, given.form, rows),
    "exact": lambda tokenizer, rows, given: ExactConstraint(tokenizer, given.form, rows),
}
