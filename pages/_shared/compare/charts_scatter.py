"""Which molecules differ? Control against test, a point for each pair of figures, and the way to its texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
import streamlit as st
from numpy.typing import NDArray

from engine.comparing.figures import Beside
from engine.comparing.scatter import Scatter
from engine.errors import one_line
from engine.store.store import Store
from pages._shared.compare import charts_data as data
from pages._shared.compare import charts_pairs as pairs
from pages._shared.compare.charts_card import Card, card
from pages._shared.compare.charts_words import SYMBOLS, drawn, plural
from pages._shared.compare.state import Chosen
from pages._shared.theme import palette

QUESTION = "Which molecules differ?"
HELP = """
A point is a molecule that both runs answered; answers with the same two figures share one point, the larger the more.
On the line both runs are alike. Click a point for its molecules and the way into the inspector, double-click beside
the points to let go of it; *Data* has all pairs, the largest difference first.

One answer of each run is a draw: a point far off the line does not say that its molecule is difficult.
"""
HEIGHT = 420
MOST_HOVERED = 60  # characters of a SMILES


@dataclass(frozen=True, slots=True, eq=False)
class Spots:
    """One point for all pairs that have the same two figures: ten thousand of them may stand on a few places."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    count: NDArray[np.int64]
    first: NDArray[np.int64]  # row of its first pair
    spot: NDArray[np.int64]  # of every pair

    @classmethod
    def of(cls, found: Scatter) -> Spots:
        both = np.stack([found.points["control"].to_numpy(), found.points["test"].to_numpy()], axis=1)
        places, first, spot, count = np.unique(both, axis=0, return_index=True, return_inverse=True, return_counts=True)
        return cls(places[:, 0], places[:, 1], count, first, spot.reshape(-1))

    def pairs_at(self, pair: int) -> list[int]:
        """This pair, then the others of its point."""
        return [pair, *(int(one) for one in np.flatnonzero(self.spot == self.spot[pair]) if one != pair)]


@st.fragment
def show(store: Store, chosen: Chosen, beside: Sequence[Beside]) -> None:
    """Draw the chart for one test and one figure."""
    with card("pairs", QUESTION, HELP) as here:
        tests = {run.id: run for run in chosen.measured if run is not chosen.control}
        if chosen.control not in chosen.measured or not tests:
            here.tell(_why_none(chosen))
            return
        left, right = st.columns(2)
        names = {run_id: one_line(chosen.name(run_id)) for run_id in tests}
        test = left.selectbox("Test", list(tests), key="points_of", format_func=names.__getitem__, bind="query-params")
        name = right.selectbox(
            "Figure", list(pairs.WORDS), key="points_by", format_func=pairs.WORDS.__getitem__, bind="query-params"
        )
        found = data.scatter_of(store, chosen.control, tests[test], name)
        paired = next(one.paired for one in beside if one.figures.run_id == test)
        said = pairs.answer(chosen, found, paired)
        here.tell(said)
        here.data(lambda: pairs.rows(chosen, found), pairs.links(chosen, found))
        if found.points.num_rows:
            _draw(chosen, found, here, said)
        here.leave_out(*_notes(chosen, found))


def _why_none(chosen: Chosen) -> str:
    if not chosen.tests:
        return "Choose a test beside the control: its answers are set against the control's, molecule by molecule."
    if chosen.control not in chosen.measured:
        return f"{chosen.letter(chosen.control.id)} has no samples: there is nothing to set the tests' answers against."
    return "None of the tests has samples: there is nothing to set against the control's answers."


def _draw(chosen: Chosen, found: Scatter, here: Card, said: str) -> None:
    spots, pair = Spots.of(found), pairs.shown_pair(found)
    key = f"points-{found.test}-{found.measure.name}"
    picked = None if pair is None else int(spots.spot[pair])
    left, right = st.columns([3, 2])
    with left:
        here.draw(
            figure(chosen, found, spots, picked),
            alt=f"{chosen.name(found.control)} against {chosen.name(found.test)}. {said}",
            key=key,
            on_select=lambda: _take(key, found, spots),
            selection_mode="points",
        )
    with right:
        some = pairs.differing(found) if pair is None else spots.pairs_at(pair)
        st.markdown(
            ("**The largest differences**" if some else "No pair differs.") if pair is None else "**At this point**"
        )
        pairs.listing(chosen, found, some)


