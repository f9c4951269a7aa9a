"""The Compare page's SQL: one SELECT over all that is stored; its rows as a table, a chart and files.

The address holds the statement (``sql=SELECT ...``) or a query's key (``sql=saved:report-002-1.1``). What comes by a
link fills in and starts nothing: a statement runs when its reader has pressed *Run*, or has opened it from the list. It
runs in the guarded process of ``engine.store.console``, in a thread, so that *Stop* is heard.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache

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
from pages._kit.rows import table_height
from pages._kit.shown import put_shown
from pages._kit.table_files import table_buttons

LIMITS = Limits(answer_mb=32)  # an answer is held as long as it is shown, and sent to the browser
MOST_ADDRESS = 8_000  # characters of a statement, which is in the address
QUICK_S, TICK_S = 0.7, 0.3  # most statements take less than the first: then no progress is drawn
MOST_DRAWN, MOST_BARS, MOST_COLOURS = 5_000, 60, 8
SQL, SAVED = "sql", "saved:"
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
    queries = {query.key: query for query in ready_queries()}
    try:
        queries |= {query.key: query for query in own_queries(store.home)}
    except DriftscopeError as error:
        st.warning(f"Your own queries are not shown. {error_markdown(error)}", icon=":material/warning:")
    text = st.query_params.get(SQL, "")
    wrong, query = None, next((query for query in queries.values() if query.sql == text.strip()), None)
    if text.startswith(SAVED):
        query = queries.get(key := text.removeprefix(SAVED))
        if query is None:
            wrong = StoreError(f"there is no saved query {shown(key)}", nearest(key, list(queries)))
        text = query.sql if query else ""
    put_shown(sql=text, saved=query.key if query else None)
    if st.session_state.get(FILLED) != text:  # a link, Back, or a query was opened: a new field, that begins with it
        st.session_state[FILLED], st.session_state[FIELD] = text, f"sql_text_{time.monotonic_ns()}"
    _form(store, queries, query, text)
    if wrong or (wrong := st.session_state.pop("sql_wrong", None)):
        st.error(error_markdown(wrong), icon=":material/error:")
    if query and query.about:
        origin = f" It reproduces a table of {query.reproduces}." if query.reproduces else ""
        st.caption(escaped(f"{query.about}{origin}", has_code=True))
    one_of("Show as", ("Table", "Chart"), "sql_as", label_visibility="collapsed")
    if text not in st.session_state.get(ASKED, ()):
        _drop()
        words = "Press *Run*: it came with the address." if text else "Write a SELECT, or open a query."
        st.info(words, icon=":material/database:")
    else:
        with shown_errors("SQL"):
            running = _running(store, text, tuple(ids))
            if wait((running.answer,), QUICK_S).done:
                _answer(running, {entry.id: entry for entry in store.listing().entries})
            else:
                _progress(running)


def _form(store: Store, queries: Mapping[str, Query], query: Query | None, text: str) -> None:
    """The query's name, the statement, and what is done with it."""
    st.session_state[OPEN] = query.key if query else None

    def put(text: str, query: Query | None = None) -> None:
        """Run it, and show it as an address where one can hold it: each is a step for the browser's Back."""
        st.session_state.setdefault(ASKED, set()).add(text)
        if text != st.session_state.get(FILLED):  # the chart's columns were those of other rows
            for name in ("sql_chart", "sql_x", "sql_y", "sql_colour"):
                st.query_params.pop(name, None)
        st.query_params[SQL] = SAVED + query.key if query else text
        _drop()

    def run() -> None:
        sql = st.session_state[st.session_state[FIELD]]
        put(sql, next((query for query in queries.values() if query.sql == sql), None))
        st.session_state[FILLED] = sql  # the field has it: it stays, with its cursor

    def opened() -> None:
        chosen = queries.get(st.session_state[OPEN] or "")
        if chosen != query:  # Streamlit may hear of what it has drawn
            put(chosen.sql if chosen else "", chosen)

    def attempt(act: Callable[[], None]) -> None:
        try:
            act()
        except DriftscopeError as error:
            st.session_state["sql_wrong"] = error

    def save() -> None:
        query = save_query(store.home, st.session_state[NAME], st.session_state[st.session_state[FIELD]])
        put(query.sql, query)
        st.session_state[NAME] = ""

    def delete(query: Query) -> None:
        delete_query(store.home, query.title)
        put(query.sql)

    def title(key: str) -> str:
        query = queries[key]
        group = "Yours" if key.startswith(OWN) else query.reproduces.removeprefix("report ") or "Example"
        return f"{group} · {query.title}"

    st.selectbox(
        "Open a query",
        list(queries),
        None,
        title,
        key=OPEN,
        on_change=opened,
        placeholder="A report's table, an example, or one of yours",
    )
    st.html("<style>[class*='st-key-sql_text'] textarea { font-family: var(--st-code-font, monospace) }</style>")
    with st.form("sql_form", border=False):
        st.text_area(
            "SQL statement",
            text,
            190,
            MOST_ADDRESS,
            st.session_state[FIELD],
            HELP,
            placeholder="SELECT lp, wall_s FROM runs",
        )
        with st.container(horizontal=True, vertical_alignment="bottom", key="sql-buttons"):
            st.form_submit_button("Run", type="primary", icon=":material/play_arrow:", key="sql_run", on_click=run)
            st.text_input(
                "Save under a name",
                key=NAME,
                max_chars=MOST_NAME,
                width=280,
                label_visibility="collapsed",
                placeholder="a name to save it under",
            )
            st.form_submit_button("Save", key="sql_save", icon=":material/save:", on_click=attempt, args=(save,))
    with st.container(horizontal=True):
        with st.popover("Tables and columns", icon=":material/schema:", type="tertiary"):
            st.dataframe(_columns(), hide_index=True, width=760, height=380, alt="Tables, columns and their meaning")
        if query and query.key.startswith(OWN):
            with st.popover("Delete", icon=":material/delete:", type="tertiary", key="sql_ask"):
                st.markdown(f"This deletes the query **{escaped(query.title)}** permanently.")
                st.button("Delete permanently", key="sql_delete", on_click=attempt, args=(lambda: delete(query),))


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
        names: dict[str, str | tuple[str, ...]] = {"tests": runs[1:], "runs": runs}
        names |= {"control": runs[0]} if runs else {}
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
    notes = ["There are more rows: filter, aggregate or LIMIT."] if answer.is_cut else []
    if not table.num_rows and "$tests" in statement.sql and len(statement.runs) < 2:
        notes.append("$tests means no run: choose a test above.")
    ids = table["run_id"].to_pylist() if "run_id" in table.column_names else []
    origins = [runs[id_].row.get("origin") if id_ in runs else None for id_ in ids]
    if "origin" in table.column_names:
        origins = table["origin"].to_pylist()
    if reported := origins.count("reported"):
        notes.append(f"{reported:,} of {counted(table.num_rows, 'row')} are reported, not measured here.")
    if notes:
        st.caption(escaped(" ".join(notes)))
    columns, config = {name: of_browsers(table[name]) for name in table.column_names}, {}
    if st.session_state.get("sql_as") == "Chart":
        _chart(pa.table(columns))
        return
    if ids and runs.keys() >= {*ids}:  # a link is made for stored runs, and for nothing else
        columns["run_id"] = pa.array(map(compare_address, ids))
        config["run_id"] = st.column_config.LinkColumn(display_text=r"control=([^&]+)", help="Compare this run")
        if "sample_id" in columns and all(has_samples(runs[id_]) for id_ in {*ids}):
            samples = table["sample_id"].to_pylist()
            columns = {"inspect": pa.array(map(inspector_address, ids, samples)), **columns}
            config["inspect"] = st.column_config.LinkColumn(display_text=r"sample=(\d+)", help="Open in Drift")
    st.dataframe(
        pa.table(columns),
        hide_index=True,
        height=table_height(table.num_rows, 460),
        column_config=config,
        placeholder="null",
        key="sql_rows",
        alt="Rows",
    )


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


