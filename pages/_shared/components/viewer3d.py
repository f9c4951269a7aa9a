"""A 3D view that stays: the camera outlives reruns, atoms can be walked through and picked, colours follow the theme.

It draws with the same 3Dmol.js as ``view3d``, in the page itself in place of a frame. Models are mol blocks that RDKit
wrote; names are untrusted text. What is selected is Python's word, as in the 2D drawing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rdkit import Chem

from engine.assets import FILE_NAME, three_d_mol
from engine.chem.frame import principal_axes
from engine.errors import AssetError
from pages._shared.components.atom_picks import NO_MARKS, OnPick, picked_atom, show_pickable
from pages._shared.components.atom_view import sendable
from pages._shared.components.mol_blocks import mol_block, without_hydrogens, without_last_hydrogens
from pages._shared.components.once import Component, source
from pages._shared.words import Fault

__all__ = ["Model3d", "model_of", "picked_atom", "viewer3d"]

_V3000_COUNTS = re.compile(r"^M  V30 COUNTS (\d+) ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Model3d:
    """One conformer. A ghost is a reference: translucent, grey, and nothing on it can be picked."""

    mol_block: str
    label: str
    ghost: bool = False
    facing: tuple[float, ...] = (0.0, 0.0, 0.0, 1.0)  # a rotation, as a quaternion


def model_of(mol: Chem.Mol, label: str, *, ghost: bool = False) -> Model3d:
    """Heavy atoms of a conformer, under the indices that they have; a ghost, whose indices nobody asks for, of any."""
    bare = without_hydrogens(mol) if ghost else without_last_hydrogens(mol)
    return Model3d(mol_block(bare), label, ghost, _facing(bare))


def _facing(mol: Chem.Mol) -> tuple[float, ...]:
    """From where the atoms spread most: the widest axis across, the next one up."""
    (a, b, c), (d, e, f), (g, h, i) = principal_axes(mol.GetConformer().GetPositions())
    rows = [
        [a - e - i, b + d, c + g, h - f],
        [b + d, e - a - i, f + h, c - g],
        [c + g, f + h, i - a - e, d - b],
        [h - f, c - g, d - b, a + e + i],
    ]
    return tuple(np.linalg.eigh(rows).eigenvectors[:, -1].tolist())  # of 4 q qᵀ - 1


def viewer3d(
    models: Sequence[Model3d],
    *,
    key: str,
    label: str,
    names: Sequence[str] = (),
    atoms: Sequence[int] = (),
    selected: int | None = None,
    marks: Mapping[int, Fault] = NO_MARKS,
    on_pick: OnPick | None = None,
    height: int = 340,
    is_bare: bool = False,
) -> None:
    """Show the models where they lie. ``atoms`` has the molecule's atom for each of the first that is no ghost, -1 for
    one that the molecule does not have; ``names``, ``selected``, ``marks`` and picks are of the molecule's atoms.

    The camera stays while the atoms are the same ones, whatever else changes. ``on_pick`` is called as by
    ``molecule2d``. A bare view is for narrow columns: without legend, buttons and hints. Without 3Dmol.js or WebGL the
    view says so in its place.
    """
    count = next((_atoms(model.mol_block) for model in models if not model.ghost), 0)
    places = list(atoms or range(count))[:count]

    def pick(place: int | None) -> None:
        if on_pick is not None:
            on_pick(None if place is None or places[place] < 0 else places[place])

    small = {
        "selected": places.index(selected) if selected in places else None,
        "marks": [[place, marks[atom]] for place, atom in enumerate(places) if atom in marks],
        "height": height,
        "bare": is_bare,
        "script": f"app/static/{FILE_NAME}",  # relative, so that it also works behind a base path
        "missing": _missing(),
        "camera": key,
    }
    large = {
        "label": sendable(label),
        "atoms": list(atoms),
        "names": [sendable(names[atom]) if 0 <= atom < len(names) else f"atom {n}" for n, atom in enumerate(places)],
        "models": [
            {
                "block": model.mol_block,
                "label": sendable(model.label),
                "ghost": model.ghost,
                "facing": model.facing,
            }
            for model in models
        ],
    }
    show_pickable(_component, key, count, None if on_pick is None else pick, small, large)


def _missing() -> str:
    try:
        three_d_mol()
    except AssetError as error:
        return str(error)
    return ""


def _atoms(block: str) -> int:
    """How many atoms a mol block has: in its fourth line, or, beyond 999, in a line of its own."""
    found = _V3000_COUNTS.search(block)
    return int(found[1] if found else block.split("\n", 4)[3][:3])


_component = Component(
    "driftscope_viewer3d",
    html=source("viewer3d.html"),
    css=source("component_theme.css", "viewer3d.css"),
    js=source("viewer3d.js", "viewer3d_scene.js"),
)
