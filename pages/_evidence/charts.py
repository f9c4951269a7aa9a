"""Figures of the Evidence page: verdicts by report, and one claim's figure beside the one computed here."""

from __future__ import annotations

from collections.abc import Sequence

from engine.evidence.checks.finding import VERDICTS, VerdictName, said
from pages._evidence.claims import Judged, counts_by_report
from pages._evidence.words import found_word
from pages._shared.charts.chart import Axis, Chart, Marks, around, chart
from pages._shared.theme import Palette
from pages._shared.verdicts import colour_of, look_of, word_of

NAMES: tuple[VerdictName | None, ...] = (*VERDICTS, None)
MARGIN = 0.18  # of the span of a range chart, on either side


def by_report(rows: Sequence[Judged], colours: Palette) -> Chart:
    """One bar per report, in segments by verdict. A click gives a segment's report and verdict."""
    counts_of = counts_by_report(rows)
    parts = [
        {
            "count": counts[name],
            "report": f"report {report}",
            "group": f"{look_of(name).sign} {word_of(name)}",
            "words": word_of(name),
            "colour": colour_of(name, colours),
            "pattern": look_of(name).pattern,
            "clicked": [report, word_of(name)],
        }
        for name in NAMES
        if any(counts[name] for counts in counts_of.values())
        for report, counts in counts_of.items()
    ]
    lines = []
    for report, counts in counts_of.items():
        words = [f"{count} {word_of(name)}" for name in NAMES if (count := counts[name])]
        lines.append(f"Report {report}: {', '.join(words)}")
    marks = Marks(
        kind="bars",
        rows=parts,
        x="count",
        y="report",
        group="group",
        is_across=True,
        is_hatched=False,
        outline=colours.background,
        outline_width=1.5,
        clicked="clicked",
        hover=lambda row: f"{row['report']}: {row['count']} {row['words']}",
    )
    return chart(
        marks,
        x=Axis(title="claims"),
        y=Axis(has_grid=False, more={"autorange": "reversed", "type": "category"}),
        bars="stack",
        height=64 + 44 * len(counts_of),
        top=36,
        more={"bargap": 0.3, "dragmode": False, "clickmode": "event+select", "margin": {"b": 6}},
        alt=". ".join(lines) + ".",
    )


def can_compare(row: Judged) -> bool:
    """Whether there are two figures to compare."""
    claim = row.claim
    return row.measured is not None and not (claim.least is None and claim.most is None)


def beside(row: Judged, colours: Palette, alt: str = "") -> Chart:
    """The report's figure with the range it may have been rounded from, above the one computed here."""
    claim, measured = row.claim, row.measured
    assert measured is not None  # can_compare
    ends = [end for end in (claim.least, claim.value, claim.most) if end is not None]
    low, high = around(min(*ends, measured), max(*ends, measured), MARGIN)
    # The range as a bar; where it is open it runs to the edge.
    least = low if claim.least is None else claim.least
    most = high if claim.most is None else claim.most
    words = claim.reported if claim.value is None else ""
    span = [{"x": x, "y": "report", "text": text} for x, text in ((least, ""), ((least + most) / 2, words), (most, ""))]
    source = found_word(row)
    marks = [
        {
            "x": measured,
            "y": source,
            "text": said(measured),
            "symbol": "diamond",
            "colour": colour_of(row.name, colours),
        }
    ]
    if claim.value is not None:
        marks.append({"x": claim.value, "y": "report", "text": claim.reported, "colour": colours.text})
    is_one_unit = row.verdict is not None and row.verdict.unit == claim.unit
    return chart(
        Marks(kind="lines", rows=span, colour=colours.muted, thickness=9, size=13, opacity=0),
        Marks(kind="points", rows=marks, size=13, outline=colours.text, outline_width=1.2,
              hover=lambda mark: f"{mark['y']}: {mark['x']}"),
        x=Axis(
            title=claim.unit if is_one_unit else "", range=[low, high], more={"nticks": 5, "zeroline": False}
        ),
        y=Axis(
            range=[-0.6, 1.7],
            has_grid=False,
            more={"categoryorder": "array", "categoryarray": [source, "report"]},
        ),
        height=158,
        top=4,
        more={"dragmode": False, "margin": {"b": 4}},
        alt=alt,
    )  # fmt: skip
