"""The Compare page's SQL: one SELECT over all that is stored; its rows as a table, a chart and files.

The address holds the statement (``sql=SELECT ...``) or a query's key (``sql=saved:report-002-1.1``). What comes by a
link fills in and starts nothing: a statement runs when its reader has pressed *Run*, or has opened it from the list; a
first visit runs a query that ships. It runs in the guarded process of ``engine.store.console``, in a thread, so that
*Stop* is heard.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from engine.comparing.measures import has_samples
from engine.comparing.queries import MOST_NAME, OWN, Query, delete_query, own_queries, ready_queries, save_query
from engine.errors import DriftscopeError, SqlError, StoreError, nearest, shown
from engine.figures.words import counted, fixed
from engine.questions.question import Chart
from engine.store.columns import json_values
from engine.store.console import Console, Limits, SqlAnswer
from engine.store.entries import Entry
from engine.store.schema import KINDS
from engine.store.store import Store
from pages._kit.chart import alt_of, figure_of
from pages._kit.choices import by_name, one_of
from pages._kit.errors import error_markdown, escaped, shown_errors
from pages._kit.links import compare_address, inspector_address
from pages._kit.shown import put_shown
from pages._kit.table_files import table_buttons, table_height

LIMITS = Limits(answer_mb=32)  # an answer is held as long as it is shown, and sent to the browser
MOST_ADDRESS = 8_000  # characters of a statement, which is in the address
QUICK_S, TICK_S = 0.7, 0.3  # most statements take less than the first: then no progress is drawn
MOST_DRAWN, MOST_BARS, MOST_COLOURS = 5_000, 60, 8
SQL, SAVED, FIRST = "sql", "saved:", "00-time-by-family"
FIELD, FILLED, OPEN, NAME = "sql_field", "sql_filled", "sql_open", "sql_name"
ASKED, RUNNING = "sql_asked", "sql_running"
HELP = (
    "`$control`, `$tests` and `$runs` mean the compared runs: `run_id = $control`, `run_id IN $tests`. "
    f"Read-only; at most {LIMITS.rows:,} rows, {LIMITS.seconds:g} s and {LIMITS.memory_mb} MB."
)


@st.fragment
def show(store: Store, ids: Sequence[str]) -> None:
    """``ids`` of the compared runs: the names for runs mean them."""
    store = store.snapshot()  # runs may have come since the page was drawn
    opened, wrong = _opened(store)
    text = opened.text
    put_shown(sql=text, saved=opened.query.key if opened.query else None)
    if st.session_state.get(FILLED) != text:  # a link, Back, or a query was opened: a new field, that begins with it
        st.session_state[FILLED], st.session_state[FIELD] = text, f"sql_text_{time.monotonic_ns()}"
    opened.show()
    wrong = wrong or st.session_state.pop("sql_wrong", None)
    if wrong:
        st.error(error_markdown(wrong), icon=":material/error:")
    if text not in st.session_state.get(ASKED, ()):
        _drop()
        words = "Press *Run*: it came with the address." if text else "Write a SELECT, or open a query."
        st.info(words, icon=":material/database:")
        return
    with shown_errors("SQL"):
        running = _running(store, text, tuple(ids))
        if wait((running.answer,), QUICK_S).done:
            _answer(running, {entry.id: entry for entry in store.listing().entries})
        else:
            _progress(running)


def _opened(store: Store) -> tuple[Opened, StoreError | None]:
    """What the address names, and what is wrong with it; on a first visit the first query that ships, and it runs."""
    queries = {query.key: query for query in sorted(ready_queries(), key=lambda query: query.reproduces)}
    try:
        queries |= {query.key: query for query in own_queries(store.home)}
    except DriftscopeError as error:
        st.warning(f"Your own queries are not shown. {error_markdown(error)}", icon=":material/warning:")
    text = st.query_params.get(SQL)
    if text is None:
        st.session_state.setdefault(ASKED, set()).add(queries[FIRST].sql)
        return Opened(store, queries, queries[FIRST], queries[FIRST].sql), None
    if not text.startswith(SAVED):
        query = next((query for query in queries.values() if query.sql == text.strip()), None)
        return Opened(store, queries, query, text), None
    key = text.removeprefix(SAVED)
    if key in queries:
        return Opened(store, queries, queries[key], queries[key].sql), None
    return Opened(store, queries, None, ""), StoreError(f"there is no saved query {shown(key)}", nearest(key, queries))


@dataclass(frozen=True, slots=True)
class Opened:
    """The statement in the field, the query that it is, if any, and what is done with it."""

    store: Store
    queries: Mapping[str, Query]
    query: Query | None
    text: str

    def show(self) -> None:
        left, right = st.columns([2, 3], gap="medium")
        with left:
            self._list()
        with right:
            self._field()
        query = self.query
        if query and query.about:
            origin = f" It reproduces a table of {query.reproduces}." if query.reproduces else ""
            st.caption(escaped(f"{query.about}{origin}", has_code=True))
        with st.container(horizontal=True, vertical_alignment="center"):
            one_of("Show as", ("Table", "Chart"), "sql_as", label_visibility="collapsed", width="content")
            with st.popover("Tables and columns", icon=":material/schema:", type="tertiary"):
                st.dataframe(_columns(), hide_index=True, width=760, height=380, alt="Tables, columns, their meaning")
            if query and query.key.startswith(OWN):
                with st.popover("Delete", icon=":material/delete:", type="tertiary", key="sql_ask"):
                    st.markdown(f"This deletes the query **{escaped(query.title)}** permanently.")
                    act = partial(_attempt, partial(self._delete, query))
                    st.button("Delete permanently", key="sql_delete", on_click=act)

    def _list(self) -> None:
        """Those that ship, by what they are for, and a user's own."""
        st.session_state[OPEN] = self.query.key if self.query else None
        with st.container(height=240):
            st.radio("Ready queries", list(self.queries), None, self._title, key=OPEN, on_change=self._on_open)

    def _field(self) -> None:
        with st.form("sql_form", border=False):
            st.text_area(
                "SQL statement",
                self.text,
                145,
                MOST_ADDRESS,
                st.session_state[FIELD],
                HELP,
                placeholder="SELECT lp, wall_s FROM runs",
            )
            with st.container(horizontal=True, vertical_alignment="bottom", key="sql-buttons"):
                run = self._on_run
                st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", key="sql_run", on_click=run)
                st.text_input(
                    "Save under a name",
                    key=NAME,
                    max_chars=MOST_NAME,
                    width=280,
                    label_visibility="collapsed",
                    placeholder="a name to save it under",
                )
                save = partial(_attempt, self._save)
                st.form_submit_button("Save", key="sql_save", icon=":material/save:", on_click=save)

    def _title(self, key: str) -> str:
        query = self.queries[key]
        group = "Yours" if key.startswith(OWN) else query.reproduces.removeprefix("report ")
        return escaped(f"{group} · {query.title}" if group else query.title)

    def _on_open(self) -> None:
        query = self.queries.get(st.session_state[OPEN] or "")
        if query and query != self.query:  # Streamlit may hear of what it has drawn
            _put(query.sql, query)

    def _on_run(self) -> None:
        sql = st.session_state[st.session_state[FIELD]]
        _put(sql, next((query for query in self.queries.values() if query.sql == sql), None))
        st.session_state[FILLED] = sql  # the field has it: it stays, with its cursor

    def _save(self) -> None:
        query = save_query(self.store.home, st.session_state[NAME], st.session_state[st.session_state[FIELD]])
        _put(query.sql, query)
        st.session_state[NAME] = ""

    def _delete(self, query: Query) -> None:
        delete_query(self.store.home, query.title)
        _put(query.sql)


