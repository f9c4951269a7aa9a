"""What is the slowdown made of? A ratio of times as a walk along its factors, on a scale where they add up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.comparing.figures import Beside
from engine.comparing.slowdown import Decomposition, Factor, Slowdown, slowdown
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn, listed, mark, noise, on_axis, range_of, seconds, times
from pages._shared.compare.state import Chosen
from pages._shared.theme import palette

QUESTION = "What is the slowdown made of?"
HELP = """
Wall time a sample, test over control, as the product of its factors. Each bar begins where the one above it ended, on
a scale on which factors add up; to the left is faster.

It says how much, not why: that tokens and time multiply to the whole is algebra and holds for any two runs. More time
a token may be a larger model, another batch or a busy machine.
"""
WAYS = {
    "tokens × time a token": "by_tokens",
    "passes × time a pass": "by_passes",
    "tokens × passes a token × time a pass": "by_both",
}
PATTERNS = {"tokens": "/", "time a token": ".", "passes": "\\", "passes a token": "x", "time a pass": "-"}
COLUMNS = {"wall_s": "the wall time", "samples": "the samples", "tokens": "the tokens", "forward_passes": "the passes"}
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
FINE_TICKS = (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4)
LANE_HEIGHT, GAP = 21, 0.7
PASSES_WHOLE = " Passes are counted for a run as a whole, so nothing tells their noise."
SAME = 0.02  # on the scale of natural logarithms: two per cent


@st.fragment
def show(chosen: Chosen, beside: Sequence[Beside]) -> None:
    """Draw the chart for every test beside its control."""
    with card("slowdown", QUESTION, HELP) as here:
        if not chosen.tests:
            here.tell("A slowdown needs two runs: choose a test beside the control.")
            return
        way = WAYS.get(
            st.selectbox("Made of", list(WAYS), key="made_of", bind="query-params", label_visibility="collapsed"),
            "by_tokens",
        )
        all_told = [slowdown(chosen.control, test) for test in chosen.tests]
        told = [(one, getattr(one, way)) for one in all_told if getattr(one, way).total is not None]
        here.tell(answer(chosen, told, beside))
        here.data(lambda: rows(chosen, all_told))
        if told:
            here.draw(figure(chosen, told), alt=alt(chosen, told))
        here.leave_out(*(_unknown(chosen, one, getattr(one, way)) for one in all_told))


Told = Sequence[tuple[Slowdown, Decomposition]]


def answer(chosen: Chosen, told: Told, beside: Sequence[Beside]) -> str:
    """Of the largest difference; the others are written in the figure."""
    if not told:
        return "Of none of these runs is enough known to take the ratio of times apart."
    one, found = max(told, key=lambda pair: abs(math.log(_total(pair[1]).ratio)))
    test, control = (chosen.letter(run_id) for run_id in (one.test, one.control))
    factors = " times ".join(f"{times(factor.ratio)} the {factor.name}" for factor in found.factors)
    most = "The largest difference: " if len(told) > 1 else ""
    said = f"{most}{test} takes {times(_total(found).ratio)} the time of {control} a sample, {factors}."
    uncertainty = _uncertainty(next(pair for pair in beside if pair.figures.run_id == one.test))
    has_passes = any("pass" in factor.name for factor in found.factors)
    return f"{said}{_share(found)}{PASSES_WHOLE if has_passes else ''} {uncertainty}"


def _share(found: Decomposition) -> str:
    """Which factor it is, where all of them point one way."""
    shares = [(found.share(factor) or 0.0, factor) for factor in found.factors]
    if abs(math.log(_total(found).ratio)) < SAME or min(share for share, _ in shares) < 0:
        return ""
    share, factor = max(shares, key=lambda pair: pair[0])
    return f" {round(100 * share)} % of it is {factor.name}, on a scale where factors add up."


def _uncertainty(pair: Beside) -> str:
    """Of samples' own tokens and times: wall time is one figure a run."""
    tokens, a_token = pair.ratio("tokens_a_sample"), pair.ratio("ms_a_token")
    ranges = [
        f"{name} {found} ({noise(mark(pair, ratio.figure))})"
        for name, ratio in (("tokens", tokens), ("time a token", a_token))
        if (found := range_of(ratio))
    ]
    if not ranges:
        return f"No interval can be given: {pair.paired.reason or tokens.reason or 'nothing tells what is noise.'}"
    how = "molecules drawn anew" if pair.paired.is_paired else "runs that share no molecule, each drawn anew"
    return f"By their samples, {how}, 95 %: {listed(ranges)}."


