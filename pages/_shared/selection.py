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
        """The first test."""
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
    test: str  # another, once for each test
    most_tests: int
    select: Callable[[Entry, tuple[Entry, ...]], Chosen]
    default: Callable[[Sequence[Entry]], Chosen | None]

    def read(self, found: StoreListing) -> tuple[Chosen | None, list[str]]:
        """The entries that the address names, else the default; and a sentence on each name without an entry."""
        named_control = st.query_params.get(self.control)
        names = [name for name in (named_control, *st.query_params.get_all(self.test)) if name]
        if not names:
            return (None if self.control in st.query_params else self.default(found.entries)), []
        matches, complaints = matching(found, names[: self.most_tests + 2], self.kind)
        if not matches:
            return None, complaints
        if named_control and named_control not in matches[0].id:
            complaints[0] += f" The first {self.noun} below is the control instead."
        if len(dict.fromkeys(names)) > self.most_tests + 1:
            complaints.append(f"At most {self.most_tests + 1} {self.noun}s are shown at once. The others are left out.")
        return self.select(matches[0], tuple(matches[1 : self.most_tests + 1])), complaints

    def put(self, ids: Iterable[str]) -> None:
        """Show these from now on, the control first; nothing where there is none."""
        control, *tests = [*dict.fromkeys(ids)] or [""]
        # At once: each change of the address is a step for the browser's Back.
        st.query_params.update({self.control: control, self.test: tests})

    def leave_out(self, id_: str) -> None:
        """An entry that is deleted: take it out of the address, and keep the others."""
        named = [st.query_params.get(self.control), *st.query_params.get_all(self.test)]
        kept = [name for name in named if name and name not in id_]
        if any(named) and len(kept) < len([name for name in named if name]):
            self.put(kept)


def matching(found: StoreListing, names: Iterable[str], kind: Kind) -> tuple[list[Entry], list[str]]:
    """The entries of these names, each once; and a sentence on each name without an entry."""
    entries: dict[str, Entry] = {}
    complaints = []
    for name in names:
        try:
            entry = found.get(name, kind)
            entries.setdefault(entry.id, entry)
        except StoreError as error:
            complaints.append(f"{error.what[:1].upper()}{error.what[1:]}.")
    return list(entries.values()), complaints