def _take(key: str, found: Scatter, spots: Spots) -> None:
    hits = [point for point in st.session_state[key]["selection"]["points"] if point["curve_number"] == 0]
    pairs.put_pair(found, int(spots.first[hits[0]["point_index"]]) if hits else None)


def figure(chosen: Chosen, found: Scatter, spots: Spots, picked: int | None) -> go.Figure:
    """The points, a ring around the one that is open, and the line on which both runs are alike."""
    drawn_figure = go.Figure(_points(chosen, found, spots))
    if picked is not None:
        ring = {"size": 24, "symbol": "circle-open", "color": palette().text, "line": {"width": 3}}
        drawn_figure.add_trace(
            go.Scattergl(x=[spots.x[picked]], y=[spots.y[picked]], mode="markers", marker=ring, hoverinfo="skip")
        )
    low, high = float(min(spots.x.min(), spots.y.min())), float(max(spots.x.max(), spots.y.max()))
    if found.measure.unit == "share":
        low, high = 0.0, 1.0
    room = 0.06 * ((high - low) or 1.0)
    ends = {"x0": low - room, "y0": low - room, "x1": high + room, "y1": high + room}
    drawn_figure.add_shape(
        type="line", **ends, line={"color": palette().muted, "width": 1.5, "dash": "dash"}, layer="below"
    )
    for update, run_id in ((drawn_figure.update_xaxes, found.control), (drawn_figure.update_yaxes, found.test)):
        update(title=_title(chosen, run_id, found), range=[low - room, high + room])
        if found.measure.unit == "share":
            update(tickformat=".0%")
    drawn_figure.update_layout(height=HEIGHT, margin={"t": 10}, dragmode=False, showlegend=False)
    return drawn_figure


def _points(chosen: Chosen, found: Scatter, spots: Spots) -> go.Scattergl:
    colours = palette()
    smiles = found.points["smiles"].take(spots.first).to_pylist()
    letters = chosen.letter(found.control), chosen.letter(found.test)
    return go.Scattergl(
        x=spots.x,
        y=spots.y,
        mode="markers",
        marker={
            "size": np.minimum(8 + 3 * np.log2(spots.count), 26),
            "color": chosen.colour(found.test, colours),
            "symbol": SYMBOLS[chosen.ids.index(found.test) % len(SYMBOLS)],
            "opacity": 0.65,
            "line": {"width": 1, "color": colours.background},
        },
        unselected={"marker": {"opacity": 0.65}},
        selected={"marker": {"opacity": 1}},
        text=[_hovered(one, count) for one, count in zip(smiles, spots.count.tolist(), strict=True)],
        hovertemplate=f"%{{text}}<br>{letters[0]} %{{x:.4g}}, {letters[1]} %{{y:.4g}}<extra></extra>",
    )


def _hovered(smiles: str, count: int) -> str:
    """Names of molecules go in as data, never into the template."""
    more = f" and {count - 1:,} more" if count > 1 else ""
    return f"{drawn(smiles, MOST_HOVERED)}{more}"


def _title(chosen: Chosen, run_id: str, found: Scatter) -> str:
    unit = pairs.unit_of(found.measure)
    return f"{drawn(chosen.name(run_id), 48)}{f' ({unit})' if unit else ''}"


def _notes(chosen: Chosen, found: Scatter) -> list[str]:
    alone = [
        plural(count, f"answer of {chosen.letter(run_id)}", f"answers of {chosen.letter(run_id)}")
        for run_id, count in ((found.control, found.control_alone), (found.test, found.test_alone))
        if count
    ]
    return [
        f"Not drawn, for it is not known of both: {plural(found.unknown, 'pair')}." if found.unknown else "",
        f"Without a partner: {' and '.join(alone)}." if alone else "",
        found.measure.caution,
    ]
