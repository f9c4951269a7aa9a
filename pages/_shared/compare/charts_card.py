"""What every chart of the Compare page has around it: a question, its answer in a sentence, help, and its data.

A chart that fails says so in its own place, and the others are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go
import pyarrow as pa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import DriftscopeError, one_line
from pages._shared.errors import escape_markdown
from pages._shared.table_files import CSV, csv_of
from pages._shared.theme import palette, plotly_template

QUIET = {"displayModeBar": False}
MOST_ROWS = 12
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Card:
    """One chart's places, in reading order: the question, the answer, widgets and the figure, what is left out."""

    key: str
    head: DeltaGenerator
    said: DeltaGenerator

    def tell(self, answer: str) -> None:
        """The answer to the question, as plain text."""
        self.said.markdown(escape_markdown(answer))

    def draw(self, figure: go.Figure, alt: str, **more: Any) -> None:
        """The figure in the app's colours; ``alt`` is what a screen reader gets in its place."""
        figure.update_layout(template=plotly_template(palette()), title=None)
        figure.update_xaxes(title_font_size=13, tickfont_size=12)
        figure.update_yaxes(title_font_size=13, tickfont_size=12, ticklabelstandoff=6)
        st.plotly_chart(figure, theme=None, alt=one_line(alt), **{"key": f"figure-{self.key}", "config": QUIET, **more})

    def leave_out(self, *notes: str) -> None:
        """What the figure does not show, one sentence each; empty ones are dropped."""
        said = " ".join(note for note in notes if note)
        if said:
            st.caption(escape_markdown(said))

    def data(self, rows: Callable[[], Sequence[Row]], config: Mapping[str, Any] | None = None) -> None:
        """The figures behind the chart, as a table and as CSV; made when somebody opens it."""
        with self.head:
            spot = st.popover(
                "Data",
                icon=":material/table:",
                type="tertiary",
                key=f"data-{self.key}",
                on_change="rerun",
                help="The figures behind this chart",
            )
        if spot.open:
            with spot:
                _table(self.key, list(rows()), config or {})


@contextmanager
def card(key: str, question: str, help_: str) -> Iterator[Card]:
    """Draw the frame of one chart, and fill it inside of the ``with``."""
    with st.container(border=True, height="stretch", key=f"chart-{key}"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        head.subheader(question, anchor=False, help=help_, width="content")
        said = st.container()
        try:
            yield Card(key, head, said)
        except DriftscopeError as error:
            words = str(error)
            st.error(escape_markdown(words[:1].upper() + words[1:]), icon=":material/error:")


def _table(key: str, rows: list[Row], config: Mapping[str, Any]) -> None:
    table = table_of(rows)
    st.dataframe(
        table,
        hide_index=True,
        height=38 + 35 * max(1, min(table.num_rows, MOST_ROWS)),
        width=640,
        column_config=dict(config),
        placeholder="–",
        alt="The figures behind the chart",
    )
    st.download_button(
        "CSV",
        lambda: csv_of(table),
        f"{key}.csv",
        CSV,
        icon=":material/download:",
        on_click="ignore",
        type="tertiary",
        key=f"csv-{key}",
    )


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Every column that some row has."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([_shown(row.get(name)) for row in rows]) for name in names})


def _shown(value: Any) -> Any:
    """A text from anybody without what cannot be seen, or written to a file."""
    return one_line(value) if isinstance(value, str) else value
