"""Tables as HTML: with headings of rows and columns, in the theme's colours, light and dark at once.

Streamlit keeps classes, styles and titles of such HTML and drops scripts. Whatever may be anybody's text goes through
``safe``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Literal

from pages._shared.theme import DARK, LIGHT
from pages._shared.words import visible_text

CellKind = Literal["", "ratio", "share"]


def safe(text: str) -> str:
    """Escaped, and what cannot be seen of it is spelt out."""
    return escape(visible_text(text), quote=True)


@cache
def style() -> str:
    variables = {
        "ink": (LIGHT.text, DARK.text),
        "quiet": (LIGHT.muted, DARK.muted),
        "line": (LIGHT.grid, DARK.grid),
        "hatch": (LIGHT.grid, DARK.grid),
        "ground": (LIGHT.background, DARK.background),
        "surface": (LIGHT.surface, DARK.surface),
        "accent": (LIGHT.accent, "#5fc3cd"),  # the theme's colour of links: the accent itself is too deep for text
    }
    colours = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in variables.items())
    css = Path(__file__).with_name("html_table.css").read_text(encoding="utf-8")
    return f"<style>.beside-frame{{{colours}}}{css}</style>"


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    """A table of texts, the first of each row its heading."""
    head = "".join(
        f'<th scope="col" class="run" style="--run:transparent">{safe(heading)}</th>' for heading in headings[1:]
    )
    body = "".join(
        f'<tr><th scope="row">{safe(first)}</th>{"".join(f"<td>{safe(text)}</td>" for text in rest)}</tr>'
        for first, *rest in rows
    )
    inside = f"<thead><tr><td>{safe(headings[0])}</td>{head}</tr></thead><tbody>{body}</tbody>"
    return frame(caption, inside, "beside plain")


def frame(caption: str, inside: str, kind: str = "beside") -> str:
    return (
        f'<div class="beside-frame" role="region" aria-label="{safe(caption)}" tabindex="0">'
        f'<table class="{kind}"><caption>{safe(caption)}</caption>{inside}</table></div>'
    )


# --- figures in groups of columns -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnGroup:
    """Columns under one heading; ``names`` are the second row's, and empty where there is but one column."""

    heading: str
    names: tuple[str, ...] = ()
    help: str = ""

    @property
    def columns(self) -> int:
        return max(1, len(self.names))


@dataclass(frozen=True, slots=True)
class TableCell:
    text: str
    kind: CellKind = ""
    part: float = 0.0  # of a share's bar
    help: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    name: str
    cells: tuple[TableCell, ...]
    help: str = ""
    unit: str = ""
    note: str = ""  # under the name
    group: str = ""
    is_sum: bool = False


def grouped_table(
    first: str, groups: Sequence[ColumnGroup], rows: Sequence[TableRow], caption: str, kind: str = ""
) -> str:
    """``first`` names the rows. Rows of one group are together, under its name."""
    starts = frozenset(itertools.accumulate((group.columns for group in groups), initial=0))
    names = ""
    if any(group.names for group in groups):
        cells = enumerate(name for group in groups for name in (group.names or ("",)))
        names = "".join(f'<th scope="col"{_class("", place in starts)}>{safe(name)}</th>' for place, name in cells)
        names = f"<tr>{names}</tr>"
    span = ' rowspan="2"' if names else ""
    head = f'<th scope="col"{span} class="corner">{safe(first)}</th>'
    body = "".join(_body(rows, sum(group.columns for group in groups) + 1, starts))
    inside = f"<thead><tr>{head}{''.join(map(_heading, groups))}</tr>{names}</thead>{body}"
    return frame(caption, inside, f"beside plain grouped {safe(kind)}")


def _heading(group: ColumnGroup) -> str:
    about = f' title="{safe(group.help)}"' if group.help else ""
    span = f' scope="colgroup" colspan="{group.columns}"' if group.names else ' scope="col"'
    return f'<th class="first"{span}{about}>{safe(group.heading)}</th>'


def _body(rows: Iterable[TableRow], columns: int, starts: frozenset[int]) -> Iterable[str]:
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            yield f'<tr><th scope="rowgroup" colspan="{columns}"><span>{safe(group)}</span></th></tr>'
        unit = f'<span class="unit">{safe(row.unit)}</span>' if row.unit else ""
        unit += f'<span class="note">{safe(row.note)}</span>' if row.note else ""
        about = f' title="{safe(row.help)}"' if row.help else ""
        cells = "".join(_cell(cell, place in starts) for place, cell in enumerate(row.cells))
        kind = _class("sum" if row.is_sum else "", False)
        yield f'<tr{kind}><th scope="row"{about}>{safe(row.name)}{unit}</th>{cells}</tr>'


def _cell(cell: TableCell, is_first: bool) -> str:
    about = f' title="{safe(cell.help)}"' if cell.help else ""
    part = f' style="--part:{100 * min(1.0, max(0.0, cell.part)):.1f}%"' if cell.kind == "share" else ""
    return f"<td{_class(cell.kind, is_first)}{part}{about}>{safe(cell.text)}</td>"


def _class(name: str, is_first: bool) -> str:
    names = " ".join(filter(None, (name, "first" if is_first else "")))
    return f' class="{names}"' if names else ""
