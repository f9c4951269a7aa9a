"""Conformers in 3D: py3Dmol and stmol make the view, st.iframe shows it, with the 3Dmol.js that set-up put next to the
app. (stmol's own `showmol` goes by a function that Streamlit has announced to remove, and names no frame.)

Only mol blocks that RDKit wrote, and words, numbers and colours from here, reach py3Dmol: it writes all of it into a
script and escapes nothing. Names are untrusted; they are data for ``view3d.js``, which links the frame with the page's
other views. A pick changes nothing in the frame's source, so no pick loads it again.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import py3Dmol
import streamlit as st
from rdkit import Chem

from engine.assets import FILE_NAME, three_d_mol
from engine.chem.frame import principal_axes, turned
from engine.chem.structure_files import bare_block
from engine.errors import AssetError
from engine.inspection.faults import Fault
from pages._kit.components.once import source
from pages._kit.errors import error_markdown
from pages._kit.theme import DARK, ink_on, palette

SCRIPT = f"app/static/{FILE_NAME}"  # relative, so that it also works behind a base path
NAME_PX = 40  # the two lines below the view
SNUG, APART = 1.3, 1.0
"""3Dmol.js fits what it draws into a ball as high as the view: a wide margin, unless two conformers lie apart."""
NO_MARKS: Mapping[int, Fault] = {}
LEAST_RADIUS_ANG = 0.03
SIGNS: dict[Fault, tuple[str, str]] = {
    "junk": ("!", "junk"),
    "cut": ("\u2702\ufe0e", "cut"),  # scissors, as text and not as a picture
    "wrong": ("\u26a0\ufe0e", "wrong in space"),
}
NITROGEN = "#3050f8"  # as the 2D drawing has it; 3Dmol.js takes a pale one
COLOURS = ("background", "text", "muted", "surface", "grid", "accent")


@dataclass(frozen=True, slots=True)
class Ellipsoid:
    """Along the axes of the conformer's own coordinates, in angstrom."""

    centre: Sequence[float]
    radii: Sequence[float]


def view3d(
    mol: Chem.Mol,
    *,
    key: str,
    label: str,
    ghost: Chem.Mol | None = None,
    atoms: Sequence[int] = (),
    names: Sequence[str] = (),
    marks: Mapping[int, Fault] = NO_MARKS,
    ellipsoids: Mapping[int, Ellipsoid] | None = None,
    caption: str = "",
    zoom: float = SNUG,
    height: int = 300,
) -> None:
    """Draw the first conformer of ``mol``, and that of ``ghost`` in grey. Without 3Dmol.js, say how to bring it.

    ``atoms`` has the molecule's atom for each of the conformer, -1 for one that the molecule does not have; ``names``,
    ``marks`` and ``ellipsoids`` are of the molecule's. The camera stays under a ``key`` while elements are the same.
    """
    try:
        three_d_mol()
        stmol = _stmol()
    except AssetError as error:
        st.info(error_markdown(error), icon=":material/view_in_ar:")
        return
    symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
    atoms = [*atoms, *[-1] * len(symbols)][: len(symbols)]
    colours = palette()
    scene = {
        "camera": key,
        "elements": " ".join(symbols),
        "atoms": atoms,
        "names": [
            _name(names[atom] if 0 <= atom < len(names) else f"atom {index}, {symbol}", marks.get(atom))
            for index, (atom, symbol) in enumerate(zip(atoms, symbols, strict=True))
        ],
        "caption": caption,
        "zoom": zoom,
        "selected": colours.accent,
        "text": colours.text,
        "ground": colours.background,
    }
    view = _Frame(label, scene, height)
    view.draw(stmol.add_model, mol, ghost, {index: marks[atom] for index, atom in enumerate(atoms) if atom in marks})
    view.draw_ellipsoids(mol, [ellipsoids[atom] for atom in atoms if atom in ellipsoids] if ellipsoids else [])
    st.iframe(view.content(), height=height + NAME_PX, alt=label)


def _stmol() -> Any:
    """Imported where a view is drawn: it is installed by a command of its own, which may have been left out."""
    try:
        import stmol
    except ModuleNotFoundError as error:
        fix = "Run `make prepare`, or `pip install --no-deps -r requirements-stmol.txt`"
        raise AssetError(f"3D views need the module {error.name}, which is not installed", fix) from error
    return stmol


