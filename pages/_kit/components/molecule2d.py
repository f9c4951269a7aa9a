"""A 2D drawing with atoms that can be pointed at, walked through by keyboard and picked.

The drawing is an SVG of ``engine.chem.drawing``; the browser side reads it as XML and takes over known elements and
attributes only. Names of atoms are untrusted text. What is selected is Python's word: a click shows at once, and the
rerun that it causes confirms it or takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence

from pages._kit.components.atom_picks import OnPick, show_pickable, valid_index
from pages._kit.components.atom_view import sendable
from pages._kit.components.once import Component, source


def molecule2d(
    svg: str,
    *,
    key: str,
    label: str,
    atoms: Sequence[str],
    selected: int | None = None,
    lit: int | None = None,
    on_pick: OnPick | None = None,
    height: int | None = None,
) -> None:
    """Show the drawing. ``atoms`` names each atom of the SVG, in order: spoken, and shown below when pointed at.

    ``selected`` is ringed; ``lit`` is the atom in work, with a pulsing ring of its own. ``on_pick`` is called before
    the rerun, with the atom or with None when the selection was cleared; without it nothing can be picked. ``height``
    is the most that the drawing takes, in pixels. The drawing travels only when it changed.
    """
    small = {"selected": valid_index(selected, len(atoms)), "lit": valid_index(lit, len(atoms)), "height": height}
    large = {"svg": svg, "label": sendable(label), "atoms": [sendable(name) for name in atoms]}
    show_pickable(_component, key, len(atoms), on_pick, small, large)


_component = Component(
    "driftscope_molecule2d",
    html=source("molecule2d.html"),
    css=source("component_theme.css", "molecule2d.css"),
    js=source("molecule2d.js", "safe_svg.js", "elements.js"),
)
