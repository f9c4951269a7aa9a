"""Small curves of what a model believes of an atom's numbers, for its row, and the ellipsoid that goes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from engine.figures.words import fixed, percent
from engine.inspection.number_beliefs import WRONG
from engine.questions.question import Tables
from pages._kit.components.atom_view import Curve
from pages._kit.components.view3d import Ellipsoid

WIDE, HIGH = 96, 16
"""Of a drawing, in px."""
LEAST_ANG, LEAST_HEIGHT = 0.1, 0.01
"""Across which a curve is drawn at least; of the highest cell: lower ones are not drawn."""
GIVEN = {"x": "given the text before", "y": "given that and x", "z": "given that, x and y"}
Row = Mapping[str, Any]


def curves_of(tables: Tables) -> dict[int, list[Curve]]:
    """By block, of the answer of ``drift_belief``."""
    cells = groupby(tables["cells"].to_pylist(), itemgetter("block", "axis"))
    curves: dict[int, list[Curve]] = {}
    for row, (_, of_number) in zip(tables["main"].to_pylist(), cells, strict=True):
        curves.setdefault(row["block"], []).append(_curve(row, list(of_number)))
    return curves


def ellipsoids_of(tables: Tables, first: int, atoms: int) -> dict[int, Ellipsoid]:
    """By atom, of the conformer whose blocks begin with ``first``: means, and one spread along each axis."""
    blocks = groupby(tables["main"].to_pylist(), itemgetter("block"))
    numbers = {block - first: list(of_block) for block, of_block in blocks if first <= block < first + atoms}
    return {
        atom: Ellipsoid([row["mean"] for row in rows], [row["spread"] for row in rows])
        for atom, rows in numbers.items()
    }


def _curve(row: Row, cells: Sequence[Row]) -> Curve:
    low, high, p, right = (np.array([cell[name] for cell in cells]) for name in ("cell_low", "cell_high", "p", "right"))
    middle, half = (row["low"] + row["high"]) / 2, max(row["high"] - row["low"], LEAST_ANG)

    def x(values: Any) -> Any:
        """[n] px from the left."""
        return np.clip((values - middle + half) / (2 * half), 0, 1) * WIDE

    tops = p / (high - low)
    tops = tops / tops.max()
    bars = [
        f"M{start:.3g} {HIGH}V{HIGH * (1 - top):.3g}H{end:.3g}V{HIGH}z" if top > LEAST_HEIGHT and end > start else ""
        for start, end, top in zip(x(low), x(high), tops, strict=True)
    ]
    struck = [bar for bar, is_right in zip(bars, right, strict=True) if is_right == WRONG]
    words = f"{row['axis']} {fixed(row['mean'], 2)} ± {fixed(row['spread'], 3)}"
    about = [
        f"{words} Å, {GIVEN[row['axis']]}",
        f"written {fixed(row['written'], 4)}",
        f"90 %: {fixed(row['low'], 2)} to {fixed(row['high'], 2)}",
        f"modes: {row['modes']}",
        "" if row["struck"] is None else f"{percent(row['struck'])} struck by shaped (shaded)",
        row["width"],
    ]
    at = round(float(x(row["written"])), 1)
    return Curve(words, "; ".join(filter(None, about)), "".join(bars), "".join(struck), at, row["width"])
