"""Is it faster, and does it pass? Pass rate against time a sample, the compared runs and, faintly, all of the store."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from engine.comparing.figures import Beside, RunFigures, all_figures, run_figures
from engine.store.store import Store
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn, listed, mark, percent, seconds, times, within
from pages._shared.compare.state import Chosen, short_name
from pages._shared.theme import palette

QUESTION = "Is it faster, and does it pass?"
HELP = """
Up and to the left is better. Time is wall time over samples; passed is the reports' rule (no issue named, junk may
pass), with Wilson's interval, 95 %. Filled: measured here. Open diamonds: a report states it. Open squares: imported.

It cannot say whether two runs had the same machine, batch and molecules: a reported point stands where its report puts
it. A run that passes may still be full of junk or cut numbers.
"""
ORIGIN_SYMBOLS = {"measured": "circle", "imported": "square-open", "reported": "diamond-open"}
FASTER, SLOWER = "Faster", "Slower"
LESS_OFTEN, MORE_OFTEN = "passes less often", "passes more often"
HEIGHT = 330
TICKS = [digit * 10.0**power for power in range(-5, 5) for digit in (1, 2, 5)]
BESIDE_POINT = ("middle right", "middle left", "bottom right", "bottom left", "top right", "top left")
"""Where letters stand in turn, so that those of neighbours do not cover each other."""


@st.fragment
def show(store: Store, chosen: Chosen, beside: Sequence[Beside]) -> None:
    """Draw the chart."""
    with card("passing", QUESTION, HELP) as here:
        runs = [run_figures(entry) for entry in chosen.runs]
        drawable = [run for run in runs if _is_known(run)]
        everything = st.toggle(
            "All runs of the store",
            key="all_runs",
            bind="query-params",
            help="Faint points: every run whose time and pass rate are known",
        )
        store_runs = all_figures(store) if everything else []
        others = [run for run in store_runs if _is_known(run) and run.run_id not in chosen.ids]
        here.tell(answer(chosen, runs, beside))
        here.data(lambda: [row(chosen, run) for run in [*runs, *others]])
        if drawable or others:
            here.draw(figure(chosen, drawable, others), alt=alt(chosen, drawable))
        here.leave_out(*(_left_out(chosen, run) for run in runs))


def answer(chosen: Chosen, runs: Sequence[RunFigures], beside: Sequence[Beside]) -> str:
    """Tests in groups of the same judgement; alone, the run's two figures."""
    control = runs[0]
    own = f"{chosen.letter(control.run_id)} {_figures(control)}."
    if not beside:
        return own
    groups: dict[str, list[str]] = {}
    for one in beside:
        letter = chosen.letter(one.figures.run_id)
        groups.setdefault(judgement(one, control), []).append(f"{letter} ({_short(one)})")
    said = [f"{what}: {listed(letters)}" for what, letters in groups.items()]
    return f"{own} {'. '.join(said)}."


def judgement(one: Beside, control: RunFigures) -> str:
    """A test in a few words. What is within noise is called the same, and what has no interval is no finding."""
    faster, passing = _speed(one), _passing(one, control)
    if faster and passing:
        is_mixed = (faster, passing) in ((FASTER, LESS_OFTEN), (SLOWER, MORE_OFTEN))
        return f"{faster}, {'but' if is_mixed else 'and'} {passing}"
    return faster or (f"Time not known, {passing}" if passing else "Neither time nor pass rate can be compared")


def _speed(one: Beside) -> str:
    ratio = one.ratio("wall_s_a_sample").ratio
    if ratio is None:
        return ""
    found = mark(one, "wall_s_a_sample")
    if found in ("noise", "same"):
        return "Time within noise"
    if found == "doubtful":
        return "Time too near to tell from one run each"
    if found == "unknown":
        how_much = "Less" if ratio < 1 else "More" if ratio > 1 else "As much"
        return f"{how_much} time, without an interval"
    return FASTER if ratio < 1 else SLOWER


def _passing(one: Beside, control: RunFigures) -> str:
    ratio, test = one.ratio("pass_rate"), one.figures
    if control.pass_rate is None or test.pass_rate is None:
        return ""
    if ratio.within_noise is None and _overlap(control, test):
        return "pass rates are too near to tell"
    if ratio.within_noise:
        return "passes as often within noise"
    return LESS_OFTEN if test.pass_rate < control.pass_rate else MORE_OFTEN


def _overlap(one: RunFigures, other: RunFigures) -> bool:
    """Of Wilson's intervals, where runs have no samples to draw from."""
    bounds = [
        (run.pass_rate_low or 0.0, 1.0 if run.pass_rate_high is None else run.pass_rate_high) for run in (one, other)
    ]
    return bounds[0][0] <= bounds[1][1] and bounds[1][0] <= bounds[0][1]


