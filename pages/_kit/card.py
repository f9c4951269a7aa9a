"""Any question as a card: its answer, options, charts, tables, files, and the button for work that it needs first."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import pyarrow as pa
import streamlit as st

from engine.errors import one_line
from engine.figures.words import capitalised, rounded, three_digits, to_digits
from engine.jobs.commands import task_queue
from engine.models.devices import spare_cores
from engine.questions import ask, choices_of, entries_of, question_of
from engine.questions.chart_rows import Texts
from engine.questions.question import Answered, Chart, Column, NeedsTexts, NeedsWork, Option, Question, shown_columns
from engine.store.memo import Memo
from engine.store.store import Store
from pages._kit.chart import alt_of, figure_of
from pages._kit.choices import held
from pages._kit.components.chart_files import chart_files
from pages._kit.components.matrix import matrix
from pages._kit.errors import escaped, shown_errors
from pages._kit.links import compare_address, open_address
from pages._kit.managing import tasks
from pages._kit.run_colours import run_colours
from pages._kit.sections import put_unfolded
from pages._kit.shown import put_shown
from pages._kit.table_files import file_button, table_buttons, table_height
from pages._kit.theme import palette
from pages._kit.time_chart import time_figure
from pages._kit.words import glossed, help_with_words, unbroken

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_ROWS = 28  # of a table that are in sight
WRAPPED_PX = 66  # a row's height; from 65 on, Streamlit lets texts wrap
MOST_PINNED_PX = 230  # of a column that stays in sight
MOST_SIZED = 40  # characters of a column that is as wide as its longest cell
MOST_SHOWN = 5_000  # rows that a browser gets; files have all
FORMATS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "%": ("%.1f %%", lambda share: rounded(100 * share, 1)),
    "points": ("%+.1f", lambda difference: rounded(100 * difference, 1)),
    "×": ("%.3g×", lambda ratio: to_digits(ratio, 3)),
    "µs": ("localized", lambda us: rounded(us, 2)),
    "ms": ("localized", lambda ms: rounded(ms, 3)),
}
"""By unit, how the browser writes a figure, and the figure that it gets: rounded here, so that it has nothing left to
round its own way. Files have all digits."""
THREE_DIGITS = ("%.10g", three_digits)
"""Of any other unit."""
AS_BUTTONS, MOST_BUTTON_CHARS = 3, 90  # more choices, or longer ones, are a list
ALL_FIGURES = "all_figures"  # the fold below the table of LPs and models
SMALL_CHART = 1_000  # rows
_figures: Memo[go.Figure] = Memo(48)  # plotly checks all of a figure, 0.1 s, as it is made
_large_figures: Memo[go.Figure] = Memo(6)
PICTURE = ["toImage"]
ZOOM = ["pan2d", "zoom2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]


@st.fragment
def card(key: str, store: Store, ids: Sequence[str], given: Mapping[str, Any] = {}) -> None:
    """A fragment: an option of one card redraws that card alone. Options that are ``given`` have no widgets."""
    if st.session_state.pop("picked", False):
        st.rerun()  # the page next to the card may show what was picked
    question = question_of(key)
    with st.container(border=True, key=f"card-{key}"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        about = help_with_words(question.TITLE, question.help.strip())
        head.header(question.TITLE, anchor=False, help=about, width="content")
        if not question.OF.least <= len(ids) <= question.OF.most:
            is_few = len(ids) < question.OF.least
            st.info(f"Choose at least {question.OF.least}." if is_few else f"Choose at most {question.OF.most}.")
            return
        with shown_errors(question.TITLE, stops=False):
            area = st.container(key=f"answer-{key}")
            entries = entries_of(store, question.OF.kind, ids)
            with st.container(horizontal=True, vertical_alignment="bottom", key=f"options-{key}"):
                free = [option for option in question.OPTIONS if option.name not in given]
                options = {**given, **{option.name: widget(option, store, entries) for option in free}}
            try:
                with st.spinner("Computing …", show_time=True):
                    answered = ask(store, key, ids, {n: v for n, v in options.items() if v is not None})
            except (NeedsTexts, NeedsWork) as missing:
                say_what_is_missing(key, missing, area)
                return
            lead, _, notes = answered.answer.partition("\n\n")
            area.markdown(glossed(unbroken(escaped(lead, has_code=True))), unsafe_allow_html=True)
            draw_all(key, store, question, answered, ids)
            for name in question.TABLES:
                if answered.tables[name].num_rows:
                    show_table(f"{key}-{name}", answered.tables[name], question.COLUMNS)
            if "commands" in answered.tables:
                start_buttons(key, answered.tables["commands"])
            if notes:
                st.caption(glossed(unbroken(escaped(notes, has_code=True))), unsafe_allow_html=True)
            data(key, question, answered, head)
    put_shown()


def say_what_is_missing(key: str, missing: NeedsTexts | NeedsWork, area: Any) -> None:
    """What the answer needs first, with a button for work that can be done."""
    if isinstance(missing, NeedsTexts):
        area.info(escaped(str(missing)), icon=":material/info:")
        return
    area.info(escaped(capitalised(str(missing)).partition(" Run: ")[0]), icon=":material/calculate:")
    if st.button("Compute", icon=":material/calculate:", key=f"compute-{key}", type="primary"):
        for command in missing.commands:
            tasks.submit(" ".join(command), list(command))
        st.rerun()


def widget(option: Option, store: Store, entries: Sequence[Any]) -> Any:
    """Bound to the address by the option's name: a link to a page holds every option."""
    label, choices = option.label or option.name, choices_of(option, store, entries)
    bound: Any = {"key": option.name, "bind": "query-params", "help": option.help or None}
    if option.is_picked:
        value = st.query_params.get(option.name)
        if value is not None and st.button("Clear selection", icon=":material/close:", key=f"clear-{option.name}"):
            st.query_params[option.name] = []
            st.rerun()
        put_shown(**{option.name: value})
        return value
    if option.is_many and choices:
        usual = list(option.default or ())
        words: Any = {"format_func": lambda value: choices.get(value, value), "placeholder": "any", "width": 420}
        return st.multiselect(label, list(choices), usual, accept_new_options=option.is_open, **words, **bound) or usual
    return choose(option, label, choices) if choices else unlisted(option, label, bound)


