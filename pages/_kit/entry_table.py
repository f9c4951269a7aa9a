"""One table of the store's entries: a row an entry, filters above it, and rows that a reader ticks.

What a tick means is its page's: which entries are shown (``picker.py``), or renamed and deleted (``managing/``).
Filters are in the address. They hide rows, and untick none. A training is one row, until its steps are looked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

import streamlit as st

from engine.comparing.measures import engine_words, figure, lp_words, model_words
from engine.errors import one_line
from engine.figures.words import counted, shortened
from engine.lp_records import NO_LP
from engine.records import RULE_HELP
from engine.store.entries import Entry, came_at, constrained_words, is_profiled, label_words
from pages._kit.card import FORMATS, THREE_DIGITS
from pages._kit.choices import leave_other_pages
from pages._kit.table_files import table_height
from pages._kit.words import help_with_words

FILTERS_FROM = 8  # entries: fewer are seen at once
MOST_TEXT = 400
ORIGIN, TAGS, SWATCH = "origin", "tags", "swatch"
BY_VALUE = {ORIGIN: "Origin", "model": "Model", "lp": "LP", TAGS: "Tag"}  # columns to filter by, where a row has one
HIDDEN_TEXTS = ("label", "notes", "source", "file", "run_id")  # in which words are looked for too
Form = Literal["text", "count", "figure", "share", "bar", "good bar", "time", "link", "tags"]
_COLUMN, _BAR = st.column_config, {"format": FORMATS["%"][0], "max_value": 100.0}
_CONFIGS: Mapping[Form, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "text": (_COLUMN.TextColumn, {}),
    "count": (_COLUMN.NumberColumn, {"format": "localized"}),
    "figure": (_COLUMN.NumberColumn, {"format": THREE_DIGITS[0]}),
    "share": (_COLUMN.NumberColumn, {"format": FORMATS["%"][0]}),
    "bar": (_COLUMN.ProgressColumn, _BAR),
    "good bar": (_COLUMN.ProgressColumn, {**_BAR, "color": "green"}),
    "time": (_COLUMN.DatetimeColumn, {"format": "D MMM YYYY HH:mm"}),
    "link": (_COLUMN.LinkColumn, {"display_text": r"control=([^&]+)"}),
    "tags": (_COLUMN.ListColumn, {}),
}
_ROUNDED: Mapping[Form, Callable[[float], float]] = {
    "figure": THREE_DIGITS[1],
    **dict.fromkeys(("share", "bar", "good bar"), FORMATS["%"][1]),
}


@dataclass(frozen=True, slots=True)
class EntryColumn:
    """``value`` is what the store says of an entry: a share is from 0 to 1, a text anybody's."""

    name: str
    words: str
    width: int
    value: Callable[[Entry], Any]
    form: Form = "text"
    help: str = ""

    def cell(self, entry: Entry) -> Any:
        """What the browser gets: rounded as everywhere, in one line."""
        value = self.value(entry)
        if isinstance(value, str):
            return plain(value)
        if self.form == "tags":
            return [plain(text) for text in value]
        rounded = _ROUNDED.get(self.form)
        return value if value is None or rounded is None else rounded(value)

    @property
    def config(self) -> Any:
        column, more = _CONFIGS[self.form]
        return column(self.words, width=self.width, help=help_with_words(self.words, self.help) or None, **more)

    def config_in(self, rows: Sequence[EntryRow]) -> Any:
        """None, which hides it, where no row has anything of it."""
        return self.config if any(row.cells[self.name] not in (None, []) for row in rows) else None


TAG_COLUMN = EntryColumn(TAGS, TAGS, 150, lambda entry: entry.row.get(TAGS) or [], "tags")


def plain(text: str) -> str | None:
    return shortened(one_line(text), MOST_TEXT) or None


@dataclass(frozen=True, slots=True)
class EntryRow:
    id: str
    cells: Mapping[str, Any]
    text: str  # in which words are looked for
    training: str | None  # that it is a step of

    def values(self, name: str) -> Collection[str]:
        """What a filter finds its cell of a column by: each of its tags."""
        cell = self.cells.get(name)
        if isinstance(cell, list):
            return cell
        return [cell] if cell else []


