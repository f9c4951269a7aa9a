"""Garbage against vocabulary size, precision and architecture, and the sizes of garbage; reported ones marked apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from engine.errors import one_line
from engine.logits.reported import Rate
from engine.logits.trend_words import WORDS, trend_sentences
from engine.logits.trends import By, place_of, trend
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn, listed, shortened
from pages._shared.logits.models_data import Ranked
from pages._shared.theme import palette

Share = Callable[[Rate], float | None]

QUESTIONS: dict[By, str] = {
    "vocab_size": "Does garbage go with vocabulary size?",
    "precision": "With precision?",
    "family": "With architecture?",
}
HELP = """
Open diamonds are what the report states, filled circles logs of this store. The p-value comes from dealing the garbage
out to the models in every order. Several logs of one model are one point, but for precision.
"""
SIZES_HELP = """
From the least to the largest garbage value of a model, in size, on a logarithmic axis: as the report states it, and
what our rules call damaged in logs of this store. Zeros have no place on it.
"""
HEIGHT = 300
LEAST_USUAL = 20_000
_SIZES = {30_000: "30k", 50_000: "50k", 100_000: "100k", 150_000: "150k", 250_000: "250k"}
_DECADES = {10**power: f"{10**power:,}" for power in range(7)}
"""Where a log says that its rows are short."""
REPORTED_AT, LOGS_AT, STEP = -0.14, 0.1, 0.05
MOST_LABEL = 22
MOST_BARS = 14
LEAST_DRAWN = 1e-46


def show_trend(ranked: Ranked, by: By, share: Share, rule: str) -> None:
    """One chart; ``rule`` says by which rule the logs' shares are."""
    reported, logs = ranked.ranking.reported, ranked.ranking.logs
    with card(f"logits-{by}", QUESTIONS[by], HELP) as here:
        said = trend_sentences(trend(reported, by, lambda one: one.by_report), "The report's models")
        here.tell(said[0])
        here.data(lambda: [_row(one, by, share) for one in (*reported, *logs)])
        known = [one for one in logs if place_of(one, by) is not None]
        here.draw(_figure([*reported], known, by, share), " ".join(said))
        own = trend_sentences(trend(logs, by, share), f"The logs here, by {rule}") if logs else []
        here.leave_out(*said[1:], *own[:1])


def _figure(reported: Sequence[Rate], logs: Sequence[Rate], by: By, share: Share) -> go.Figure:
    both = [*reported, *logs]
    if by == "vocab_size":
        places: dict[Any, float] = {}
    else:
        names = dict.fromkeys(place_of(one, by) for one in both)
        places = {name: float(place) for place, name in enumerate(names)}
    figure = go.Figure([_points(reported, by, lambda one: one.by_report, places, is_reported=True)])
    if logs:
        figure.add_trace(_points(logs, by, share, places, is_reported=False))
    if by == "vocab_size":
        ticks = _SIZES if all((one.vocab_size or 0) > LEAST_USUAL for one in both) else _DECADES
        figure.update_xaxes(type="log", tickvals=list(ticks), ticktext=list(ticks.values()), tickangle=0)
        figure.update_xaxes(title="rows of the vocabulary")
    else:
        labels = [drawn(shortened(str(name), 14)) for name in places]
        figure.update_xaxes(
            tickvals=list(places.values()), ticktext=labels, range=[-1.0, len(places) - 0.3], zeroline=False
        )
    figure.update_yaxes(title="entries with garbage", tickformat=".0%", range=[-0.06, 1.08], nticks=5)
    figure.update_layout(height=HEIGHT, margin={"t": 34}, dragmode=False)
    return figure


def _points(rates: Sequence[Rate], by: By, share: Share, places: dict[Any, float], *, is_reported: bool) -> go.Scatter:
    colours = palette()
    marker: dict[str, Any] = {"symbol": "diamond-open", "size": 11, "color": colours.text, "line": {"width": 2}}
    if not is_reported:
        marker = {"symbol": "circle", "size": 9, "color": colours.copy, "opacity": 0.75}
    seen: dict[Any, int] = {}
    x = []
    for one in rates:
        at = place_of(one, by)
        place = seen[at] = seen.get(at, -1) + 1
        side = REPORTED_AT if is_reported else LOGS_AT + STEP * (place % 7)
        x.append(at if by == "vocab_size" else places[at] + side)
    return go.Scatter(
        x=x,
        y=[share(one) for one in rates],
        mode="markers+text" if is_reported else "markers",
        marker=marker,
        text=[drawn(one.model or "", MOST_LABEL) for one in rates] if is_reported else None,
        textposition=[_side(one, by) for one in rates] if is_reported else None,
        textfont={"size": 11},
        name="reported" if is_reported else "logs here",
        showlegend=True,
        customdata=[[_named(one), _about(one)] for one in rates],
        hovertemplate="%{customdata[0]}<br>%{y:.1%} of its entries, %{customdata[1]}<extra></extra>",
        cliponaxis=False,
    )