def _put(text: str, query: Query | None = None) -> None:
    """Run it, and show it as an address where one can hold it: each is a step for the browser's Back."""
    st.session_state.setdefault(ASKED, set()).add(text)
    if text != st.session_state.get(FILLED):  # the chart's columns were those of other rows
        for name in ("sql_chart", "sql_x", "sql_y", "sql_colour"):
            st.query_params.pop(name, None)
    st.query_params[SQL] = SAVED + query.key if query else text
    _drop()


def _attempt(act: Callable[[], None]) -> None:
    try:
        act()
    except DriftscopeError as error:
        st.session_state["sql_wrong"] = error


@cache
def _columns() -> pa.Table:
    of_tables = [(table.name, column) for kind in KINDS for table in (kind.main, *kind.tables) for column in table]
    return pa.Table.from_pylist(
        [{"table": name, "column": of.name, "type": str(of.type), "meaning": of.meaning} for name, of in of_tables]
    )


# --- running a statement ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One statement under way, with the runs that its names mean."""

    sql: str
    runs: tuple[str, ...]
    answer: Future[SqlAnswer]
    stop: Callable[[], None] = lambda: None
    began: float = field(default_factory=time.monotonic)


@st.cache_resource(scope="session", max_entries=1, on_release=Console.close, show_spinner=False)
def console_of(version: int, _store: Store) -> Console:
    """Kept while the store's entries are the same, since a new one takes half a second; Streamlit closes it then, and
    when the browser leaves."""
    return _store.console(LIMITS)


