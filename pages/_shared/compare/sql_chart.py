"""The chart of a statement's rows: what stands along x, y and in the colours is the reader's choice, in the address.

Its widgets have no ``bind``: what there is to choose from is known only when the statement has ended, and another
statement has other columns. So the address is written here, and what does not suit the rows is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import streamlit as st

from pages._shared.compare import sql_plot as plots
from pages._shared.compare.sql_figure import Look, figure, question, sentence
from pages._shared.compare.sql_plot import Plot
from pages._shared.compare.sql_state import COLOUR, KIND, X, Y
from pages._shared.compare.state import Chosen
from pages._shared.errors import escape_markdown
from pages._shared.theme import palette

NO_COLOUR = "one for all"


def show(table: pa.Table, statement: str, chosen: Chosen | None) -> None:
    """Draw the choice and the chart."""
    default = plots.default_plot(table)
    if default is None:
        st.info("Nothing to draw: a chart takes two rows, and a column of numbers.", icon=":material/bar_chart:")
        return
    plot = _chosen(table, default, statement)
    look = Look(palette(), chosen)
    words = sentence(table, plot, look)
    st.markdown(f"##### {escape_markdown(question(plot))}")
    st.markdown(escape_markdown(words))
    st.plotly_chart(
        figure(table, plot, look),
        theme=None,
        key=f"sql_figure_{hash((statement, plot))}",
        config={"displayModeBar": False},
        alt=f"{question(plot)} {words}",
    )


def _chosen(table: pa.Table, default: Plot, statement: str) -> Plot:
    """The widgets, and what they say. They are other ones for another statement or kind, so nothing stale is kept."""
    kinds = [kind for kind in plots.KINDS if plots.across(table, kind)]
    by = f"{hash(statement)}"
    one, two, three, four = st.columns([2.7, 1.5, 1.5, 1.5], vertical_alignment="bottom")
    with one:
        kind = _choice("Chart", kinds, default.kind, KIND, by, is_button=True)
    start = plots.suited(table, next(one for one in plots.KINDS if one == kind), default)
    by = f"{by} {kind}"
    with two:
        x = _choice("x", plots.across(table, start.kind), start.x, X, by)
    with three:
        y = "" if start.kind == "histogram" else _choice("y", plots.numbers(table), start.y, Y, by)
    with four:
        groups = [NO_COLOUR, *plots.groups(table)]
        colour = _choice("Colour", groups, start.colour or NO_COLOUR, COLOUR, by)
    return Plot(start.kind, x, y, "" if colour == NO_COLOUR else colour)


def _choice(label: str, options: Sequence[str], default: str, name: str, by: str, *, is_button: bool = False) -> str:
    """One choice: that of the address where it is one, else the default, which no address needs to name."""
    asked = st.query_params.get(name, "")
    value = asked if asked in options else default
    key = f"{name} {by}"
    st.session_state[key] = value
    take = partial(_take, name, key, default)
    if is_button:
        st.segmented_control(label, options, key=key, format_func=str.capitalize, required=True, on_change=take)
    else:
        st.selectbox(label, options, key=key, on_change=take)
    return value


def _take(name: str, key: str, default: str) -> None:
    """Into the address; what was chosen for another kind goes, in the same step."""
    value = st.session_state[key]
    others = [one for one in (X, Y, COLOUR) if name == KIND and st.query_params.get(one)]
    st.query_params.update({name: "" if value == default else value} | dict.fromkeys(others, ""))
