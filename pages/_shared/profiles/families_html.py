"""Tables of figures of one trace or two, as HTML: columns in groups, each of A, B and their ratio.

Whatever comes from a trace is escaped, and what cannot be seen of it is spelt out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pages._shared.compare import table_html
from pages._shared.compare.table_html import safe

_CSS = Path(__file__).with_name("families.css")
Kind = Literal["", "ratio", "share"]


@dataclass(frozen=True, slots=True)
class Group:
    """Columns under one heading; ``names`` are the second line's, and empty where there is but one column."""

    heading: str
    names: tuple[str, ...] = ()
    help: str = ""

    @property
    def columns(self) -> int:
        return max(1, len(self.names))


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    kind: Kind = ""
    part: float = 0.0  # of a share's bar
    help: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    cells: tuple[Cell, ...]
    help: str = ""
    unit: str = ""
    note: str = ""  # under the name
    group: str = ""
    is_sum: bool = False


def style() -> str:
    return table_html.style() + f"<style>{_css()}</style>"


def table(first: str, groups: Sequence[Group], lines: Sequence[Line], caption: str, kind: str = "") -> str:
    """``first`` names the rows. Lines of one group stand together, under its name."""
    starts = _starts(groups)
    head = f'<th scope="col" rowspan="2" class="corner">{safe(first)}</th>' if _has_two(groups) else ""
    head = head or f'<th scope="col" class="corner">{safe(first)}</th>'
    body = "".join(_body(lines, sum(group.columns for group in groups) + 1, starts))
    inside = f"<thead><tr>{head}{''.join(map(_heading, groups))}</tr>{_names(groups, starts)}</thead>{body}"
    return (
        f'<div class="beside-frame" role="region" aria-label="{safe(caption)}" tabindex="0">'
        f'<table class="beside plain grouped {safe(kind)}"><caption>{safe(caption)}</caption>{inside}</table></div>'
    )


def _starts(groups: Sequence[Group]) -> frozenset[int]:
    """Places of the columns that begin a group."""
    found, place = set(), 0
    for group in groups:
        found.add(place)
        place += group.columns
    return frozenset(found)


def _has_two(groups: Sequence[Group]) -> bool:
    return any(group.names for group in groups)


def _heading(group: Group) -> str:
    about = f' title="{safe(group.help)}"' if group.help else ""
    span = f' scope="colgroup" colspan="{group.columns}"' if group.names else ' scope="col"'
    return f'<th class="first"{span}{about}>{safe(group.heading)}</th>'


def _names(groups: Sequence[Group], starts: frozenset[int]) -> str:
    if not _has_two(groups):
        return ""
    names = [name for group in groups for name in (group.names or ("",))]
    cells = "".join(f'<th scope="col"{_class("", n in starts)}>{safe(name)}</th>' for n, name in enumerate(names))
    return f"<tr>{cells}</tr>"


def _body(lines: Iterable[Line], columns: int, starts: frozenset[int]) -> Iterable[str]:
    group = ""
    for line in lines:
        if line.group != group:
            group = line.group
            yield f'<tr><th scope="rowgroup" colspan="{columns}"><span>{safe(group)}</span></th></tr>'
        unit = f'<span class="unit">{safe(line.unit)}</span>' if line.unit else ""
        unit += f'<span class="note">{safe(line.note)}</span>' if line.note else ""
        about = f' title="{safe(line.help)}"' if line.help else ""
        cells = "".join(_cell(cell, place in starts) for place, cell in enumerate(line.cells))
        yield f'<tr{_class("sum", False, line.is_sum)}><th scope="row"{about}>{safe(line.name)}{unit}</th>{cells}</tr>'


def _cell(cell: Cell, is_first: bool) -> str:
    about = f' title="{safe(cell.help)}"' if cell.help else ""
    part = f' style="--part:{100 * min(1.0, max(0.0, cell.part)):.1f}%"' if cell.kind == "share" else ""
    return f"<td{_class(cell.kind, is_first)}{part}{about}>{safe(cell.text)}</td>"


def _class(name: str, is_first: bool, is_wanted: bool = True) -> str:
    names = [name] if name and is_wanted else []
    names += ["first"] if is_first else []
    return f' class="{" ".join(names)}"' if names else ""


@cache
def _css() -> str:
    return _CSS.read_text(encoding="utf-8")
