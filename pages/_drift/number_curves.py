"""Small curves of what a model believes of an atom's numbers, for its row, and the ellipsoid that goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.figures.words import fixed, percent
from engine.inspection.number_beliefs import WRONG
from engine.questions.question import Tables
from pages._kit.components.atom_view import Curve
from pages._kit.components.view3d import Ellipsoid

WIDE, HIGH, COLUMNS = 96, 16, 48
"""Of a drawing, in px, and how many heights it has."""
LEAST_ANG = 0.1
"""Across which a curve is drawn at least."""
GIVEN = {"x": "given the text before", "y": "given that and x", "z": "given that, x and y"}
Row = Mapping[str, Any]


def curves_of(tables: Tables) -> dict[int, tuple[Curve, ...]]:
    """By block, of the answer of ``drift_belief``."""
    cells: dict[tuple[int, str], list[Row]] = {}
    for cell in tables["cells"].to_pylist():
        cells.setdefault((cell["block"], cell["axis"]), []).append(cell)
    curves: dict[int, tuple[Curve, ...]] = {}
    for row in tables["main"].to_pylist():
        curve = _curve(row, cells[row["block"], row["axis"]])
        curves[row["block"]] = (*curves.get(row["block"], ()), curve)
    return curves


def ellipsoids_of(tables: Tables, first: int, atoms: int) -> dict[int, Ellipsoid]:
    """By atom, of the conformer whose blocks begin with ``first``: means, and one spread along each axis."""
    places: dict[int, list[Row]] = {}
    for row in tables["main"].to_pylist():
        if first <= row["block"] < first + atoms:
            places.setdefault(row["atom"], []).append(row)
    return {
        atom: Ellipsoid([row["mean"] for row in rows], [row["spread"] for row in rows]) for atom, rows in places.items()
    }


def _curve(row: Row, cells: Sequence[Row]) -> Curve:
    low, high, p = (np.array([cell[name] for cell in cells]) for name in ("cell_low", "cell_high", "p"))
    is_struck = np.array([cell["right"] == WRONG for cell in cells])
    middle, half = (row["low"] + row["high"]) / 2, max(row["high"] - row["low"], LEAST_ANG)
    edges = np.linspace(middle - half, middle + half, COLUMNS + 1)
    heights = _mass_between(edges, low, high, p)
    most = max(float(heights.max()), 1e-12)
    struck = _mass_between(edges, low, high, np.where(is_struck, p, 0.0))
    words = f"{row['axis']} {fixed(row['mean'], 2)} ± {fixed(row['spread'], 3)}"
    about = [
        f"{words} Å, {GIVEN[row['axis']]}",
        f"written {fixed(row['written'], 4)}",
        f"90 %: {fixed(row['low'], 2)} to {fixed(row['high'], 2)}",
        f"modes: {row['modes']}",
        *([] if row["struck"] is None else [f"{percent(row['struck'])} struck by shaped (shaded)"]),
        *([row["width"]] if row["width"] else []),
    ]
    at = float(np.clip((row["written"] - edges[0]) / (edges[-1] - edges[0]), 0, 1)) * WIDE
    return Curve(words, "; ".join(about), _path(heights / most), _path(struck / most), round(at, 1), row["width"])


def _mass_between(edges: Any, low: Any, high: Any, p: Any) -> Any:
    """[columns] of cells that are uniform inside."""
    inside = np.clip((edges[:, None] - low) / (high - low), 0, 1) @ p
    return np.diff(inside)


def _path(heights: Any) -> str:
    """Of an SVG: steps from the ground line."""
    if not heights.any():
        return ""
    step = WIDE // COLUMNS
    tops = [f"V{round(HIGH * (1 - height), 1):g}h{step}" for height in heights.tolist()]
    return f"M0 {HIGH}{''.join(tops)}V{HIGH}z"
