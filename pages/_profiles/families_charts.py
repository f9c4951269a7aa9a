"""Two charts over families: the way from the control's time to the test's, and real compute against the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from engine.figures.words import listed, microseconds, percent, signed_microseconds
from engine.profile.compare import TraceComparison
from engine.profile.stored_trace import COMPUTE, StoredTrace
from engine.profile.waterfall import Per, Waterfall, known_ways, waterfall
from engine.profile.words import compute_words, is_alone
from pages._profiles.traces import TraceSelection
from pages._shared.charts.card import card, choice
from pages._shared.charts.chart import Axis, Chart, Marks, Note, chart, lanes
from pages._shared.charts.text import wrapped
from pages._shared.theme import ink_on, palette

WAY = "Where does the difference come from?"
WAY_HELP = """
From the control's time to the test's, family by family, the largest difference first. Each family moves it twice: by
more or fewer calls, and by slower or faster ones. What more calls cost is taken at the mean
of both times of a call; a family that one of the two does not have is all calls. The parts add up exactly.

It shows how much, not why. To tell noise apart, more than one trace of each is needed.
"""
COMPUTE_Q = "How much of it is real compute?"
COMPUTE_HELP = """
The reports call attention and products of matrices (gemm) *real compute* and all else *overhead*. Norms, copies and
elementwise work of the same model are part of that rest, and over the span also the time in which nothing runs.
"""
PERS: dict[str, Per] = {"per token": "token", "whole traces": "trace", "per sample": "sample", "per pass": "pass"}
OF_WORK, OF_SPAN = "of the work", "of the span"
MOVES = ("fewer calls", "faster calls", "more calls", "slower calls")
ZOOMED = 0.3  # of the larger time: where all moves lie within less, the axis does not begin at 0


@st.fragment
def way(chosen: TraceSelection, comparison: TraceComparison) -> None:
    with card("waterfall", WAY, WAY_HELP) as frame:
        ways = {words: per for words, per in PERS.items() if per in known_ways(comparison)}
        per = ways.get(choice("Time of", list(ways), "per"), "trace") if len(ways) > 1 else "trace"
        steps = waterfall(comparison, per)
        frame.tell(way_words(steps))
        frame.data(lambda: way_rows(steps))
        frame.draw(way_chart(chosen, steps))
        missing = [words for words in PERS if words not in ways]
        frame.leave_out(
            "The axis does not begin at 0." if _range(steps)[0] > 0 else "",
            f"Not available: {listed(missing)} (count missing in a trace)." if missing else "",
        )


def way_words(way: Waterfall) -> str:
    calls_us, mean_us = (sum(getattr(step, name) for step in way.steps) for name in ("by_calls_us", "by_mean_us"))
    each = {"trace": "", "token": " per token", "sample": " per sample", "pass": " per forward pass"}[way.per]
    calls = f"{signed_microseconds(calls_us)} by {'more' if calls_us >= 0 else 'fewer'} calls"
    mean = f"{signed_microseconds(mean_us)} by {'slower' if mean_us >= 0 else 'faster'} calls"
    return f"Work goes from {microseconds(way.control_us)} to {microseconds(way.test_us)}{each}: {calls} and {mean}."


def way_chart(chosen: TraceSelection, way: Waterfall) -> Chart:
    """Lanes from top to bottom: the control, a lane a family with its two moves, the test."""
    colours = palette()
    most = max([way.control_us, way.test_us, *(abs(step.end_us) for step in way.steps)])
    scale, unit = next(((size, unit) for size, unit in ((1e6, "s"), (1e3, "ms")) if most >= size), (1.0, "µs"))
    names = [chosen.name(entry.id) for entry in (chosen.entries[0], chosen.entries[-1])]
    last = len(way.steps) + 1
    bars: list[dict[str, Any]] = []
    for lane, time_us, entry in ((0, way.control_us, chosen.entries[0]), (last, way.test_us, chosen.entries[-1])):
        whole = {"base": 0.0, "size": time_us / scale, "width": 0.7, "pattern": ""}
        bars.append({"lane": lane, "colour": chosen.colour(entry.id, colours), "words": chosen.name(entry.id), **whole})
    changes: list[dict[str, Any]] = []
    for lane, step in enumerate(way.steps, 1):
        moves = ((-0.2, step.start_us, step.by_calls_us, "", ("fewer calls", "more calls")),
                 (0.2, step.middle_us, step.by_mean_us, "/", ("faster calls", "slower calls")))  # fmt: skip
        changes += [
            {
                "lane": lane + offset,
                "base": start / scale,
                "size": change / scale,
                "width": 0.36,
                "colour": colours.text if change > 0 else colours.boundary,
                "pattern": pattern,
                "move": directions[change > 0],
                "words": f"{step.family}, {directions[change > 0]}: {signed_microseconds(change)}",
            }
            for offset, start, change, pattern, directions in moves
            if change
        ]
    ends = [(way.control_us, microseconds(way.control_us))]
    ends += [
        (max(step.start_us, step.middle_us, step.end_us), signed_microseconds(step.change_us)) for step in way.steps
    ]
    ends.append((way.test_us, microseconds(way.test_us)))
    parts = [f"{step.family} {signed_microseconds(step.change_us)}" for step in way.steps]
    families = [step.family if step.families == 1 else f"{step.family} ({step.families})" for step in way.steps]
    low, high = _range(way)
    per = "" if way.per == "trace" else f" per {way.per}"
    told = [f"{time} of {name}" for time, name in zip((ends[0][1], ends[-1][1]), names, strict=True)]
    marks = Marks(kind="bars", rows=bars, x="size", y="lane", is_across=True, hover=lambda row: row["words"])
    changes.sort(key=lambda bar: MOVES.index(bar["move"]))
    return chart(
        marks,
        replace(marks, rows=changes, group="move"),
        x=Axis(title=f"work, {unit}{per}", range=[low / scale, high / scale]),
        y=lanes([wrapped(name) for name in (names[0], *families, names[1])]),
        notes=[
            Note(end / scale, lane, text, {"xanchor": "left", "xshift": 4}) for lane, (end, text) in enumerate(ends)
        ],
        height=round(114 + 30 * (last + 1)),
        top=42,
        alt=f"From {' to '.join(told)}: {', '.join(parts)}.",
    )


def _range(way: Waterfall) -> tuple[float, float]:
    """From 0, where that leaves the moves to be seen, with room for words at the right."""
    places = [way.control_us, way.test_us, *(end for step in way.steps for end in (step.middle_us, step.end_us))]
    low, high = min(places), max(places)
    first = min(0.0, low) if high - low >= ZOOMED * high or high <= 0 else low - (high - low) / 2
    return first, high + 0.224 * (high - first)


def way_rows(way: Waterfall) -> list[dict[str, object]]:
    """A row a step, that adds up."""
    return [
        {
            "family": step.family,
            "families": step.families,
            "from (µs)": step.start_us,
            "by calls (µs)": step.by_calls_us,
            "by time of each (µs)": step.by_mean_us,
            "to (µs)": step.end_us,
        }
        for step in way.steps
    ]


# --- real compute -----------------------------------------------------------------------------------------------------


@st.fragment
def compute(chosen: TraceSelection, comparison: TraceComparison) -> None:
    with card("compute", COMPUTE_Q, COMPUTE_HELP) as frame:
        traces = [comparison.control] if is_alone(comparison) else [comparison.control, comparison.test]
        drawable = [trace for trace in traces if trace.is_whole]
        if not drawable:
            frame.tell("A report names some operations only: what they are a part of is not known.")
            return
        can_span = all(_fits(trace) for trace in drawable)
        of = choice("Part", (OF_WORK, OF_SPAN), "compute") if can_span else OF_WORK
        parts = {chosen.name(trace.entry.id): _parts(trace, of_span=of == OF_SPAN) for trace in drawable}
        frame.tell(compute_words(comparison, of_span=of == OF_SPAN))
        frame.data(lambda: [{"trace": name, **shares} for name, shares in parts.items()])
        frame.draw(compute_chart(parts, of))
        if len(drawable) < len(traces):
            frame.leave_out("Not drawn: the trace that a report states, since it names some operations only.")


def _fits(trace: StoredTrace) -> bool:
    """Work of several devices or threads may be more than the span; then it is no part of it."""
    span = trace.known("span_us")
    return span is not None and 0 < trace.totals(*COMPUTE).total_us <= span


def _parts(trace: StoredTrace, *, of_span: bool) -> dict[str, float]:
    """Shares by name, which add up to one."""
    times_us = {family: trace.totals(family).total_us for family in COMPUTE}
    work = trace.totals(*dict.fromkeys(str(row["family"]) for row in trace.work)).total_us
    whole = (trace.known("span_us") or 0.0) if of_span else work
    rest = "the rest of the span" if of_span else "all other work"
    if whole <= 0:
        return {**dict.fromkeys(COMPUTE, 0.0), rest: 0.0}
    shares = {family: time_us / whole for family, time_us in times_us.items()}
    return {**shares, rest: max(0.0, 1 - sum(shares.values()))}


def compute_chart(parts: dict[str, dict[str, float]], of: str) -> Chart:
    colours = palette()
    looks = (("boundary", "/"), ("boundary", ""), ("grid", ""))
    layers = [
        Marks(
            kind="bars",
            rows=[
                {"lane": lane, "share": shares[name], "text": percent(shares[name]) if shares[name] >= 0.1 else ""}
                for lane, shares in enumerate(parts.values())
            ],
            x="share",
            y="lane",
            name=name,
            is_across=True,
            is_hatched=False,
            colour=getattr(colours, colour),
            pattern=pattern,
            outline=colours.background,
            text_at="inside",
            hover=lambda row, name=name: f"{name}: {percent(row['share'])}",  # type: ignore[misc]
            more={
                "insidetextanchor": "middle",
                "textangle": 0,
                "textfont": {"color": ink_on(getattr(colours, colour))},
            },
        )
        for name, (colour, pattern) in zip(next(iter(parts.values())), looks, strict=True)
    ]
    told = [f"{name}: {', '.join(f'{part} {percent(share)}' for part, share in shares.items())}"
            for name, shares in parts.items()]  # fmt: skip
    return chart(
        *layers,
        x=Axis(title=of, is_share=True, range=[0, 1]),
        y=lanes(list(map(wrapped, parts))),
        bars="stack",
        height=120 + 46 * len(parts),
        top=40,
        more={"uniformtext": {"minsize": 11, "mode": "hide"}},
        alt=f"Parts {of}. {'. '.join(told)}.",
    )
