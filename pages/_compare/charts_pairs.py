"""Which molecules differ? Control against test, a point for each pair of figures, and the way to its texts.

The pair that is opened is in the address by its samples' ids, so a link restores it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from engine.comparing.figures import Ratio
from engine.comparing.measures import MEASURES, Measure
from engine.comparing.paired import Compared, PairedRuns, compare_entries
from engine.comparing.scatter import Scatter
from engine.errors import one_line
from engine.figures.words import counted, listed, number, percent, points, shortened, signed, with_interval
from engine.store.store import Store
from pages._compare import charts_data as data
from pages._compare.charts_data import noise
from pages._compare.runs import RunSelection
from pages._compare.table_cells import mark_of
from pages._shared.charts.card import Card, card
from pages._shared.charts.chart import SYMBOLS, Axis, Chart, Marks, RefLine, around, chart
from pages._shared.charts.text import safe
from pages._shared.errors import escape_markdown
from pages._shared.links import inspector_address
from pages._shared.shown import put_shown
from pages._shared.theme import palette

QUESTION = "Which molecules differ?"
HELP = """
A point is a molecule that both runs answered; answers with the same two figures share one point, the larger the more.
On the line both runs are equal. Click a point for its molecules and links to the inspector, double-click beside the
points to clear the selection; *Data* has all pairs, the largest difference first.

Each answer is one random draw: a point far off the line does not mean that its molecule is difficult.
"""
PAIR = "pair"
MOST_DIGITS = 9
MOST_LISTED = 5
WORDS = {
    "tokens": "tokens",
    "wall_part_s": "wall time per sample",
    "ms_a_token": "wall time per token",
    "forced_share": "forced share",
    "passed": "passed",
    "decodes": "decodes",
    "clean": "clean",
    "usable": "usable",
    "stereo_right": "stereo right",
    "geometry_right": "geometry right",
    "strain_kcal": "strain",
    "strain_kcal_per_atom": "strain per heavy atom",
    "strain_moved_ang": "move when relaxed",
    "junk_letters": "blocks with a letter",
    "junk_nonnumeric": "blocks with a non-number",
    "cut_blocks": "cut blocks",
    "bad_blocks": "bad blocks",
    "drift_abs": "mean absolute drift",
    "drift": "sum of drift",
    "rmsd_ang": "RMSD",
}


@dataclass(frozen=True, slots=True, eq=False)
class Spots:
    """One point for all pairs with the same two figures: ten thousand pairs may share a few points."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: NDArray[np.int64]
    first: NDArray[np.int64]  # row of its first pair
    spot: NDArray[np.int64]  # of every pair

    @classmethod
    def of(cls, scatter: Scatter) -> Spots:
        both = np.stack([scatter.points["control"].to_numpy(), scatter.points["test"].to_numpy()], axis=1)
        places, first, spot, count = np.unique(both, axis=0, return_index=True, return_inverse=True, return_counts=True)
        return cls(places[:, 0], places[:, 1], count, first, spot.reshape(-1))

    def pairs_at(self, pair: int) -> list[int]:
        """This pair, then the others of its point."""
        return [pair, *(int(row) for row in np.flatnonzero(self.spot == self.spot[pair]) if row != pair)]


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    with card("pairs", QUESTION, HELP) as panel:
        tests = {run.id: run for run in chosen.measured if run is not chosen.control}
        if chosen.control not in chosen.measured or not tests:
            panel.tell(_why_none(chosen))
            return
        left, right = st.columns(2)
        names = {run_id: one_line(chosen.name(run_id)) for run_id in tests}
        test = left.selectbox("Test", list(tests), key="points_of", format_func=names.__getitem__, bind="query-params")
        name = right.selectbox(
            "Figure", list(WORDS), key="points_by", format_func=WORDS.__getitem__, bind="query-params"
        )
        scatter = data.scatter_of(store, chosen.control, tests[test], name)
        with st.spinner("Comparing samples …"):
            sentence = answer(chosen, scatter, compare_entries(store, chosen.control, tests[test]))
        link = st.column_config.LinkColumn(display_text=r"sample=(\d+)", help="Opens in the Drift inspector")
        links = {f"sample of {chosen.letter(run_id)}": link for run_id in (scatter.control, scatter.test)}
        panel.tell(sentence)
        panel.data(lambda: rows(chosen, scatter), links)
        if scatter.points.num_rows:
            _draw(chosen, scatter, panel, sentence)
        panel.leave_out(*_notes(chosen, scatter))


def _why_none(chosen: RunSelection) -> str:
    if not chosen.tests:
        return "Choose a test beside the control: its answers are compared with the control's, molecule by molecule."
    if chosen.control not in chosen.measured:
        return (
            f"{chosen.letter(chosen.control.id)} has no samples: there is nothing to compare the tests' answers with."
        )
    return "None of the tests has samples: there is nothing to compare the control's answers with."


