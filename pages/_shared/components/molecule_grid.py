"""A grid of molecules, each with its verdict by lane: hundreds in one component, filtered in the browser.

It knows cells as ``GridCell``s only. Names are untrusted text; a drawing is the address of a picture that was made
here, and a browser runs nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.inspection.verdict_marks import Mark, VerdictMarks
from pages._shared.components.atom_picks import OnPick, known, show_pickable
from pages._shared.components.once import Component, source
from pages._shared.components.token_strip import sendable

_CODES: dict[Mark, str] = {"right": "r", "damaged": "d", "wrong": "w", "unknown": "-"}


@dataclass(frozen=True, slots=True)
class GridCell:
    """``drawing`` is an index into the grid's drawings; ``marks`` has one a lane, None where a lane has no result."""

    name: str
    drawing: int
    marks: tuple[VerdictMarks | None, ...]


def molecule_grid(
    cells: Sequence[GridCell],
    drawings: Sequence[str | None],
    lanes: Sequence[str],
    *,
    key: str,
    label: str,
    selected: int | None,
    on_pick: OnPick,
    height: int,
) -> None:
    """Show the cells in their order. ``on_pick`` is called with the index of the cell that was picked."""
    small = {"selected": known(selected, len(cells)), "height": height}
    large = {
        "label": sendable(label),
        "lanes": [sendable(lane) for lane in lanes],
        "drawings": list(drawings),
        "cells": [[sendable(cell.name), cell.drawing, *map(_code, cell.marks)] for cell in cells],
    }
    show_pickable(_component, key, len(cells), on_pick, small, large)


def _code(marks: VerdictMarks | None) -> str:
    if marks is None:
        return ""
    return "".join(_CODES[mark] for mark in (marks.text, marks.stereo, marks.geometry, marks.usable))


_component = Component(
    "driftscope_molecule_grid",
    html=source("molecule_grid.html"),
    css=source("component_theme.css", "molecule_grid.css"),
    js=source("molecule_grid.js"),
)
