"""What is the speedup or slowdown made of? A ratio of times as a walk along its factors, on a scale that adds up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.comparing.figures import ComparedRun
from engine.comparing.slowdown import Decomposition, Factor, Slowdown, slowdown
from engine.figures.words import listed, percent, seconds, span, times
from engine.store.store import Store
from pages._compare.charts_data import compared_runs, mark, noise
from pages._compare.runs import RunSelection
from pages._compare.table_words import speed
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.charts.text import on_axis
from pages._shared.theme import palette

HELP = """
Wall time per sample, test over control, as the product of its factors. Each bar begins where the one above it ended,
on a scale on which factors add up; to the left is faster.

It says how much, not why: that tokens and time multiply to the whole is algebra and holds for any two runs. More time
per token may be a larger model, another batch or a busy machine.
"""
WAYS = {
    "tokens × time per token": "by_tokens",
    "passes × time per pass": "by_passes",
    "tokens × passes per token × time per pass": "by_both",
}
PATTERNS = {
    "tokens": "/",
    "wall time per token": ".",
    "passes": "\\",
    "passes per token": "x",
    "wall time per pass": "-",
}
COLUMNS = {"wall_s": "the wall time", "samples": "the samples", "tokens": "the tokens", "forward_passes": "the passes"}
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
FINE_TICKS = (0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4)
PASSES_WHOLE = " Passes are counted for a run as a whole, so their noise is not known."
SAME = 0.02  # on the scale of natural logarithms: two per cent
Known = Sequence[tuple[Slowdown, Decomposition]]


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    slowdowns = [slowdown(chosen.control, test) for test in chosen.tests]
    with card("slowdown", question(slowdowns), HELP) as panel:
        if not chosen.tests:
            panel.tell("This needs two runs: choose a test to compare with the control.")
            return
        way = WAYS.get(
            st.selectbox("Made of", list(WAYS), key="made_of", bind="query-params", label_visibility="collapsed"),
            "by_tokens",
        )
        ways = [(pair, getattr(pair, way)) for pair in slowdowns]
        known = [(pair, parts) for pair, parts in ways if parts.total is not None]
        panel.tell(answer(chosen, known, compared_runs(store, chosen)))
        panel.data(lambda: rows(chosen, slowdowns))
        if known:
            panel.draw(slowdown_chart(chosen, known))
        panel.leave_out(*(unknown(chosen, pair, parts) for pair, parts in ways), chosen.sizes())


def question(slowdowns: Sequence[Slowdown]) -> str:
    """As what was found: a slowdown only where all tests are slower."""
    ratios = [total.ratio for pair in slowdowns if (total := pair.by_tokens.total) is not None]
    is_one_way = bool(ratios) and (max(ratios) < 1 or min(ratios) > 1)
    what = ("speedup" if ratios[0] < 1 else "slowdown") if is_one_way else "difference in time"
    return f"What is the {what} made of?"


def answer(chosen: RunSelection, known: Known, compared: Sequence[ComparedRun]) -> str:
    """The largest difference; the chart shows the others."""
    if not known:
        return "Too little is known of these runs to split the ratio of their times into factors."
    largest, parts = max(known, key=lambda pair: abs(math.log(_total(pair[1]).ratio)))
    test, control = (chosen.letter(run_id) for run_id in (largest.test, largest.control))
    factors = " times ".join(f"{times(factor.ratio)} the {factor.name}" for factor in parts.factors)
    most = "The largest difference: " if len(known) > 1 else ""
    ratio = _total(parts).ratio
    how = f"is {speed(ratio)} ({times(ratio)} the time) than" if ratio < 1 else f"takes {speed(ratio)} of"
    sentence = f"{most}{test} {how} {control} per sample by wall time: {factors}."
    uncertainty = _uncertainty(next(pair for pair in compared if pair.figures.run_id == largest.test))
    has_passes = any("pass" in factor.name for factor in parts.factors)
    thrown = "".join(_thrown(chosen, run_id) for run_id in (largest.control, largest.test))
    return f"{sentence}{_share(parts)}{thrown}{PASSES_WHOLE if has_passes else ''} {uncertainty}"


def _thrown(chosen: RunSelection, run_id: str) -> str:
    """The tokens that a run's guard threw away are in its time alone."""
    row = next(entry.row for entry in chosen.entries if entry.id == run_id)
    thrown, tokens = row.get("thrown_tokens"), row.get("tokens")
    if not thrown or tokens is None:
        return ""
    drawn = percent(thrown / (thrown + tokens))
    return f" The guard of {chosen.letter(run_id)} threw away {drawn} of its tokens: only their time counts here."


def _share(parts: Decomposition) -> str:
    """The largest factor, where all point in one direction."""
    shares = [(parts.share(factor) or 0.0, factor) for factor in parts.factors]
    if abs(math.log(_total(parts).ratio)) < SAME or min(share for share, _ in shares) < 0:
        return ""
    share, factor = max(shares, key=lambda pair: pair[0])
    return f" {round(100 * share)} % of it is {factor.name}, on a scale where factors add up."


