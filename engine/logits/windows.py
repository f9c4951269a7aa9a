"""Where the flags of a log are: its texts, its tokens in bins, and a window of one text, value by value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.errors import StoreError, shown
from engine.inspection.memo import computed_once
from engine.logits.flags import FLAGS, names
from engine.logits.health import DAMAGED, check_values, damage_parameters, damage_query
from engine.logits.health_words import reasons
from engine.store.entries import Entry
from engine.store.store import Store

Kind = Literal["none", "non_finite", "pointer", "denormal", "outlier", "constant", "repeated", "zero", "purpose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a value is shown as: of several flags the most telling one, in this order; ``purpose`` is a mask or padding."""
NOT_LOGGED = -1
MOST_TEXTS = 2_000
MOST_VALUES = 200_000
"""Of one window."""
MOST_CACHED = 16

_TEXTS = f"""
WITH damaged AS (SELECT entry, count(*) AS damaged FROM logit_values WHERE {DAMAGED} GROUP BY entry)
SELECT checkpoint, sequence, count(*) AS entries, min(token_idx) AS first_token, max(token_idx) AS last_token,
       sum(flagged)::BIGINT AS flagged, coalesce(sum(damaged), 0)::BIGINT AS damaged,
       min(token_idx) FILTER (damaged > 0) AS first_damaged, min(source) AS source
FROM logit_entries LEFT JOIN damaged USING (entry) GROUP BY checkpoint, sequence ORDER BY min(entry) LIMIT {MOST_TEXTS}
"""
_POSITIONS = "SELECT DISTINCT position FROM logit_values WHERE checkpoint = $checkpoint ORDER BY position"
_BINS = f"""
WITH damaged AS (SELECT DISTINCT entry FROM logit_values WHERE checkpoint = $checkpoint AND {DAMAGED})
SELECT (token_idx - $first) // $width AS bin, count(*) AS entries, count(*) FILTER (e.flagged > 0) AS flagged,
       count(d.entry) AS damaged, min(token_idx) FILTER (d.entry IS NOT NULL) AS first_damaged
FROM logit_entries AS e LEFT JOIN damaged AS d ON d.entry = e.entry
WHERE checkpoint = $checkpoint AND sequence = $sequence GROUP BY bin ORDER BY bin
"""
_VALUES = f"""
SELECT v.token_idx, v.position, v.flags, v.value, e.middle, e.spread
FROM logit_values AS v JOIN logit_entries AS e
     ON v.entry = e.entry AND e.sequence = $sequence AND e.checkpoint = $checkpoint
WHERE v.position BETWEEN $first AND $last AND v.token_idx BETWEEN $first_token AND $last_token
ORDER BY v.token_idx, v.position LIMIT {MOST_VALUES}
"""


@dataclass(frozen=True, slots=True)
class LoggedText:
    """One text at one checkpoint: as many entries as it has tokens that were logged."""

    checkpoint: str
    sequence: int
    entries: int
    first_token: int
    last_token: int
    flagged: int  # values
    damaged: int  # of them, not on purpose
    first_damaged: int | None  # the first token with one
    source: str | None  # what its entries name; the first of several


@dataclass(frozen=True, slots=True)
class TokenBin:
    """Entries of tokens from ``first`` to ``last``."""

    first: int
    last: int
    entries: int
    flagged: int
    damaged: int
    first_damaged: int | None  # its first token with damage


@dataclass(frozen=True, slots=True, eq=False)
class FlagWindow:
    """One text, token by position. ``codes`` and ``kinds`` are NOT_LOGGED where nothing was logged."""

    tokens: NDArray[np.int64]  # [T]
    positions: NDArray[np.int64]  # [P]
    values: NDArray[np.float64]  # [T, P]
    codes: NDArray[np.int16]  # [T, P] the bits of ``flags.FLAGS``
    kinds: NDArray[np.int8]  # [T, P] places in KINDS
    reasons: NDArray[np.object_]  # [T, P] a sentence per flagged value


