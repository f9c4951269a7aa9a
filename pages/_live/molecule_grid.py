"""A grid of molecules, each with its verdict by lane: hundreds in one component, filtered in the browser.

Names are untrusted text; a drawing is the address of a picture that was made
here, and a browser runs nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pages._kit.components.atom_picks import OnPick, show_pickable, valid_index
from pages._kit.components.atom_view import sendable
from pages._kit.components.once import Component, source


def molecule_grid(
    cells: Sequence[tuple[str, int, Sequence[str]]],
    drawings: Sequence[str | None],
    lanes: Sequence[str],
    *,
    key: str,
    label: str,
    selected: int | None,
    on_pick: OnPick,
    height: int,
) -> None:
    """Show the cells in their order: a name, an index into the drawings, and of each lane four letters (text, stereo,
    geometry, usable: r, d, w, -), none where it has no result. ``on_pick`` gets the index of the picked cell."""
    small = {"selected": valid_index(selected, len(cells)), "height": height}
    large = {
        "label": sendable(label),
        "lanes": [sendable(lane) for lane in lanes],
        "drawings": list(drawings),
        "cells": [[sendable(name), drawing, *codes] for name, drawing, codes in cells],
    }
    show_pickable(_component, key, len(cells), on_pick, small, large)


_HERE = Path(__file__)
_component = Component(
    "driftscope_molecule_grid",
    html=source(_HERE.with_suffix(".html")),
    css=source("component_theme.css", _HERE.with_suffix(".css")),
    js=source(_HERE.with_suffix(".js")),
)
