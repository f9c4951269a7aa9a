"""Is it faster, and is it usable? Usable rate against time per sample; passed, and other runs, on request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.comparing.figures import ComparedRun, RunFigures, all_figures
from engine.figures.statistics import Interval
from engine.figures.words import listed, percent, seconds, with_interval
from engine.store.store import Store
from pages._compare.charts_data import compared_runs, mark
from pages._compare.runs import RunSelection
from pages._compare.table_words import speed
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Row, chart
from pages._shared.theme import palette
from pages._shared.words import run_name

QUESTION = "Is it faster, and is it usable?"
HELP = """
Up and to the left is better. Time is wall time over samples. Usable is of the judged answers: a clean text, and the
molecule right in 3D. *Passed too* adds the reports' rule, by which junk and cut numbers pass: a small point of the same
colour. Intervals are Wilson's, 95 %. Filled: measured here. Open diamonds: a report states it. Open squares: imported.

It cannot say whether two runs had the same machine, batch and molecules: a reported point is drawn as its report states
it, and a report states no usable answers.
"""
USABLE, PASSED = "usable_rate", "pass_rate"
VERBS = {USABLE: "usable", PASSED: "passed"}
ORIGIN_SYMBOLS = {"measured": "circle", "imported": "square-open", "reported": "diamond-open"}
FASTER, SLOWER = "Faster", "Slower"
PROFILED = "Time not compared: a profiler ran beside it"
LESS_OFTEN, MORE_OFTEN = "usable less often", "usable more often"
TICKS = [digit * 10.0**power for power in range(-5, 5) for digit in (1, 2, 5)]
BESIDE_POINT = ("middle right", "middle left", "bottom right", "bottom left", "top right", "top left")
"""Positions of letters in turn, so that neighbours do not cover each other."""


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    with card("passing", QUESTION, HELP) as panel:
        runs = [RunFigures(entry) for entry in chosen.entries]
        with st.container(horizontal=True):
            passed = st.toggle(
                "Passed too", key="passed_too", bind="query-params", help="Small points: passed, by the reports' rule"
            )
            everything = st.toggle(
                "All runs of the store",
                key="all_runs",
                bind="query-params",
                help="Faint points: every run whose time and rate are known",
            )
        figures = (USABLE, PASSED) if passed else (USABLE,)
        store_runs = all_figures(store) if everything else []
        others = [run for run in store_runs if not (run.is_profiled or run.run_id in chosen.ids)]
        panel.tell(answer(chosen, runs, compared_runs(store, chosen), figures))
        panel.data(lambda: [row(chosen, run) for run in [*runs, *others]])
        if any(_known(run, figures) for run in [*runs, *others]):
            panel.draw(pass_chart(chosen, runs, others, figures))
        panel.leave_out(*(left_out(chosen, run, figures) for run in runs), chosen.sizes())


def answer(
    chosen: RunSelection,
    runs: Sequence[RunFigures],
    compared: Sequence[ComparedRun],
    figures: Sequence[str] = (USABLE,),
) -> str:
    """Tests in groups of the same judgement; a control alone with its figures."""
    control = runs[0]
    time = "an unknown time" if control.wall_s_a_sample is None else seconds(control.wall_s_a_sample)
    sentences = [f"{chosen.letter(control.run_id)} takes {time} per sample, {_rates(control, figures)}."]
    groups: dict[str, list[str]] = {}
    for test in compared:
        ratio = test.ratio("wall_s_a_sample").ratio
        words = ", ".join(filter(None, ["" if ratio is None else speed(ratio), _rates(test.figures, figures)]))
        groups.setdefault(judgement(test, control), []).append(f"{chosen.letter(test.figures.run_id)} {words}")
    return " ".join([*sentences, *(f"{words}: {'; '.join(tests)}." for words, tests in groups.items())])


def judgement(test: ComparedRun, control: RunFigures) -> str:
    faster, usable = _speed(test), _usable(test, control)
    if faster and usable:
        is_mixed = (faster, usable) in ((FASTER, LESS_OFTEN), (SLOWER, MORE_OFTEN))
        return f"{faster}, {'but' if is_mixed else 'and'} {usable}"
    return faster or (f"Time not known, {usable}" if usable else "Neither time nor usable rate can be compared")


def _speed(test: ComparedRun) -> str:
    ratio = test.ratio("wall_s_a_sample").ratio
    if ratio is None:
        return PROFILED if "profiler" in test.ratio("wall_s_a_sample").reason else ""
    time_mark = mark(test, "wall_s_a_sample")
    if time_mark in ("noise", "same"):
        return "Time within noise"
    if time_mark == "doubtful":
        return "Time too close to call with one run each"
    if time_mark == "unknown":
        how_much = "Less" if ratio < 1 else "More" if ratio > 1 else "As much"
        return f"{how_much} time, without an interval"
    return FASTER if ratio < 1 else SLOWER


def _usable(test: ComparedRun, control: RunFigures) -> str:
    ratio, of_control, of_test = test.ratio(USABLE), control.rate(USABLE), test.figures.rate(USABLE)
    if of_control is None or of_test is None:
        return ""
    if ratio.within_noise is None and _overlap(of_control, of_test):
        return "usable rates are too close to call"
    if ratio.within_noise:
        return "same usable rate within noise"
    return LESS_OFTEN if of_test.value < of_control.value else MORE_OFTEN


def _overlap(one: Interval, other: Interval) -> bool:
    """Of Wilson's intervals, where runs have no samples to draw from."""
    if one.ends is None or other.ends is None:
        return True
    return one.ends[0] <= other.ends[1] and other.ends[0] <= one.ends[1]