@dataclass(frozen=True, slots=True)
class EntryTable:
    """``group`` sorts: of entries that it says are equal the newest comes first."""

    noun: str
    columns: tuple[EntryColumn, ...]
    prefix: str = ""  # of the filters' names, where the page has filters of its own
    has_all_steps: bool = False  # a row for each step of a training
    group: Callable[[Entry], Any] = lambda entry: ()

    @property
    def key(self) -> str:
        return f"{self.prefix}{self.noun}"

    @property
    def filters(self) -> list[str]:
        """Parameters of the address."""
        return [self.prefix + name for name in (*BY_VALUE, "contains", "only")]

    def in_order(self, entries: Sequence[Entry]) -> list[Entry]:
        newest_first = sorted(entries, key=came_at)[::-1]
        return sorted(newest_first, key=self.group)

    def show(
        self,
        entries: Sequence[Entry],
        ids: Sequence[str],
        take: Callable[[list[str]], None],
        colours: Mapping[str, str] = {},
    ) -> None:
        """Draw it with ``ids`` ticked; ``take`` gets those ticked from then on. ``colours``: by id, drawn first."""
        all_rows = rows = [_row(entry, self.columns) for entry in entries]
        if len(rows) >= FILTERS_FROM or any(st.query_params.get(name) for name in self.filters):
            rows = self._filtered(rows, ids)
            if not (self.has_all_steps or st.session_state[f"{self.prefix}contains"]):
                rows = _first_steps(rows, ids)
        if not rows:
            st.info(f"No {self.noun} matches. Remove a filter.", icon=":material/filter_alt_off:")
            return
        shown = [row.id for row in rows]
        key = show_rows(self.key, shown, ids)
        # Each row has the key, or the column would not be the first where the first row has no colour.
        pictures = [swatch(colours[row.id]) if row.id in colours else None for row in rows]
        swatches = [{SWATCH: picture} if colours else {} for picture in pictures]
        swatch_column = _COLUMN.ImageColumn("", width=36, help="Its colour in all charts")
        st.dataframe(
            [{**own, **row.cells} for own, row in zip(swatches, rows, strict=True)],
            hide_index=True,
            height=table_height(len(rows), table_height(10)),
            key=key,
            column_config={SWATCH: swatch_column}
            | {column.name: column.config_in(all_rows) for column in (*self.columns, TAG_COLUMN)},
            on_select=partial(self.tick, key, shown, ids, take),
            selection_mode="multi-row",
            placeholder="–",
            alt=f"{self.noun.capitalize()}s of the store: tick some",
        )

    def tick(self, key: str, shown: Sequence[str], ids: Sequence[str], take: Callable[[list[str]], None]) -> None:
        """Those before keep their places, as far as they are ticked still or no row shows them; new ones come last."""
        rows = picked_rows(key)
        if rows is not None:
            ticked = [shown[row] for row in rows if row < len(shown)]
            kept = [id_ for id_ in ids if id_ in ticked or id_ not in shown]
            take([*kept, *(id_ for id_ in ticked if id_ not in kept)])

    def _filtered(self, rows: Sequence[EntryRow], ids: Sequence[str]) -> list[EntryRow]:
        """Draw the filters, and give the rows that pass them."""
        leave_other_pages(*self.filters)
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"{self.key}-filters"):
            passing = list(rows)
            for name, label in BY_VALUE.items():
                if values := sorted({value for row in rows for value in row.values(name)}):
                    wanted = self._wanted(name, label, values)
                    passing = [row for row in passing if not wanted or not wanted.isdisjoint(row.values(name))]
            about = f"In any text of a {self.noun}: its row in the table, its label, notes and source"
            bound = self._bound("contains")
            words = st.text_input("Contains", placeholder="any", max_chars=200, width=150, help=about, **bound)
            is_alone = st.toggle("Ticked", disabled=not ids, width="content", **self._bound("only"))
        if is_alone:
            passing = [row for row in passing if row.id in ids]
        return [row for row in passing if all(word in row.text for word in words.casefold().split())]

    def _wanted(self, name: str, label: str, values: Sequence[str]) -> set[str]:
        bound = self._bound(name)
        if name == ORIGIN:
            return {*st.pills(label, values, selection_mode="multi", width="content", **bound)}
        return {*st.multiselect(label, values, placeholder="any", width=212, **bound)}

    def _bound(self, name: str) -> dict[str, Any]:
        return {"key": self.prefix + name, "bind": "query-params"}


def _row(entry: Entry, columns: Sequence[EntryColumn]) -> EntryRow:
    cells = {column.name: column.cell(entry) for column in (*columns, TAG_COLUMN)}
    texts = [*cells.values(), *cells[TAGS], *(entry.row.get(name) for name in HIDDEN_TEXTS)]
    text = " ".join(text for text in texts if isinstance(text, str)).casefold()
    return EntryRow(entry.id, cells, text, entry.row.get("training"))


def _first_steps(rows: Sequence[EntryRow], ids: Sequence[str]) -> list[EntryRow]:
    """Of each training its first step, which says how many there are, and what is ticked; all other entries."""
    steps = Counter(row.training for row in rows if row.training)
    seen, shown = set[str](), list[EntryRow]()
    for row in rows:
        if row.training is None or steps[row.training] == 1:
            shown.append(row)
        elif row.training not in seen:
            label = plain(f"{steps[row.training]:,} steps of {row.training}")
            shown.append(replace(row, cells={**row.cells, "label": label}))
            seen.add(row.training)
        elif row.id in ids:
            shown.append(row)
    if len(shown) < len(rows):
        st.caption("A training is one row: its first step. Type its name under *Contains* to list all steps.")
    return shown


def swatch(colour: str) -> str:
    """The address of a picture of this colour."""
    box = f'<rect x="3" y="3" width="10" height="10" rx="2" fill="{colour}"/>'
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="16" height="16">{box}</svg>'
    return f"data:image/svg+xml;utf8,{quote(picture)}"


def id_column(noun: str, width: int = 320) -> EntryColumn:
    return EntryColumn(noun, noun, width, lambda entry: entry.id)


