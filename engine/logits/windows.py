"""Where the flags of a log are: its texts, its tokens in bins, and a window of one text, value by value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.inspection.memo import Memo
from engine.logits.flags import FLAGS, names
from engine.logits.health import DAMAGED, FlagMap, check_values, damage_parameters, damage_query, flag_map
from engine.logits.health_words import reasons
from engine.store.entries import Entry
from engine.store.store import Store

Kind = Literal["none", "non_finite", "pointer", "denormal", "outlier", "constant", "repeated", "zero", "purpose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a value is shown as: of several flags the most telling one, in this order; ``purpose`` is a mask or padding."""
NOT_LOGGED = -1
MOST_TEXTS = 2_000
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
_MIDDLES = """
SELECT token_idx, middle, spread FROM logit_entries
WHERE checkpoint = $checkpoint AND sequence = $sequence AND token_idx BETWEEN $first_token AND $last_token
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
    """``kinds`` has places in KINDS, NOT_LOGGED where nothing was logged; ``reasons`` a sentence a flagged value."""

    map: FlagMap
    kinds: NDArray[np.int8]  # [T, P]
    reasons: NDArray[np.object_]  # [T, P]


_texts: Memo[tuple[LoggedText, ...]] = Memo(MOST_CACHED)
_positions: Memo[NDArray[np.int64]] = Memo(MOST_CACHED)
_bins: Memo[list[TokenBin]] = Memo(MOST_CACHED)


def texts(store: Store, entry: Entry) -> tuple[LoggedText, ...]:
    """In the order in which they begin."""

    def read() -> tuple[LoggedText, ...]:
        check_values(store, entry)
        return tuple(LoggedText(**row) for row in damage_query(store, entry, _TEXTS).to_pylist())

    return _texts.of(entry.key, read)


def positions_of(store: Store, entry: Entry, checkpoint: str) -> NDArray[np.int64]:
    """All that were logged at a checkpoint; [P], rising."""

    def read() -> NDArray[np.int64]:
        rows = store.table(_POSITIONS, {"checkpoint": checkpoint}, of=[entry.id])
        return np.asarray(rows["position"].to_numpy(), dtype=np.int64)

    return _positions.of((*entry.key, checkpoint), read)


def token_bins(store: Store, entry: Entry, text: LoggedText, most: int = 120) -> list[TokenBin]:
    """A text's tokens in at most so many bins of equal width, without empty ones."""
    first, last = text.first_token, text.last_token
    width = -(-(last - first + 1) // most)

    def read() -> list[TokenBin]:
        place = {"checkpoint": text.checkpoint, "sequence": text.sequence}
        rows = damage_query(store, entry, _BINS, **place, first=first, width=width).to_pylist()
        starts = [first + width * row.pop("bin") for row in rows]
        return [TokenBin(start, min(start + width - 1, last), **row) for start, row in zip(starts, rows, strict=True)]

    return _bins.of((*entry.key, text.checkpoint, text.sequence, most), read)


def window(
    store: Store, entry: Entry, text: LoggedText, *, first: int, last: int, first_token: int, last_token: int
) -> FlagWindow:
    """Of these positions and tokens, both ends included."""
    place: dict[str, Any] = {"checkpoint": text.checkpoint, "sequence": text.sequence}
    place |= {"first_token": first_token, "last_token": last_token}
    flags = flag_map(store, entry, **place, first=first, last=last)
    rows = store.table(_MIDDLES, place, of=[entry.id]).to_pylist()
    middles = {row["token_idx"]: (row["middle"], row["spread"]) for row in rows}
    texts = np.full(flags.codes.shape, "", dtype=object)
    for row, column in np.argwhere(flags.codes > 0):
        middle, spread = middles.get(int(flags.tokens[row]), (None, None))
        names_of = set(names(int(flags.codes[row, column])))
        value = float(flags.values[row, column])
        texts[row, column] = reasons([flag for flag in FLAGS if flag in names_of], value, middle, spread)
    return FlagWindow(flags, _kinds(flags, entry), texts)


def kind_of(flags: Iterable[str], *, on_purpose: bool) -> Kind:
    present = set(flags)
    if not present:
        return "none"
    return "purpose" if on_purpose else next((kind for kind in KINDS if kind in present), "none")


def on_purpose(entry: Entry, values: NDArray[np.float64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these are masks or padding, where they have a flag: what ``DAMAGED`` leaves out."""
    parameters = damage_parameters(entry)
    masks = np.array(parameters["masks"])
    with np.errstate(invalid="ignore", over="ignore"):
        is_mask = (np.abs(values[..., None] - masks) <= 1e-6 * np.abs(masks)).any(axis=-1)
    return np.asarray(np.isneginf(values) | is_mask | (positions >= parameters["padded"]), dtype=np.bool_)


def _kinds(flags: FlagMap, entry: Entry) -> NDArray[np.int8]:
    is_meant = on_purpose(entry, flags.values, np.broadcast_to(flags.positions, flags.values.shape))
    damaged, meant = (
        np.array([KINDS.index(kind_of(names(code), on_purpose=way)) for code in range(1 << len(FLAGS))], dtype=np.int8)
        for way in (False, True)
    )
    kinds = np.where(is_meant, meant[flags.codes], damaged[flags.codes])
    return np.where(flags.codes < 0, np.int8(NOT_LOGGED), kinds).astype(np.int8)
