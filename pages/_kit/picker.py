"""The choice of a page's entries: all of the store in one table with filters, those that the page shows ticked.

Which are shown is in the address alone, by ids, so that a link restores it; a filter hides rows and changes nothing of
what is shown. Anybody may write an address: a name that matches no entry is reported, and left out.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.comparing.measures import figure, lp_words, model_words
from engine.errors import StoreError, one_line
from engine.figures.words import capitalised, counted, listed, shortened
from engine.records import RULE_HELP
from engine.store.columns import Kind
from engine.store.entries import Entry, StoreListing, came_at, is_profiled, label_words, run_value
from pages._kit.card import FORMATS, THREE_DIGITS
from pages._kit.chart import entry_colour
from pages._kit.components.address import put_quietly
from pages._kit.errors import escaped
from pages._kit.rows import picked_rows, show_rows, table_height
from pages._kit.words import help_with_words

LABEL, TAGS = "label", "tags"
FILTERS_FROM = 8  # entries: fewer are seen at once
MOST_TEXT, MOST_NAME, MOST_DAMAGES = 400, 120, 10
MOST_COLOURS = 8  # from there on they come again, and tell no runs apart
BY_VALUE = {"model": "Model", "lp": "LP", TAGS: "Tag"}  # columns to filter by, where the table has them
Row = dict[str, Any]


def in_place(ids: Sequence[str], ticked: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Those before that are ticked still, or that no row shows, then the new ones."""
    kept = [id_ for id_ in ids if id_ in ticked or id_ not in shown]
    return [*kept, *(id_ for id_ in ticked if id_ not in kept)]


