"""Figures of the Evidence page: verdicts by report, and one claim's figure beside what comes out here."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from engine.evidence.checks.finding import VERDICTS, VerdictName, said
from pages._shared.evidence.claims import Judged, counts_by_report
from pages._shared.evidence.words import colour_of, found_word, look_of, word_of
from pages._shared.theme import Palette, plotly_template

NAMES: tuple[VerdictName | None, ...] = (*VERDICTS, None)
MARGIN = 0.18  # of the span of a range chart, on either side


def by_report(rows: Sequence[Judged], colours: Palette) -> go.Figure:
    """A bar a report, in parts by verdict. A part's custom data are its report and its verdict."""
    found = counts_by_report(rows)
    reports = list(found)
    figure = go.Figure()
    for name in NAMES:
        counts = [found[report][name] for report in reports]
        if any(counts):
            figure.add_trace(_part(name, reports, counts, colours))
    figure.update_yaxes(autorange="reversed", type="category", showgrid=False)
    figure.update_xaxes(title="claims")
    figure.update_layout(
        template=plotly_template(colours),
        barmode="stack",
        bargap=0.3,
        height=64 + 44 * len(reports),
        margin={"t": 36, "b": 6},
        dragmode=False,
        clickmode="event+select",
        legend={"traceorder": "normal"},
    )
    return figure


def _part(name: VerdictName | None, reports: Sequence[str], counts: Sequence[int], colours: Palette) -> go.Bar:
    look, word = look_of(name), word_of(name)
    return go.Bar(
        name=f"{look.sign} {word}",
        x=counts,
        y=[f"report {report}" for report in reports],
        orientation="h",
        marker={
            "color": colour_of(name, colours),
            "pattern": {
                "shape": look.pattern,
                "fillmode": "overlay",
                "fgcolor": colours.background,
                "size": 7,
                "solidity": 0.22,
            },
            "line": {"color": colours.background, "width": 1.5},
        },
        customdata=[[report, word] for report in reports],
        hovertemplate=f"%{{y}}: %{{x}} {word}<extra></extra>",
        # Nothing fades when a part is chosen: the click leads to another section.
        unselected={"marker": {"opacity": 1}},
    )


def by_report_words(rows: Sequence[Judged]) -> str:
    """What the figure shows, for those who do not see it."""
    lines = []
    for report, counts in counts_by_report(rows).items():
        parts = [f"{count} {word_of(name)}" for name in NAMES if (count := counts[name])]
        lines.append(f"Report {report}: {', '.join(parts)}")
    return ". ".join(lines) + "."


def can_compare(row: Judged) -> bool:
    """Whether there are two figures to draw beside one another."""
    claim = row.claim
    return row.measured is not None and not (claim.least is None and claim.most is None)


def beside(row: Judged, colours: Palette) -> go.Figure:
    """The report's figure with what it may have been rounded from, above the one that comes out here."""
    claim, measured = row.claim, row.measured
    assert measured is not None  # can_compare
    ends = [end for end in (claim.least, claim.value, claim.most) if end is not None]
    least, most = min(*ends, measured), max(*ends, measured)
    span = (most - least) or abs(most) or 1.0
    low, high = least - MARGIN * span, most + MARGIN * span
    figure = go.Figure()
    figure.add_trace(_reported(row, low, high, colours))
    found = found_word(row)
    figure.add_trace(_mark([measured], found, said(measured), "diamond", colour_of(row.name, colours), colours))
    if claim.value is not None:
        figure.add_trace(_mark([claim.value], "report", claim.reported, "circle", colours.text, colours))
    figure.update_yaxes(categoryorder="array", categoryarray=[found, "report"], range=[-0.6, 1.7], showgrid=False)
    is_one_unit = row.verdict is not None and row.verdict.unit == claim.unit
    figure.update_xaxes(title=claim.unit if is_one_unit else None, range=[low, high], nticks=5, zeroline=False)
    figure.update_layout(
        template=plotly_template(colours), height=158, margin={"t": 4, "b": 4}, showlegend=False, dragmode=False
    )
    return figure


def _reported(row: Judged, low: float, high: float, colours: Palette) -> go.Scatter:
    """The range as a bar; where it is open it runs to the edge."""
    claim = row.claim
    least = low if claim.least is None else claim.least
    most = high if claim.most is None else claim.most
    return go.Scatter(
        x=[least, (least + most) / 2, most],
        y=["report"] * 3,
        mode="lines+markers+text",
        line={"color": colours.muted, "width": 9},
        marker={"size": 13, "opacity": 0},  # only to keep the words off the line
        text=["", claim.reported if claim.value is None else "", ""],
        textposition="top center",
        hoverinfo="skip",
    )


def _mark(x: Sequence[float], row: str, words: str, symbol: str, colour: str, colours: Palette) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=[row],
        mode="markers+text",
        marker={"symbol": symbol, "size": 13, "color": colour, "line": {"color": colours.text, "width": 1.2}},
        text=[words],
        textposition="top center",
        cliponaxis=False,
        hovertemplate=f"{row}: %{{x}}<extra></extra>",
    )
