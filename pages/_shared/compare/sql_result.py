"""What a statement brought: rows with links, what was cut off, which of them only a text states, and files.

Values are untrusted: a link is made for a run that the store has, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from pages._shared.compare import sql_chart
from pages._shared.compare.sql_figure import ORIGIN, REPORTED
from pages._shared.compare.sql_fill import NOTHING
from pages._shared.compare.sql_queries import told
from pages._shared.compare.sql_work import LIMITS, Outcome
from pages._shared.compare.state import Chosen, address, inspector_address
from pages._shared.errors import escape_markdown
from pages._shared.table_files import json_texts, table_buttons

RUN, SAMPLE = "run_id", "sample_id"
INSPECTOR = "in the Drift inspector"
TABLE, CHART = "Table", "Chart"
MOST_NAMED = 5
MOST_HEIGHT, ROW_HEIGHT = 460, 35
_RUN_NAME, _SAMPLE_NAME = r"control=([^&]+)", r"sample=(\d+)"


@dataclass(frozen=True, slots=True)
class Shown:
    """A table that a browser can draw, and how its columns are drawn."""

    table: pa.Table
    columns: Mapping[str, Any]


def show(outcome: Outcome, chosen: Chosen | None) -> None:
    """Draw the answer, or the error."""
    if outcome.answer is None:
        st.error(told(outcome.error) if outcome.error else "", icon=":material/error:")
        return
    table = outcome.answer.table
    if not table.num_rows:
        _nothing(outcome)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        drawn = st.segmented_control(
            "Show as",
            [TABLE, CHART],
            default=TABLE,
            required=True,
            key="sql_as",
            bind="query-params",
            label_visibility="collapsed",
        )
        st.markdown(_words(outcome), width="stretch")
        table_buttons(table, "answer", key="sql_file", what="All rows here")
    for caption in (_cut(outcome), _without(outcome), _reported(outcome)):
        if caption:
            st.caption(caption)
    if drawn == CHART:
        sql_chart.show(table, outcome.statement.written, chosen)
    else:
        _table(outcome)


def origins_of(outcome: Outcome) -> int:
    """How many different origins the rows have, by their column of that name."""
    table = None if outcome.answer is None else outcome.answer.table
    return 0 if table is None or ORIGIN not in table.column_names else pc.count_distinct(table[ORIGIN]).as_py()


def _nothing(outcome: Outcome) -> None:
    columns = outcome.answer.table.column_names if outcome.answer else []
    names = ", ".join(f"`{one.replace('`', '')}`" for one in columns)
    why = " `$tests` stands for no run: choose a test above." if NOTHING in outcome.statement.run else ""
    st.info(f"The statement is a right one, and no row answers it.{why} Columns: {names}", icon=":material/info:")


def _words(outcome: Outcome) -> str:
    if outcome.answer is None:
        return ""
    table = outcome.answer.table
    rows, columns = table.num_rows, table.num_columns
    many = f"**{rows:,}** {'row' if rows == 1 else 'rows'} · {columns} {'column' if columns == 1 else 'columns'}"
    return f"{many} · {outcome.answer.seconds:.2f} s"


def _cut(outcome: Outcome) -> str:
    if outcome.answer is None or not outcome.answer.is_cut:
        return ""
    most = f"{LIMITS.rows:,} rows and {LIMITS.answer_mb} MB"
    return f":material/content_cut: There are more rows: an answer ends at {most}. Filter, aggregate or LIMIT."


def _without(outcome: Outcome) -> str:
    if not outcome.without:
        return ""
    some = ", ".join(escape_markdown(one) for one in outcome.without[:MOST_NAMED])
    more = f" and {len(outcome.without) - MOST_NAMED} more" if len(outcome.without) > MOST_NAMED else ""
    return f":material/warning: Without damaged files of {some}{more}; see what `verify` says."


def _reported(outcome: Outcome) -> str:
    """How many of the rows nobody measured here."""
    if outcome.answer is None:
        return ""
    table = outcome.answer.table
    if ORIGIN in table.column_names:
        said = table[ORIGIN].to_pylist().count(REPORTED)
    else:
        columns = [table[name].to_pylist() for name in _run_columns(table, outcome.origins)]
        said = sum(any(outcome.origins.get(one) == REPORTED for one in row) for row in zip(*columns, strict=True))
    if not said:
        return ""
    which = "All rows are" if said == table.num_rows else f"{said:,} of {table.num_rows:,} rows are"
    return f":material/format_quote: {which} what a text reports; nobody measured them here."


# --- rows ---------------------------------------------------------------------------------------------------------


def _table(outcome: Outcome) -> None:
    shown = shown_table(outcome)
    st.dataframe(
        shown.table,
        hide_index=True,
        height=min(MOST_HEIGHT, ROW_HEIGHT * (shown.table.num_rows + 1) + 3),
        column_config=dict(shown.columns),
        placeholder="null",
        key="sql_rows",
        alt="The rows of the answer",
    )


def shown_table(outcome: Outcome) -> Shown:
    """The answer's columns in types that every browser draws, runs and samples as links."""
    assert outcome.answer is not None
    table = outcome.answer.table
    runs = _run_columns(table, outcome.origins)
    drawn = {name: _drawn(table[name]) for name in table.column_names}
    config: dict[str, Any] = {}
    for name in runs:
        drawn[name] = pa.array([one and address(one) for one in table[name].to_pylist()], pa.string())
        config[name] = st.column_config.LinkColumn(name, display_text=_RUN_NAME, help="Compare this run")
    if RUN in runs and SAMPLE in table.column_names and pa.types.is_integer(table[SAMPLE].type):
        links = _inspector_links(table, outcome.with_samples)
        if any(links):
            drawn = {INSPECTOR: pa.array(links, pa.string()), **drawn}
            config[INSPECTOR] = st.column_config.LinkColumn(
                "inspect", display_text=_SAMPLE_NAME, help="Open this sample in the Drift inspector", width="small"
            )
    return Shown(pa.table(drawn), config)


def _run_columns(table: pa.Table, origins: Mapping[str, str]) -> list[str]:
    """Columns of texts that are all ids of runs of the store."""
    found = []
    for name in table.column_names:
        if pa.types.is_string(table[name].type):
            values = set(table[name].drop_null().unique().to_pylist())
            if values and values <= origins.keys():
                found.append(name)
    return found


def _inspector_links(table: pa.Table, with_samples: frozenset[str]) -> list[str | None]:
    pairs = zip(table[RUN].to_pylist(), table[SAMPLE].to_pylist(), strict=True)
    return [
        inspector_address(run, sample) if run in with_samples and sample is not None and sample >= 0 else None
        for run, sample in pairs
    ]


def _drawn(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Decimals as numbers, and whatever browsers do not know as text."""
    kind, types = column.type, pa.types
    if types.is_decimal(kind):
        if kind.scale:
            return column.cast(pa.float64(), safe=False)
        return pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())
    if types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if types.is_list(kind) and not types.is_nested(kind.value_type):
        return column
    if types.is_nested(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return pa.array(json_texts(column), pa.string())
    if types.is_time(kind) or types.is_duration(kind):
        return pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())
    return column
