"""Figures of the lost third: the fall in steps, coverage by lane, curves over thresholds, and atom orders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.evidence.lost_third import EXACT, LANES, NONE, REORDERED, V43, lane_of
from engine.figures.words import listed, percent, points
from pages._shared.charts.chart import SYMBOLS, Axis, Chart, Marks, RefLine, chart
from pages._shared.theme import Palette

Document = Mapping[str, Any]
CURVES = (NONE, EXACT, V43, "v4.3-fitted")
MARGIN_PX = 210  # names of lanes


def fall(documents: Sequence[Document], colours: Palette) -> Chart:
    """Points of COV-R that each step takes, a row a step."""
    rows = [
        {
            "x": 100 * step["cov_r"]["value"],
            "low": 100 * (step["cov_r"]["low"] or step["cov_r"]["value"]),
            "high": 100 * (step["cov_r"]["high"] or step["cov_r"]["value"]),
            "y": step["step"],
            "group": document["model"],
            "colour": colours.series[place],
            "symbol": SYMBOLS[place],
        }
        for place, document in enumerate(documents)
        for step in document["fall"]
        if step["cov_r"]
    ]
    words = "; ".join(f"{row['group']}, {row['y']}: {points(row['x'] / 100)}" for row in rows)
    return chart(
        _points(rows),
        x=Axis(title="change of COV-R, in points, with its 95 % interval"),
        y=Axis(more={"autorange": "reversed", "type": "category"}),
        lines=[RefLine(0, None, 0, None, dash="dot", colour=colours.muted)],
        height=240,
        top=28,
        more={"margin": {"l": MARGIN_PX}},
        alt=f"Where COV-R goes from no LP to v4.3. {words}.",
    )


def lanes(document: Document, colours: Palette) -> Chart:
    """COV-R and COV-P of each lane, over the molecules that all have."""
    few = lane_of(document, NONE)
    drawn = [
        (key, lane)
        for key in LANES
        if (lane := lane_of(document, key, None if few is None else few["molecules"])) is not None
    ]
    rows = [
        {"x": lane["zero"][name], "y": LANES[key], "group": title, "colour": colours.series[place]}
        for place, (name, title) in enumerate((("cov_r", "COV-R"), ("cov_p", "COV-P")))
        for key, lane in drawn
        if lane["zero"][name] is not None
    ]
    for row in rows:
        row["symbol"] = SYMBOLS[("COV-R", "COV-P").index(row["group"])]
    words = "; ".join(f"{row['y']}, {row['group']}: {percent(row['x'])}" for row in rows)
    return chart(
        _points(rows),
        x=Axis(title=f"share within 0.75 Å{of_answers(lane for _, lane in drawn)}", is_share=True, from_zero=True),
        y=Axis(more={"autorange": "reversed", "type": "category"}),
        height=360,
        top=28,
        more={"margin": {"l": MARGIN_PX}},
        alt=f"Coverage of {document['model']} by lane. {words}.",
    )


def curves(document: Document, colours: Palette) -> Chart:
    """COV-R over thresholds: a fall that is left at 2 Å is no matter of precision."""
    few = lane_of(document, NONE)
    drawn = [
        (key, lane)
        for key in CURVES
        if (lane := lane_of(document, key, None if few is None else few["molecules"])) is not None
    ]
    rows = [
        {"x": threshold, "y": share, "group": LANES[key], "colour": colours.series[place]}
        for place, (key, lane) in enumerate(drawn)
        for threshold, share in zip(lane["zero"]["thresholds"], lane["zero"]["cov_r_curve"], strict=True)
        if share is not None
    ]
    return chart(
        Marks(kind="lines", rows=rows, group="group", has_points=False, hover=_curve_hover),
        x=Axis(title="threshold (Å)", range=[0, 3]),
        y=Axis(title=f"COV-R{of_answers(lane for _, lane in drawn)}", is_share=True, from_zero=True),
        height=360,
        top=28,
        alt=f"COV-R of {document['model']} over thresholds from 0.05 to 3 Å, by lane.",
    )


def orders(documents: Sequence[Document], colours: Palette) -> Chart:
    """COV-R of the exact LP, in canonical order and in another."""
    drawn = [
        (place, word, document["model"], lane)
        for place, (key, word) in enumerate(((EXACT, "canonical order"), (REORDERED, "another order")))
        for document in documents
        if (lane := lane_of(document, key)) is not None and lane["zero"]["cov_r"] is not None
    ]
    rows = [
        {
            "x": lane["zero"]["cov_r"],
            "y": model,
            "group": word,
            "colour": colours.series[place],
            "symbol": SYMBOLS[place],
        }
        for place, word, model, lane in drawn
    ]
    words = "; ".join(f"{row['y']}, {row['group']}: {percent(row['x'])}" for row in rows)
    return chart(
        _points(rows),
        x=Axis(title=f"COV-R of the exact LP{of_answers(lane for *_, lane in drawn)}", is_share=True, from_zero=True),
        y=Axis(more={"autorange": "reversed", "type": "category"}),
        height=110 + 34 * len(documents),
        top=28,
        more={"margin": {"l": MARGIN_PX}},
        alt=f"Does the order of the forced SMILES matter? {words}.",
    )


def size_of(lane: Mapping[str, Any]) -> str:
    """``64 × 10``: molecules, times answers of each."""
    return f"{lane['molecules']:,} × {lane['samples_per_molecule']}"


def of_answers(lanes: Iterable[Mapping[str, Any]]) -> str:
    """``, 64 × 10 answers``: a lane that was run at two sizes has two figures."""
    sizes = listed(list(dict.fromkeys(map(size_of, lanes))))
    return f", {sizes} answers" if sizes else ""


def _points(rows: Sequence[Mapping[str, Any]]) -> Marks:
    has_interval = any("low" in row for row in rows)
    return Marks(
        kind="points",
        rows=rows,
        group="group",
        size=11,
        interval="x" if has_interval else "",
        hover=lambda row: f"{row['group']}, {row['y']}: {_value(row)}",
    )


def _value(row: Mapping[str, Any]) -> str:
    if "low" not in row:
        return percent(row["x"])
    value, *ends = (points(row[column] / 100) for column in ("x", "low", "high"))
    return f"{value} ({' to '.join(ends)})"


def _curve_hover(row: Mapping[str, Any]) -> str:
    return f"{row['group']}: {percent(row['y'])} within {row['x']:.2f} Å"
