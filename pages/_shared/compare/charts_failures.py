"""Where do failures go? Reasons by run, in the reports' words, as shares of each run's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from engine.comparing.failures import Failures, RunFailures
from engine.store.comparison import wilson
from engine.store.store import Store
from pages._shared.compare import charts_data as data
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import (
    UNREADABLE,
    drawn,
    listed,
    on_axis,
    percent,
    plural,
    rate,
    shortened,
)
from pages._shared.compare.state import Chosen
from pages._shared.theme import palette

QUESTION = "Where do failures go?"
HELP = """
Samples by the reason why they failed, and their share of the run's samples. A sample with two reasons counts in both,
so reasons may add up to more than the samples that failed; both totals are said.

It cannot say why a model went wrong, only what the check found, in the reports' own words. Junk that parses is no
failure here.
"""
MOST_REASONS = 10
MOST_WIDE_CELLS = 5  # that have room for a share below the count
MOST_NAMED_RUNS = 3  # whose names fit side by side
REASON_CHARS = 34
FAILED, UNNAMED, OTHERS = "failed", "no reason named", "other reasons"
LANE_HEIGHT = 44


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the figure: counts by run. Those that add up reasons count one sample several times."""

    name: str
    counts: tuple[int, ...]


@st.fragment
def show(store: Store, chosen: Chosen) -> None:
    """Draw the chart."""
    with card("failures", QUESTION, HELP) as here:
        if not chosen.measured:
            here.tell("None of these runs has samples: reports state how many failed, not why.")
            return
        found = data.failures_of(store, chosen.measured)
        if not found.runs:
            here.tell(UNREADABLE)
            return
        here.tell(answer(chosen, found))
        here.data(lambda: rows(chosen, found))
        if any(run.failed for run in found.runs):
            here.draw(figure(chosen, found), alt=alt(chosen, found))
        else:
            st.success("Nothing failed, so there is nothing to draw.", icon=":material/task_alt:")
        without = [chosen.name(run.id) for run in chosen.runs if run not in chosen.measured]
        lost = [chosen.name(run_id) for run_id in found.missing]
        here.leave_out(
            f"Without samples: {listed(without)}." if without else "",
            f"Damaged: {listed(lost)}." if lost else "",
            _beyond(found),
        )


def answer(chosen: Chosen, found: Failures) -> str:
    samples, failed = sum(run.samples for run in found.runs), sum(run.failed for run in found.runs)
    if not failed:
        most = percent(wilson(0, samples)[1])
        return f"Nowhere: none of {plural(samples, 'sample')} failed. At 95 % confidence, at most {most} do."
    issues = sum(run.issues for run in found.runs)
    worst = max(found.runs, key=lambda run: run.failed / max(1, run.samples))
    totals = f"Together {failed:,} of {samples:,} samples failed, with {plural(issues, 'reason')} named."
    return f"{_of_run(chosen, found, worst)} {totals}" if len(found.runs) > 1 else _of_run(chosen, found, worst)


def _of_run(chosen: Chosen, found: Failures, run: RunFailures) -> str:
    """The run that fails most."""
    letter = chosen.letter(run.run_id)
    said = f"{letter} fails {'most: ' if len(found.runs) > 1 else ''}{run.failed:,} of {run.samples:,} samples"
    said += f" ({rate(run.failed, run.samples)})"
    place = found.runs.index(run)
    first = max(found.reasons, key=lambda one: one.samples[place], default=None)
    if first is None or not first.samples[place]:
        return f"{said}, without a reason."
    named = f", {first.samples[place]:,} of them with “{shortened(first.issue, 80)}”"
    several = f"; {plural(run.several, 'has', 'have')} more than one reason" if run.several else ""
    return f"{said}{named}{several}."