def _running(store: Store, sql: str, runs: tuple[str, ...]) -> Statement:
    """The statement of this session; started where it or its runs are others than before, which is stopped."""
    runs = runs if re.search(r"\$(control|tests|runs)\b", sql) else ()
    running: Statement | None = st.session_state.get(RUNNING)
    if running is None or (running.sql, running.runs) != (sql, runs):
        _drop()
        entries = [entry for kind in KINDS for entry in store.listing(kind).entries]
        console = console_of(hash((store.home.where, *((entry.key, str(entry.row)) for entry in entries))), store)
        control = {"control": runs[0]} if runs else {}
        names: dict[str, str | tuple[str, ...]] = {"tests": runs[1:], "runs": runs, **control}
        answer = ThreadPoolExecutor(1, "sql").submit(console.query, sql, names)  # in a thread: Stop is heard meanwhile
        running = st.session_state[RUNNING] = Statement(sql, runs, answer, console.cancel)
    return running


def _drop() -> None:
    """Another statement follows, or the same once more, or none."""
    if (former := st.session_state.pop(RUNNING, None)) is not None:
        former.stop()


@st.fragment(run_every=TICK_S)
def _progress(statement: Statement) -> None:
    """Until the statement has ended: then the page is drawn again."""
    if statement.answer.done():
        st.rerun()
    seconds = time.monotonic() - statement.began
    words = f"Running for {fixed(seconds, 0)} s, of at most {LIMITS.seconds:g} s"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, seconds / LIMITS.seconds), words)
        st.button("Stop", key="sql_stop", icon=":material/stop_circle:", on_click=statement.stop)


# --- its answer -------------------------------------------------------------------------------------------------------


def _answer(statement: Statement, runs: Mapping[str, Entry]) -> None:
    try:
        answer = statement.answer.result()
    except DriftscopeError as error:
        if error.what == "$control has no value":
            error = SqlError("$control means no run", "Choose a control above, or write a run's id in quotes")
        st.error(error_markdown(error), icon=":material/error:")
        return
    table = answer.table
    with st.container(horizontal=True, vertical_alignment="center"):
        size = f"**{counted(table.num_rows, 'row')}** · {counted(table.num_columns, 'column')}"
        st.markdown(f"{size} · {fixed(answer.seconds, 2)} s", width="stretch")
        table_buttons(table, "answer", key="sql_file", subject="All rows here")
    if notes := " ".join(_notes(statement, answer, runs)):
        st.caption(escaped(notes))
    columns = {name: of_browsers(table[name]) for name in table.column_names}
    if st.session_state.get("sql_as") == "Chart":
        _chart(pa.table(columns))
        return
    columns, links = _linked(columns, runs)
    st.dataframe(
        pa.table(columns),
        hide_index=True,
        height=table_height(table.num_rows, 460),
        column_config=links,
        placeholder="null",
        key="sql_rows",
        alt="Rows",
    )


def _notes(statement: Statement, answer: SqlAnswer, runs: Mapping[str, Entry]) -> Iterator[str]:
    table = answer.table
    if answer.is_cut:
        yield "There are more rows: filter, aggregate or LIMIT."
    if not table.num_rows and "$tests" in statement.sql and len(statement.runs) < 2:
        yield "$tests means no run: choose a test above."
    origins: list[object] = []
    if "origin" in table.column_names:
        origins = table["origin"].to_pylist()
    elif "run_id" in table.column_names:
        origins = [runs[id_].row.get("origin") for id_ in table["run_id"].to_pylist() if id_ in runs]
    if reported := origins.count("reported"):
        yield f"{reported:,} of {counted(table.num_rows, 'row')} are reported, not measured here."


def _linked(columns: dict[str, Any], runs: Mapping[str, Entry]) -> tuple[dict[str, Any], dict[str, Any]]:
    """With links to stored runs and their samples, and to nothing else; and how the browser shows them."""
    ids = columns["run_id"].to_pylist() if "run_id" in columns else []
    if not ids or not runs.keys() >= {*ids}:
        return columns, {}
    link = st.column_config.LinkColumn
    links = {"run_id": link(display_text=r"control=([^&]+)", help="Compare this run")}
    linked = columns | {"run_id": pa.array(map(compare_address, ids))}
    if "sample_id" in columns and all(has_samples(runs[id_]) for id_ in {*ids}):
        samples = columns["sample_id"].to_pylist()
        linked = {"inspect": pa.array(map(inspector_address, ids, samples)), **linked}
        links["inspect"] = link(display_text=r"sample=(\d+)", help="Open in Drift")
    return linked, links


