"""Molecules as a grid, or as a narrow list: hundreds in one component, filtered and moved through in the browser.

Names and words are untrusted text; a drawing is the address of a picture that was made here, and a browser runs nothing
of it. What is selected is Python's word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pages._kit.components.atom_picks import OnPick, show_pickable, valid_index
from pages._kit.components.atom_view import sendable
from pages._kit.components.once import Component, source

Line = Sequence[tuple[str, str]]
"""Words, each with a class of molecule_list.css, or none."""


@dataclass(frozen=True, slots=True)
class Cell:
    name: str
    drawing: int  # an index into the drawings
    lines: Sequence[Line]
    about: str = ""  # what hovering says, and typing finds
    colour: str = ""  # of its run, before the last line


def molecule_list(
    cells: Sequence[Cell],
    drawings: Sequence[str | None],
    *,
    key: str,
    label: str,
    selected: int | None,
    on_pick: OnPick,
    height: int = 0,
    total: int = 0,
    ready: Sequence[str] = (),
    legend: str = "",
) -> None:
    """Show the cells in their order; ``on_pick`` gets the index of the picked one. A list has no ``height`` of its own:
    it takes the window's, and picks what its arrow keys come to. ``total``: how many there are with those that are
    not sent. ``ready``: what the field offers to filter by."""
    small = {"selected": valid_index(selected, len(cells)), "height": height}
    large = {
        "label": sendable(label),
        "total": total,
        "ready": list(ready),
        "legend": legend,
        "drawings": list(drawings),
        "cells": [
            {
                "name": sendable(cell.name),
                "drawing": cell.drawing,
                "lines": [[(sendable(words), kind) for words, kind in line] for line in cell.lines],
                "about": sendable(cell.about),
                "colour": cell.colour,
            }
            for cell in cells
        ],
    }
    show_pickable(_component, key, len(cells), on_pick, small, large)


_component = Component(
    "driftscope_molecule_list",
    html=source("molecule_list.html"),
    css=source("component_theme.css", "molecule_list.css"),
    js=source("molecule_list.js", "elements.js"),
)