def _side(rate: Rate, by: By) -> str:
    """Labels stay inside: large vocabularies stand at the right edge."""
    if by != "vocab_size":
        return "middle left"
    return "middle left" if (rate.vocab_size or 0) > 100_000 else "middle right"


def _named(rate: Rate) -> str:
    parts = [rate.engine, rate.model or "", rate.precision or ""]
    return " · ".join(drawn(part, 40) for part in parts if part)


def _about(rate: Rate) -> str:
    return "reported" if rate.origin == "reported" else f"{rate.entries or 0:,} entries, {rate.origin}"


def _row(rate: Rate, by: By, share: Share) -> dict[str, Any]:
    is_reported = rate.origin == "reported"
    return {
        "origin": rate.origin,
        "engine": rate.engine,
        "model": rate.model,
        WORDS[by]: place_of(rate, by),
        "share of entries": rate.by_report if is_reported else share(rate),
    }


# --- sizes of garbage -------------------------------------------------------------------------------------------------


def show_sizes(ranked: Ranked) -> None:
    with card("logits-sizes", "How large is it, and where?", SIZES_HELP) as here:
        bars = _bars(ranked)
        here.tell(_sizes_sentence(ranked))
        here.data(lambda: [{**one, "positions": " ".join(map(str, one["positions"]))} for one in bars])
        here.draw(_sizes(bars[:MOST_BARS]), _sizes_sentence(ranked))
        more = len(bars) - MOST_BARS
        here.leave_out(f"Not drawn: {more} more; *Data* has them." if more > 0 else "")


def _bars(ranked: Ranked) -> list[dict[str, Any]]:
    found = [
        _bar("reported", f"{one.model} {one.precision}", one.least, one.largest, one.positions)
        for one in ranked.ranking.models
    ]
    for rate in ranked.ranking.logs:
        health = ranked.healths[rate.id]
        places = [one.position for one in sorted(health.positions, key=lambda one: -one.damaged) if one.damaged]
        name = " ".join(part for part in (rate.engine, rate.model, rate.precision) if part)
        found.append(_bar(rate.origin, name, health.least, health.largest, places))
    return [one for one in found if one["largest"]]


def _bar(
    origin: str, name: str, least: float | None, largest: float | None, positions: Sequence[int]
) -> dict[str, Any]:
    return {"origin": origin, "model": one_line(name), "least": least, "largest": largest, "positions": positions}


def _sizes(bars: Sequence[dict[str, Any]]) -> go.Figure:
    colours = palette()
    figure = go.Figure()
    for is_reported in (True, False):
        own = [(place, one) for place, one in enumerate(bars) if (one["origin"] == "reported") == is_reported]
        if not own:
            continue
        x: list[float | None] = []
        y: list[float | None] = []
        for place, one in own:
            x += [max(one["least"] or 0, LEAST_DRAWN), one["largest"], None]
            y += [place, place, None]
        colour = colours.text if is_reported else colours.copy
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers",
                line={"color": colour, "width": 3, "dash": "dot" if is_reported else "solid"},
                marker={"symbol": "diamond-open" if is_reported else "circle", "size": 9, "color": colour},
                name="reported" if is_reported else "logs here",
                showlegend=True,
                hovertemplate="%{x:.3g}<extra></extra>",
            )
        )
    labels = [f"{drawn(one['model'], 26)} @ {_at_positions(one['positions'])}" for one in bars]
    figure.update_yaxes(
        tickvals=list(range(len(bars))), ticktext=labels, autorange="reversed", showgrid=False, zeroline=False
    )
    figure.update_xaxes(type="log", exponentformat="power", title="size of the value", nticks=7, tickangle=0)
    figure.update_layout(height=max(HEIGHT, 90 + 26 * len(bars)), margin={"t": 34}, dragmode=False)
    return figure


def _at_positions(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions[:3])) + (" …" if len(positions) > 3 else "")


def _sizes_sentence(ranked: Ranked) -> str:
    models = [one for one in ranked.ranking.models if one.least is not None and one.largest is not None]
    low = min((one.least for one in models if one.least is not None), default=0.0)
    high = max((one.largest for one in models if one.largest is not None), default=0.0)
    first = sum(0 in one.positions for one in models)
    both = [f"{one.model} {one.precision}" for one in models if 2 in one.positions]
    said = (
        f"The report has {low:.3g} to {high:.3g}: at position 0 in {first} of its {len(models)} rows with garbage, and "
        f"at position 2 as well in {listed(both)}."
    )
    own = [one for one in ranked.healths.values() if one.largest is not None]
    if not own:
        return said
    at_first = sum(any(place.position == 0 and place.damaged for place in one.positions) for one in own)
    sizes = f"{min(one.least or 0 for one in own):.3g} to {max(one.largest or 0 for one in own):.3g}"
    logs = "1 log here is" if len(own) == 1 else f"{len(own)} logs here are"
    return f"{said} {logs} damaged with finite values, {sizes} in size, {at_first} of them at position 0."