def _rates(run: RunFigures, figures: Sequence[str]) -> str:
    words = [
        f"{VERBS[figure]} {with_interval(rate, percent)}" if (rate := run.rate(figure)) else _unknown(run, figure)
        for figure in figures
    ]
    return listed(words)


def _unknown(run: RunFigures, figure: str) -> str:
    return "not judged" if figure == USABLE and run.has_samples else f"{VERBS[figure]} unknown"


def _known(run: RunFigures, figures: Sequence[str]) -> list[str]:
    """The rates that can be drawn."""
    return [figure for figure in figures if run.wall_s_a_sample and run.rate(figure) is not None]


def pass_chart(
    chosen: RunSelection,
    runs: Sequence[RunFigures],
    others: Sequence[RunFigures],
    figures: Sequence[str] = (USABLE,),
) -> Chart:
    colours = palette()
    points = [
        _point(run, figure)
        | {
            "run": chosen.name(run.run_id),
            "colour": chosen.colour(run.run_id, colours),
            "text": chosen.letter(run.run_id),
            "text_at": BESIDE_POINT[chosen.ids.index(run.run_id) % len(BESIDE_POINT)],
        }
        for run in runs
        for figure in _known(run, figures)
    ]
    faint = Marks(
        kind="points",
        rows=[_point(run, figure) | {"run": run.name} for run in others for figure in _known(run, figures)],
        size=7,
        opacity=0.45,
        colour=colours.muted,
        hover=_hover,
    )
    compared = [
        Marks(kind="points", rows=[point], size=12 if point["figure"] == USABLE else 7, outline=point["colour"],
              outline_width=2, interval="y", hover=_hover, more={"textfont": {"size": 14}})
        for point in points
    ]  # fmt: skip
    descriptions = [f"{point['run']}: {seconds(point['x'])} per sample, {point['rate']}" for point in points]
    times = [run.wall_s_a_sample for run in [*runs, *others] if _known(run, figures)]
    low, high = (math.log10(end(times, default=1.0)) for end in (min, max))
    room = max(0.12 * (high - low), 0.25)  # for letters beside the points, and for a scale where there is one point
    return chart(
        faint,
        *compared,
        x=Axis(
            title="wall time per sample (s)",
            is_log=True,
            range=[low - room, high + room],
            ticks={tick: f"{tick:g}" for tick in TICKS},
        ),
        y=Axis(
            title="usable; small points: passed" if PASSED in figures else "usable, of judged answers",
            is_share=True,
            range=[-0.03, 1.09],
            more={"tickvals": [0, 0.25, 0.5, 0.75, 1]},
        ),
        height=330,
        top=10,
        alt=f"Usable rate against time per sample. {'. '.join(descriptions)}.",
    )


def _point(run: RunFigures, figure: str) -> dict[str, Any]:
    rate = run.rate(figure) or Interval(0.0)
    rates = (("passed", run.pass_rate), ("decodes", run.decodes_rate), ("clean", run.clean_rate))
    return {
        "x": run.wall_s_a_sample,
        "y": rate.value,
        "low": rate.value if rate.low is None else rate.low,
        "high": rate.value if rate.high is None else rate.high,
        "figure": figure,
        "origin": run.origin,
        "symbol": ORIGIN_SYMBOLS.get(run.origin, "circle"),
        "rate": f"{VERBS[figure]} {with_interval(rate, percent)}",
        "others": tuple(f"{word} {percent(other)}" for word, other in rates if other is not None),
    }


def _hover(row: Row) -> tuple[str, ...]:
    return row["run"], row["origin"], f"{seconds(row['x'])} per sample, {row['rate']}", *row["others"]


def row(chosen: RunSelection, run: RunFigures) -> dict[str, object]:
    usable = run.rate(USABLE) or Interval(math.nan)
    return {
        "run": chosen.name(run.run_id) if run.run_id in chosen.ids else run_name(run),
        "run_id": run.run_id,
        "origin": run.origin,
        "samples": run.samples,
        "wall time per sample (s)": run.wall_s_a_sample,
        "judged": run.judged,
        "usable": run.usable,
        "usable rate": run.usable_rate,
        "usable low": usable.low,
        "usable high": usable.high,
        "passed": run.passes,
        "pass rate": run.pass_rate,
        "low": run.pass_rate_low,
        "high": run.pass_rate_high,
        "decodes rate": run.decodes_rate,
        "clean rate": run.clean_rate,
    }


def left_out(chosen: RunSelection, run: RunFigures, figures: Sequence[str] = (USABLE,)) -> str:
    """What of a run is not drawn, and why."""
    gaps = [*([] if run.wall_s_a_sample else ["time unknown"]), *(_unknown(run, f) for f in figures if not run.rate(f))]
    more = " “Passed too” shows its pass rate." if gaps and PASSED not in figures and _known(run, [PASSED]) else ""
    return f"Not drawn: {chosen.name(run.run_id)}, {listed(gaps)}.{more}" if gaps else ""
