"""Where in a log its flags stand: its texts, its tokens in bins, and a window of a text, value by value with reasons.

A log may have ten thousand tokens and a whole vocabulary of positions; a window is what can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from engine.inspection.memo import Memo
from engine.logits.adding import findings_in
from engine.logits.figures import DAMAGED, FlagMap, asked_of, check_values, flag_map
from engine.logits.flags import FLAGS, Flag, names
from engine.logits.rules import load_rules
from engine.logits.words import reasons
from engine.store.entries import Entry
from engine.store.store import Store

Kind = Literal["none", "non_finite", "pointer", "denormal", "outlier", "constant", "repeated", "zero", "purpose"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""What a value is shown as: of several flags the most telling one, in this order; ``purpose`` is a mask or padding."""
NOT_LOGGED = -1
MOST_TEXTS = 2_000
MOST_KEPT = 16

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
class Text:
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
class Window:
    """``kinds`` has places in KINDS, NOT_LOGGED where nothing was logged; ``reasons`` a sentence a flagged value."""

    map: FlagMap
    kinds: NDArray[np.int8]  # [T, P]
    reasons: NDArray[np.object_]  # [T, P]


_texts: Memo[tuple[Text, ...]] = Memo(MOST_KEPT)
_positions: Memo[NDArray[np.int64]] = Memo(MOST_KEPT)
_bins: Memo[list[TokenBin]] = Memo(MOST_KEPT)


def texts(store: Store, entry: Entry) -> tuple[Text, ...]:
    """In the order in which they begin."""
    return _texts.of(entry.key, lambda: _read_texts(store, entry))


def positions_of(store: Store, entry: Entry, checkpoint: str) -> NDArray[np.int64]:
    """All that were logged at a checkpoint; [P], rising."""

    def read() -> NDArray[np.int64]:
        found = store.table(_POSITIONS, {"checkpoint": checkpoint}, of=[entry.id])
        return np.asarray(found["position"].to_numpy(), dtype=np.int64)

    return _positions.of((*entry.key, checkpoint), read)


def token_bins(store: Store, entry: Entry, text: Text, most: int = 120) -> list[TokenBin]:
    """A text's tokens in at most so many bins of equal width, without empty ones."""
    key = (*entry.key, text.checkpoint, text.sequence, most)
    return _bins.of(key, lambda: _read_bins(store, entry, text, most))


def _read_bins(store: Store, entry: Entry, text: Text, most: int) -> list[TokenBin]:
    width = -(-(text.last_token - text.first_token + 1) // most)
    asked = {"checkpoint": text.checkpoint, "sequence": text.sequence, "first": text.first_token, "width": width}
    rows = store.table(_BINS, asked | _purpose(entry), of=[entry.id]).to_pylist()
    starts = [text.first_token + width * row["bin"] for row in rows]
    last = text.last_token
    return [
        TokenBin(start, min(start + width - 1, last), **{name: row[name] for name in row if name != "bin"})
        for start, row in zip(starts, rows, strict=True)
    ]


def window(
    store: Store, entry: Entry, text: Text, *, first: int, last: int, first_token: int, last_token: int
) -> Window:
    """Of positions and tokens, ends among them."""
    found = flag_map(
        store,
        entry,
        checkpoint=text.checkpoint,
        sequence=text.sequence,
        first=first,
        last=last,
        first_token=first_token,
        last_token=last_token,
    )
    asked = {"checkpoint": text.checkpoint, "sequence": text.sequence}
    tokens = asked | {"first_token": first_token, "last_token": last_token}
    rows = store.table(_MIDDLES, tokens, of=[entry.id]).to_pylist()
    middles = {row["token_idx"]: (row["middle"], row["spread"]) for row in rows}
    return Window(found, _kinds(found, entry), _reasons(found, middles))


def kind_of(flags: Iterable[str], *, on_purpose: bool) -> Kind:
    told = set(flags)
    if not told:
        return "none"
    return "purpose" if on_purpose else next((kind for kind in KINDS if kind in told), "none")


def on_purpose(entry: Entry, values: NDArray[np.float64], positions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which of these are masks or padding, where they have a flag: what ``DAMAGED`` leaves out."""
    asked = _purpose(entry)
    masks = np.array(asked["masks"])
    with np.errstate(invalid="ignore", over="ignore"):
        is_mask = (np.abs(values[..., None] - masks) <= 1e-6 * np.abs(masks)).any(axis=-1)
    return np.asarray(np.isneginf(values) | is_mask | (positions >= asked["padded"]), dtype=np.bool_)


def _read_texts(store: Store, entry: Entry) -> tuple[Text, ...]:
    check_values(store, entry)
    return tuple(Text(**row) for row in store.table(_TEXTS, _purpose(entry), of=[entry.id]).to_pylist())


def _purpose(entry: Entry) -> dict[str, Any]:
    return asked_of(load_rules(), findings_in(entry))


def _kinds(found: FlagMap, entry: Entry) -> NDArray[np.int8]:
    is_meant = on_purpose(entry, found.values, np.broadcast_to(found.positions, found.values.shape))
    codes = np.arange(1 << len(FLAGS))
    by_code = [
        np.array([KINDS.index(kind_of(names(int(code)), on_purpose=meant)) for code in codes], dtype=np.int8)
        for meant in (False, True)
    ]
    kinds = np.where(is_meant, by_code[1][found.codes], by_code[0][found.codes])
    return np.where(found.codes < 0, np.int8(NOT_LOGGED), kinds).astype(np.int8)


def _reasons(found: FlagMap, middles: dict[int, tuple[float | None, float | None]]) -> NDArray[np.object_]:
    said = np.full(found.codes.shape, "", dtype=object)
    for row, column in np.argwhere(found.codes > 0):
        middle, spread = middles.get(int(found.tokens[row]), (None, None))
        flags: list[Flag] = [flag for flag in FLAGS if flag in names(int(found.codes[row, column]))]
        said[row, column] = reasons(flags, float(found.values[row, column]), middle, spread)
    return said
