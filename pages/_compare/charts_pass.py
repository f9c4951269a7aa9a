"""Is it faster, and does it pass? Pass rate against time per sample; other runs of the store are faint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.comparing.figures import ComparedRun, RunFigures, all_figures
from engine.figures.words import listed, percent, seconds
from engine.store.store import Store
from pages._compare.charts_data import compared_runs, mark, within
from pages._compare.runs import RunSelection
from pages._compare.table_words import speed
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Row, chart
from pages._shared.theme import palette
from pages._shared.words import run_name

QUESTION = "Is it faster, and does it pass?"
HELP = """
Up and to the left is better. Time is wall time over samples; passed is the reports' rule (no issue named, junk may
pass), with Wilson's 95 % interval. Filled: measured here. Open diamonds: a report states it. Open squares: imported.

It cannot say whether two runs had the same machine, batch and molecules: a reported point is drawn as its report states
it. A run that passes may still be full of junk or cut numbers: hover over a point for the shares that decode, are clean
and are usable.
"""
ORIGIN_SYMBOLS = {"measured": "circle", "imported": "square-open", "reported": "diamond-open"}
FASTER, SLOWER = "Faster", "Slower"
PROFILED = "Time not compared: a profiler ran beside it"
LESS_OFTEN, MORE_OFTEN = "passes less often", "passes more often"
TICKS = [digit * 10.0**power for power in range(-5, 5) for digit in (1, 2, 5)]
BESIDE_POINT = ("middle right", "middle left", "bottom right", "bottom left", "top right", "top left")
"""Positions of letters in turn, so that neighbours do not cover each other."""


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    with card("passing", QUESTION, HELP) as panel:
        runs = [RunFigures(entry) for entry in chosen.entries]
        drawable = [run for run in runs if _is_known(run)]
        everything = st.toggle(
            "All runs of the store",
            key="all_runs",
            bind="query-params",
            help="Faint points: every run whose time and pass rate are known",
        )
        store_runs = all_figures(store) if everything else []
        others = [run for run in store_runs if _is_known(run) and not (run.is_profiled or run.run_id in chosen.ids)]
        panel.tell(answer(chosen, runs, compared_runs(store, chosen)))
        panel.data(lambda: [row(chosen, run) for run in [*runs, *others]])
        if drawable or others:
            panel.draw(pass_chart(chosen, drawable, others))
        panel.leave_out(*(left_out(chosen, run) for run in runs), chosen.sizes())


def answer(chosen: RunSelection, runs: Sequence[RunFigures], compared: Sequence[ComparedRun]) -> str:
    """Tests in groups of the same judgement; a control alone with its two figures."""
    control = runs[0]
    control_figures = f"{chosen.letter(control.run_id)} {_figures(control)}."
    if not compared:
        return control_figures
    groups: dict[str, list[str]] = {}
    for test in compared:
        letter = chosen.letter(test.figures.run_id)
        groups.setdefault(judgement(test, control), []).append(f"{letter} {_short(test)}")
    sentences = [f"{words}: {'; '.join(tests)}." for words, tests in groups.items()]
    return " ".join([control_figures, *sentences])


def judgement(test: ComparedRun, control: RunFigures) -> str:
    faster, passing = _speed(test), _passing(test, control)
    if faster and passing:
        is_mixed = (faster, passing) in ((FASTER, LESS_OFTEN), (SLOWER, MORE_OFTEN))
        return f"{faster}, {'but' if is_mixed else 'and'} {passing}"
    return faster or (f"Time not known, {passing}" if passing else "Neither time nor pass rate can be compared")


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


def _passing(test: ComparedRun, control: RunFigures) -> str:
    ratio, run = test.ratio("pass_rate"), test.figures
    if control.pass_rate is None or run.pass_rate is None:
        return ""
    if ratio.within_noise is None and _overlap(control, run):
        return "pass rates are too close to call"
    if ratio.within_noise:
        return "same pass rate within noise"
    return LESS_OFTEN if run.pass_rate < control.pass_rate else MORE_OFTEN


def _overlap(one: RunFigures, other: RunFigures) -> bool:
    """Of Wilson's intervals, where runs have no samples to draw from."""
    (low, high), (other_low, other_high) = (
        (run.pass_rate_low or 0.0, 1.0 if run.pass_rate_high is None else run.pass_rate_high) for run in (one, other)
    )
    return low <= other_high and other_low <= high


