"""A statement's answer: its rows with links or as a chart, what was cut off or left out, and its files.

Values are untrusted: a link is made for a run that the store has, and for nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from engine.errors import one_line
from engine.figures.words import counted
from pages._shared import sql_chart
from pages._shared.choices import one_of
from pages._shared.errors import error_markdown, escape_markdown
from pages._shared.links import compare_address, inspector_address
from pages._shared.rows import table_height
from pages._shared.sql_chart import ORIGIN, REPORTED, ComparedRuns
from pages._shared.sql_console import LIMITS, SqlOutcome
from pages._shared.table_files import json_texts, table_buttons

RUN, SAMPLE = "run_id", "sample_id"
INSPECTOR = "in the Drift inspector"
TABLE, CHART = "Table", "Chart"
MOST_NAMED = 5
MOST_HEIGHT = 460


def show(outcome: SqlOutcome, runs: ComparedRuns | None) -> None:
    if outcome.answer is None:
        st.error(error_markdown(outcome.error) if outcome.error else "", icon=":material/error:")
        return
    table = outcome.answer.table
    if not table.num_rows:
        names = ", ".join(f"`{one_line(name).replace('`', '')}`" for name in table.column_names)
        has_no_tests = "$tests" in outcome.statement.sql and len(outcome.statement.runs) < 2
        why = " `$tests` stands for no run: choose a test above." if has_no_tests else ""
        st.info(f"The statement is valid, and returned no rows.{why} Columns: {names}", icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        form = one_of("Show as", (TABLE, CHART), "sql_as", label_visibility="collapsed")
        rows = f"**{table.num_rows:,}** {'row' if table.num_rows == 1 else 'rows'}"
        size = f"{rows} · {counted(table.num_columns, 'column')} · {outcome.answer.seconds:.2f} s"
        st.markdown(size, width="stretch")
        table_buttons(table, "answer", key="sql_file", what="All rows here")
    if outcome.answer.is_cut:
        most = f"{LIMITS.rows:,} rows and {LIMITS.written_mb} MB of JSON"
        st.caption(f":material/content_cut: There are more rows: an answer ends at {most}. Filter, aggregate or LIMIT.")
    if outcome.left_out:
        some = ", ".join(escape_markdown(id_) for id_ in outcome.left_out[:MOST_NAMED])
        more = f" and {len(outcome.left_out) - MOST_NAMED} more" if len(outcome.left_out) > MOST_NAMED else ""
        st.caption(f":material/warning: Damaged files of {some}{more} are left out; `verify` lists them.")
    if count := _reported_rows(outcome):
        which = "All rows are" if count == table.num_rows else f"{count:,} of {table.num_rows:,} rows are"
        st.caption(f":material/format_quote: {which} {REPORTED}, not measured here.")
    if form == CHART:
        sql_chart.show(table, outcome.statement.sql, runs)
        return
    shown, columns = shown_table(outcome)
    st.dataframe(
        shown,
        hide_index=True,
        height=table_height(shown.num_rows, MOST_HEIGHT),
        column_config=columns,
        placeholder="null",
        key="sql_rows",
        alt="The rows of the answer",
    )


def has_several_origins(outcome: SqlOutcome) -> bool:
    """Whether reported rows stand beside measured ones, by the rows' own column."""
    table = None if outcome.answer is None else outcome.answer.table
    return table is not None and ORIGIN in table.column_names and pc.count_distinct(table[ORIGIN]).as_py() > 1


def _reported_rows(outcome: SqlOutcome) -> int:
    assert outcome.answer is not None
    table = outcome.answer.table
    if ORIGIN in table.column_names:
        return int(table[ORIGIN].to_pylist().count(REPORTED))
    columns = [table[name].to_pylist() for name in _run_columns(table, outcome.origins)]
    return sum(any(outcome.origins.get(id_) == REPORTED for id_ in row) for row in zip(*columns, strict=True))


def shown_table(outcome: SqlOutcome) -> tuple[pa.Table, dict[str, Any]]:
    """The answer in types that every browser draws, with links for runs and samples; and how its columns are drawn."""
    assert outcome.answer is not None
    table = outcome.answer.table
    runs = _run_columns(table, outcome.origins)
    shown = {name: _drawable(table[name]) for name in table.column_names}
    config: dict[str, Any] = {}
    for name in runs:
        shown[name] = pa.array([id_ and compare_address(id_) for id_ in table[name].to_pylist()], pa.string())
        config[name] = st.column_config.LinkColumn(name, display_text=r"control=([^&]+)", help="Compare this run")
    if RUN in runs and SAMPLE in table.column_names and pa.types.is_integer(table[SAMPLE].type):
        links = [
            inspector_address(run, sample)
            if run in outcome.with_samples and sample is not None and sample >= 0
            else None
            for run, sample in zip(table[RUN].to_pylist(), table[SAMPLE].to_pylist(), strict=True)
        ]
        if any(links):
            shown = {INSPECTOR: pa.array(links, pa.string()), **shown}
            config[INSPECTOR] = st.column_config.LinkColumn(
                "inspect", display_text=r"sample=(\d+)", help="Open this sample in the Drift inspector", width="small"
            )
    return pa.table(shown), config


def _run_columns(table: pa.Table, origins: Mapping[str, str]) -> list[str]:
    """Columns of texts that are all ids of runs of the store."""
    names = []
    for name in table.column_names:
        if pa.types.is_string(table[name].type):
            values = set(table[name].drop_null().unique().to_pylist())
            if values and values <= origins.keys():
                names.append(name)
    return names


def _drawable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Decimals as numbers, and types that browsers do not know as text."""
    kind, types = column.type, pa.types
    if types.is_decimal(kind) and kind.scale:
        return column.cast(pa.float64(), safe=False)
    if types.is_decimal(kind) or types.is_time(kind) or types.is_duration(kind):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    if types.is_dictionary(kind):
        return column.cast(kind.value_type)
    is_flat_list = types.is_list(kind) and not types.is_nested(kind.value_type)
    if (types.is_nested(kind) and not is_flat_list) or types.is_binary(kind) or types.is_large_binary(kind):
        return pa.array(json_texts(column), pa.string())
    return column