def _chart(table: pa.Table) -> None:
    """Its columns suggest one; the reader may choose another. Each row is a mark: nothing is summed or averaged."""
    kinds = {column.name: column.type for column in table.schema if not pa.types.is_list(column.type)}
    numbers = [name for name, kind in kinds.items() if pa.types.is_integer(kind) or pa.types.is_floating(kind)]
    others = [name for name in kinds if name not in numbers]
    if not numbers or table.num_rows < 2:
        st.info("Nothing to draw: a chart takes two rows, and a column of numbers.", icon=":material/bar_chart:")
        return
    first_y = next((name for name in numbers if pa.types.is_floating(kinds[name])), numbers[0])
    distinct = {name: pc.count_distinct(table[name]).as_py() for name in kinds}
    is_over_time = bool(others) and pa.types.is_temporal(kinds[others[0]])
    usual = "line" if is_over_time else "bar" if others and table.num_rows <= MOST_BARS else "scatter"
    named = max(others, key=lambda name: (not name.endswith(("_id", "_run")), distinct[name]), default=numbers[0])
    few = [name for name in kinds if 1 < distinct[name] <= MOST_COLOURS]
    controls = st.columns(4)
    with controls[0]:
        kind = by_name("Chart", ("bar", "line", "scatter"), "sql_chart", "sql_chart_kind", usual=usual)
    with controls[1]:
        x = by_name("x", [*others, *numbers], "sql_x", "sql_chart_x", usual=named) or named
    with controls[2]:
        y = by_name("y", numbers, "sql_y", "sql_chart_y", usual=first_y) or first_y
    with controls[3]:
        colour = by_name("Colour", few, "sql_colour", "sql_chart_colour", index=None, placeholder="one for all") or ""
    rows, seen = table.select(list(kinds)).slice(0, MOST_DRAWN).to_pylist(), Counter[str]()
    for row in rows:
        row[x] = row[x].isoformat() if hasattr(row[x], "isoformat") else row[x]
        seen[name := str(row[x])] += 1  # bars of one name would lie on each other: each row gets one of its own
        row["bar"] = f"{name} ({seen[name]})" if seen[name] > 1 else name
    hover = tuple(dict.fromkeys(name for name in (x, y, colour, "origin") if name in kinds))
    chart = Chart("bars", y, "bar", colour=colour, hover=hover)
    if kind != "bar":
        chart = Chart("lines" if kind == "line" else "points", x, y, colour=colour, hover=hover)
    if table.num_rows > MOST_DRAWN:
        st.caption(f"The first {MOST_DRAWN:,} rows are drawn.")
    config = {"displaylogo": False, "modeBarButtons": [["toImage"]]}
    alt = alt_of("SQL", "", rows, chart)
    st.plotly_chart(figure_of(chart, rows, {}, [], {}), theme=None, config=config, key="sql_figure", alt=alt)
