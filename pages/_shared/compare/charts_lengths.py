"""How long are passed and failed answers? Tokens of both, mirrored, with the share that stopped at the limit."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from engine.comparing.failures import TokenCounts, TokenHistogram
from engine.store.store import Store
from pages._shared.compare import charts_data as data
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import UNREADABLE, drawn, listed, plural, rate
from pages._shared.compare.state import Chosen
from pages._shared.theme import palette

QUESTION = "How long are passed and failed answers?"
HELP = """
Tokens of an answer: the run's passed samples upwards, filled, and its failed ones downwards, striped, in the same bins
for all runs. Each side is scaled to its own highest bar, so shapes compare and heights do not. At the limit: the answer
was stopped because it might not go on.

It cannot say how an answer at its limit would have ended, and a few failed samples make high bars: their number is
written beside them.
"""
FEW = 6
PANEL_HEIGHT = 82
MOST_TOLD = 2


@st.fragment
def show(store: Store, chosen: Chosen) -> None:
    """Draw the chart."""
    with card("lengths", QUESTION, HELP) as here:
        if not chosen.measured:
            here.tell("None of these runs has samples, so the lengths of answers are not known.")
            return
        found = data.lengths_of(store, chosen.measured)
        here.tell(answer(chosen, found))
        here.data(lambda: rows(chosen, found))
        if found.edges:
            here.draw(figure(chosen, found), alt=alt(chosen, found))
        unknown = sum(group.unknown for group in found.groups)
        without = [chosen.name(run.id) for run in chosen.runs if run not in chosen.measured]
        told = {group.run_id for group in found.groups}
        lost = [chosen.name(run.id) for run in chosen.measured if run.id not in told]
        here.leave_out(
            f"Without samples: {listed(without)}." if without else "",
            f"Damaged: {listed(lost)}." if lost and told else "",
            f"Of {plural(unknown, 'sample')} nobody counted the tokens." if unknown else "",
        )


def answer(chosen: Chosen, found: TokenHistogram) -> str:
    if not found.groups:
        return UNREADABLE
    if not found.edges:
        return "Nobody counted the tokens of these answers."
    failed = sorted((group for group in found.groups if not group.passed), key=lambda group: -group.samples)
    if not failed:
        lengths = [f"{chosen.letter(one.run_id)} {_median(one)}" for one in found.groups]
        return f"None failed; medians of passed answers, in tokens: {listed(lengths)}. {_limit(chosen, found)}"
    told = [_of_run(chosen, found, group) for group in failed[:MOST_TOLD]]
    rest = len({group.run_id for group in found.groups}) - len(failed)
    none = f" In {plural(rest, 'run')} none failed." if rest else ""
    return f"{' '.join(told)}{none} {_limit(chosen, found)}"


def _of_run(chosen: Chosen, found: TokenHistogram, failed: TokenCounts) -> str:
    letter, passed = chosen.letter(failed.run_id), _group(found, failed.run_id, passed=True)
    said = f"{letter}: median {_median(failed)} tokens where {failed.samples:,} failed"
    if passed is not None:
        said += f", {_median(passed)} where {passed.samples:,} passed"
    counts = [failed.samples] if passed is None else [failed.samples, passed.samples]
    return said + (" (too few to tell a difference)." if min(counts) < FEW else ".")


def _limit(chosen: Chosen, found: TokenHistogram) -> str:
    """Over all, and of failed ones where some stopped there."""
    known, at_limit = sum(one.stops_known for one in found.groups), sum(one.at_limit for one in found.groups)
    if not known:
        return "Why answers stopped is not known."
    if not at_limit:
        return f"None of {known:,} stopped at the limit."
    worst = max(found.groups, key=lambda one: (one.limit_share or 0.0, one.at_limit))
    most = f"{chosen.letter(worst.run_id)}’s {_kind(worst)} ones, {rate(worst.at_limit, worst.stops_known)}"
    return f"{at_limit:,} of {known:,} stopped at the limit, most often {most}."


def _kind(group: TokenCounts) -> str:
    return "passed" if group.passed else "failed"


def _median(group: TokenCounts) -> str:
    return "unknown" if group.median is None else f"{group.median:,.0f}"


def _group(found: TokenHistogram, run_id: str, *, passed: bool) -> TokenCounts | None:
    return next((one for one in found.groups if one.run_id == run_id and one.passed == passed), None)


def figure(chosen: Chosen, found: TokenHistogram) -> go.Figure:
    """A panel a run, one above another, on one scale of tokens."""
    run_ids = list(dict.fromkeys(group.run_id for group in found.groups))
    panels = make_subplots(rows=len(run_ids), cols=1, shared_xaxes=True, vertical_spacing=0.25 / len(run_ids))
    for place, run_id in enumerate(run_ids, start=1):
        groups = [group for group in found.groups if group.run_id == run_id]
        for group in groups:
            panels.add_trace(_bars(chosen, group, found.edges), row=place, col=1)
        panels.update_yaxes(range=[-1.1, 1.5], row=place, col=1)
        panels.add_annotation(
            text=_title(chosen, run_id, groups),
            x=0,
            y=1.5,
            xref="x domain" if place == 1 else f"x{place} domain",
            yref="y" if place == 1 else f"y{place}",
            xanchor="left",
            yanchor="middle",
            showarrow=False,
            font={"size": 12},
        )
    panels.update_yaxes(showticklabels=False, zeroline=True, showgrid=False)
    panels.update_xaxes(range=[found.edges[0], found.edges[-1]], title=None)
    panels.update_xaxes(title="tokens of an answer", row=len(run_ids), col=1)
    height = 60 + (PANEL_HEIGHT if len(run_ids) > 1 else 2 * PANEL_HEIGHT) * len(run_ids)
    panels.update_layout(height=height, margin={"t": 16}, showlegend=False, barmode="overlay", bargap=0.05)
    return panels


def _title(chosen: Chosen, run_id: str, groups: Sequence[TokenCounts]) -> str:
    counts = [f"{one.samples:,} {_kind(one)}" for one in groups]
    limits = sum(one.at_limit for one in groups)
    at_limit = f", {limits:,} at the limit" if limits else ""
    return f"{drawn(chosen.name(run_id), 44)}: {', '.join(counts)}{at_limit}"


def _bars(chosen: Chosen, group: TokenCounts, edges: Sequence[int]) -> go.Bar:
    colour = chosen.colour(group.run_id, palette())
    sign = 1 if group.passed else -1
    shares = [_share(group, count) for count in group.counts]
    width = edges[1] - edges[0]
    return go.Bar(
        x=[edge + width / 2 for edge in edges[:-1]],
        y=[sign * count / (max(group.counts) or 1) for count in group.counts],
        width=width,
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1},
            "pattern": {"shape": "" if group.passed else "/", "fillmode": "replace", "fgcolor": colour},
        },
        customdata=[
            [edge, edge + width - 1, count, share]
            for edge, count, share in zip(edges[:-1], group.counts, shares, strict=True)
        ],
        hovertemplate=f"{_kind(group)}, %{{customdata[0]:,}} to %{{customdata[1]:,}} tokens<br>"
        "%{customdata[2]:,} samples, %{customdata[3]:.1%}<extra></extra>",
    )


def _share(group: TokenCounts, count: int) -> float:
    return count / (sum(group.counts) or 1)


def alt(chosen: Chosen, found: TokenHistogram) -> str:
    said = [
        f"{chosen.name(one.run_id)}: {one.samples:,} {_kind(one)}, median {_median(one)} tokens,"
        f" {one.at_limit:,} at the limit"
        for one in found.groups
    ]
    return f"Tokens of passed and failed answers. {'. '.join(said)}."


def rows(chosen: Chosen, found: TokenHistogram) -> list[dict[str, object]]:
    """A row a bin of a group that has samples."""
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
        for group in found.groups
        for low, high, count in zip(found.edges, found.edges[1:], group.counts, strict=False)
        if count
    ]