def _short(test: ComparedRun) -> str:
    run = test.figures
    passed = "pass rate unknown" if run.pass_rate is None else f"passes {_rate(run)}"
    ratio = test.ratio("wall_s_a_sample").ratio
    return passed if ratio is None else f"{speed(ratio)}, {passed}"


def _figures(run: RunFigures) -> str:
    passed = "its pass rate is unknown" if run.pass_rate is None else f"passes {_rate(run)}"
    time = "an unknown time" if run.wall_s_a_sample is None else seconds(run.wall_s_a_sample)
    return f"takes {time} per sample, {passed}"


def _rate(run: RunFigures) -> str:
    if run.pass_rate_low is None or run.pass_rate_high is None:
        return percent(run.pass_rate)
    return f"{percent(run.pass_rate)} ({within(run.pass_rate_low, run.pass_rate_high)})"


def _is_known(run: RunFigures) -> bool:
    return bool(run.wall_s_a_sample) and run.pass_rate is not None


def pass_chart(chosen: RunSelection, runs: Sequence[RunFigures], others: Sequence[RunFigures]) -> Chart:
    colours = palette()
    points = [
        _point(run)
        | {
            "run": chosen.name(run.run_id),
            "colour": chosen.colour(run.run_id, colours),
            "text": chosen.letter(run.run_id),
            "text_at": BESIDE_POINT[chosen.ids.index(run.run_id) % len(BESIDE_POINT)],
        }
        for run in runs
    ]
    faint = Marks(
        kind="points",
        rows=[_point(run) | {"run": run.name, "rate": percent(run.pass_rate)} for run in others],
        size=7,
        opacity=0.45,
        colour=colours.muted,
        hover=_hover,
    )
    compared = [
        Marks(kind="points", rows=[point], size=12, outline=point["colour"], outline_width=2, interval="y",
              hover=_hover, more={"textfont": {"size": 14}})
        for point in points
    ]  # fmt: skip
    descriptions = [f"{point['run']}: {seconds(point['x'])} per sample, passed {point['rate']}" for point in points]
    low, high = (math.log10(end([run.wall_s_a_sample or 1.0 for run in [*runs, *others]])) for end in (min, max))
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
            title="pass the reports' rule",
            is_share=True,
            range=[-0.03, 1.09],
            more={"tickvals": [0, 0.25, 0.5, 0.75, 1]},
        ),
        height=330,
        top=10,
        alt=f"Pass rate against time per sample. {'. '.join(descriptions)}.",
    )


def _point(run: RunFigures) -> dict[str, Any]:
    return {
        "x": run.wall_s_a_sample,
        "y": run.pass_rate or 0.0,
        "low": run.pass_rate_low or 0.0,
        "high": run.pass_rate_high or 0.0,
        "origin": run.origin,
        "symbol": ORIGIN_SYMBOLS.get(run.origin, "circle"),
        "rate": _rate(run),
        "others": tuple(
            f"{word} {percent(rate)}"
            for word, rate in (("decodes", run.decodes_rate), ("clean", run.clean_rate), ("usable", run.usable_rate))
            if rate is not None
        ),
    }


def _hover(row: Row) -> tuple[str, ...]:
    return row["run"], row["origin"], f"{seconds(row['x'])} per sample, passed {row['rate']}", *row["others"]


def row(chosen: RunSelection, run: RunFigures) -> dict[str, object]:
    return {
        "run": chosen.name(run.run_id) if run.run_id in chosen.ids else run_name(run),
        "run_id": run.run_id,
        "origin": run.origin,
        "samples": run.samples,
        "wall time per sample (s)": run.wall_s_a_sample,
        "passed": run.passes,
        "pass rate": run.pass_rate,
        "low": run.pass_rate_low,
        "high": run.pass_rate_high,
        "decodes rate": run.decodes_rate,
        "clean rate": run.clean_rate,
        "usable rate": run.usable_rate,
    }


def left_out(chosen: RunSelection, run: RunFigures) -> str:
    missing = [*([] if run.wall_s_a_sample else ["time"]), *(["pass rate"] if run.pass_rate is None else [])]
    return f"Not drawn: {chosen.name(run.run_id)}, {listed(missing)} unknown." if missing else ""