def _draw(chosen: RunSelection, scatter: Scatter, panel: Card, sentence: str) -> None:
    spots, pair = Spots.of(scatter), shown_pair(scatter)
    put_shown(**{PAIR: None if pair is None else st.query_params[PAIR]})
    key = f"points-{scatter.test}-{scatter.measure.name}"
    picked = None if pair is None else int(spots.spot[pair])

    def take() -> None:
        hits = [point for point in st.session_state[key]["selection"]["points"] if point["curve_number"] == 0]
        put_pair(scatter, int(spots.first[hits[0]["point_index"]]) if hits else None)

    left, right = st.columns([3, 2])
    with left:
        alt = f"{chosen.name(scatter.control)} against {chosen.name(scatter.test)}. {sentence}"
        panel.draw(pairs_chart(chosen, scatter, spots, picked, alt), key=key, on_select=take, selection_mode="points")
    with right:
        pairs = largest(scatter)[: scatter.above + scatter.below] if pair is None else spots.pairs_at(pair)
        none = "**The largest differences**" if pairs else "No pair differs."
        st.markdown(none if pair is None else "**At this point**")
        for row in scatter.points.take(np.array(pairs[:MOST_LISTED], np.int64)).to_pylist():
            _show_pair(chosen, scatter, row)
        if len(pairs) > MOST_LISTED:
            st.caption(f"And {counted(len(pairs) - MOST_LISTED, 'more pair')}; *Data* has them all.")


def pairs_chart(chosen: RunSelection, scatter: Scatter, spots: Spots, picked: int | None, alt: str = "") -> Chart:
    """The points, a ring around the open one, and the line on which both runs are equal."""
    colours, is_share = palette(), scatter.measure.unit == "share"
    columns = (spots.x, spots.y, spots.count, scatter.points["smiles"].take(spots.first).to_pylist())
    points = [
        {"x": x, "y": y, "count": count, "smiles": smiles, "size": min(8 + 3 * math.log2(count), 26)}
        for x, y, count, smiles in zip(*(c if isinstance(c, list) else c.tolist() for c in columns), strict=True)
    ]
    sides = (chosen.letter(scatter.control), "x"), (chosen.letter(scatter.test), "y")

    def hover(row: Any) -> tuple[str, str]:
        more = f" and {row['count'] - 1:,} more" if row["count"] > 1 else ""
        return (
            f"{shortened(one_line(row['smiles']), 60)}{more}",
            ", ".join(f"{letter} {value_words(row[axis], scatter.measure)}" for letter, axis in sides),
        )

    marks = Marks(
        kind="points",
        rows=points,
        colour=chosen.colour(scatter.test, colours),
        symbol=SYMBOLS[chosen.ids.index(scatter.test) % len(SYMBOLS)],
        opacity=0.65,
        outline=colours.background,
        hover=hover,
        is_selectable=True,
    )
    ring = [] if picked is None else [points[picked] | {"size": 24}]
    low, high = (
        (0.0, 1.0) if is_share else (float(min(spots.x.min(), spots.y.min())), float(max(spots.x.max(), spots.y.max())))
    )
    low, high = around(low, high)
    unit = f" ({unit_of(scatter.measure)})" if unit_of(scatter.measure) else ""
    x, y = (
        Axis(title=safe(f"{safe(chosen.name(run_id), 48)}{unit}"), range=[low, high], is_share=is_share)
        for run_id in (scatter.control, scatter.test)
    )
    return chart(
        marks,
        Marks(
            kind="points", rows=ring, symbol="circle-open", colour=colours.text, outline=colours.text, outline_width=3
        ),
        x=x,
        y=y,
        lines=[RefLine(low, low, high, high)],
        height=420,
        top=10,
        more={"dragmode": False},
        alt=alt,
    )


def _notes(chosen: RunSelection, scatter: Scatter) -> list[str]:
    alone = [
        counted(count, f"answer of {chosen.letter(run_id)}", f"answers of {chosen.letter(run_id)}")
        for run_id, count in ((scatter.control, scatter.control_alone), (scatter.test, scatter.test_alone))
        if count
    ]
    return [
        f"Not drawn, unknown on one side: {counted(scatter.unknown, 'pair')}." if scatter.unknown else "",
        f"Without a partner: {' and '.join(alone)}." if alone else "",
        scatter.measure.caution,
    ]


# --- words and rows ---------------------------------------------------------------------------------------------------


def unit_of(measure: Measure) -> str:
    return {"angstrom": "Å", "share": ""}.get(measure.unit, measure.unit)


def value_words(value: float, measure: Measure) -> str:
    if measure.unit == "share":
        return percent(value)
    return f"{number(round(value) if value == round(value) else value)} {unit_of(measure)}".rstrip()


