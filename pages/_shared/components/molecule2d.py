"""A 2D drawing whose atoms can be pointed at, walked through by keyboard and picked.

The drawing is an SVG of ``engine.chem.drawing``; the browser side reads it as XML and takes over known elements and
attributes only. Names of atoms are untrusted text. What is selected is Python's word: a click shows at once, and the
rerun that it causes confirms it or takes it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pages._shared.components.atom_picks import OnPick, hand_on, hand_on_late, heard, picked_atom
from pages._shared.components.once import Component, sent_under, source
from pages._shared.components.token_strip import sendable

__all__ = ["molecule2d", "picked_atom"]


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
    hand_on_late(key, len(atoms), on_pick)
    small = {
        "selected": _known(selected, atoms),
        "lit": _known(lit, atoms),
        "height": height,
        "pickable": on_pick is not None,
        "heard": heard(key),
    }
    large = {"svg": svg, "label": sendable(label), "atoms": [sendable(name) for name in atoms]}
    _component.show(key, small, sent_under(key), large, on_picked_change=partial(hand_on, key, len(atoms), on_pick))


def _known(atom: int | None, atoms: Sequence[str]) -> int | None:
    return atom if atom is not None and 0 <= atom < len(atoms) else None


_component = Component(
    "driftscope_molecule2d",
    html=source("molecule2d.html"),
    css=source("component_theme.css", "molecule2d.css"),
    js=source("molecule2d.js", "safe_svg.js"),
)
