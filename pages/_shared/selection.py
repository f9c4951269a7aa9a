"""Which entries of the store a page shows, as its address has it: a control and its tests, a letter and a colour each.

The address is the one place where the choice lives, so a link restores it. Anybody may write an address: a name that
matches no entry becomes a complaint, and is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Generic, TypeVar

import streamlit as st

from engine.errors import StoreError
from engine.figures.words import capitalised
from engine.store.columns import Kind
from engine.store.entries import Entry, StoreListing
from pages._shared.theme import Palette


@dataclass(frozen=True, slots=True)
class Selection(ABC):
    """A control and its tests, each known by its id. An entry's letter and colour follow from its place."""

    control: Entry
    tests: tuple[Entry, ...] = ()

    @abstractmethod
    def short_name(self, entry: Entry) -> str:
        """What the entry is, in a few words. Untrusted text: escape it where it is shown."""

    @property
    def test(self) -> Entry | None:
        return self.tests[0] if self.tests else None

    @property
    def entries(self) -> tuple[Entry, ...]:
        return (self.control, *self.tests)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.entries)

    def letter(self, id_: str) -> str:
        """A for the control; behind Z comes AA."""
        rounds, place = divmod(self.ids.index(id_), len(ascii_uppercase))
        return (ascii_uppercase[rounds - 1] if rounds else "") + ascii_uppercase[place]

    def letter_or_id(self, id_: str) -> str:
        """For a widget, which may still know an entry of the former selection."""
        return self.letter(id_) if id_ in self.ids else id_

    def name(self, id_: str) -> str:
        """Letter and short name. Untrusted text: escape it where it is shown."""
        return f"{self.letter(id_)} · {self.short_name(self.entries[self.ids.index(id_)])}"

    def colour(self, id_: str, colours: Palette) -> str:
        """Neutral for the control. Tests share seven colours in turn: letters tell them apart."""
        place, hues = self.ids.index(id_), [hue for hue in colours.series if hue != colours.neutral]
        return colours.neutral if place == 0 else hues[(place - 1) % len(hues)]


Chosen = TypeVar("Chosen", bound=Selection)


@dataclass(frozen=True, slots=True)
class SelectionQuery(Generic[Chosen]):
    """How a page's address names its selection, and what is shown where it names none."""

    kind: Kind
    noun: str
    control: str  # parameter of the address
    test: str  # another, once for each test; the same one where no entry is the others' control
    most_tests: int
    select: Callable[[Entry, tuple[Entry, ...]], Chosen]
    default: Callable[[Sequence[Entry]], Chosen | None]
    among: str = ""  # what narrows the entries: " with samples"
    cleared: tuple[str, ...] = ()  # parameters that belong to the former selection

    @property
    def has_control(self) -> bool:
        return self.control != self.test

    @property
    def names(self) -> list[str]:
        """As the address has them, the control's first."""
        control = [st.query_params.get(self.control, "")] if self.has_control else []
        return [name for name in (*control, *st.query_params.get_all(self.test)) if name]

    def read(self, found: StoreListing, before: Sequence[str] = ()) -> tuple[Chosen | None, list[str]]:
        """The entries that the address names, else the default; and a sentence on each name without an entry.

        ``before`` has the ids of the default that the reader saw until now: it stays where entries come.
        """
        names, named_control = self.names, st.query_params.get(self.control)
        if not names:
            return (None if self.control in st.query_params else self._default(found.entries, before)), []
        matches, complaints = self._matching(found, names[: self.most_tests + 2])
        if not matches:
            return None, complaints
        if self.has_control and named_control and named_control not in matches[0].id:
            complaints[0] += f" The first {self.noun} below is the control instead."
        if len(dict.fromkeys(names)) > self.most_tests + 1:
            complaints.append(f"At most {self.most_tests + 1} {self.noun}s are shown at once. The others are left out.")
        return self.select(matches[0], tuple(matches[1 : self.most_tests + 1])), complaints

    def _default(self, entries: Sequence[Entry], before: Sequence[str]) -> Chosen | None:
        by_id = {entry.id: entry for entry in entries}
        if not before or before[0] not in by_id:
            return self.default(entries)
        return self.select(by_id[before[0]], tuple(by_id[id_] for id_ in before[1:] if id_ in by_id))

    def _matching(self, found: StoreListing, names: Iterable[str]) -> tuple[list[Entry], list[str]]:
        """The entries of these names, each once; and a sentence on each name without an entry."""
        entries: dict[str, Entry] = {}
        complaints = []
        for name in names:
            try:
                entry = found.get(name, self.kind)
                entries.setdefault(entry.id, entry)
            except StoreError as error:
                what = error.what.replace(self.kind.key, self.noun, 1)
                complaints.append(f"{capitalised(what)}{self.among}.")
        return list(entries.values()), complaints

    def put(self, ids: Iterable[str]) -> None:
        """Show these from now on, the control first; nothing where there is none."""
        control, *tests = [*dict.fromkeys(ids)] or [""]
        named = {self.control: control, self.test: tests} if self.has_control else {self.test: [control, *tests]}
        # At once: each change of the address is a step for the browser's Back.
        st.query_params.update(named | {name: [] for name in self.cleared if name in st.query_params})

    def leave_out(self, id_: str) -> None:
        """An entry that is deleted: take it out of the address, and keep the others."""
        kept = [name for name in self.names if name not in id_]
        if len(kept) < len(self.names):
            self.put(kept)