def unlisted(option: Option, label: str, bound: Mapping[str, Any]) -> Any:
    """A widget without choices: by what the default is."""
    if isinstance(option.default, bool):
        return st.toggle(label, option.default, **bound)
    if option.bounds or isinstance(option.default, int | float):
        low, high = option.bounds or (None, None)
        unit = f" ({option.unit})" if option.unit else ""
        return st.number_input(f"{label}{unit}", low, high, option.default, width=160, **bound)
    return None if callable(option.choices) else st.text_input(label, option.default or "", **bound)


def choose(option: Option, label: str, choices: Mapping[Any, str], *, as_buttons: bool = False) -> Any:
    """By value in the address: Streamlit's own binding would write there what is shown of it. Words count too."""
    named, values = st.query_params.get(option.name), list(choices)
    matches = [value for value, words in choices.items() if named in (str(value), words)]
    usual = values[0] if option.default is None else option.default
    more: Any = {
        "key": option.name,
        "format_func": lambda value: choices.get(value, str(value)),
        "on_change": held(option.name, matches[0] if matches else usual),
        "help": option.help or None,
    }
    lengths = [len(words) for words in choices.values()]
    if as_buttons or (len(values) <= AS_BUTTONS and sum(lengths) < MOST_BUTTON_CHARS):
        more["format_func"] = lambda value: escaped(choices.get(value, str(value)))  # buttons are Markdown
        chosen = st.segmented_control(label, values, required=True, wrap=True, **more)
    else:
        chosen = st.selectbox(label, values, placeholder="any", width=min(420, 90 + 8 * max(lengths)), **more)
    put_shown(**{option.name: None if chosen == "" else chosen})  # nothing chosen
    return chosen


def draw_all(key: str, store: Store, question: Question, answered: Answered, ids: Sequence[str]) -> None:
    """The charts. A run has its own colour."""
    names = answered.names or {id_: id_ for id_ in ids}
    colours = run_colours(store) if answered.names and question.CHARTS else {}
    for number, chart in enumerate(question.CHARTS):
        draw(key, number, chart, question, answered, names, colours)


