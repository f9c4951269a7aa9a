"""How long are passed and failed answers? Tokens of both, mirrored, with the share that stopped at the limit."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.comparing.failures import TokenCounts, TokenHistogram
from engine.figures.words import counted, listed, percent
from engine.store.store import Store
from pages._compare import charts_data as data
from pages._compare.charts_data import UNREADABLE, rate, unseen
from pages._compare.runs import RunSelection
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Note, Panel
from pages._shared.charts.text import safe
from pages._shared.theme import palette

QUESTION = "How long are passed and failed answers?"
HELP = """
Tokens of an answer: the run's samples that pass the reports' rule upwards, filled, and those that fail it downwards,
striped, in the same bins for all runs; checks of the molecule do not count here. Each side is scaled to its own highest
bar, so shapes compare and heights do not. At the limit: the answer was stopped by the maximum number of new tokens.

It cannot say how an answer at its limit would have ended. A few failed samples make high bars: see their number above
the bars.
"""
FEW = 6
PANEL_HEIGHT = 82
MOST_TOLD = 2


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    with card("lengths", QUESTION, HELP) as panel:
        if not chosen.measured:
            panel.tell("None of these runs has samples, so the lengths of answers are not known.")
            return
        histogram = data.lengths_of(store, chosen.measured)
        panel.tell(answer(chosen, histogram))
        panel.data(lambda: rows(chosen, histogram))
        if histogram.edges:
            panel.draw(lengths_chart(chosen, histogram))
        unknown = sum(group.unknown for group in histogram.groups)
        readable = {group.run_id for group in histogram.groups}
        lost = [run.id for run in chosen.measured if run.id not in readable] if readable else []
        without_tokens = f"Token count unknown for {counted(unknown, 'sample')}." if unknown else ""
        panel.leave_out(*unseen(chosen, lost), without_tokens)


def answer(chosen: RunSelection, histogram: TokenHistogram) -> str:
    if not histogram.groups:
        return UNREADABLE
    if not histogram.edges:
        return "The tokens of these answers were not counted."
    failed = sorted((group for group in histogram.groups if not group.passed), key=lambda group: -group.samples)
    if not failed:
        lengths = [f"{chosen.letter(group.run_id)} {_median(group)}" for group in histogram.groups]
        return f"None fails the reports' rule; median tokens: {listed(lengths)}. {_limit(chosen, histogram)}"
    medians = [_of_run(chosen, histogram, group) for group in failed[:MOST_TOLD]]
    rest = len({group.run_id for group in histogram.groups}) - len(failed)
    none = f" In {counted(rest, 'run')} none fails it." if rest else ""
    return f"{' '.join(medians)}{none} {_limit(chosen, histogram)}"


def _of_run(chosen: RunSelection, histogram: TokenHistogram, failed: TokenCounts) -> str:
    passed = next((group for group in histogram.groups if group.run_id == failed.run_id and group.passed), None)
    medians = f"{chosen.letter(failed.run_id)}: median {_median(failed)} tokens in {failed.samples:,} that fail the "
    medians += "reports' rule"
    if passed is not None:
        medians += f", {_median(passed)} in {passed.samples:,} that pass it"
    counts = [failed.samples] if passed is None else [failed.samples, passed.samples]
    return medians + (" (too few to tell a difference)." if min(counts) < FEW else ".")


def _limit(chosen: RunSelection, histogram: TokenHistogram) -> str:
    """Over all, and of failed ones where some stopped there."""
    known = sum(group.stops_known for group in histogram.groups)
    at_limit = sum(group.at_limit for group in histogram.groups)
    if not known:
        return "It is not known why answers stopped."
    if not at_limit:
        return f"None of {known:,} stopped at the limit."
    worst = max(histogram.groups, key=lambda group: (group.limit_share or 0.0, group.at_limit))
    most = f"those of {chosen.letter(worst.run_id)} that {_kind(worst)}, {rate(worst.at_limit, worst.stops_known)}"
    return f"{at_limit:,} of {known:,} stopped at the limit, most often {most}."


def _kind(group: TokenCounts) -> str:
    return "pass the rule" if group.passed else "fail the rule"


def _median(group: TokenCounts) -> str:
    return "unknown" if group.median is None else f"{group.median:,.0f}"


def lengths_chart(chosen: RunSelection, histogram: TokenHistogram) -> Chart:
    """A panel per run, one above another, on one scale of tokens."""
    runs: dict[str, list[TokenCounts]] = {}
    for group in histogram.groups:
        runs.setdefault(group.run_id, []).append(group)
    descriptions = [
        f"{chosen.name(group.run_id)}: {group.samples:,} {_kind(group)}, median {_median(group)} tokens,"
        f" {group.at_limit:,} at the limit"
        for group in histogram.groups
    ]
    return Chart(
        panels=[
            _panel(chosen, histogram.edges, run_id, groups, is_last=run_id == list(runs)[-1])
            for run_id, groups in runs.items()
        ],
        shared_x=True,
        spacing=(0, 0.25 / len(runs)),
        height=60 + (PANEL_HEIGHT if len(runs) > 1 else 2 * PANEL_HEIGHT) * len(runs),
        top=16,
        more={"bargap": 0.05},
        alt=f"Tokens of answers that pass or fail the reports' rule. {'. '.join(descriptions)}.",
    )


def _panel(
    chosen: RunSelection, edges: Sequence[int], run_id: str, groups: Sequence[TokenCounts], *, is_last: bool
) -> Panel:
    width = edges[1] - edges[0]
    bins = [
        {
            "middle": low + width / 2,
            "height": (1 if group.passed else -1) * count / (max(group.counts) or 1),
            "width": width,
            "pattern": "" if group.passed else "/",
            "group": group.passed,
            "bin": f"{_kind(group)}, {low:,} to {low + width - 1:,} tokens",
            "samples": f"{count:,} samples, {percent(count / (sum(group.counts) or 1))}",
        }
        for group in groups
        for low, count in zip(edges, group.counts, strict=False)
    ]
    limits = sum(group.at_limit for group in groups)
    counts = [f"{group.samples:,} {_kind(group)}" for group in groups]
    title = f"{safe(chosen.name(run_id), 44)}: {', '.join(counts)}{f', {limits:,} at the limit' if limits else ''}"
    marks = Marks(
        kind="bars",
        rows=bins,
        x="middle",
        y="height",
        group="group",
        in_legend=False,
        colour=chosen.colour(run_id, palette()),
        hover=lambda row: (row["bin"], row["samples"]),
    )
    return Panel(
        layers=[marks],
        x=Axis(title="tokens per answer" if is_last else "", range=[edges[0], edges[-1]]),
        y=Axis(range=[-1.1, 1.5], has_grid=False, more={"showticklabels": False, "zeroline": True}),
        notes=[Note(0, 1.5, title, {"xref": "domain", "xanchor": "left", "yanchor": "middle"})],
    )


def rows(chosen: RunSelection, histogram: TokenHistogram) -> list[dict[str, object]]:
    return [
        {
            "run": chosen.name(group.run_id),
            "passed": group.passed,
            "tokens from": low,
            "tokens below": high,
            "samples": count,
            "samples of the group": group.samples,
            "mean": group.mean,
            "median": group.median,
            "at the limit": group.at_limit,
            "stop known": group.stops_known,
        }
        for group in histogram.groups
        for low, high, count in zip(histogram.edges, histogram.edges[1:], group.counts, strict=False)
        if count
    ]
