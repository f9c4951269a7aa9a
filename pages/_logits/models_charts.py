"""Garbage against vocabulary size, precision and architecture, and the sizes of garbage; reported ones marked apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import one_line
from engine.figures.words import percent, precision_name, shortened
from engine.logits.ranking import GarbageRate
from engine.logits.trend_words import WORDS, trend_sentences
from engine.logits.trends import By, place_of, trend
from pages._logits.logs import joined_names
from pages._logits.models_table import Ranked
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Row, chart, lanes
from pages._shared.charts.text import wrapped
from pages._shared.errors import escape_markdown
from pages._shared.theme import Palette, palette

Share = Callable[[GarbageRate], float | None]

QUESTIONS: dict[By, str] = {
    "vocab_size": "Does garbage go with vocabulary size?",
    "precision": "With precision?",
    "family": "With architecture?",
}
HELP = """
Open diamonds are what the report states, filled circles logs of this store. The p-value is from a
permutation test: the garbage shares are assigned to the models in every order. Several logs of one model are one
point, but for precision.
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
    said = trend_sentences(trend(reported, by, lambda one: one.by_report), "The report's models")
    own = trend_sentences(trend(logs, by, share), f"The logs here, by {rule}") if logs else []
    details = escape_markdown(" ".join([*said[1:], *own[1:2]]))
    with card(f"logits-{by}", QUESTIONS[by], f"{HELP}\n{details}") as frame:
        frame.tell(said[0])
        frame.data(lambda: [_row(one, by, share) for one in (*reported, *logs)])
        known = [log for log in logs if place_of(log, by) is not None]
        frame.draw(_trend_chart([*reported], known, by, share, " ".join(said)))
        frame.leave_out(*own[:1])


def _trend_chart(reported: Sequence[GarbageRate], logs: Sequence[GarbageRate], by: By, share: Share, alt: str) -> Chart:
    colours, both = palette(), [*reported, *logs]
    places = {name: float(place) for place, name in enumerate(dict.fromkeys(place_of(rate, by) for rate in both))}
    if by == "vocab_size":
        sizes = _SIZES if all((rate.vocab_size or 0) > LEAST_USUAL for rate in both) else _DECADES
        ticks: dict[float, str] = {float(size): text for size, text in sizes.items()}
        x = Axis(title="rows of the vocabulary", is_log=True, ticks=ticks, more={"tickangle": 0})
    else:
        ticks = {place: shortened(one_line(str(name)), 14) for name, place in places.items()}
        x = Axis(ticks=ticks, range=[-1.0, len(places) - 0.3], more={"zeroline": False})
    points, seen = [], Counter[tuple[bool, Any]]()
    for rate in both:
        at, is_reported = place_of(rate, by), rate in reported
        side = REPORTED_AT if is_reported else LOGS_AT + STEP * (seen[is_reported, at] % 7)
        seen[is_reported, at] += 1
        # Labels stay inside: large vocabularies stand at the right edge.
        is_left = by != "vocab_size" or (rate.vocab_size or 0) > 100_000
        height = "middle" if rate.by_report else "bottom"  # of nothing, below the line that stands for it
        points.append(
            {
                "group": "reported" if is_reported else "logs here",
                "x": at if by == "vocab_size" else places[at] + side,
                "share": rate.by_report if is_reported else share(rate),
                "text": shortened(one_line(rate.model or ""), MOST_LABEL) if is_reported else "",
                "text_at": f"{height} {'left' if is_left else 'right'}",
                "rate": rate,
            }
        )

    def hover(row: Row) -> tuple[str, str]:
        rate: GarbageRate = row["rate"]
        about = "reported" if rate.origin == "reported" else f"{rate.entries or 0:,} entries, {rate.origin}"
        name = one_line(joined_names(rate.engine, rate.model, precision_name(rate.precision)))
        return name, f"{percent(row['share'] or 0)} of its entries, {about}"

    layers = [
        Marks(
            kind="points",
            rows=[point for point in points if point["group"] == name],
            y="share",
            name=name,
            hover=hover,
            more={"textfont": {"size": 11}, "cliponaxis": False},
            **look,
        )
        for name, look in _looks(colours).items()
    ]
    y = Axis(title="entries with garbage", is_share=True, range=[-0.16, 1.08], more={"nticks": 5})
    return chart(*layers, x=x, y=y, height=HEIGHT, top=34, more={"dragmode": False}, alt=alt)