def _name(name: str, mark: Fault | None) -> str:
    words = SIGNS[mark][1] if mark else ""
    return name if words in name else f"{name}, {words}"


class _Frame(py3Dmol.view):  # type: ignore[misc]
    def __init__(self, label: str, scene: Mapping[str, Any], height: int) -> None:
        super().__init__(js=SCRIPT, width="100%", height=height)
        self._label, self._scene = label, scene

    def draw(
        self, add_model: Callable[..., None], mol: Chem.Mol, ghost: Chem.Mol | None, marks: Mapping[int, Fault]
    ) -> None:
        colours, positions = palette(), mol.GetConformer().GetPositions()
        hues = {"colorscheme": {"prop": "elem", "map": {"C": colours.muted, "N": NITROGEN}}}
        styles = [{"stick": {"radius": 0.14, **hues}, "sphere": {"scale": 0.25, **hues}}]
        styles += [{"stick": {"radius": 0.11, "opacity": 0.6, "color": colours.neutral}}]
        for index, conformer in enumerate([mol] if ghost is None else [mol, ghost]):
            add_model(self, bare_block(conformer, turned(conformer.GetConformer().GetPositions(), positions)))
            self.setStyle({"model": index}, styles[index])
        for index, mark in marks.items():
            hue = getattr(colours, mark)
            position = dict(zip("xyz", turned(positions, positions)[index].tolist(), strict=True))
            self.addSphere({"center": position, "radius": 0.6, "color": hue, "opacity": 0.6})
            look = {"backgroundColor": hue, "fontColor": ink_on(hue), "fontSize": 13, "bold": True}
            where = {"position": position, "screenOffset": {"x": 18, "y": 18}, "alignment": "center", "inFront": True}
            self.addLabel(SIGNS[mark][0], {**where, **look})
        self.setBackgroundColor(colours.surface)

    def draw_ellipsoids(self, mol: Chem.Mol, ellipsoids: Sequence[Ellipsoid]) -> None:
        positions = mol.GetConformer().GetPositions()
        axes, middle = principal_axes(positions), positions.mean(axis=0)
        for ellipsoid in ellipsoids:
            radii = np.maximum(ellipsoid.radii, LEAST_RADIUS_ANG)  # else it is not seen
            points = (BALL * radii + ellipsoid.centre - middle) @ axes.T
            normals = (BALL / radii) @ axes.T
            mesh = {"vertexArr": _as_xyz(points), "normalArr": _as_xyz(normals), "faceArr": BALL_FACES}
            self.addCustom(mesh | {"color": palette().free, "opacity": 0.55})

    def content(self) -> str:
        """The same each time, which py3Dmol's own is not: a frame with a new source is loaded again."""
        colours = palette()
        values = {name: getattr(colours, name) for name in COLOURS}
        values["scheme"] = "dark" if colours is DARK else "light"
        style = "".join(f"--{name}: {value};" for name, value in values.items())
        scene = json.dumps(self._scene).replace("<", "\\u003c")
        drawing = (self.startjs + self.endjs).replace("UNIQUEID", "0")
        return f"""<style>:root {{{style}}} {source("view3d.css")}</style>
<script src="{SCRIPT}"></script>
<script>const scene = {scene}; {source("view3d.js")}</script>
<main tabindex="0" role="application" aria-label="{html.escape(self._label)}">
<nav><button data-do="fit">Reset view</button> <button data-do="save">PNG</button></nav>
{drawing}
</main>
<p role="status"></p>
<script>begin();</script>"""


def _as_xyz(points: npt.NDArray[np.float64]) -> list[dict[str, float]]:
    return [dict(zip("xyz", row, strict=True)) for row in points.round(3).tolist()]


def _ball(rings: int = 6, around: int = 10) -> tuple[npt.NDArray[np.float64], list[int]]:
    """Points on a sphere of radius 1, and its triangles, three of them each."""
    up, turn = np.meshgrid(np.linspace(0, np.pi, rings + 1), np.arange(around) * 2 * np.pi / around, indexing="ij")
    points = np.stack([np.sin(up) * np.cos(turn), np.sin(up) * np.sin(turn), np.cos(up)], axis=-1).reshape(-1, 3)
    faces: list[int] = []
    for ring in range(rings):
        for place in range(around):
            here, next_ = ring * around + place, ring * around + (place + 1) % around
            faces += [here, here + around, next_, next_, here + around, next_ + around]
    return points, faces


BALL, BALL_FACES = _ball()