def _uncertainty(pair: ComparedRun) -> str:
    tokens, per_token = pair.ratio("tokens_a_sample"), pair.ratio("ms_a_token")
    ranges = [
        f"{name} {times(ratio.interval.value)} ({span(*ratio.interval.ends, times)}, {noise(mark(pair, ratio.figure))})"
        for name, ratio in (("tokens", tokens), ("wall time per token", per_token))
        if ratio.interval is not None and ratio.interval.ends
    ]
    if not ranges:
        return f"No interval: {pair.paired.reason or tokens.reason or 'the noise is not known.'}"
    how = "" if pair.paired.is_paired else "; the runs share no molecule, so each was resampled by itself"
    return f"95 % bootstrap over molecules{how}: {listed(ranges)}."


def slowdown_chart(chosen: RunSelection, known: Known) -> Chart:
    """Lanes from top to bottom: a run's whole ratio, then its factors one after another."""
    bars: list[dict[str, Any]] = []
    ticks: dict[float, str] = {}
    lane = 0.0
    for pair, parts in known:
        name, colour = chosen.name(pair.test), chosen.colour(pair.test, palette())
        total, start = _total(parts), 0.0
        ticks[lane] = on_axis(name)
        bars.append(_bar(lane, 0.0, total, name) | {"colour": colour, "pattern": ""})
        lane += 1.35
        for factor in parts.factors:
            ticks[lane] = factor.name
            bars.append(_bar(lane, start, factor, name) | {"colour": colour, "pattern": PATTERNS[factor.name]})
            start += math.log(factor.ratio)
            lane += 1
        lane += 0.7
    reached = [0.0, *(bar["base"] + bar["size"] for bar in bars)]
    descriptions = [
        f"{chosen.name(pair.test)}: {times(_total(parts).ratio)}, "
        + ", ".join(f"{factor.name} {times(factor.ratio)}" for factor in parts.factors)
        for pair, parts in known
    ]
    return chart(
        Marks(
            kind="bars",
            rows=bars,
            x="size",
            y="lane",
            group="lane",
            in_legend=False,
            is_across=True,
            outline_width=1.5,
            hover=lambda row: (row["run"], row["test"], row["control"], row["text"]),
        ),
        x=_scale(min(reached), max(reached)),
        y=Axis(ticks=ticks, range=[lane - 1.1, -0.7], has_grid=False, more={"zeroline": False}),
        height=round(60 + 21 * (lane + 0.3)),
        alt=f"Time per sample over that of {chosen.name(chosen.control.id)}. {'. '.join(descriptions)}.",
    )


def _bar(lane: float, start: float, factor: Factor, name: str) -> dict[str, Any]:
    test, control = (
        seconds(value) if factor.what.startswith("seconds") else f"{value:,.4g}"
        for value in (factor.test, factor.control)
    )
    return {
        "lane": lane,
        "run": name,
        "base": start,
        "size": math.log(factor.ratio),
        "width": 0.8,
        "text": times(factor.ratio),
        "test": f"{factor.what}: {test}",
        "control": f"control: {control}",
    }


def _scale(least: float, most: float) -> Axis:
    """Logarithms on a linear axis with ratios as its ticks, and room for the labels at the bars."""
    room = 0.2 * max(most - least, 0.1)
    low, high = least - room, most + room
    ticks = [tick for tick in TICKS if low <= math.log(tick) <= high]
    ticks = ticks if len(ticks) > 2 else sorted({*ticks, *(t for t in FINE_TICKS if low <= math.log(t) <= high)})
    return Axis(
        title="wall time per sample, test over control",
        range=[low, high],
        ticks={math.log(tick): f"{tick:g}×" for tick in ticks},
        more={"zeroline": True},
    )


def rows(chosen: RunSelection, slowdowns: Sequence[Slowdown]) -> list[dict[str, object]]:
    return [
        {
            "run": chosen.name(pair.test),
            "made of": parts.name,
            "factor": factor.name,
            "what": factor.what,
            "control": factor.control,
            "test": factor.test,
            "ratio": factor.ratio,
            "share of the logarithm": None if factor is parts.total else parts.share(factor),
        }
        for pair in slowdowns
        for parts in (pair.by_tokens, pair.by_passes, pair.by_both)
        for factor in (() if parts.total is None else (parts.total, *parts.factors))
    ]


def _total(parts: Decomposition) -> Factor:
    if parts.total is None:
        raise ValueError("only slowdowns whose factors are known are drawn")
    return parts.total


def unknown(chosen: RunSelection, pair: Slowdown, parts: Decomposition) -> str:
    if parts.total is not None:
        return ""
    reason = parts.reason
    for column, words in COLUMNS.items():
        reason = reason.replace(f"{column} of", f"{words} of")
    return f"Not drawn: {chosen.name(pair.test)}. {reason}"