@dataclass(frozen=True, slots=True)
class Picker:
    """``cells`` gives an entry's row under the names of ``columns``, in the table's order; its id comes last."""

    kind: Kind
    noun: str
    control: str  # parameter of the address: the first entry
    test: str  # another, once for each of the others; the same one where none is the others' control
    most: int
    cells: Callable[[Entry], Row]
    columns: Mapping[str, Any]
    default: Callable[[Sequence[Entry]], Sequence[Entry]]  # where the address names none
    names: Callable[[Sequence[Entry]], Mapping[str, str]]  # by id, for people; anybody's text
    empty: str  # ways to a first entry, as Markdown
    origins: tuple[str, ...] = ("measured", "imported", "reported")
    prefix: str = ""  # of the filters' names, where the page has filters of its own
    among: str = ""  # what narrows the entries: " with samples"
    inside: tuple[str, ...] = ()  # parameters of the address that belong to the former choice
    by_view: Callable[[str], object] = lambda view: None  # what of the page's view the default depends on

    @property
    def has_control(self) -> bool:
        return self.control != self.test

    @property
    def key(self) -> str:
        return f"{self.prefix}{self.noun}_picker"

    @property
    def opened_with(self) -> str:
        """Where the session has the ids that the page opened with, as long as the reader has chosen no others."""
        return f"{self.key}_default"

    @property
    def filters(self) -> list[str]:
        """Parameters of the address."""
        return [self.prefix + name for name in ("origin", *BY_VALUE, "contains", "only")]

    def named(self) -> list[str]:
        """What the address names, the control first."""
        control = [st.query_params.get(self.control, "")] if self.has_control else []
        names = [*control, *st.query_params.get_all(self.test)]
        return list(dict.fromkeys(name for name in names if name))

    def read(self, listing: StoreListing) -> tuple[tuple[Entry, ...], list[str]]:
        """The entries that the address names, else the default; and a sentence on each name without an entry."""
        names = self.named()
        if not names and self.control in st.query_params:
            return (), []
        if not names or names == [*st.session_state.get(self.opened_with, ())]:
            return self._default(listing), []
        return self._of_names(listing, names)

    def _default(self, listing: StoreListing) -> tuple[Entry, ...]:
        """What the page opened with, as far as it is still there; another view may have another default."""
        by_id = {entry.id: entry for entry in listing.entries}
        before = [by_id[id_] for id_ in st.session_state.get(self.opened_with, ()) if id_ in by_id]
        view = self.by_view(st.query_params.get("view", ""))
        is_another_view = st.session_state.get(f"{self.opened_with} of", view) != view
        chosen = tuple(self.default(listing.entries) if is_another_view or not before else before)
        st.session_state[self.opened_with] = tuple(entry.id for entry in chosen)
        st.session_state[f"{self.opened_with} of"] = view
        return chosen

    def _of_names(self, listing: StoreListing, names: Sequence[str]) -> tuple[tuple[Entry, ...], list[str]]:
        control = st.query_params.get(self.control, "")
        entries: dict[str, Entry] = {}
        complaints, missing = [], []
        for name in names[: self.most]:
            try:
                entry = listing.get(name, self.kind)
                entries.setdefault(entry.id, entry)
            except StoreError as error:
                missing.append(name)
                complaint = capitalised(error.what.replace(self.kind.key, self.noun, 1))
                complaints.append(f"{complaint}{self.among if complaint.startswith('There is no') else ''}.")
        if entries and self.has_control and control in missing:
            complaints[0] += f" The first {self.noun} below is the control instead."
        if len(names) > self.most:
            complaints.append(f"At most {self.most} {self.noun}s are shown at once. The others are left out.")
        return tuple(entries.values()), complaints

    def put(self, ids: Iterable[str]) -> None:
        """Show these from now on, the control first; nothing where there is none."""
        # At once: each change of the address is a step for the browser's Back.
        st.query_params.update(self.parameters(ids) | {name: [] for name in self.inside if name in st.query_params})

    def parameters(self, ids: Iterable[str]) -> dict[str, str | list[str]]:
        """Of the address, for these ids."""
        first, *others = [*dict.fromkeys(ids)] or [""]
        return {self.control: first, self.test: others} if self.has_control else {self.test: [first, *others]}

    def show(self, listing: StoreListing) -> tuple[Entry, ...]:
        """Draw the picker, one line where something is chosen until the reader opens it, and give what is chosen."""
        if not listing.entries:
            title = f"There is no {self.noun}{self.among} in this store yet"
            st.info(self.empty, icon=":material/inbox:", title=title)
            show_damages(listing)
            return ()
        chosen, complaints = self.read(listing)
        ids = [entry.id for entry in chosen]
        is_news = [*st.session_state.get(self.opened_with, ())] == ids != self.named()
        put_quietly(self.parameters(ids) if is_news else {})
        for complaint in complaints:
            st.error(escaped(complaint), icon=":material/error:")
        names = {id_: shortened(one_line(name), MOST_NAME) for id_, name in self.names(chosen).items()}
        with st.expander(self._label(listing, names), not chosen, key=f"{self.key}_open", icon=":material/checklist:"):
            self._table(listing, names)
            if not chosen:
                first = " The first one is the control." if self.has_control else ""
                st.info(f"Tick {self.noun}s in the table.{first}", icon=":material/checklist:")
            elif self.has_control:
                self._control(names)
            show_damages(listing)
        if 0 < len(chosen) <= MOST_COLOURS and self.has_control:
            st.html(legend(names, len(listing.entries)))
        return chosen

    def _label(self, listing: StoreListing, names: Mapping[str, str]) -> str:
        """Markdown: what is chosen, and how much is damaged."""
        label = f"{self.noun.capitalize()}s"
        if names and self.has_control:
            label += f": {len(names)} of {len(listing.entries):,} selected"
        elif names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            label += f": {escaped(next(iter(names.values())))}{more}"
        return label + (f" · {len(listing.damages):,} damaged" if listing.damages else "")

    def _table(self, listing: StoreListing, names: Mapping[str, str]) -> None:
        rows = {entry.id: self._row(entry) for entry in sorted(listing.entries, key=came_at)[::-1]}
        if len(rows) >= FILTERS_FROM or any(st.query_params.get(name) for name in self.filters):
            rows = self._filtered(listing, rows, names)
        if not rows:
            st.info(f"No {self.noun} matches. Remove a filter.", icon=":material/filter_alt_off:")
            return
        config = {
            self.noun: st.column_config.TextColumn(width=320),
            **self.columns,
            TAGS: st.column_config.ListColumn("tags", width=150),
        }
        for name in (LABEL, TAGS):  # where no entry has one
            config |= {} if any(row.get(name) for row in rows.values()) else {name: None}
        shown = list(rows)
        key = show_rows(self.key, shown, names)
        st.dataframe(
            list(rows.values()),
            hide_index=True,
            height=table_height(len(rows), table_height(10)),
            key=key,
            column_config=config,
            on_select=lambda: self.take(key, shown, names),
            selection_mode="multi-row",
            placeholder="–",
            alt=f"{self.noun.capitalize()}s of the store: tick those to show",
        )

    def _row(self, entry: Entry) -> Row:
        cells = {name: cell_of(value) for name, value in self.cells(entry).items()}
        return {**cells, self.noun: entry.id, TAGS: [cell_of(tag) for tag in entry.row.get(TAGS) or ()]}

    def _filtered(self, listing: StoreListing, rows: Mapping[str, Row], names: Mapping[str, str]) -> dict[str, Row]:
        """Draw the filters, and give the rows that pass them."""
        wanted, words, is_ticked_alone = self._filters(rows, bool(names))
        hidden = {
            entry.id: [entry.row.get(name) for name in ("label", "notes", "source", "file", "run_id")]
            for entry in listing.entries
        }

        def passes(id_: str, row: Row) -> bool:
            values = (*row.values(), *row[TAGS], *hidden[id_])
            text = " ".join(value for value in values if isinstance(value, str)).casefold()
            is_like = all(not of or not {*of}.isdisjoint(values_of(row[name])) for name, of in wanted.items())
            return is_like and (id_ in names or not is_ticked_alone) and all(word in text for word in words)

        return {id_: row for id_, row in rows.items() if passes(id_, row)}

    def _filters(self, rows: Mapping[str, Row], has_choice: bool) -> tuple[Row, list[str], bool]:
        """The values that are asked for by column, words, and whether the ticked ones alone."""
        for name in self.filters:  # of this page alone: Streamlit hands on values to another page's widget of that key
            if name not in st.query_params:
                st.session_state.pop(name, None)
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"{self.prefix}{self.noun}-filters"):
            more: Any = {"bind": "query-params"}
            wanted: Row = {
                "origin": st.pills(
                    "Origin", self.origins, selection_mode="multi", key=f"{self.prefix}origin", width="content", **more
                )
            }
            for name, label in BY_VALUE.items():
                if values := sorted({value for row in rows.values() for value in values_of(row.get(name))}):
                    wanted[name] = st.multiselect(
                        label, values, key=self.prefix + name, placeholder="any", width=212, **more
                    )
            words = st.text_input(
                "Contains",
                key=f"{self.prefix}contains",
                placeholder="any",
                max_chars=200,
                width=150,
                **more,
                help=f"In any text of a {self.noun}: its row in the table, its label, notes and source",
            )
            is_alone = st.toggle("Ticked", key=f"{self.prefix}only", disabled=not has_choice, width="content", **more)
        return wanted, (words or "").casefold().split(), is_alone

    def limited(self, ids: Sequence[str]) -> list[str]:
        """As many as may be, the last ones; of more than a pair with the control."""
        control = ids[:1] if self.has_control and self.most > 2 and len(ids) > self.most else []
        return [*control, *ids[len(control) - self.most :]]

    def take(self, key: str, shown: Sequence[str], names: Mapping[str, str]) -> None:
        """What is ticked now; ``shown`` has the ids of the table's rows, ``names`` those that were ticked before.

        An entry keeps its place, also where a filter hides its row. One too many takes the place of the oldest: of a
        pair its control, so that two ticks make another pair. Of equal entries the first tick replaces those that the
        page opened with: the reader did not choose them.
        """
        rows = picked_rows(key)
        if rows is None:
            return
        ids, ticked = tuple(names), [shown[row] for row in rows if row < len(shown)]
        was_default = ids == tuple(st.session_state.pop(self.opened_with, ()))
        if was_default and not self.has_control and not {*ticked} <= {*ids}:
            ids, ticked = (), [id_ for id_ in ticked if id_ not in ids]
        ticked = in_place(ids, ticked, shown)
        chosen = self.limited(ticked)
        if len(chosen) < len(ticked):
            left = escaped(listed([names[id_] for id_ in ids if id_ not in chosen]) or "the first ones")
            st.toast(f"At most {self.most} {self.noun}s, so this leaves out {left}.", icon=":material/info:")
        self.put(chosen)

    def _control(self, names: Mapping[str, str]) -> None:
        """Which one is the control, and how to choose another or none."""
        key = f"control_{self.noun}"
        st.session_state[key] = next(iter(names))
        with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
            st.selectbox(
                "Control",
                list(names),
                key=key,
                format_func=lambda id_: names.get(id_, str(id_)),
                width=280,
                on_change=lambda: self.put([st.session_state[key], *names]),
                help="Ratios are the test’s over the control’s",
            )
            st.button(
                "Clear selection",
                icon=":material/close:",
                key="nothing",
                type="tertiary",
                on_click=self.put,
                args=((),),
            )


