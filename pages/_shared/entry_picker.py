"""The choice of entries on a page: all of the store in one table with filters, those that the page shows ticked.

Which are ticked is in the address. A filter hides rows and changes nothing about what is shown.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import one_line
from engine.figures.words import listed, shortened
from engine.store.entries import Entry, StoreListing
from pages._shared.errors import escape_markdown
from pages._shared.rows import picked_rows, show_rows, table_height
from pages._shared.selection import Chosen, Selection, SelectionQuery
from pages._shared.theme import palette

TABLE_HEIGHT = table_height(10)
FILTER_WIDTH, MOST_FILTER_WIDTH, CONTROL_WIDTH = 150, 320, 280
CHOICE_PX, AROUND_CHOICES_PX = 8, 96  # of a letter in a chosen value; its cross, and the field's own buttons
TAGS = "tags"
MOST_TEXT, MOST_NAME, MOST_DAMAGES = 400, 120, 10
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntryPicker(Generic[Chosen]):
    """What a page's picker shows. ``row`` gives an entry's cells under the names of ``columns``, in the table's order.

    The entry's name comes last, unless it is among them.
    """

    query: SelectionQuery[Chosen]
    row: Callable[[Entry], Row]
    columns: Mapping[str, Any]
    empty: str  # ways to a first entry, as Markdown
    origins: tuple[str, ...] = ("measured", "imported", "reported")
    choices: Mapping[str, str] | None = None  # columns to filter by value, and the widgets' labels
    filters_from: int = 0  # entries: so few more are seen at once without filters
    prefix: str = ""  # of the filters' names, where the page has filters of its own
    folds: bool = True  # to one line where something is ticked

    @property
    def key(self) -> str:
        return f"{self.prefix}{self.query.noun}_picker"

    @property
    def filters(self) -> tuple[str, ...]:
        """Names of the filters' widgets and of their parameters in the address."""
        return tuple(self.prefix + name for name in ("origin", *(self.choices or ()), TAGS, "contains", "only"))

    @property
    def _default_key(self) -> str:
        """Of the entries that are shown because the address names none, until a row is ticked: others may come."""
        return f"{self.key}_default"

    @property
    def _replaced_key(self) -> str:
        """Of how often a tick replaced these. The picker is another one then, and folded: the answer is in sight."""
        return f"{self.key}_replaced"

    def show(self, found: StoreListing) -> Chosen | None:
        """Draw the picker, one line where something is ticked until the reader opens it, and give what is ticked."""
        noun = self.query.noun
        if not found.entries:
            title = f"There is no {noun}{self.query.among} in this store yet"
            st.info(self.empty, icon=":material/inbox:", title=title)
            show_damages(found)
            return None
        chosen, complaints = self.query.read(found, st.session_state.get(self._default_key, ()))
        if chosen is not None and not self.query.names:
            st.session_state[self._default_key] = chosen.ids
        for complaint in complaints:
            st.error(escape_markdown(complaint), icon=":material/error:")
        with self._frame(chosen, len(found.entries)):
            rows = {entry.id: self._row(entry, chosen) for entry in reversed(found.entries)}
            if len(rows) >= self.filters_from or any(st.query_params.get(name) for name in self.filters):
                self._filters(rows, chosen)
                texts = {entry.id: _text(entry, rows[entry.id]) for entry in found.entries}
                rows = {id_: row for id_, row in rows.items() if self._is_match(row, texts[id_])}
            self._table(rows, chosen)
            self._roles(chosen)
            show_damages(found)
        if chosen is not None and self.query.has_control:
            st.html(legend(chosen))
        return chosen

    def _frame(self, chosen: Chosen | None, entries: int) -> DeltaGenerator:
        if not self.folds:
            return st.container()
        # Not `fold`: an expander that reports its state is made anew with each label, and the table would scroll up.
        key = f"{self.key}_open_{st.session_state.get(self._replaced_key, 0)}"
        return st.expander(self._heading(chosen, entries), chosen is None, key=key, icon=":material/checklist:")

    def _heading(self, chosen: Chosen | None, entries: int) -> str:
        """What is ticked; where the legend below names it, how many of how many."""
        title = f"{self.query.noun.capitalize()}s"
        if chosen is None:
            return title
        if self.query.has_control:
            return f"{title}: {len(chosen.ids)} of {entries:,} selected"
        names = [escape_markdown(_name(chosen, id_)) for id_ in chosen.ids[:2]]
        if len(chosen.ids) > 2:
            names[1] = f"{len(chosen.tests)} more"
        return f"{title}: {', '.join(names)}"

    def _row(self, entry: Entry, chosen: Chosen | None) -> Row:
        letter = chosen.letter(entry.id) if chosen is not None and entry.id in chosen.ids else None
        cells = {name: _cell(value) for name, value in self.row(entry).items()}
        tags = [_cell(tag) for tag in entry.row.get(TAGS) or ()]
        return {"as": letter, **cells, self.query.noun: entry.id, TAGS: tags}

    # --- filters ------------------------------------------------------------------------------------------------------

    def _filters(self, rows: Mapping[str, Row], chosen: Chosen | None) -> None:
        noun = self.query.noun
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"{self.prefix}{noun}-filters"):
            st.pills(
                "Origin", self.origins, selection_mode="multi", key=f"{self.prefix}origin", bind="query-params",
                width="content",
            )  # fmt: skip
            for name, label in ({**(self.choices or {}), TAGS: "Tag"}).items():
                values = sorted({value for row in rows.values() for value in _values(row[name])})
                if values or name != TAGS:
                    st.multiselect(
                        label, values, key=self.prefix + name, placeholder="any", bind="query-params",
                        width=self._filter_width(name),
                    )  # fmt: skip
            st.text_input(
                "Contains", key=f"{self.prefix}contains", placeholder="any", bind="query-params", max_chars=200,
                width=FILTER_WIDTH, help=f"In any text of a {noun}: its row in the table, its label, notes and source",
            )  # fmt: skip
            st.toggle("Ticked", key=f"{self.prefix}only", bind="query-params", disabled=chosen is None, width="content")

    def _filter_width(self, name: str) -> int:
        """Wide enough for the longest value that is chosen."""
        key = self.prefix + name
        chosen = st.session_state.get(key, st.query_params.get_all(key)) or ()  # a link's is not in the state yet
        wanted = max((CHOICE_PX * len(value) + AROUND_CHOICES_PX for value in chosen), default=0)
        return min(MOST_FILTER_WIDTH, max(FILTER_WIDTH, wanted))

    def _is_match(self, row: Row, text: str) -> bool:
        def value(name: str) -> Any:
            return st.session_state.get(self.prefix + name)

        names = ("origin", *(self.choices or ()), TAGS)
        by_value = all(not {*value(name)}.isdisjoint(_values(row[name])) for name in names if value(name))
        is_ticked = row["as"] is not None or not value("only")
        return by_value and is_ticked and all(word in text for word in (value("contains") or "").casefold().split())

    # --- the table ----------------------------------------------------------------------------------------------------

    def _table(self, rows: Mapping[str, Row], chosen: Chosen | None) -> None:
        noun = self.query.noun
        if not rows:
            st.info(f"No {noun} matches. Remove a filter.", icon=":material/filter_alt_off:")
            return
        shown, ids = list(rows), chosen.ids if chosen is not None else ()
        key = show_rows(self.key, shown, ids)
        st.dataframe(
            list(rows.values()),
            hide_index=True,
            height=table_height(len(rows), TABLE_HEIGHT),
            column_config=self._columns(rows),
            key=key,
            on_select=lambda: self._take(key, shown, ids, lambda id_: id_ if chosen is None else _name(chosen, id_)),
            selection_mode="multi-row",
            placeholder="–",
            alt=f"{noun.capitalize()}s of the store: tick those to show",
        )

    def _columns(self, rows: Mapping[str, Row]) -> dict[str, Any]:
        config = st.column_config
        return {
            "as": config.TextColumn("as", width=36, pinned=True, help="A is the control")
            if self.query.has_control
            else None,
            **self.columns,
            self.query.noun: self.columns.get(self.query.noun, config.TextColumn(self.query.noun, width=320)),
            TAGS: config.ListColumn("tags", width=150) if any(row[TAGS] for row in rows.values()) else None,
        }

    def _take(self, key: str, shown: Sequence[str], ids: Sequence[str], name: Callable[[str], str] = str) -> None:
        """A ticked entry keeps its place, also where a filter hides its row.

        One too many takes the place of the oldest: of a pair its control, so that two ticks make another pair.

        Of equal entries, the first tick replaces those that the page opened with: the reader did not choose them.
        """
        rows = picked_rows(key)
        if rows is None:
            return
        ticked = [shown[row] for row in rows if row < len(shown)]
        is_default = tuple(ids) == st.session_state.pop(self._default_key, None)
        if is_default and not self.query.has_control and not {*ticked} <= {*ids}:
            ids, ticked = (), [id_ for id_ in ticked if id_ not in ids]
            st.session_state[self._replaced_key] = st.session_state.get(self._replaced_key, 0) + 1
        kept = [id_ for id_ in ids if id_ in ticked or id_ not in shown]
        ticked = [*kept, *(id_ for id_ in ticked if id_ not in kept)]
        if len(ticked) > (most := self.query.most_tests + 1):
            control = ticked[:1] if self.query.has_control and most > 2 else []
            ticked = [*control, *ticked[len(control) - most :]]
            left = escape_markdown(listed([name(id_) for id_ in ids if id_ not in ticked]) or "the first ones")
            st.toast(f"At most {most} {self.query.noun}s, so this leaves out {left}.", icon=":material/info:")
        self.query.put(ticked)

    # --- what is ticked -----------------------------------------------------------------------------------------------

    def _roles(self, chosen: Chosen | None) -> None:
        """Which one is the control, and how to choose another or none."""
        noun = self.query.noun
        if chosen is None:
            role = " The first one is the control." if self.query.has_control else ""
            st.info(f"Tick {noun}s in the table.{role}", icon=":material/checklist:")
        if chosen is None or not self.query.has_control:
            return
        key = f"control_{noun}"
        st.session_state[key] = chosen.control.id
        with st.container(
            horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute", key=f"{noun}-roles"
        ):
            st.selectbox(
                "Control",
                list(chosen.ids),
                key=key,
                format_func=lambda id_: _name(chosen, id_) if id_ in chosen.ids else str(id_),
                on_change=lambda: self.query.put([st.session_state[key], *chosen.ids]),
                help="Ratios are the test’s over the control’s",
                width=CONTROL_WIDTH,
            )
            st.button(
                "Clear selection", icon=":material/close:", key="nothing", type="tertiary",
                on_click=self.query.put, args=((),),
            )  # fmt: skip


