"""The advice's figures: a chart of what a usable conformer costs under each LP, and a table of all that was measured.

In the chart the advised or cheapest LP, those that fit and those that do not differ by marker as well as by colour. An
LP that never gave a usable answer is drawn at the right edge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.evidence.advice import words
from engine.evidence.advice.figures import LpFigures
from engine.evidence.advice.rule import Standing, costs_the_same, named
from engine.evidence.advisor import Advice
from engine.figures.words import angstrom, duration, listed, number, percent, times, with_interval
from engine.records import RULE_HELP
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, Note, chart
from pages._shared.rows import MORE_COLUMNS, fitting
from pages._shared.theme import Palette, palette

FEW_DECADES = 2
ADVISED, TIES, FITS, UNFIT = "advised", "ties", "fits", "below {least} %"
NAMED, MOST = "advised, below {least} %", "most answers, below {least} %"
CHEAPEST, AS_CHEAP = "cheapest, below {least} %", "as cheap, below {least} %"
SYMBOLS = {
    ADVISED: "diamond",
    TIES: "diamond-open",
    FITS: "circle",
    NAMED: "star",
    MOST: "star-triangle-up",
    CHEAPEST: "star-open",
    AS_CHEAP: "star-triangle-up-open",
    UNFIT: "x",
}
BEST = {SYMBOLS[standing] for standing in (ADVISED, TIES, NAMED, MOST, CHEAPEST, AS_CHEAP)}
HELP = """
All seconds of a run over its usable answers; rejected answers count in the time. 95 % intervals by bootstrap over
molecules.
"""
NOTE_HELP = """
Intervals of rates are Wilson's, all others by bootstrap over molecules. Not in the seconds: computing RMSD, keeping
each step's probabilities, and asking the model at each block that was closed by force whether it would have closed it.
"""
WINS_HELP = (
    "Share of bootstrap draws in which it is the cheapest of those that fit, or of all where none fits. "
    "What is within noise is told by the interval of *vs best*."
)
RATE_PX = 122
Row = Mapping[str, Any]


def show_cost(advice: Advice) -> None:
    want, rows = advice.want, rows_of(advice)
    with card("advice-cost", f"What does a {want} conformer cost?", HELP) as panel:
        panel.tell(answer(advice))
        if any(math.isfinite(row["cost"].value) for row in rows):
            panel.draw(cost_chart(rows, want, palette()))


def rows_of(advice: Advice) -> list[Row]:
    """A row per LP, in the order of the table; ``symbol`` is one of SYMBOLS, and ``standing`` its name."""
    return [
        {
            "label": figures.lp,
            "symbol": SYMBOLS[_standing_of(advice, standing)],
            "standing": standing_word(advice, standing).replace("%", f"% {advice.want}"),
            "cost": figures.cost(advice.want),
            "rate": words.rate_words(figures, advice.want),
        }
        for figures, standing in zip(advice.measured.lps, advice.decision.standings, strict=True)
    ]


def standing_word(advice: Advice, standing: Standing) -> str:
    """The result of an LP: ``advised``, ``below 90 %``."""
    return _standing_of(advice, standing).format(least=f"{100 * advice.request.least:g}")


def _standing_of(advice: Advice, standing: Standing) -> str:
    """A key of SYMBOLS."""
    names = named(advice.decision, advice.measured, advice.want)
    if standing.lp == advice.decision.lp:
        return ADVISED
    if standing.lp in advice.decision.ties:
        return TIES
    if standing.counts:
        return FITS
    if not advice.decision.lp and standing.lp in names:
        return NAMED if standing.lp == names[0] else CHEAPEST if standing.lp == advice.decision.cheapest else MOST
    if not advice.decision.lp and (standing.lp == advice.decision.cheapest or costs_the_same(standing.over_least)):
        return CHEAPEST if standing.lp == advice.decision.cheapest else AS_CHEAP
    return UNFIT


def answer(advice: Advice) -> str:
    want = advice.want
    known = [figures for figures in advice.measured.lps if math.isfinite(figures.cost(want).value)]
    never = [words.name_of(figures.lp) for figures in advice.measured.lps if figures not in known]
    tail = f" No {want} answer under {listed(never)}." if never else ""
    if not known:
        return f"No LP gave a {want} answer."
    order = sorted(known, key=lambda figures: figures.cost(want).value)
    first, last = order[0], order[-1]
    costs = f"Lowest cost: {words.name_of(first.lp)}, {words.cost_words(first.cost(want))}"
    if len(order) > 1:
        costs += f". Highest: {words.name_of(last.lp)}, {words.cost_words(last.cost(want))}"
    return f"{costs}.{_not_the_lowest(advice, first)}{tail}"


def _not_the_lowest(advice: Advice, lowest: LpFigures) -> str:
    """Why another LP than that of the lowest cost is advised."""
    for lp in named(advice.decision, advice.measured, advice.want)[:1]:
        if lp != lowest.lp:
            cost = words.cost_words(advice.measured.figures(lp).cost(advice.want))
            below = f"{words.name_of(lowest.lp)} is below {100 * advice.request.least:g} %"
            counts = next(one.counts for one in advice.decision.standings if one.lp == lowest.lp)
            is_below = advice.decision.lp and not counts
            return f" Advised: {words.name_of(lp)}, {cost}; {below if is_below else 'the same within noise'}."
    return ""


def cost_chart(rows: Sequence[Row], want: str, colours: Palette) -> Chart:
    """A lane per LP. Infinite costs are drawn at an edge beyond all finite ones."""
    ends = [
        part
        for row in rows
        for part in (row["cost"].value, row["cost"].low, row["cost"].high)
        if part is not None and math.isfinite(part) and part > 0
    ]
    edge = 3 * max(ends, default=1.0)
    is_open = any(math.isinf(part) for row in rows for part in (row["cost"].value, row["cost"].high or 0))
    high = math.log10(1.15 * edge if is_open else 1.6 * max(ends))  # at the edge no more than a marker needs
    low = math.log10(min(ends) / 1.6)
    points = [_point(row, edge, colours) for row in rows]
    layers = []
    for symbol in SYMBOLS.values():
        standing_points = [point for point in points if point["symbol"] == symbol]
        if standing_points:
            # The legend is about shapes.
            shape = [{"x": None, "y": None}]
            layers += [
                Marks(
                    kind="points",
                    rows=standing_points,
                    y="label",
                    size=13,
                    symbol=symbol,
                    interval="x",
                    hover=lambda row: (row["label"], words.cost_words(row["cost"]), row["rate"]),
                ),
                Marks(
                    kind="points",
                    rows=shape,
                    name=standing_points[0]["standing"],
                    size=12,
                    symbol=symbol,
                    colour=colours.muted,
                ),
            ]
    costs = "; ".join(f"{row['label']} ({row['standing']}): {words.cost_words(row['cost'])}" for row in rows)
    at_edge = {"xanchor": "right", "xshift": -10, "font": {"color": colours.muted}}
    labels = [row["label"] for row in reversed(rows)]
    return chart(
        *layers,
        x=Axis(
            title=f"seconds per {want} conformer",
            is_log=True,
            range=[low, high],
            ticks={tick: number(tick) for tick in _ticks(low, high)},
        ),
        y=Axis(range=[-0.6, len(rows) - 0.4], more={"categoryorder": "array", "categoryarray": labels}),
        notes=[
            Note(math.log10(edge), row["label"], "never →", at_edge) for row in rows if math.isinf(row["cost"].value)
        ],
        height=max(150, 70 + 46 * len(rows)),
        top=30,
        alt=f"Seconds per {want} conformer by LP. {costs}.",
    )


def _point(row: Row, edge: float, colours: Palette) -> dict[str, Any]:
    cost = row["cost"]
    high = None if cost.high is None else min(cost.high, edge)
    is_best = row["symbol"] in BEST  # the accent is too deep for a mark in the dark
    colour, size = (colours.series[0], 17) if is_best else (colours.muted, 12)
    return {**row, "size": size, "x": min(cost.value, edge), "low": cost.low, "high": high, "colour": colour}


def _ticks(low: float, high: float) -> list[float]:
    """Whole decades; of few decades 2 and 5 as well."""
    steps = (1, 2, 5) if high - low < FEW_DECADES else (1,)
    ticks = [step * 10.0**power for power in range(math.floor(low), math.ceil(high) + 1) for step in steps]
    return [tick for tick in ticks if low <= math.log10(tick) <= high]


# --- the table --------------------------------------------------------------------------------------------------------


def show_table(advice: Advice, molecules: int) -> None:
    rows = [
        _table_row(advice, figures, standing, molecules)
        for figures, standing in zip(advice.measured.lps, advice.decision.standings, strict=True)
    ]
    if not rows:
        return
    columns = _columns(advice.want, molecules)
    st.dataframe(
        rows,
        hide_index=True,
        column_config=columns,
        column_order=fitting(columns, rows[0]),
        placeholder="–",
        alt="Each LP's rates, costs, junk, cut and RMSD",
        key="advice-table",
    )
    st.caption(
        f"In brackets: 95 % intervals. Seconds are wall time, without loading the model and judging. {MORE_COLUMNS}",
        help=NOTE_HELP,
    )


def _table_row(advice: Advice, figures: LpFigures, standing: Standing, molecules: int) -> dict[str, Any]:
    """What decides comes first: the rate that is wanted, its cost, and the time that so many molecules take."""
    is_best = standing.over_least is None and math.isfinite(standing.cost.value)
    rates = {
        "usable": with_interval(figures.usable_rate, percent),
        "clean": with_interval(figures.clean_rate, percent),
        "decodes": with_interval(figures.decodes_rate, percent),
        "passed": with_interval(figures.pass_rate, percent),
    }
    return {
        "lp": figures.lp,
        "standing": standing_word(advice, standing),
        advice.want: rates.pop(advice.want),
        "cost": words.cost_words(figures.cost(advice.want)),
        "over": "1×" if is_best else with_interval(standing.over_least, times),
        "takes": duration(advice.expected_s(figures, molecules)),
        "gives": round(advice.expected_usable(figures, molecules)),
        "wins": None if standing.wins is None else 100 * standing.wins,
        **rates,
        "sample": words.cost_words(figures.seconds_a_sample),
        "cut": with_interval(figures.cut_share, percent),
        "letters": with_interval(figures.letters_share, percent),
        "nonnumeric": with_interval(figures.nonnumeric_share, percent),
        "thrown": None if figures.thrown_share is None else percent(figures.thrown_share),
        "rmsd": with_interval(figures.rmsd_ang, angstrom),
        "repeats": 1 + figures.repeats,
    }


def _columns(want: str, molecules: int) -> dict[str, Any]:
    config = st.column_config
    return {
        "lp": config.TextColumn("LP", width=120, pinned=True),
        "standing": config.TextColumn("result", width=140, help=f"Below: too few of its answers are {want}"),
        "usable": config.TextColumn("usable", width=RATE_PX, help="Clean answers with stereo and geometry right"),
        **{
            word: config.TextColumn(word, width=RATE_PX, help=RULE_HELP[word])
            for word in ("clean", "decodes", "passed")
        },
        "sample": config.TextColumn("per sample", width=140, help="Wall time over all answers"),
        "cost": config.TextColumn(
            f"per {want} conformer", width=140, help=f"Wall time over {want} answers; rejected ones count in the time"
        ),
        "over": config.TextColumn(
            "vs best", width=118, help="Its cost over the lowest: of the LPs that fit, else of all"
        ),
        "takes": config.TextColumn(
            f"for {molecules:,}",
            width=90,
            help="Time for this many answers at the measured pace",
        ),
        "gives": config.NumberColumn(f"{want} of them", width=100, format="localized"),
        "wins": config.NumberColumn("cheapest in", width=88, format="%.0f %%", help=WINS_HELP),
        "cut": config.TextColumn("blocks cut", width=RATE_PX, help="Closed by force inside their numbers"),
        "letters": config.TextColumn(
            "with letters", width=RATE_PX, help="Blocks with a letter: the reports' first count of junk"
        ),
        "nonnumeric": config.TextColumn(
            "not numeric",
            width=RATE_PX,
            help="Blocks with anything but digits . , -: the reports' second count of junk",
        ),
        "thrown": config.TextColumn(
            "thrown away",
            width=90,
            help="Tokens that the guard threw away, of all tokens; their time counts in all costs",
        ),
        "rmsd": config.TextColumn(
            "RMSD", width=140, help="Mean over answers: heavy atoms, to the nearest of the references"
        ),
        "repeats": config.NumberColumn(
            "runs", width=60, help="Its time is the mean over this many runs of the same work"
        ),
    }
