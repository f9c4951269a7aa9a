"""Which runs are compared, as the page's address has it: one control and its tests, each with a letter and a colour.

The address is the one place where the choice lives, so a link restores it. Anybody may write an address: what does not
read is told, and left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from urllib.parse import urlencode

import streamlit as st

from engine.comparing.figures import RunFigures, run_figures
from engine.comparing.reading import has_samples
from engine.errors import StoreError
from engine.store.entries import Entry, Found
from engine.store.schema import RUN
from pages._shared.theme import Palette

CONTROL, TEST, VIEW, SQL = "control", "test", "view", "sql"
MOST_TESTS = 40  # an address has to hold them
MOST_DEFAULT = 7
STANDS_IN = " The first of the runs below stands in as control."


@dataclass(frozen=True, slots=True)
class Chosen:
    """The runs that are compared. A run's letter and colour are its place's, the control's come first."""

    control: Entry
    tests: tuple[Entry, ...]

    @property
    def runs(self) -> tuple[Entry, ...]:
        return (self.control, *self.tests)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.runs)

    @property
    def measured(self) -> tuple[Entry, ...]:
        """Those with samples; what a text reports has none."""
        return tuple(entry for entry in self.runs if has_samples(entry))

    def letter(self, run_id: str) -> str:
        """A to Z, then AA, AB, ..."""
        rounds, place = divmod(self.ids.index(run_id), len(ascii_uppercase))
        return (ascii_uppercase[rounds - 1] if rounds else "") + ascii_uppercase[place]

    def name(self, run_id: str) -> str:
        """Short and unlike the others': letter, model, LP, and where the figures come from unless measured here."""
        entry = self.runs[self.ids.index(run_id)]
        return f"{self.letter(run_id)} · {short_name(run_figures(entry))}"

    def colour(self, run_id: str, colours: Palette) -> str:
        """Neutral for the control. There are seven for tests, and they come round again: letters tell runs apart."""
        place, hues = self.ids.index(run_id), [one for one in colours.series if one != colours.neutral]
        return colours.neutral if place == 0 else hues[(place - 1) % len(hues)]


def short_name(run: RunFigures) -> str:
    """What a run is, in a few words: a label only where nothing else names it."""
    known = [run.model or run.label or run.run_id, run.lp]
    return " · ".join(part for part in (*known, "" if run.origin == "measured" else run.origin) if part)


def choose(found: Found) -> tuple[Chosen | None, list[str]]:
    """The runs that the address names, else the default; and a word on each name that means no run."""
    named = st.query_params.get(CONTROL), [one for one in st.query_params.get_all(TEST) if one]
    if not named[0] and not named[1]:
        return (None if CONTROL in st.query_params else default_choice(found.entries)), []
    entries: dict[str, Entry] = {}
    complaints = []
    for name in [one for one in (named[0], *named[1]) if one][: MOST_TESTS + 1]:
        try:
            entry = found.get(name, RUN)
            entries.setdefault(entry.id, entry)
        except StoreError as error:
            complaints.append(f"{error.what[:1].upper()}{error.what[1:]}.")
    control, *tests = entries.values() or (None,)
    if control is not None and named[0] and named[0] not in control.id:
        complaints[0] += STANDS_IN
    return (None if control is None else Chosen(control, tuple(tests))), complaints


def put(control: str | None, tests: Iterable[str] = ()) -> None:
    """Compare these from now on; nothing, where there is no control."""
    # At once: each change of the address is a step for the browser's Back.
    st.query_params.update({CONTROL: control or "", TEST: [one for one in tests if one != control]})


def address(control: str, tests: Iterable[str] = (), **more: str) -> str:
    """A link to the page with these runs compared."""
    return "compare?" + urlencode({CONTROL: control, TEST: list(tests), **more}, doseq=True)


def sql_address(sql: str) -> str:
    """A link to the page's SQL with this statement in it."""
    return "compare?" + urlencode({VIEW: "SQL", SQL: sql})


def inspector_address(run_id: str, sample_id: int) -> str:
    """A link to one sample in the Drift inspector."""
    return "drift?" + urlencode({"run": run_id, "sample": sample_id})


def default_choice(entries: Sequence[Entry]) -> Chosen | None:
    """The newest run without an LP, and beside it what the same model wrote of as many molecules under each LP.

    Where there is none such: the newest run with samples, alone.
    """
    newest = [entry for entry in reversed(entries) if has_samples(entry)]
    for control in newest:
        tests = _under_lps(control, newest) if control.row.get("lp") == "none" else {}
        if tests:
            return Chosen(control, tuple(tests.values())[:MOST_DEFAULT])
    return Chosen(newest[0], ()) if newest else None


def _under_lps(control: Entry, entries: Iterable[Entry]) -> dict[str, Entry]:
    """The newest of each LP, oldest first."""
    alike = ("model_alias", "model_step", "model_family", "molecules", "samples", "origin")
    found: dict[str, Entry] = {}
    for entry in entries:
        is_alike = all(entry.row.get(name) == control.row.get(name) for name in alike)
        if is_alike and (lp := entry.row.get("lp")) not in (None, "none"):
            found.setdefault(str(lp), entry)
    return dict(reversed(found.items()))