def show_damages(found: StoreListing) -> None:
    """What is damaged in the store; nothing, where nothing is."""
    if not found.damages:
        return
    count = len(found.damages)
    said = "1 entry of the store is" if count == 1 else f"{count} entries of the store are"
    with st.expander(f"{said} damaged", icon=":material/warning:"):
        lines = [f"- {escape_markdown(f'{damage.where}: {damage.what}')}" for damage in found.damages[:MOST_DAMAGES]]
        more = [f"- and {count - MOST_DAMAGES} more"] if count > MOST_DAMAGES else []
        st.markdown("\n".join([*lines, *more, "", "`.venv/bin/python -m engine verify` looks at every byte."]))


def legend(chosen: Selection) -> str:
    """HTML: the letters of the control and of the tests in their colours, with their names."""
    colours = palette()
    items = [
        f'<li><i style="background:{chosen.colour(id_, colours)}" aria-hidden="true"></i>'
        f"{html.escape(_name(chosen, id_))}{' (control)' if id_ == chosen.control.id else ''}</li>"
        for id_ in chosen.ids
    ]
    none = "" if chosen.tests else "<li>No test yet: open the list above and tick another row to compare.</li>"
    return f"<ul class='chosen-entries' aria-label='Shown'>{''.join(items)}{none}</ul>"