def draw(
    key: str, number: int, chart: Chart, question: Question, answered: Answered, names: Texts, colours: Texts
) -> None:
    table = answered.tables.get(chart.table)
    if table is None or chart.is_empty(table):
        return
    chart_key = f"chart-{key}-{number}"
    if chart.kind == "matrix":
        show_matrix(chart_key, table.to_pylist(), answered, colours)
        return
    picked = st.session_state.pop(f"open {chart_key}", None)
    if picked is not None:
        st.switch_page(f"pages/{chart.picks.split(':')[1]}.py", query_params=dict(parse_qsl(picked)))
    is_time = chart.kind == "time"

    def make() -> go.Figure:
        if is_time:
            return time_figure(chart, answered.tables, question.COLUMNS)
        return figure_of(chart, table.to_pylist(), question.COLUMNS, names, colours)

    drawn = answered.number, number, tuple(names), tuple(colours.items()), palette().background
    rows = sum(part.num_rows for part in answered.tables.values()) if is_time else table.num_rows
    st.plotly_chart(
        (_figures if rows <= SMALL_CHART else _large_figures).of(drawn, make),
        theme=None,
        key=chart_key,
        alt=alt_of(question.TITLE, answered.answer.partition("\n")[0], table.num_rows, chart),
        on_select=(lambda: follow(chart, chart_key)) if chart.picks else "ignore",
        selection_mode="points",
        config={
            "displaylogo": False,
            "modeBarButtons": [ZOOM, PICTURE][not is_time :],
            "scrollZoom": is_time,
            "toImageButtonOptions": {"format": "svg", "filename": f"{key}-{chart.table}" if number else key},
        },
    )


def show_matrix(chart_key: str, rows: Sequence[Mapping[str, Any]], answered: Answered, colours: Texts) -> None:
    """A click on a cell opens its run's worst molecule, one on a head the runs of that model or LP side by side."""
    models, lps = (list(dict.fromkeys(row[name] for row in rows)) for name in ("model", "lp"))
    runs = [[row["run"] for row in rows if row["model"] == model] for model in models]
    runs += [[row["run"] for row in rows if row["lp"] == lp] for lp in lps]
    addresses = [compare_address(first, others, view="Side by side") for first, *others in runs]
    addresses += [f"drift?{row['worst']}" for row in rows]
    if address := st.session_state.pop(f"open {chart_key}", None):
        open_address(address)

    def pick(place: int | None) -> None:
        if place is not None:
            if place < len(models) + len(lps):
                put_unfolded(ALL_FIGURES, is_open=True)  # which a head asks for
            st.session_state[f"open {chart_key}"] = addresses[place]

    matrix(rows, answered.tables["parts"].to_pylist(), colours, (models, lps), key=chart_key, on_pick=pick)


def follow(chart: Chart, chart_key: str) -> None:
    """A click on a mark sets an option in the address, or opens a page when the card is drawn next."""
    points = st.session_state[chart_key]["selection"]["points"]
    kind, name, _ = chart.picks.split(":")
    value = points[0].get("customdata") if points else None
    value = value[0] if isinstance(value, list) else value
    if value is None:
        return  # as of a bar of several rows
    if kind == "page":
        st.session_state[f"open {chart_key}"] = str(value)
    else:
        st.query_params[name] = str(value)
        st.session_state["picked"] = True


def show_table(key: str, table: pa.Table, columns: Mapping[str, Column]) -> None:
    """Shares in per cent, addresses as links; a long table is shown in part, and its files have all."""
    shown, config = table.slice(0, MOST_SHOWN), dict[str, Any]()
    frame: dict[str, list[Any]] = {}
    about = shown_columns(shown.column_names, columns)
    for name, column in about.items():
        frame[name], config[name] = shown_column(name, column, shown[name].to_pylist())
    picked = [name for name, column in about.items() if column.picks]
    is_wrapped = any(column.wrap_px for column in about.values())
    st.dataframe(
        frame,
        hide_index=True,
        column_config=config,
        key=f"table-{key}",
        placeholder="–",
        height=table_height(min(shown.num_rows * (1 + is_wrapped), MOST_ROWS)),
        row_height=WRAPPED_PX if is_wrapped else None,
        on_select=(lambda: tick(f"table-{key}", columns, frame, picked[0])) if picked else "ignore",
        selection_mode="single-row",
    )
    if table.num_rows > MOST_SHOWN:
        st.caption(f"The first {MOST_SHOWN:,} of {table.num_rows:,} rows; the files below have all.")


