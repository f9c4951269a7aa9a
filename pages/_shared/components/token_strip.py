"""The token strip: a row of chips, one a token, that a reader can look over, walk through by keyboard and select from.

It knows tokens as ``Chip``s only, not where they come from. Pieces are untrusted and may hold anything; here they
become text that can be seen and sent (``visible``), and the browser side writes text only. A rerun with the same chips
touches nothing on the page, and one with more chips sends and appends the new ones: a tick of a live page costs what it
brings. ``strip_legend`` is the one legend of strips that have none of their own.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import streamlit as st

from engine.errors import visible as visible_char
from engine.figures.words import shortened
from engine.records import Role
from pages._shared.components.once import Component, sent_under, source

Mark = Literal["", "junk", "cut", "closed", "wrong", "redrawn"]
"""``cut`` has no position in a template, ``closed`` is the last one before an LP closed the number."""
SHOWN_CHARS = 48  # of one piece on its chip; the details and the clipboard have the rest
DETAIL_CHARS = 400
MAX_HEIGHT_PX = 320

_ROLE_CODES = {"": "-", "COPY": "C", "FREE": "F", "BOUNDARY": "B"}
_MARK_CODES = {"": "-", "junk": "j", "cut": "c", "closed": "k", "wrong": "w", "redrawn": "r"}
_FORCED_CODES = {None: "-", True: "1", False: "0"}
_TINTS = ((0.9, "0"), (0.5, "1"), (0.1, "2"), (0.01, "3"), (0.0, "4"))  # from which p(raw) on; the rarer, the stronger
_PLAIN = re.compile(rf"[!-~]{{1,{SHOWN_CHARS}}}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_GLYPHS = {" ": "·", "\n": "↵", "\t": "⇥"}


@dataclass(frozen=True, slots=True)
class Chip:
    """One token as the strip shows it. ``start`` and ``end`` count characters of the text; ``end`` is exclusive."""

    piece: str
    id: int | None
    role: Role | Literal[""] = ""
    forced: bool | None = None  # None: the question does not arise, as in a template
    mark: Mark = ""
    block: int | None = None
    start: int | None = None
    end: int | None = None
    note: str = ""
    atom: int | None = None  # lit in the page's drawings while the chip is pointed at
    p_raw: float | None = None  # tints the chip: how likely the token was for the model alone


@dataclass(slots=True)
class Grown:
    """One sequence of a text, as it was sent last.

    A message is numbered and holds what comes from an index on. A browser that had message ``since`` has everything
    before that index as it is now; one that missed it has to ask for the whole.
    """

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


def strip_legend(chips: Iterable[Chip], *, key: str) -> None:
    """What the looks of these chips mean, without the chips."""
    codes = {name: "".join(sorted(set(codes))) for name, codes in _codes(chips).items()}
    _component.show(key, {"legend_of": codes}, sent_under(key))


def token_strip(
    chips: Sequence[Chip],
    *,
    key: str,
    label: str,
    stream: str = "",
    caption: str = "",
    max_height: int = MAX_HEIGHT_PX,
    legend: bool = True,
    details: bool = True,
    copy: bool = True,
    text: str | None = None,
    follow: bool = False,
) -> int | None:
    """Draw the strip and return the index of the selected chip, None without a selection.

    ``stream`` names a text that is being written: another name starts over, the same one goes on where it was.
    ``follow`` keeps the end in sight, unless the reader scrolled up or holds the focus. Without ``legend``, ``details``
    and ``copy`` (the two buttons) it is a strip for narrow columns. ``text`` is what *Copy text* copies where the
    joined pieces would not do, as with tokens of half a character.
    """
    stream = stream or digest(chips)
    sent = sent_under(key)
    written = sent.get("written")
    if not isinstance(written, Written) or written.stream != stream:
        written = sent["written"] = Written(stream)
    copied = sendable(text or "")
    start, text_start, since = written.send(chips, copied)
    tail = [utf16_length(copied[:text_start]), copied[text_start:]]  # the browser counts in UTF-16
    data = packed(chips[start:]) | {
        "label": sendable(label), "caption": sendable(caption), "max_height": max_height,
        "text": None if text is None else tail, "digest": digest(chips), "stream": stream, "epoch": written.epoch,
        "number": written.number, "since": since, "from": start, "legend": legend, "details_shown": details,
        "copy": copy, "follow": follow, "selected": selected_index(st.session_state.get(key), chips),
    }  # fmt: skip
    result = _component.show(key, data, sent, on_selected_change=nothing)
    return selected_index(result, chips)


def selection(chips: Sequence[Chip], index: int) -> dict[str, list[int | str]]:
    """The state that the browser sends when the chip at ``index`` is selected: what a test puts into session state."""
    return {"selected": [index, len(chips), digest(chips)]}


def packed(chips: Sequence[Chip]) -> dict[str, object]:
    """The chips as columns: a fifth of the size, and of the time to read, of one object a chip."""
    pieces = [sendable(chip.piece) for chip in chips]
    shown = {str(i): visible(chip.piece) for i, chip in enumerate(chips) if not _PLAIN.fullmatch(chip.piece)}
    return {
        "pieces": pieces,
        "shown": shown,
        "details": {i: visible(chips[int(i)].piece, DETAIL_CHARS) for i, seen in shown.items() if seen.endswith("…")},
        "ids": [chip.id for chip in chips],
        **_codes(chips),
        "blocks": _column([chip.block for chip in chips]),
        "atoms": _column([chip.atom for chip in chips]),
        "starts": _column([chip.start for chip in chips]),
        "ends": _column([chip.end for chip in chips]),
        "notes": {str(i): sendable(chip.note) for i, chip in enumerate(chips) if chip.note},
    }


def _codes(chips: Iterable[Chip]) -> dict[str, str]:
    """The looks of the chips, a character each."""
    chips = list(chips)
    return {
        "roles": "".join(_ROLE_CODES[chip.role] for chip in chips),
        "forced": "".join(_FORCED_CODES[chip.forced] for chip in chips),
        "marks": "".join(_MARK_CODES[chip.mark] for chip in chips),
        "tints": "".join(_tint(chip.p_raw) for chip in chips),
    }


def _tint(p_raw: float | None) -> str:
    return "-" if p_raw is None else next((code for least, code in _TINTS if p_raw >= least), "-")


def _column(values: list[int | None]) -> list[int | None]:
    return values if any(value is not None for value in values) else []


def digest(chips: Sequence[Chip]) -> str:
    """Names a row of tokens. A selection carries it, so that an index never points into another text."""
    rows = "\0".join(f"{chip.id}\1{chip.piece}" for chip in chips)
    return hashlib.blake2b(rows.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def selected_index(state: object, chips: Sequence[Chip]) -> int | None:
    """The selection in the strip's state, if it was made on these chips or on a beginning of them."""
    match state:
        case {"selected": [int(index), int(count), str(made_on)]} if 0 <= index < count <= len(chips):
            return index if digest(chips[:count]) == made_on else None
    return None


def sendable(text: str) -> str:
    """``text`` with lone surrogates as visible escapes: they have no UTF-8 and would end the page's message."""
    return text if text.isascii() else _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def visible(piece: str, limit: int = SHOWN_CHARS) -> str:
    """``piece`` with blanks as marks, everything unseen or direction-changing as an escape, at most ``limit`` long."""
    if not piece:
        return "∅"
    seen = "".join(_glyph(char) for char in piece[: limit + 1])
    if unicodedata.category(seen[0])[0] == "M":
        seen = "◌" + seen  # a combining mark would sit on the chip before it
    return shortened(seen, limit)


def _glyph(char: str) -> str:
    if "!" <= char <= "~" or char in _GLYPHS:
        return _GLYPHS.get(char, char)
    return visible_char(char)


def nothing() -> None:
    """Streamlit keeps a component's state only under a key that has a callback."""


_component = Component(
    "driftscope_token_strip",
    html=source("token_strip.html"),
    css=source("component_theme.css", "token_looks.css", "token_strip.css"),
    js=source("token_strip.js", "token_strip_chips.js", "token_stream.js"),
)
