"""The table of LPs and models: a cell a run, with bars of one scale; a click opens what is behind a cell or a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import one_line
from engine.figures.words import percent, shortened
from engine.questions.compare_matrix import words_of
from pages._kit.components.atom_picks import OnPick, show_pickable
from pages._kit.components.atom_view import sendable
from pages._kit.components.once import Component, source

Row = Mapping[str, Any]
Heads = tuple[Sequence[str], Sequence[str]]  # models, LPs
MOST_NAME = 40


def matrix(
    rows: Sequence[Row], parts: Sequence[Row], colours: Mapping[str, str], heads: Heads, *, key: str, on_pick: OnPick
) -> None:
    """``rows`` and ``parts`` as of `compare_matrix`, ``colours`` of runs by id. ``on_pick`` gets the place of what was
    clicked: the models in their order, behind them the LPs, behind these the rows."""
    models, lps = heads
    places = {(row["model"], row["lp"]): place for place, row in enumerate(rows, start=len(models) + len(lps))}
    shares: dict[str, list[tuple[str, float]]] = {}
    for part in parts:
        shares.setdefault(part["run"], []).append((part["part"], part["share"]))
    by_place = {(row["model"], row["lp"]): (row, words) for row, words in zip(rows, words_of(rows), strict=True)}
    large = {
        "label": "LPs and models",
        "heads": [
            {"words": named(model), "place": place, "title": f"Side by side: the runs above of {named(model)}"}
            for place, model in enumerate(models)
        ],
        "rows": [
            {
                "head": {"words": named(lp), "place": place, "title": f"Side by side: models under {named(lp)}"},
                "cells": [
                    _cell(*by_place[model, lp], places[model, lp], shares, colours) if (model, lp) in by_place else None
                    for model in models
                ],
            }
            for place, lp in enumerate(lps, start=len(models))
        ],
    }
    show_pickable(_component, key, len(models) + len(lps) + len(rows), on_pick, {}, large)


def named(text: str) -> str:
    """Anybody's name, in one line that fits."""
    return sendable(shortened(one_line(text), MOST_NAME))


def _cell(
    row: Row,
    words: Mapping[str, str],
    place: int,
    shares: Mapping[str, list[tuple[str, float]]],
    colours: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "place": place if row["worst"] else None,
        "title": "Opens its worst molecule" if row["worst"] else "It has no samples to look into",
        "tone": row["tone"],
        "colour": colours.get(row["run"], ""),
        "seconds": words["seconds"],
        "faster": words["faster"],
        "bars": [
            {"words": name, "figure": words[name], "value": row[name], **_ends(row, name)}
            for name in ("usable", "damaged")
        ],
        "parts": [(part, share, percent(share)) for part, share in shares.get(row["run"], [])],
    }


def _ends(row: Row, name: str) -> dict[str, float | None]:
    return {end: row[f"{name}_{end}"] for end in ("low", "high")}


_component = Component(
    "driftscope_matrix",
    html=source("matrix.html"),
    css=source("component_theme.css", "matrix.css"),
    js=source("matrix.js", "elements.js"),
)