def shown_column(name: str, column: Column, values: list[Any]) -> tuple[list[Any], Any]:
    """What the browser gets of a column's values, and how it writes them."""
    words = column.head(name)
    about = help_with_words(words, column.help)
    if column.page:
        values = [None if value is None else f"{column.page}?{value}" for value in values]
        return values, st.column_config.LinkColumn(words, help=about, display_text=r"([^=]+)$")
    if any(isinstance(value, float) for value in values):
        form, shown_value = FORMATS.get(column.unit, THREE_DIGITS)
        values = [None if value is None else shown_value(value) for value in values]
        return values, st.column_config.NumberColumn(words, help=about, format=form)
    values = [one_line(value) if isinstance(value, str) else value for value in values]
    width = column.wrap_px or width_of([words, *values])
    if column.is_pinned:
        width = min(width or MOST_PINNED_PX, MOST_PINNED_PX)
    return values, st.column_config.Column(words, help=about, pinned=column.is_pinned, width=width)


def width_of(cells: Sequence[object]) -> int | None:
    """Of a narrow column, room for all of its cells: the browser measures the first rows alone, and clips others."""
    longest = max(len(str(cell)) for cell in cells)
    return 24 + 8 * longest if longest <= MOST_SIZED else None


def tick(table_key: str, columns: Mapping[str, Column], frame: Mapping[str, list[Any]], name: str) -> None:
    """A ticked row sets an option in the address."""
    rows = st.session_state[table_key]["selection"]["rows"]
    if rows:
        st.query_params[columns[name].picks] = str(frame[name][rows[0]])
        st.session_state["picked"] = True


def start_buttons(key: str, commands: pa.Table) -> None:
    """What would tell more, each command with a button; one that names a file of the reader's has none."""
    for number, command in enumerate(commands["command"].to_pylist()):
        st.code(f".venv/bin/{command}", language=None, wrap_lines=True)
        words = shlex.split(command)[3:]
        is_there = task_queue().is_at(command)
        if not {"FILE", "FOLDER"} & set(words) and st.button(
            "Start", icon=":material/play_arrow:", key=f"start-{key}-{number}", disabled=is_there
        ):
            spared = [words[0], f"--threads={spare_cores()}", *words[1:]]
            if tasks.submit(" ".join(words[:3]), spared, about=command):
                st.rerun()


def data(key: str, question: Question, answered: Answered, head: Any) -> None:
    """Every table behind the card, as a table and as files; made when a user opens it."""
    if question.DOWNLOADS:
        head = head.container(horizontal=True, width="content")
    for download in question.DOWNLOADS:
        with head:
            make = partial(download.make, answered.tables)
            file_button(download.words, make, download.file, key=f"{download.file}-{key}", help=download.help)
    popover = head.popover(
        "Data",
        icon=":material/table:",
        type="tertiary",
        key=f"data-{key}",
        on_change="rerun",
        help="The figures behind this card, as CSV and Parquet, and its charts as SVG and PNG",
    )
    if not popover.open:
        return
    with popover:
        if question.CHARTS:
            chart_files(f"card-{key}")
        for name, table in answered.tables.items():
            if table.num_rows and name not in (*question.TABLES, "notes", "commands"):
                show_table(f"data-{key}-{name}", table, question.COLUMNS)
            if table.num_rows:
                with st.container(horizontal=True):
                    table_buttons(
                        table, f"{key}-{name}".replace(" ", "-"), key=f"file-{key}-{name}", subject=f"“{name}”"
                    )


def cards(keys: Sequence[str], store: Store, ids: Sequence[str]) -> None:
    """Where nothing is chosen, the picker above says how to."""
    for key in keys:
        if ids or not question_of(key).OF.least:
            card(key, store, ids)
