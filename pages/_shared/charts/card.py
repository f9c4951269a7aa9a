"""What a chart has around it: a question, its answer in a sentence, help, what is left out, and its rows as a table.

A chart that fails says so in its own place, and the others are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import one_line, shown
from pages._shared.charts.chart import Chart, Row
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.rows import table_height
from pages._shared.table_files import csv_of, file_button
from pages._shared.words import unbroken

QUIET = {"displayModeBar": False}
MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Card:
    """One chart's places, in reading order: the question, the answer, widgets and the figure, what is left out."""

    key: str
    head: DeltaGenerator
    place_of_answer: DeltaGenerator

    def tell(self, answer: str) -> None:
        """The answer to the question, as plain text; no line ends between a figure and its unit."""
        self.place_of_answer.markdown(unbroken(escape_markdown(answer)))

    def draw(self, chart: Chart, **more: Any) -> None:
        draw(chart, **{"key": f"figure-{self.key}", **more})

    def leave_out(self, *notes: str) -> None:
        """What the figure does not show, one sentence each; empty ones are dropped."""
        if any(notes):
            st.caption(escape_markdown(" ".join(note for note in notes if note)))

    def data(self, rows: Callable[[], Sequence[Row]], config: Mapping[str, Any] | None = None) -> None:
        """The rows behind the chart, as a table and as CSV; made when a user opens it."""
        popover = self.head.popover(
            "Data",
            icon=":material/table:",
            type="tertiary",
            key=f"data-{self.key}",
            on_change="rerun",
            help="The figures behind this chart",
        )
        if not popover.open:
            return
        table = table_of(rows())
        with popover:
            st.dataframe(
                table,
                hide_index=True,
                height=table_height(min(table.num_rows, MOST_ROWS)),
                width=640,
                column_config=dict(config or {}),
                placeholder="–",
                alt="The figures behind the chart",
            )
            file_button("CSV", lambda: csv_of(table), f"{self.key}.csv", key=f"csv-{self.key}")


@contextmanager
def card(key: str, question: str, help_: str) -> Iterator[Card]:
    """Draw the frame of one chart, and fill it inside of the ``with``."""
    with st.container(border=True, height="stretch", key=f"chart-{key}"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        head.subheader(question, anchor=False, help=help_, width="content")
        answer = st.container(key=f"answer-{key}")
        with shown_errors(shown(question), stops=False):
            yield Card(key, head, answer)


def draw(chart: Chart, **more: Any) -> None:
    """The chart in the app's colours."""
    st.plotly_chart(chart.figure(), theme=None, alt=one_line(chart.alt), **{"config": QUIET, **more})


def choice(label: str, options: Sequence[str], key: str, words: Mapping[str, str] | None = None) -> str:
    """What of a chart is shown, as a row of buttons without their label."""
    return one_of(label, options, key, format_func=words.__getitem__ if words else str, label_visibility="collapsed")


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Every column that some row has. Texts are without what cannot be seen, or written to a file."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.table({name: pa.array([_shown(row.get(name)) for row in rows]) for name in names})


def _shown(value: Any) -> Any:
    return one_line(value) if isinstance(value, str) else value
