"""The atom view: a row an atom, its tokens as written over those of the template, what is damaged and by how many Å.

The one widget for tokens: a text without atoms is a row of tokens alone, and ``text`` is the whole answer as one
coloured text, with rows below it or without. Rows and parts of the text are named by their content: a message has the
order of all and the content of those that the browser was not sent, which asks where it lacks one. So a live page sends
what is new. Pieces are untrusted and travel as text that can be seen. What is selected is Python's word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from engine.errors import visible as visible_char
from engine.figures.words import shortened
from engine.inspection.atoms import AtomRow, Token, angstrom
from engine.questions.question import Tables
from pages._kit.components.atom_picks import show_pickable, valid_index
from pages._kit.components.once import Component, digest, sent_under, source

OnPick = Callable[[int | None, int | None], None]
"""Gets the atom and the column of the picked token; None for what was not picked."""
SHOWN_CHARS, MOST_LIKELY = 48, 6
TEXT_PART = 24  # tokens of the text that travel together
TAGS = {"outside": "not its text", "unlikely": "forced", "redrawn": "redrawn", "missing": "not written"}
_GLYPHS = {" ": "·", "\n": "↵", "\t": "⇥"}
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Curve:
    """What is believed of one number, 96 by 16 px."""

    words: str  # below it
    about: str  # where the pointer is on it
    area: str  # the path of an SVG
    struck: str  # the same, of what is shaded
    at: float  # of the number that was written, in px from the left
    width: str = ""  # where the spread is known to be wrong


@dataclass(frozen=True, slots=True)
class ViewRow:
    tokens: tuple[Token, ...]
    atom: int | None = None
    name: str = ""
    kind: str = ""
    tag: str = ""
    off: str = ""  # in Å
    need: str = ""  # of the positions given
    words: str = ""
    is_other: bool = False  # of another run, under the row of the same atom
    is_quiet: bool = False  # its damage moves the atom by next to nothing
    curves: tuple[Curve, ...] = ()  # of x, y and z


def view_rows(rows: Iterable[AtomRow], tokens: Sequence[Token], other: str = "") -> list[ViewRow]:
    """``other`` names the run that these rows are of where they are shown under another's. A row without tokens is one
    piece of text, its block."""
    shown = list(map(visible_token, tokens))
    return [
        ViewRow(
            tokens=tuple(shown[column] for column in row.columns) or (Token(index, visible(f"<{row.text}>")),),
            atom=row.atom,
            name=visible(other or row.name, 80, blanks=False),
            kind=row.damage,
            tag=TAGS.get(row.damage, row.damage),
            off=_off_words(row),
            need=_need_words(row),
            words=visible(row.words, 600, blanks=False),
            is_other=bool(other),
            is_quiet=row.is_quiet,
        )
        for index, row in enumerate(rows)
    ]


def rows_under(rows: Sequence[ViewRow], others: Iterable[ViewRow]) -> list[ViewRow]:
    """Each row, and below it that of the same atom in another answer."""
    under = {row.atom: [row] for row in others if row.atom is not None}
    return [row for base in rows for row in (base, *(under.get(base.atom, ()) if base.atom is not None else ()))]


def view_of(tables: Tables, other: str = "") -> list[ViewRow]:
    """The answer of ``drift_atoms``."""
    rows = (AtomRow(**row) for row in tables["main"].to_pylist())
    return view_rows(rows, [Token(**row) for row in tables["tokens"].to_pylist()], other)


def text_of(tables: Tables) -> list[Token]:
    """All tokens of the answer of ``drift_atoms``, for ``text``."""
    return [Token(**row) for row in tables["tokens"].to_pylist()]


def text_parts(tokens: Iterable[Token]) -> list[list[tuple[int, str, str]]]:
    """Column, piece and marks of each token that was written, in parts that change with none but their own tokens."""
    written = [(token.column, visible(token.piece), token.marks) for token in tokens if "n" not in token.marks]
    return [written[start : start + TEXT_PART] for start in range(0, len(written), TEXT_PART)]


def _off_words(row: AtomRow) -> str:
    """Å without the unit: ``0.42``, of an estimate ``≈ 0.42``."""
    if row.off_ang is None:
        return ""
    figure = angstrom(row.off_ang).removesuffix(" Å")
    return f"≈ {figure}" if row.is_estimate else figure


def _need_words(row: AtomRow) -> str:
    """``7 of 6`` tokens; nothing where no template counts them."""
    if row.given is None:
        return ""
    needed = "?" if row.needed is None else row.needed
    return f"{needed} of {row.given}"


def visible_token(token: Token) -> Token:
    return replace(
        token,
        piece=visible(token.piece) if token.piece or "n" not in token.marks else "",
        template=None if token.template is None else visible(token.template),
        note=visible(token.note, 120, blanks=False),
        lost=visible(token.lost, 400, blanks=False),
        struck=visible(token.struck, 400, blanks=False),
        likely=[(visible(top["piece"]), top["p_raw"], bool(top["allowed"])) for top in token.likely[:MOST_LIKELY]],
    )


def atom_view(
    rows: Sequence[ViewRow],
    *,
    key: str,
    label: str,
    caption: str = "",
    text: Sequence[Token] = (),
    atom: int | None = None,
    token: int | None = None,
    on_pick: OnPick | None = None,
    max_height: int = 0,
    follow: bool = False,
) -> None:
    """Draw the rows in their order. ``text``: the tokens of the whole answer, above the rows; a click opens the token's
    row. ``follow`` keeps the end in sight unless the reader scrolled up."""
    columns = 1 + max((cell.column for cells in (*(row.tokens for row in rows), text) for cell in cells), default=-1)
    atoms = 1 + max((row.atom for row in rows if row.atom is not None), default=-1)
    atom_of = {cell.column: row.atom for row in rows if not row.is_other for cell in row.tokens}
    content: dict[str, object] = {digest(fields): fields for fields in (asdict(row) for row in rows)}
    parts = {digest(part): part for part in text_parts(text)}
    everything = content | parts
    sent = sent_under(key)
    last = sent.get("rows", frozenset())
    data = {
        "label": sendable(label),
        "caption": sendable(caption),
        "order": list(content),
        "columns": columns,
        "text": list(parts),
        "rows": {name: fields for name, fields in everything.items() if name not in last},
        "follow": follow,
        "atom": valid_index(atom, atoms),
        "token": valid_index(token, columns),
        "max_height": max_height,
    }

    def pick(index: int | None) -> None:
        """A column, or, behind these, an atom."""
        if on_pick is not None and index is not None and index < columns:
            on_pick(atom_of.get(index), index)
        elif on_pick is not None:
            on_pick(None if index is None else index - columns, None)

    show_pickable(_component, key, columns + atoms, None if on_pick is None else pick, data, None)
    sent["rows"] = frozenset(everything)


def sendable(text: str) -> str:
    """``text`` with lone surrogates as visible escapes: they have no UTF-8 and would end the page's message."""
    return text if text.isascii() else _SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def visible(piece: str, limit: int = SHOWN_CHARS, *, blanks: bool = True) -> str:
    """``piece`` with blanks as marks, all that is unseen or changes direction as an escape, at most ``limit`` long."""
    if not piece:
        return "∅" if blanks else ""
    marks = _GLYPHS if blanks else {" ": " "}
    seen = "".join(char if "!" <= char <= "~" else marks.get(char) or visible_char(char) for char in piece[: limit + 1])
    if unicodedata.category(seen[0])[0] == "M":
        seen = "◌" + seen  # a combining mark would sit on what is before it
    return shortened(seen, limit)


_component = Component(
    "driftscope_atom_view",
    html=source("atom_view.html"),
    css=source("component_theme.css", "atom_view.css"),
    js=source("atom_view.js", "elements.js"),
)