def figure(chosen: Chosen, told: Told) -> go.Figure:
    """Lanes from top to bottom: a run's whole ratio, then its factors one after another."""
    colours = palette()
    found = go.Figure()
    ticks: list[tuple[float, str]] = []
    reached = [0.0]
    lane = 0.0
    for one, parts in told:
        colour = chosen.colour(one.test, colours)
        total = _total(parts)
        ticks.append((lane, on_axis(chosen.name(one.test))))
        found.add_trace(_bar(lane, 0.0, total, colour, "", chosen.name(one.test)))
        lane += 1.35
        start = 0.0
        for factor in parts.factors:
            ticks.append((lane, factor.name))
            found.add_trace(_bar(lane, start, factor, colour, PATTERNS[factor.name], chosen.name(one.test)))
            start += math.log(factor.ratio)
            reached += [start, math.log(total.ratio)]
            lane += 1
        lane += GAP
    found.update_yaxes(
        tickvals=[place for place, _ in ticks],
        ticktext=[text for _, text in ticks],
        range=[lane - GAP - 0.4, -0.7],
        showgrid=False,
        zeroline=False,
    )
    _scale(found, min(reached), max(reached))
    found.update_layout(
        height=round(60 + LANE_HEIGHT * (lane + 0.3)), margin={"t": 8}, showlegend=False, barmode="overlay"
    )
    return found


def _bar(lane: float, start: float, factor: Factor, colour: str, pattern: str, name: str) -> go.Bar:
    size = math.log(factor.ratio)
    return go.Bar(
        orientation="h",
        y=[lane],
        base=[start],
        x=[size],
        width=0.8,
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1.5},
            "pattern": {"shape": pattern, "fillmode": "replace", "fgcolor": colour},
        },
        text=[times(factor.ratio)],
        textposition="outside",
        cliponaxis=False,
        hovertemplate=f"{drawn(name)}<br>{factor.what}: {_value(factor.test, factor)}<br>control: "
        f"{_value(factor.control, factor)}<br>{times(factor.ratio)}<extra></extra>",
    )


def _value(value: float, factor: Factor) -> str:
    return seconds(value) if factor.what.startswith("seconds") else f"{value:,.4g}"


def _scale(found: go.Figure, least: float, most: float) -> None:
    """Logarithms on a plain axis, with ratios written on it and room for what is written beside the bars."""
    room = 0.2 * max(most - least, 0.1)
    low, high = least - room, most + room
    ticks = [tick for tick in TICKS if low <= math.log(tick) <= high]
    ticks = ticks if len(ticks) > 2 else sorted({*ticks, *(t for t in FINE_TICKS if low <= math.log(t) <= high)})
    found.update_xaxes(
        range=[low, high],
        tickvals=[math.log(tick) for tick in ticks],
        ticktext=[f"{tick:g}×" for tick in ticks],
        zeroline=True,
        title="time a sample, test over control",
    )


def alt(chosen: Chosen, told: Told) -> str:
    lines = [
        f"{chosen.name(one.test)}: {times(_total(found).ratio)}, "
        + ", ".join(f"{factor.name} {times(factor.ratio)}" for factor in found.factors)
        for one, found in told
    ]
    return f"Time a sample over that of {chosen.name(chosen.control.id)}. {'. '.join(lines)}."


def rows(chosen: Chosen, told: Sequence[Slowdown]) -> list[dict[str, object]]:
    """A row a factor, in all three ways."""
    return [
        {
            "run": chosen.name(one.test),
            "made of": parts.name,
            "factor": factor.name,
            "what": factor.what,
            "control": factor.control,
            "test": factor.test,
            "ratio": factor.ratio,
            "share of the logarithm": None if factor is parts.total else parts.share(factor),
        }
        for one in told
        for parts in (one.by_tokens, one.by_passes, one.by_both)
        for factor in (() if parts.total is None else (parts.total, *parts.factors))
    ]


def _total(found: Decomposition) -> Factor:
    if found.total is None:
        raise ValueError("only what could be taken apart is drawn")
    return found.total


def _unknown(chosen: Chosen, one: Slowdown, found: Decomposition) -> str:
    if found.total is not None:
        return ""
    reason = found.reason
    for column, words in COLUMNS.items():
        reason = reason.replace(f"{column} of", f"{words} of")
    return f"Not drawn: {chosen.name(one.test)}. {reason}"
