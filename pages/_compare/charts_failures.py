"""Where do failures go? Reasons by run, of texts and of judged molecules, as shares of each run's samples."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.comparing.failures import Failures
from engine.figures.statistics import wilson
from engine.figures.words import counted, listed, percent, shortened
from engine.store.store import Store
from pages._compare import charts_data as data
from pages._compare.charts_data import UNREADABLE, rate, unseen
from pages._compare.runs import RunSelection
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, HeatmapCells, chart, lanes
from pages._shared.charts.text import Markup, on_axis, safe, wrapped
from pages._shared.theme import ink_on, mixed, palette

QUESTION = "Where do failures go?"
HELP = """
Samples by the reason why they failed, and their share of the run's samples. A sample fails here by the reports' rule
for its text, or, where molecules were judged, by any check of its molecule; other charts call *passed* what the rule
alone passes. A sample with two reasons counts in both, so the reasons may add up to more than the failed samples.

It cannot say why a model went wrong, only what was found: of the text in the reports' own words, of the molecule the
failed check. Junk that passes the rule is no failure by itself; judged, it leaves no conformer.
"""
MOST_REASONS = 10
MOST_WIDE_CELLS = 5  # that have room for a share below the count
MOST_NAMED_RUNS = 3  # whose names fit side by side
RULES = "the reports' rule or a check of the molecule"
FAILED, UNNAMED, OTHERS = "rule or check failed", "no reason named", "other reasons"


@dataclass(frozen=True, slots=True)
class ReasonCounts:
    """One row of the figure: counts by run. Those that add up reasons count one sample several times."""

    name: str
    counts: tuple[int, ...]


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    with card("failures", QUESTION, HELP) as panel:
        if not chosen.measured:
            panel.tell("None of these runs has samples: reports state how many failed, not why.")
            return
        failures = data.failures_of(store, chosen.measured)
        if not failures.runs:
            panel.tell(UNREADABLE)
            return
        panel.tell(answer(chosen, failures))
        panel.data(lambda: rows(chosen, failures))
        if any(run.failed for run in failures.runs):
            panel.draw(failures_chart(chosen, failures))
        else:
            st.success("No sample failed, so there is nothing to draw.", icon=":material/task_alt:")
        panel.leave_out(*unseen(chosen, failures.missing), _beyond(failures))


def answer(chosen: RunSelection, failures: Failures) -> str:
    samples, failed = sum(run.samples for run in failures.runs), sum(run.failed for run in failures.runs)
    if not failed:
        most = percent(wilson(0, samples)[1])
        return f"None of {counted(samples, 'sample')} failed {RULES}. At 95 % confidence, at most {most} do."
    issues = sum(run.issues for run in failures.runs)
    if len(failures.runs) == 1:
        return _worst(chosen, failures)
    totals = f"Together {failed:,} of {samples:,} samples failed, with {counted(issues, 'reason')} named."
    return f"{_worst(chosen, failures)} {totals}"


def _worst(chosen: RunSelection, failures: Failures) -> str:
    """The run with the highest share of failed samples, or all runs that share it, and the commonest reason there."""
    shares = [run.failed / max(1, run.samples) for run in failures.runs]
    places = [place for place, share in enumerate(shares) if share == max(shares)]
    worst = [failures.runs[place] for place in places]
    letters = listed([chosen.letter(run.run_id) for run in worst])
    figures = dict.fromkeys(
        f"{run.failed:,} of {run.samples:,} samples ({rate(run.failed, run.samples)})" for run in worst
    )
    verb = f"fail{'s' if len(worst) == 1 else ''} {RULES}"
    verb += "" if len(failures.runs) == 1 else " equally often" if len(worst) == len(shares) else " most"
    sentence = f"{letters} {verb}: {listed(list(figures))}{' each' if len(figures) < len(worst) else ''}"
    first = max(failures.reasons, key=lambda reason: sum(reason.samples[place] for place in places), default=None)
    count = 0 if first is None else sum(first.samples[place] for place in places)
    if first is None or not count:
        return f"{sentence}, without a reason."
    more, them = sum(run.several for run in worst), sum(run.failed for run in worst)
    several = f"; {counted(more, 'has', 'have')} more than one reason" if more else ""
    of_them = (
        f"{count:,} of them" if len(worst) == 1 else f"{'all' if count == them else f'{count:,} of these'} {them:,}"
    )
    return f"{sentence}, {of_them} with “{shortened(first.issue, 80)}”{several}."


def lines(failures: Failures, most: int | None = MOST_REASONS) -> list[ReasonCounts]:
    """All failed samples first, then reasons by how many, then what is left over."""
    shown = failures.reasons[:most]
    rest = failures.reasons[len(shown) :]
    others = tuple(sum(reason.samples[place] for reason in rest) for place in range(len(failures.runs)))
    counts = [
        ReasonCounts(FAILED, tuple(run.failed for run in failures.runs)),
        *(ReasonCounts(reason.issue, reason.samples) for reason in shown),
        ReasonCounts(OTHERS, others),
        ReasonCounts(UNNAMED, tuple(run.unnamed for run in failures.runs)),
    ]
    return [line for line in counts if line.name == FAILED or any(line.counts)]


def failures_chart(chosen: RunSelection, failures: Failures) -> Chart:
    """Cells with count and share; the darker, the larger the share."""
    colours, shown, runs = palette(), lines(failures), failures.runs
    names = [chosen.name(run.run_id) for run in runs]
    labels = [chosen.letter(run.run_id) for run in runs] if len(runs) > MOST_NAMED_RUNS else list(map(on_axis, names))
    shares = [[count / max(1, run.samples) for count, run in zip(line.counts, runs, strict=True)] for line in shown]
    cells = [[(line, *cell) for cell in zip(names, line.counts, shares[row], strict=True)]
             for row, line in enumerate(shown)]  # fmt: skip
    is_narrow, high, ends = len(runs) > MOST_WIDE_CELLS, max(map(max, shares)), (colours.surface, colours.accent)
    descriptions = [
        f"{name}: {run.failed:,} of {counted(run.samples, 'sample')} failed, {counted(run.issues, 'reason')}"
        for name, run in zip(names, runs, strict=True)
    ]
    return chart(
        HeatmapCells(
            x=list(range(len(names))),
            y=list(range(len(shown))),
            values=shares,
            high=high,
            scale=list(enumerate(ends)),
            text=[
                [_inked(f"{count:,}<br>{percent(share)}" if count and not is_narrow else f"{count:,}",
                        mixed(*ends, share / (high or 1)))
                 for _, _, count, share in row]
                for row in cells
            ],
            hover=[
                [f"{safe(name)}<br>{safe(line.name)}<br>{count:,} samples, {percent(share)}"
                 for line, name, count, share in row]
                for row in cells
            ],
            gap=3,
        ),
        x=Axis(ticks=dict(enumerate(labels)), has_grid=False, more={"side": "top", "zeroline": False}),
        y=lanes(
            [Markup(f"<b>{FAILED}</b>"), *(wrapped(line.name) for line in shown[1:])],
            range=None, more={"autorange": "reversed", "zeroline": False},
        ),
        height=70 + 44 * len(shown),
        top=40,
        alt=f"Failed samples by reason and run. {'. '.join(descriptions)}.",
    )  # fmt: skip


def _inked(text: str, fill: str) -> str:
    """Lines in letters that stand out from their cell: by itself plotly leaves cells of middle shares at 2.8:1."""
    return "<br>".join(f'<span style="color:{ink_on(fill)}">{line}</span>' for line in text.split("<br>"))


def rows(chosen: RunSelection, failures: Failures) -> list[dict[str, object]]:
    """A row per reason and run, all reasons; the total of each run first."""
    return [
        {
            "run": chosen.name(run.run_id),
            "reason": line.name,
            "samples with it": count,
            "samples": run.samples,
            "share": count / max(1, run.samples),
        }
        for line in lines(failures, most=None)
        for run, count in zip(failures.runs, line.counts, strict=True)
        if count or line.name == FAILED
    ]


def _beyond(failures: Failures) -> str:
    more = len(failures.reasons) - MOST_REASONS
    return f"Named: the {MOST_REASONS} most frequent of {len(failures.reasons):,} reasons." if more > 0 else ""