def show_rows(table: str, ids: Sequence[Hashable], selected: Container[Hashable]) -> str:
    """Select these rows of the table of these ids, and give the key to draw it under.

    Streamlit knows rows by their numbers. So a table of other rows has another key: what the browser still says of the
    earlier ones is never read as a choice of these.
    """
    key = f"{table} {hash(tuple(ids))}"
    rows = [row for row, id_ in enumerate(ids) if id_ in selected]
    st.session_state[key] = {"selection": {"rows": rows}}
    st.session_state[_shown(key)] = key, rows
    return key


def picked_rows(key: str) -> list[int] | None:
    """The rows that the reader has selected; None where they are those that were shown as selected.

    Streamlit calls a table back also when it hears its own selection from the browser again.
    """
    (drawn, shown), selection = (st.session_state[_shown(key)], st.session_state[key]["selection"])
    if drawn != key:
        return None
    rows = list(selection["rows"])
    return None if rows == shown else rows


def _shown(key: str) -> str:
    """One slot a table, whatever rows it has."""
    return f"rows shown of {key.rpartition(' ')[0]}"


# --- runs -------------------------------------------------------------------------------------------------------------


def origin_column() -> EntryColumn:
    about = "measured: by this program. imported: from a file. reported: stated by a text"
    return row_column(ORIGIN, 76, help=about)


def row_column(name: str, width: int, form: Form = "text", *, words: str = "", help: str = "") -> EntryColumn:
    """What the entry's row says under that name."""
    return EntryColumn(name, words or name, width, lambda entry: entry.row.get(name), form, help)


def _measured(words: str, measure: str, width: int, form: Form, help: str = "") -> EntryColumn:
    return EntryColumn(words, words, width, lambda entry: figure(entry, measure), form, help)


def _not_numeric(entry: Entry) -> float | None:
    by_letters = entry.row.get("junk_nonnumeric") is None
    return figure(entry, "junk_letters_share" if by_letters else "junk_nonnumeric_share")


def _device(entry: Entry) -> str:
    threads, device = entry.row.get("threads"), entry.row.get("device") or ""
    return f"{device}, {counted(threads, 'thread')}" if threads else device


def _lp_and_engine(entry: Entry) -> str:
    return " · ".join(filter(None, (lp_words(entry), engine_words(entry))))


def _by_model_and_lp(entry: Entry) -> tuple[int, bool, str, int, bool, str]:
    """What was measured here first, then runs with a model, of a training its steps in their order, and of each model
    the one without an LP first."""
    model, lp = entry.row.get("training") or model_words(entry), lp_words(entry)
    step = entry.row.get("training_step") or 0
    return LATER_ORIGINS.get(entry.row["origin"], 0), not model, model, step, lp != NO_LP, lp


LATER_ORIGINS = {"imported": 1, "reported": 2}
NOT_NUMERIC = "Blocks with anything but digits . , -, or with a letter where a report counts only those"
CONSTRAINED = (
    "Whether the LP acted on every token. *yes*: proved; *in its language*: each token is one that the LP allows, and "
    "no more is known; *not checked yet*: a run of before it was checked. Drift's card *What the LP did* checks it and "
    "says more, as does `python -m engine ask drift_constrained RUN`"
)
RUN_TABLE = EntryTable(
    "run",
    (
        EntryColumn("label", "label", 160, label_words, help="Its own name, else the file that it was imported from"),
        EntryColumn("model", "model", 128, model_words),  # not pinned: Streamlit writes such columns in faint grey
        EntryColumn("lp", "LP", 104, _lp_and_engine, help="And what wrote it where that is hf or a server"),
        _measured("usable", "usable_rate", 92, "good bar", "Of judged answers: clean, stereo right, geometry right"),
        EntryColumn("constrained", "constrained", 118, constrained_words, help=CONSTRAINED),
        _measured("s / sample", "wall_s_a_sample", 76, "figure", "Wall time over samples"),
        id_column("run", 180),
        row_column("samples", 66, "count"),
        _measured("clean", "clean_rate", 92, "good bar", RULE_HELP["clean"]),
        _measured("pass", "pass_rate", 92, "bar", RULE_HELP["passed"]),
        _measured("decodes", "decodes_rate", 92, "bar", RULE_HELP["decodes"]),
        EntryColumn("not numeric", "not numeric", 82, _not_numeric, "share", NOT_NUMERIC),
        _measured("cut", "cut_share", 62, "share", "Blocks closed inside their numbers"),
        origin_column(),
        _measured("ms / token", "ms_a_token", 76, "figure"),
        EntryColumn("profiler", "profiler", 66, lambda entry: "profiled" if is_profiled(entry) else None,
                    help="Its times are the profiler's too: no ratio of them"),
        _measured("tokens / sample", "tokens_a_sample", 104, "figure"),
        row_column("tokenizer", 80),
        row_column("sampling", 80),
        row_column("batch_size", 54, "count", words="batch"),
        EntryColumn("device", "device", 110, _device),
        row_column("created_at", 120, "time", words="made"),
    ),
    group=_by_model_and_lp,
)  # fmt: skip