def _short(one: Beside) -> str:
    run = one.figures
    passed = "pass rate unknown" if run.pass_rate is None else f"{_rate(run)} passed"
    return f"{times(one.ratio('wall_s_a_sample').ratio)} the time, {passed}"


def _figures(run: RunFigures) -> str:
    passed = "its pass rate is unknown" if run.pass_rate is None else f"passes {_rate(run)}"
    time = "an unknown time" if run.wall_s_a_sample is None else seconds(run.wall_s_a_sample)
    return f"takes {time} a sample, {passed}"


def _rate(run: RunFigures) -> str:
    if run.pass_rate_low is None or run.pass_rate_high is None:
        return percent(run.pass_rate)
    return f"{percent(run.pass_rate)} [{within(run.pass_rate_low, run.pass_rate_high)}]"


def _is_known(run: RunFigures) -> bool:
    return bool(run.wall_s_a_sample) and run.pass_rate is not None


def figure(chosen: Chosen, runs: Sequence[RunFigures], others: Sequence[RunFigures]) -> go.Figure:
    colours = palette()
    found = go.Figure()
    if others:
        found.add_trace(_faint(others))
    for run in runs:
        found.add_trace(_point(chosen, run))
    found.update_xaxes(
        type="log", title="wall time a sample (s)", tickvals=TICKS, ticktext=[f"{one:g}" for one in TICKS]
    )
    found.update_yaxes(title="passed", tickformat=".0%", range=[-0.03, 1.09], tickvals=[0, 0.25, 0.5, 0.75, 1])
    found.update_layout(height=HEIGHT, margin={"t": 10}, showlegend=False)
    _widen(found, [run.wall_s_a_sample or 1.0 for run in [*runs, *others]])
    found.update_traces(hoverlabel={"bordercolor": colours.grid})
    return found


def _widen(found: go.Figure, values: Sequence[float]) -> None:
    """Room for letters beside the points, and for a scale where there is one point only."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.12 * (high - low), 0.25)
    found.update_xaxes(range=[low - room, high + room])


def _point(chosen: Chosen, run: RunFigures) -> go.Scatter:
    colour = chosen.colour(run.run_id, palette())
    value, low, high = run.pass_rate or 0.0, run.pass_rate_low or 0.0, run.pass_rate_high or 0.0
    return go.Scatter(
        x=[run.wall_s_a_sample],
        y=[value],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [high - value],
            "arrayminus": [value - low],
            "color": colour,
            "thickness": 1.5,
        },
        mode="markers+text",
        marker={"size": 12, "color": colour, "symbol": ORIGIN_SYMBOLS.get(run.origin, "circle")}
        | {"line": {"width": 2, "color": colour}},
        text=[chosen.letter(run.run_id)],
        textposition=BESIDE_POINT[chosen.ids.index(run.run_id) % len(BESIDE_POINT)],
        textfont={"size": 14},
        customdata=[[drawn(chosen.name(run.run_id)), run.origin, _rate(run)]],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{x:.3g} s a sample, "
        "passed %{customdata[2]}<extra></extra>",
    )


def _faint(runs: Sequence[RunFigures]) -> go.Scatter:
    return go.Scatter(
        x=[run.wall_s_a_sample for run in runs],
        y=[run.pass_rate for run in runs],
        mode="markers",
        marker={
            "size": 7,
            "color": palette().muted,
            "opacity": 0.45,
            "symbol": [ORIGIN_SYMBOLS.get(run.origin, "circle") for run in runs],
        },
        customdata=[[drawn(run.name), run.origin] for run in runs],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}<br>%{x:.3g} s a sample, passed %{y:.1%}<extra></extra>",
    )


def alt(chosen: Chosen, runs: Sequence[RunFigures]) -> str:
    lines = [f"{chosen.name(run.run_id)}: {seconds(run.wall_s_a_sample)} a sample, passed {_rate(run)}" for run in runs]
    return f"Pass rate against time a sample. {'. '.join(lines)}."


def row(chosen: Chosen, run: RunFigures) -> dict[str, object]:
    return {
        "run": chosen.name(run.run_id) if run.run_id in chosen.ids else short_name(run),
        "run_id": run.run_id,
        "origin": run.origin,
        "samples": run.samples,
        "wall time a sample (s)": run.wall_s_a_sample,
        "passed": run.passes,
        "pass rate": run.pass_rate,
        "low": run.pass_rate_low,
        "high": run.pass_rate_high,
    }


def _left_out(chosen: Chosen, run: RunFigures) -> str:
    missing = [
        what
        for what, value in (("time", run.wall_s_a_sample), ("pass rate", run.pass_rate))
        if not value and not (what == "pass rate" and value == 0)
    ]
    return f"Not drawn: {chosen.name(run.run_id)}, {listed(missing)} unknown." if missing else ""