def legend(names: Mapping[str, str], entries: int) -> str:
    """HTML: the control and the tests in the colours that every chart gives them. ``entries`` are in the store."""
    items = [
        f'<li><i style="background:{entry_colour(index)}" aria-hidden="true"></i>'
        f"{html.escape(name)}{'' if index else ' (control)'}</li>"
        for index, name in enumerate(names.values())
    ]
    fix = "open the list above and tick another row to compare" if entries > 1 else "there is no other in this store"
    none = "" if len(names) > 1 else f"<li>No test yet: {fix}.</li>"
    return f"<ul class='chosen-entries' aria-label='Shown'>{''.join(items)}{none}</ul>"


def show_damages(listing: StoreListing) -> None:
    """What is damaged in the store; nothing, where nothing is."""
    if not listing.damages:
        return
    count = len(listing.damages)
    subject = "1 entry of the store is" if count == 1 else f"{count} entries of the store are"
    with st.expander(f"{subject} damaged", icon=":material/warning:"):
        lines = [f"- {escaped(f'{item.where}: {item.reason}')}" for item in listing.damages[:MOST_DAMAGES]]
        more = [f"- and {count - MOST_DAMAGES} more"] if count > MOST_DAMAGES else []
        st.markdown("\n".join([*lines, *more, "", "`.venv/bin/python -m engine verify` looks at every byte."]))