def _looks(colours: Palette) -> dict[str, dict[str, Any]]:
    """Open diamonds are what the report states, filled circles logs of this store."""
    ink = colours.text
    return {
        "reported": {"symbol": "diamond-open", "size": 11, "colour": ink, "outline": ink, "outline_width": 2},
        "logs here": {"symbol": "circle", "size": 9, "colour": colours.copy, "opacity": 0.75},
    }


def _row(rate: GarbageRate, by: By, share: Share) -> dict[str, Any]:
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
    with card("logits-sizes", "How large is it, and where?", SIZES_HELP) as frame:
        bars = _bars(ranked)
        frame.tell(_sizes_sentence(ranked))
        frame.data(lambda: [bar | {"positions": " ".join(map(str, bar["positions"]))} for bar in bars])
        frame.draw(_sizes_chart(bars[:MOST_BARS], _sizes_sentence(ranked)))
        more = len(bars) - MOST_BARS
        frame.leave_out(f"Not drawn: {more} more; *Data* has them." if more > 0 else "")


def _bars(ranked: Ranked) -> list[dict[str, Any]]:
    bars = [
        ("reported", f"{model.model} {precision_name(model.precision)}", model.garbage)
        for model in ranked.ranking.models
    ]
    for rate in ranked.ranking.logs:
        name = " ".join(filter(None, (rate.engine, rate.model, precision_name(rate.precision))))
        bars.append((rate.origin, name, ranked.healths[rate.id].damage))
    return [
        {"origin": origin, "model": one_line(name), "least": of.least, "largest": of.largest, "positions": of.positions}
        for origin, name, of in bars
        if of.largest
    ]


def _sizes_chart(bars: Sequence[dict[str, Any]], alt: str) -> Chart:
    """A line a model, from its least to its largest garbage value; lines of one origin are one trace with gaps."""
    colours, ends = palette(), []
    for lane, bar in enumerate(bars):
        group = "reported" if bar["origin"] == "reported" else "logs here"
        ends += [
            {"group": group, "x": size, "lane": None if size is None else lane}
            for size in (max(bar["least"] or 0, LEAST_DRAWN), bar["largest"], None)
        ]
    looks = {"reported": ("diamond-open", colours.text, "dot"), "logs here": ("circle", colours.copy, "solid")}
    layers = [
        Marks(
            kind="lines",
            rows=[end for end in ends if end["group"] == name],
            y="lane",
            name=name,
            symbol=symbol,
            colour=colour,
            dash=dash,
            thickness=3,
            hover=lambda row: "" if row["x"] is None else f"{row['x']:.3g}",
        )
        for name, (symbol, colour, dash) in looks.items()
    ]
    labels = [wrapped(f"{bar['model']} @ {_at_positions(bar['positions'])}") for bar in bars]
    lane_px = 26 + 15 * max((label.count("<br>") for label in labels), default=0)
    return chart(
        *layers,
        x=Axis(title="size of the value", is_log=True, more={"exponentformat": "power", "nticks": 7, "tickangle": 0}),
        y=lanes(labels, range=None, more={"zeroline": False, "autorange": "reversed"}),
        height=max(HEIGHT, 90 + lane_px * len(bars)),
        top=34,
        more={"dragmode": False},
        alt=alt,
    )


def _at_positions(positions: Sequence[int]) -> str:
    return ", ".join(map(str, positions[:2])) + (" …" if len(positions) > 2 else "")


def _sizes_sentence(ranked: Ranked) -> str:
    models = [model for model in ranked.ranking.models if model.garbage.largest is not None]
    low = min((model.garbage.least or 0.0 for model in models), default=0.0)
    high = max((model.garbage.largest or 0.0 for model in models), default=0.0)
    first = sum(0 in model.garbage.positions for model in models)
    reported = f"Reported: {low:.3g} to {high:.3g}, in {first} of {len(models)} rows at position 0."
    healths = [health for health in ranked.healths.values() if health.largest is not None]
    if not healths:
        return reported
    at_first = sum(any(share.position == 0 for share in health.damaged_positions) for health in healths)
    low, high = min(health.least or 0 for health in healths), max(health.largest or 0 for health in healths)
    logs = "in 1 log" if len(healths) == 1 else f"in {len(healths)} logs"
    return f"{reported} Here: {low:.3g} to {high:.3g} {logs}, {at_first} of them with damage at position 0."