@computed_once(MOST_CACHED)
def texts(store: Store, entry: Entry) -> tuple[LoggedText, ...]:
    """In the order in which they begin."""
    check_values(store, entry)
    return tuple(LoggedText(**row) for row in damage_query(store, entry, _TEXTS).to_pylist())


@computed_once(MOST_CACHED)
def positions_of(store: Store, entry: Entry, checkpoint: str) -> NDArray[np.int64]:
    """All that were logged at a checkpoint; [P], rising."""
    rows = store.table(_POSITIONS, {"checkpoint": checkpoint}, of=[entry.id])
    if not rows.num_rows:
        raise StoreError(f"{entry.id} has entries of {shown(checkpoint)} and no values", "Read its file in again")
    return np.asarray(rows["position"].to_numpy(), dtype=np.int64)


@computed_once(MOST_CACHED)
def token_bins(store: Store, entry: Entry, text: LoggedText, most: int = 120) -> list[TokenBin]:
    """A text's tokens in at most so many bins of equal width, without empty ones."""
    first, last = text.first_token, text.last_token
    width = -(-(last - first + 1) // most)
    place = {"checkpoint": text.checkpoint, "sequence": text.sequence}
    rows = damage_query(store, entry, _BINS, **place, first=first, width=width).to_pylist()
    starts = [first + width * row.pop("bin") for row in rows]
    return [TokenBin(start, min(start + width - 1, last), **row) for start, row in zip(starts, rows, strict=True)]


def window(
    store: Store, entry: Entry, text: LoggedText, *, first: int, last: int, first_token: int, last_token: int
) -> FlagWindow:
    """Of these positions and tokens, both ends included."""
    parameters = {"checkpoint": text.checkpoint, "sequence": text.sequence, "first": first, "last": last}
    parameters |= {"first_token": first_token, "last_token": last_token}
    rows = store.table(_VALUES, parameters, of=[entry.id])
    tokens, row = np.unique(rows["token_idx"].to_numpy(), return_inverse=True)
    positions, column = np.unique(rows["position"].to_numpy(), return_inverse=True)
    codes = np.full((len(tokens), len(positions)), NOT_LOGGED, dtype=np.int16)
    values, texts = np.full(codes.shape, np.nan), np.full(codes.shape, "", dtype=object)
    flags, *figures = (rows[name].to_pylist() for name in ("flags", "value", "middle", "spread"))
    codes[row, column] = [sum(1 << FLAGS.index(flag) for flag in set(own)) for own in flags]
    values[row, column] = figures[0]
    texts[row, column] = [reasons(*of_value) for of_value in zip(flags, *figures, strict=True)]
    return FlagWindow(tokens, positions, values, codes, _kinds(entry, values, codes, positions), texts)


def kind_of(flags: Iterable[str], *, on_purpose: bool) -> Kind:
    present = set(flags)
    if not present:
        return "none"
    return "purpose" if on_purpose else next((kind for kind in KINDS if kind in present), "none")


def _kinds(
    entry: Entry, values: NDArray[np.float64], codes: NDArray[np.int16], positions: NDArray[np.int64]
) -> NDArray[np.int8]:
    """What ``DAMAGED`` leaves out, masks and padding, is flagged on purpose."""
    parameters = damage_parameters(entry)
    masks = np.array(parameters["masks"])
    with np.errstate(invalid="ignore", over="ignore"):
        is_mask = (np.abs(values[..., None] - masks) <= 1e-6 * np.abs(masks)).any(axis=-1)
    is_meant = np.isneginf(values) | is_mask | (positions >= parameters["padded"])
    damaged, meant = (
        np.array([KINDS.index(kind_of(names(code), on_purpose=way)) for code in range(1 << len(FLAGS))], dtype=np.int8)
        for way in (False, True)
    )
    kinds = np.where(is_meant, meant[codes], damaged[codes])
    return np.where(codes == NOT_LOGGED, np.int8(NOT_LOGGED), kinds).astype(np.int8)