def answer(chosen: RunSelection, scatter: Scatter, paired: PairedRuns) -> str:
    """How many differ in which direction, and whether that is beyond noise."""
    control, test = chosen.letter(scatter.control), chosen.letter(scatter.test)
    name, pairs = WORDS[scatter.measure.name], scatter.points.num_rows
    if not scatter.shared:
        return f"{control} and {test} share no molecule, so no point can be drawn."
    if not pairs:
        return f"{counted(scatter.shared, 'pair')} of answers: {name} is never known on both sides."
    same = pairs - scatter.above - scatter.below
    above = f"{counted(scatter.above, 'lies', 'lie')} higher in {test}"
    counts = f"Of {counted(pairs, 'pair')}, {above}, {scatter.below:,} higher in {control}"
    return f"{_overall(name, scatter, paired, test, control)} {counts}, {same:,} are equal."


def _overall(name: str, scatter: Scatter, paired: PairedRuns, test: str, control: str) -> str:
    if scatter.measure.name not in MEASURES:
        return f"There is no interval for {name}."
    compared = paired.measure(scatter.measure.name)
    if compared.control is None or compared.test is None:
        return ""
    values = [value_words(value, scatter.measure) for value in (compared.test, compared.control)]
    means = f"{test} {values[0]}, {control} {values[1]}"
    return f"Over all pairs, {name}: {means}, {_difference(compared, scatter.measure)}."


def _difference(compared: Compared, measure: Measure) -> str:
    difference = compared.difference
    if difference is None or difference.low is None or difference.high is None:
        return f"no interval ({compared.reason.rstrip('.') or 'too few molecules'})"
    if difference.low == difference.high == 0:
        return "no difference"
    over = None if compared.ratio is None else compared.ratio.value
    certainty = noise(mark_of(Ratio("", compared.control, compared.test, over, None, None, ""), measure, compared))
    words = with_interval(difference, points if measure.unit == "share" else signed)
    return f"difference {words}, {certainty}"


def rows(chosen: RunSelection, scatter: Scatter) -> list[dict[str, object]]:
    """A row per pair, the largest difference first."""
    control, test = chosen.letter(scatter.control), chosen.letter(scatter.test)
    suffix = f" ({unit_of(scatter.measure)})" if unit_of(scatter.measure) else ""
    return [
        {
            "SMILES": row["smiles"],
            f"{control}{suffix}": row["control"],
            f"{test}{suffix}": row["test"],
            f"sample of {control}": inspector_address(scatter.control, row["control_sample"]),
            f"sample of {test}": inspector_address(scatter.test, row["test_sample"]),
        }
        for row in scatter.points.take(np.array(largest(scatter), np.int64)).to_pylist()
    ]


def largest(scatter: Scatter) -> list[int]:
    """Rows, the largest difference first; in the control's order where differences are equal."""
    differences = np.abs(scatter.points["test"].to_numpy() - scatter.points["control"].to_numpy())
    return [int(row) for row in np.argsort(-differences, kind="stable")]


# --- one pair -----------------------------------------------------------------------------------------------------


def shown_pair(scatter: Scatter) -> int | None:
    """The row of the pair that the address names; None where it names none of these."""
    control, _, test = st.query_params.get(PAIR, "").partition("-")
    if not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in (control, test)):
        return None
    is_control = scatter.points["control_sample"].to_numpy() == int(control)
    hits = np.flatnonzero(is_control & (scatter.points["test_sample"].to_numpy() == int(test)))
    return int(hits[0]) if len(hits) else None


def close() -> None:
    """Another question is opened: the pair belongs to this one."""
    st.query_params.pop(PAIR, None)


def put_pair(scatter: Scatter, row: int | None) -> None:
    if row is not None:
        (pair,) = scatter.points.slice(row, 1).to_pylist()
        st.query_params[PAIR] = f"{pair['control_sample']}-{pair['test_sample']}"
    else:
        close()


def _show_pair(chosen: RunSelection, scatter: Scatter, pair: dict[str, Any]) -> None:
    sides = ((scatter.control, "control"), (scatter.test, "test"))
    values = [f"{chosen.letter(run_id)} {value_words(pair[side], scatter.measure)}" for run_id, side in sides]
    with st.container(gap="xxsmall", key=f"pair-{pair['control_sample']}"):
        smiles = shortened(one_line(pair["smiles"]).replace("`", ""), 80)  # an imported one may be any text
        st.markdown(f"`{smiles}`  \n{escape_markdown(listed(values))}")
        with st.container(horizontal=True):
            for run_id, side in sides:
                st.link_button(
                    f"Inspect {chosen.letter(run_id)}",
                    inspector_address(run_id, pair[f"{side}_sample"]),
                    icon=":material/troubleshoot:",
                    type="tertiary",
                    help="Opens this sample in the Drift inspector",
                )