def rate_column(label: str, help_: str, color: str | None = None) -> Any:
    return st.column_config.ProgressColumn(
        label, width=92, help=help_, format="%.1f %%", min_value=0, max_value=100, color=color
    )


def per_cent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def origin_column() -> Any:
    return st.column_config.TextColumn(
        "origin", width=76, help="measured: by this program. imported: from a file. reported: stated by a text"
    )


def time_column(label: str = "made") -> Any:
    return st.column_config.DatetimeColumn(label, width=120, format="D MMM YYYY HH:mm")


def _cell(value: Any) -> Any:
    return (shortened(one_line(value), MOST_TEXT) or None) if isinstance(value, str) else value


def _values(cell: Any) -> Sequence[Any]:
    """What a filter finds a cell by: each of its tags."""
    return cell if isinstance(cell, list) else [cell] if cell else []


def _name(chosen: Selection, id_: str) -> str:
    return shortened(one_line(chosen.name(id_)), MOST_NAME)


def _text(entry: Entry, row: Row) -> str:
    """What *Contains* looks in."""
    hidden = (entry.row.get(name) for name in ("label", "notes", "source", "file", "run_id"))
    known = (*row.values(), *row[TAGS], *hidden)
    return " ".join(value for value in known if isinstance(value, str)).casefold()
