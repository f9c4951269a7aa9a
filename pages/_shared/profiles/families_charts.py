"""Two charts over families: the way from the control's time to the test's, and real compute against the rest."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.profile.compare import COMPUTE, Comparison, Trace
from engine.profile.figures import per_cent, signed_time, time_of
from engine.profile.waterfall import Per, Step, Waterfall, known_ways, waterfall
from engine.profile.words import compute_words, is_alone, listed
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import on_axis
from pages._shared.profiles.state import Chosen
from pages._shared.theme import palette

WAY = "Where does the difference come from?"
WAY_HELP = """
From the control's time to the test's, family by family, the largest difference first. Each family moves it twice: by
more or fewer calls (plain bar), and by slower or faster ones (hatched bar). What more calls cost is taken at the mean
of both times of a call; a family that one of the two does not have is all calls. The parts add up exactly.

It says how much, not why, and not what is noise: that takes more than one trace of each.
"""
COMPUTE_Q = "How much of it is real compute?"
COMPUTE_HELP = """
The reports call attention and products of matrices (gemm) *real compute* and all else *overhead*. Norms, copies and
elementwise work of the same model are part of that rest, and over the span also the time in which nothing runs.
"""
PERS: dict[str, Per] = {"whole traces": "trace", "a token": "token", "a sample": "sample", "a pass": "pass"}
OF_WORK, OF_SPAN = "of the work", "of the span"
LANE_HEIGHT, BAR_HEIGHT = 30, 46
ZOOMED = 0.3  # of the larger time: where all moves lie within less, the axis does not begin at nought
ROOM = 0.14


@st.fragment
def way(chosen: Chosen, found: Comparison) -> None:
    """Draw the waterfall."""
    with card("waterfall", WAY, WAY_HELP) as here:
        ways = {words: per for words, per in PERS.items() if per in known_ways(found)}
        per = PERS["whole traces"]
        if len(ways) > 1:
            words = st.segmented_control(
                "Time of",
                list(ways),
                default=next(iter(ways)),
                required=True,
                key="per",
                bind="query-params",
                label_visibility="collapsed",
            )
            per = ways.get(words or "", per)
        steps = waterfall(found, per)
        here.tell(way_words(steps))
        here.data(lambda: way_rows(steps))
        here.draw(way_figure(chosen, steps), alt=way_alt(chosen, steps))
        zoomed = "The axis does not begin at 0." if _range(steps, 1.0)[0] > 0 else ""
        here.leave_out(zoomed, _missing(ways))


def _missing(ways: dict[str, Per]) -> str:
    gone = [words for words in PERS if words not in ways]
    return f"Not offered: {listed(gone)}, since not both traces know how many they cover." if gone else ""


def way_words(found: Waterfall) -> str:
    calls, mean = (sum(getattr(step, name) for step in found.steps) for name in ("by_calls_us", "by_mean_us"))
    each = {"trace": "", "token": " a token", "sample": " a sample", "pass": " a forward pass"}[found.per]
    way_there = f"From {time_of(found.control_us)} to {time_of(found.test_us)}{each}"
    return (
        f"{way_there}: {_more(calls, 'more calls', 'fewer calls')} and {_more(mean, 'slower calls', 'faster calls')}."
    )


def _more(change_us: float, more: str, less: str) -> str:
    return f"{signed_time(change_us)} by {more if change_us >= 0 else less}"


def way_figure(chosen: Chosen, way: Waterfall) -> go.Figure:
    """Lanes from top to bottom: the control, a lane a family with its two moves, the test."""
    colours = palette()
    scale, unit = _scale(way)
    found = go.Figure()
    last = len(way.steps) + 1
    for lane, time_us, entry in ((0, way.control_us, chosen.traces[0]), (last, way.test_us, chosen.traces[-1])):
        found.add_trace(_bar(lane, 0.7, 0.0, time_us / scale, chosen.colour(entry, colours), "", chosen.name(entry)))
    for lane, step in enumerate(way.steps, 1):
        for at, start, change, shape, what in (
            (lane - 0.2, step.start_us, step.by_calls_us, "", "by calls"),
            (lane + 0.2, step.middle_us, step.by_mean_us, "/", "by time of each"),
        ):
            colour = colours.text if change > 0 else colours.accent
            words = f"{step.family}, {what}: {signed_time(change)}"
            found.add_trace(_bar(at, 0.36, start / scale, change / scale, colour, shape, words))
    _labels(found, way, scale)
    low, high = _range(way, scale)
    found.update_xaxes(title=f"work, {unit}{'' if way.per == 'trace' else f' a {way.per}'}", range=[low, high])
    first_name, last_name = (on_axis(chosen.name(entry)) for entry in (chosen.traces[0], chosen.traces[-1]))
    found.update_yaxes(
        tickvals=list(range(last + 1)),
        ticktext=[first_name, *map(_named, way.steps), last_name],
        range=[last + 0.6, -0.6],
        showgrid=False,
        zeroline=False,
    )
    found.update_layout(
        height=round(80 + LANE_HEIGHT * (last + 1)), margin={"t": 8, "r": 8}, showlegend=False, barmode="overlay"
    )
    return found


def _named(step: Step) -> str:
    return on_axis(step.family if step.families == 1 else f"{step.family} ({step.families})")


def _bar(lane: float, width: float, start: float, size: float, colour: str, shape: str, words: str) -> go.Bar:
    return go.Bar(
        orientation="h",
        y=[lane],
        base=[start],
        x=[size],
        width=width,
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1},
            "pattern": {"shape": shape, "fillmode": "replace", "fgcolor": colour, "size": 5},
        },
        hovertemplate=f"{on_axis(words)}<extra></extra>",
    )


def _labels(found: go.Figure, way: Waterfall, scale: float) -> None:
    ends = [(0, way.control_us, time_of(way.control_us))]
    ends += [
        (lane, max(step.start_us, step.middle_us, step.end_us), signed_time(step.change_us))
        for lane, step in enumerate(way.steps, 1)
    ]
    ends.append((len(way.steps) + 1, way.test_us, time_of(way.test_us)))
    for lane, at, text in ends:
        found.add_annotation(x=at / scale, y=lane, text=text, showarrow=False, xanchor="left", xshift=4, font_size=12)


def _scale(way: Waterfall) -> tuple[float, str]:
    most = max([way.control_us, way.test_us, *(abs(step.end_us) for step in way.steps)])
    return next(((size, unit) for size, unit in ((1e6, "s"), (1e3, "ms")) if most >= size), (1.0, "µs"))


def _range(way: Waterfall, scale: float) -> tuple[float, float]:
    """From nought, where that leaves the moves to be seen."""
    places = [way.control_us, way.test_us, *(one for step in way.steps for one in (step.middle_us, step.end_us))]
    low, high = min(places), max(places)
    first = 0.0 if high - low >= ZOOMED * high or high <= 0 else low - (high - low) / 2
    first = min(first, low)
    return first / scale, (high + ROOM * 1.6 * (high - first)) / scale


def way_alt(chosen: Chosen, way: Waterfall) -> str:
    parts = [f"{step.family} {signed_time(step.change_us)}" for step in way.steps]
    names = [chosen.name(entry) for entry in (chosen.traces[0], chosen.traces[-1])]
    return f"From {time_of(way.control_us)} of {names[0]} to {time_of(way.test_us)} of {names[1]}: {', '.join(parts)}."


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
def compute(chosen: Chosen, found: Comparison) -> None:
    """Draw attention and gemm against the rest."""
    with card("compute", COMPUTE_Q, COMPUTE_HELP) as here:
        traces = [found.control] if is_alone(found) else [found.control, found.test]
        drawable = [trace for trace in traces if trace.is_whole]
        if not drawable:
            here.tell("A report names some operations only: what they are a part of is not known.")
            return
        of_span = False
        if all(_fits(trace) for trace in drawable):
            ways = (OF_WORK, OF_SPAN)
            words = st.segmented_control(
                "Part",
                ways,
                default=OF_WORK,
                required=True,
                key="compute",
                bind="query-params",
                label_visibility="collapsed",
            )
            of_span = words == OF_SPAN
        here.tell(compute_words(found, of_span=of_span))
        here.data(lambda: [{"trace": _name(chosen, one), **_parts(one, of_span=of_span)} for one in drawable])
        here.draw(compute_figure(chosen, drawable, of_span=of_span), alt=compute_alt(chosen, drawable, of_span=of_span))
        if len(drawable) < len(traces):
            here.leave_out("Not drawn: the trace that a report states, since it names some operations only.")


def _fits(trace: Trace) -> bool:
    """Work of several devices or threads may be more than the span; then it is no part of it."""
    span = trace.known("span_us")
    return span is not None and 0 < trace.totals(*COMPUTE).total_us <= span


def _name(chosen: Chosen, trace: Trace) -> str:
    return chosen.name(trace.entry)


def _parts(trace: Trace, *, of_span: bool) -> dict[str, float]:
    """Shares by name, which add up to one."""
    times_us = {family: trace.totals(family).total_us for family in COMPUTE}
    work = trace.totals(*dict.fromkeys(str(row["family"]) for row in trace.work)).total_us
    whole = (trace.known("span_us") or 0.0) if of_span else work
    rest = "the rest of the span" if of_span else "all other work"
    if whole <= 0:
        return {**dict.fromkeys(COMPUTE, 0.0), rest: 0.0}
    found = {family: time_us / whole for family, time_us in times_us.items()}
    return {**found, rest: max(0.0, 1 - sum(found.values()))}


def compute_figure(chosen: Chosen, traces: Sequence[Trace], *, of_span: bool) -> go.Figure:
    colours = palette()
    told = [_parts(trace, of_span=of_span) for trace in traces]
    found = go.Figure()
    looks = ((colours.accent, "/"), (colours.accent, ""), (colours.grid, ""))
    for name, (colour, shape) in zip(told[0], looks, strict=True):
        found.add_trace(
            go.Bar(
                name=name,
                orientation="h",
                y=list(range(len(told))),
                x=[one[name] for one in told],
                text=[per_cent(one[name]) if one[name] >= 0.1 else "" for one in told],
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                textfont={"color": colours.text if colour == colours.grid else colours.background},
                marker={
                    "color": colour,
                    "line": {"color": colours.background, "width": 1},
                    "pattern": {"shape": shape, "fillmode": "overlay", "fgcolor": colours.background, "size": 6},
                },
                hovertemplate=f"{name}: %{{x:.1%}}<extra></extra>",
            )
        )
    found.update_yaxes(
        tickvals=list(range(len(told))),
        ticktext=[on_axis(_name(chosen, trace)) for trace in traces],
        range=[len(told) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
    )
    found.update_xaxes(tickformat=".0%", range=[0, 1], title=OF_SPAN if of_span else OF_WORK)
    found.update_layout(
        barmode="stack",
        uniformtext={"minsize": 11, "mode": "hide"},
        height=120 + BAR_HEIGHT * len(told),
        margin={"t": 40, "r": 16},
        legend={"traceorder": "normal", "font": {"size": 12}},
    )
    return found


def compute_alt(chosen: Chosen, traces: Sequence[Trace], *, of_span: bool) -> str:
    said = [
        f"{_name(chosen, one)}: "
        + ", ".join(f"{name} {per_cent(part)}" for name, part in _parts(one, of_span=of_span).items())
        for one in traces
    ]
    return f"Parts {OF_SPAN if of_span else OF_WORK}. {'. '.join(said)}."
