"""The choice of a page's entries: the table of all in the store, with those ticked that the page shows.

Which are shown is in the address alone, by ids, so that a link restores it; a filter hides rows and changes nothing of
what is shown. Anybody may write an address: a name that matches no entry is reported, and left out.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from engine.errors import StoreError, one_line
from engine.figures.words import capitalised, listed, shortened
from engine.store.columns import Kind
from engine.store.entries import Entry, StoreListing
from pages._kit.chart import entry_colour
from pages._kit.components.address import put_quietly
from pages._kit.entry_table import EntryTable
from pages._kit.errors import escaped

MOST_NAME, MOST_DAMAGES = 120, 10
MOST_IN_LEGEND = 8  # more are told apart in the table


@dataclass(frozen=True, slots=True)
class Picker:
    """Which of the table's rows are shown. ``default`` is told whether the view is one of those that stand apart."""

    kind: Kind
    table: EntryTable
    control: str  # parameter of the address: the first entry
    test: str  # another, once for each of the others; the same one where none is the others' control
    most: int
    default: Callable[[Sequence[Entry], bool], Sequence[Entry]]  # where the address names none
    names: Callable[[Sequence[Entry]], Mapping[str, str]]  # by id, for people; anybody's text
    empty: str  # ways to a first entry, as Markdown
    among: str = ""  # what narrows the entries: " with samples"
    inside: tuple[str, ...] = ()  # parameters of the address that belong to the former choice
    apart: tuple[str, ...] = ()  # views of the page that open with other entries than the rest; "" is the first view

    @property
    def noun(self) -> str:
        return self.table.noun

    @property
    def has_control(self) -> bool:
        return self.control != self.test

    @property
    def opened_with(self) -> str:
        """Where the session has the ids that the page opened with, as long as the reader has chosen no others."""
        return f"{self.table.key}_default"

    @property
    def is_apart(self) -> bool:
        return st.query_params.get("view", "") in self.apart

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
        if not names or self._is_default(listing, names):
            return self._default(listing), []
        return self._of_names(listing, names)

    def _is_default(self, listing: StoreListing, names: list[str]) -> bool:
        """Whether the page opened with these, also by a link: then another view opens with its own."""
        opened_apart = f"{self.opened_with} apart"
        if self.apart and opened_apart not in st.session_state:
            st.session_state[opened_apart] = self.is_apart
            usual = tuple(entry.id for entry in self.default(listing.entries, self.is_apart))
            if names == [*usual]:
                st.session_state[self.opened_with] = usual
        return names == [*st.session_state.get(self.opened_with, ())]

    def _default(self, listing: StoreListing) -> tuple[Entry, ...]:
        """What the page opened with, as far as it is still there; another view may have another default."""
        by_id = {entry.id: entry for entry in listing.entries}
        chosen = [by_id[id_] for id_ in st.session_state.get(self.opened_with, ()) if id_ in by_id]
        is_another_view = st.session_state.get(f"{self.opened_with} apart", self.is_apart) != self.is_apart
        if is_another_view or not chosen:
            chosen = list(self.default(listing.entries, self.is_apart))
        st.session_state[self.opened_with] = tuple(entry.id for entry in chosen)
        st.session_state[f"{self.opened_with} apart"] = self.is_apart
        return tuple(chosen)

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
                among = self.among if complaint.startswith("There is no") else ""
                complaints.append(f"{complaint}{among}.")
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

    def show(self, listing: StoreListing, colours: Mapping[str, str] = {}) -> tuple[Entry, ...]:
        """Draw the picker, one line where something is chosen until the reader opens it, and give what is chosen.
        ``colours`` are the entries' own, by id."""
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
        with st.expander(
            self._label(listing, names), not chosen, key=f"{self.table.key}_picker_open", icon=":material/checklist:"
        ):
            entries = self.table.in_order(listing.entries)
            self.table.show(entries, list(names), partial(self.take, names), colours)
            if not chosen:
                first = " The first one is the control." if self.has_control else ""
                st.info(f"Tick {self.noun}s in the table.{first}", icon=":material/checklist:")
            elif self.has_control:
                self._control(names)
            show_damages(listing)
        if (0 if self.has_control else 1) < len(chosen) <= MOST_IN_LEGEND:
            st.html(self.legend(names, len(listing.entries), colours))
        return chosen

    def legend(self, names: Mapping[str, str], entries: int, colours: Mapping[str, str]) -> str:
        """HTML: the chosen ones in the colours that every chart gives them. ``entries`` are in the store."""
        items = []
        for index, (id_, name) in enumerate(names.items()):
            colour = colours.get(id_) or entry_colour(index)
            words = html.escape(name) + (" (control)" if self.has_control and not index else "")
            items.append(f'<li><i style="background:{colour}" aria-hidden="true"></i>{words}</li>')
        if len(names) == 1:
            fix = "open the list above and tick another row to compare"
            items.append(f"<li>No test yet: {fix if entries > 1 else 'there is no other in this store'}.</li>")
        return f"<ul class='chosen-entries' aria-label='Shown'>{''.join(items)}</ul>"

    def _label(self, listing: StoreListing, names: Mapping[str, str]) -> str:
        """Markdown: what is chosen, and how much is damaged."""
        label = f"{self.noun.capitalize()}s"
        if names and self.has_control:
            label += f": {len(names)} of {len(listing.entries):,} selected"
        elif names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            label += f": {escaped(next(iter(names.values())))}{more}"
        return label + (f" · {len(listing.damages):,} damaged" if listing.damages else "")

    def limited(self, ids: Sequence[str]) -> list[str]:
        """As many as may be, the last ones; of more than a pair with the control."""
        control = ids[:1] if self.has_control and self.most > 2 and len(ids) > self.most else []
        return [*control, *ids[len(control) - self.most :]]

    def take(self, names: Mapping[str, str], ticked: Sequence[str]) -> None:
        """What is ticked now, and the names of what was before.

        One too many takes the place of the oldest: of a pair its control, so that two ticks make another pair. Of equal
        entries the first tick replaces those that the page opened with: the reader did not choose them.
        """
        ids, new = list(names), [id_ for id_ in ticked if id_ not in names]
        was_default = ids == [*st.session_state.pop(self.opened_with, ())]
        if was_default and new and not self.has_control:
            ids, ticked = [], new
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