def cell_of(value: Any) -> Any:
    return (shortened(one_line(value), MOST_TEXT) or None) if isinstance(value, str) else value


def values_of(cell: Any) -> Sequence[Any]:
    """What a filter finds a cell by: each of its tags."""
    return cell if isinstance(cell, list) else [cell] if cell else []


# --- columns ----------------------------------------------------------------------------------------------------------


def share_cell(share: float | None) -> float | None:
    """In per cent, rounded as everywhere."""
    return None if share is None else FORMATS["%"][1](share)


def figure_cell(value: float | None) -> float | None:
    return None if value is None else THREE_DIGITS[1](value)


def rate_column(label: str, help_: str, color: str | None = None) -> Any:
    """Of a ``share_cell``, as a bar too."""
    form, most = FORMATS["%"][0], 100.0
    about = help_with_words(label, help_)
    return st.column_config.ProgressColumn(label, width=92, help=about, format=form, max_value=most, color=color)


def share_column(label: str, width: int, help_: str) -> Any:
    """Of a ``share_cell``."""
    return st.column_config.NumberColumn(label, width=width, help=help_with_words(label, help_), format=FORMATS["%"][0])


def figure_column(label: str, width: int, help_: str = "") -> Any:
    """Of a ``figure_cell``."""
    return st.column_config.NumberColumn(label, width=width, help=help_with_words(label, help_), format=THREE_DIGITS[0])


def origin_column() -> Any:
    return st.column_config.TextColumn(
        "origin", width=76, help="measured: by this program. imported: from a file. reported: stated by a text"
    )


def time_column() -> Any:
    return st.column_config.DatetimeColumn("made", width=120, format="D MMM YYYY HH:mm")


def run_cells(entry: Entry) -> Row:
    counted_by = "junk_letters_share" if entry.row.get("junk_nonnumeric") is None else "junk_nonnumeric_share"
    row, threads = entry.row, entry.row.get("threads")
    return {
        "model": model_words(entry),
        "lp": lp_words(entry),
        LABEL: label_words(entry),
        "usable": share_cell(figure(entry, "usable_rate")),
        "s": figure_cell(figure(entry, "wall_s_a_sample")),
        "run": entry.id,
        "samples": row.get("samples"),
        "clean": share_cell(figure(entry, "clean_rate")),
        "pass": share_cell(figure(entry, "pass_rate")),
        "decodes": share_cell(figure(entry, "decodes_rate")),
        "not numeric": share_cell(figure(entry, counted_by)),
        "cut": share_cell(figure(entry, "cut_share")),
        "origin": row["origin"],
        "ms": figure_cell(figure(entry, "ms_a_token")),
        "profiler": "profiled" if is_profiled(entry) else None,
        "tokens": figure_cell(figure(entry, "tokens_a_sample")),
        **{name: run_value(entry, name) for name in ("tokenizer", "sampling")},
        "batch": row.get("batch_size"),
        "device": f"{row['device']}, {counted(threads, 'thread')}" if threads else row.get("device") or "",
        "made": row.get("created_at"),
    }


def run_columns() -> Mapping[str, Any]:
    config = st.column_config
    junk = "Blocks with anything but digits . , -, or with a letter where a report counts only those"
    return {
        "model": config.TextColumn("model", width=128),  # none is pinned: Streamlit writes such columns in faint grey
        "lp": config.TextColumn("LP", width=104),
        LABEL: config.TextColumn("label", width=160, help="Its own name, else the file that it was imported from"),
        "usable": rate_column("usable", "Of judged answers: clean, stereo right, geometry right", "green"),
        "s": figure_column("s / sample", 76, "Wall time over samples"),
        "run": config.TextColumn("run", width=180),
        "samples": config.NumberColumn("samples", width=66, format="localized"),
        "clean": rate_column("clean", RULE_HELP["clean"], "green"),
        "pass": rate_column("pass", RULE_HELP["passed"]),
        "decodes": rate_column("decodes", RULE_HELP["decodes"]),
        "not numeric": share_column("not numeric", 82, junk),
        "cut": share_column("cut", 62, "Blocks closed inside their numbers"),
        "origin": origin_column(),
        "ms": figure_column("ms / token", 76),
        "profiler": config.TextColumn("profiler", width=66, help="Its times are the profiler's too: no ratio of them"),
        "tokens": figure_column("tokens / sample", 104),
        "tokenizer": config.TextColumn("tokenizer", width=80),
        "sampling": config.TextColumn("sampling", width=80),
        "batch": config.NumberColumn("batch", width=54),
        "device": config.TextColumn("device", width=110),
        "made": time_column(),
    }