def of_browsers(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """The column in a type that every browser draws: what is nested, or of bytes or times of day, as text."""
    kind, types = column.type, pa.types
    if types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    parts = kind.value_type if types.is_list(kind) else kind
    plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_string, types.is_timestamp, types.is_date)
    if any(is_plain(parts) for is_plain in plain):
        return column
    values = (value if isinstance(value, str | None) else json.dumps(value) for value in json_values(column))
    return pa.array(values, pa.string())


@dataclass(frozen=True, slots=True)
class Axes:
    """Columns that can be drawn, by name."""

    table: pa.Table

    def of(self, *kinds: Callable[[pa.DataType], bool]) -> list[str]:
        return [column.name for column in self.table.schema if any(is_kind(column.type) for is_kind in kinds)]

    @property
    def numbers(self) -> list[str]:
        return self.of(pa.types.is_integer, pa.types.is_floating)

    @property
    def others(self) -> list[str]:
        return [name for name in self.table.column_names if name not in self.numbers]

    def distinct(self, name: str) -> int:
        return int(pc.count_distinct(self.table[name]).as_py())

    def suggested(self) -> tuple[str, str, str]:
        """A kind of chart, x and y."""
        others, y = self.others, next(iter(self.of(pa.types.is_floating) or self.numbers))
        x = max(others, key=lambda name: (not name.endswith(("_id", "_run")), self.distinct(name)), default=y)
        if others and others[0] in self.of(pa.types.is_temporal):
            return "line", x, y
        return "bar" if others and self.table.num_rows <= MOST_BARS else "scatter", x, y


def _chart(table: pa.Table) -> None:
    """Its columns suggest one; the reader may choose another. Each row is a mark: nothing is summed or averaged."""
    table = table.select([column.name for column in table.schema if not pa.types.is_list(column.type)])
    axes = Axes(table)
    if not axes.numbers or table.num_rows < 2:
        st.info("Nothing to draw: a chart takes two rows, and a column of numbers.", icon=":material/bar_chart:")
        return
    usual = axes.suggested()
    few = [name for name in table.column_names if 1 < axes.distinct(name) <= MOST_COLOURS]
    spots = st.columns(4)
    with spots[0]:
        kind = by_name("Chart", ("bar", "line", "scatter"), "sql_chart", "sql_chart_kind", usual=usual[0])
    with spots[1]:
        x = by_name("x", [*axes.others, *axes.numbers], "sql_x", "sql_chart_x", usual=usual[1]) or usual[1]
    with spots[2]:
        y = by_name("y", axes.numbers, "sql_y", "sql_chart_y", usual=usual[2]) or usual[2]
    with spots[3]:
        colour = by_name("Colour", few, "sql_colour", "sql_chart_colour", index=None, placeholder="one for all") or ""
    hover = tuple(dict.fromkeys(name for name in (x, y, colour, "origin") if name in table.column_names))
    charts = {
        "bar": Chart("bars", y, "bar", colour=colour, hover=hover),
        "line": Chart("lines", x, y, colour=colour, hover=hover),
    }
    chart = charts.get(kind or "", Chart("points", x, y, colour=colour, hover=hover))
    rows = _marks(table, x)
    if table.num_rows > MOST_DRAWN:
        st.caption(f"The first {MOST_DRAWN:,} rows are drawn.")
    config = {"displaylogo": False, "modeBarButtons": [["toImage"]]}
    alt = alt_of("SQL", "", len(rows), chart)
    st.plotly_chart(figure_of(chart, rows, {}, {}), theme=None, config=config, key="sql_figure", alt=alt)


def _marks(table: pa.Table, x: str) -> list[dict[str, Any]]:
    """A row each, with a name of its own for a bar: bars of one name would be drawn over each other."""
    rows = []
    seen: Counter[str] = Counter()
    for row in table.slice(0, MOST_DRAWN).to_pylist():
        value = row[x].isoformat() if hasattr(row[x], "isoformat") else row[x]
        name = str(value)
        seen[name] += 1
        rows.append({**row, x: value, "bar": f"{name} ({seen[name]})" if seen[name] > 1 else name})
    return rows