def lines(found: Failures) -> list[Line]:
    """All failed samples first, then reasons by how many, then what is left over."""
    shown, rest = found.reasons[:MOST_REASONS], found.reasons[MOST_REASONS:]
    unnamed = tuple(run.unnamed for run in found.runs)
    others = tuple(sum(reason.samples[place] for reason in rest) for place in range(len(found.runs)))
    return [
        Line(FAILED, tuple(run.failed for run in found.runs)),
        *(Line(reason.issue, reason.samples) for reason in shown),
        *([Line(OTHERS, others)] if rest else []),
        *([Line(UNNAMED, unnamed)] if any(unnamed) else []),
    ]


def figure(chosen: Chosen, found: Failures) -> go.Figure:
    """Cells with count and share; the darker, the larger the share."""
    colours = palette()
    drawn_lines = lines(found)
    sizes = [max(1, run.samples) for run in found.runs]
    is_short = len(found.runs) > MOST_NAMED_RUNS
    names = [chosen.letter(run.run_id) if is_short else on_axis(chosen.name(run.run_id)) for run in found.runs]
    shares = [[count / size for count, size in zip(line.counts, sizes, strict=True)] for line in drawn_lines]
    grid = go.Heatmap(
        x=list(range(len(names))),
        y=list(range(len(drawn_lines))),
        z=shares,
        zmin=0,
        zmax=max(max(line) for line in shares),
        colorscale=[[0, colours.surface], [1, colours.accent]],
        showscale=False,
        xgap=3,
        ygap=3,
        text=_texts(drawn_lines, shares, is_narrow=len(names) > MOST_WIDE_CELLS),
        texttemplate="%{text}",
        textfont={"size": 12},
        customdata=[
            [[drawn(line.name), drawn(chosen.name(run.run_id)), count] for run, count in _pairs(found, line)]
            for line in drawn_lines
        ],
        hovertemplate="%{customdata[1]}<br>%{customdata[0]}<br>%{customdata[2]:,} samples, %{z:.1%}<extra></extra>",
    )
    figure = go.Figure(grid)
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, side="top", showgrid=False, zeroline=False)
    figure.update_yaxes(
        tickvals=list(range(len(drawn_lines))),
        ticktext=[f"<b>{FAILED}</b>", *(drawn(line.name, REASON_CHARS) for line in drawn_lines[1:])],
        autorange="reversed",
        showgrid=False,
        zeroline=False,
    )
    figure.update_layout(height=70 + LANE_HEIGHT * len(drawn_lines), margin={"t": 40})
    return figure


def _texts(found: Sequence[Line], shares: Sequence[Sequence[float]], *, is_narrow: bool) -> list[list[str]]:
    return [
        [
            f"{count:,}<br>{percent(share)}" if count and not is_narrow else f"{count:,}"
            for count, share in zip(line.counts, line_shares, strict=True)
        ]
        for line, line_shares in zip(found, shares, strict=True)
    ]


def _pairs(found: Failures, line: Line) -> list[tuple[RunFailures, int]]:
    return list(zip(found.runs, line.counts, strict=True))


def alt(chosen: Chosen, found: Failures) -> str:
    said = [
        f"{chosen.name(run.run_id)}: {run.failed:,} of {plural(run.samples, 'sample')} failed,"
        f" {plural(run.issues, 'reason')}"
        for run in found.runs
    ]
    return f"Failed samples by reason and run. {'. '.join(said)}."


def rows(chosen: Chosen, found: Failures) -> list[dict[str, object]]:
    """A row a reason and run, all reasons; the total of each run first."""
    every = [Line(FAILED, tuple(run.failed for run in found.runs))]
    every += [Line(reason.issue, reason.samples) for reason in found.reasons]
    every += [Line(UNNAMED, tuple(run.unnamed for run in found.runs))]
    return [
        {
            "run": chosen.name(run.run_id),
            "reason": line.name,
            "samples with it": count,
            "samples": run.samples,
            "share": count / max(1, run.samples),
        }
        for line in every
        for run, count in _pairs(found, line)
        if count or line.name == FAILED
    ]


def _beyond(found: Failures) -> str:
    more = len(found.reasons) - MOST_REASONS
    return f"The {MOST_REASONS} most frequent of {len(found.reasons):,} reasons by name." if more > 0 else ""
