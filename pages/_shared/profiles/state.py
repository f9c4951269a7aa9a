"""Which traces are looked at, as the page's address has it: a control, and a test beside it or none.

The address is the one place where the choice lives, so a link restores it. Anybody may write an address: what does not
read is told, and left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from engine.errors import StoreError
from engine.store.entries import Entry, Found
from engine.store.trace_schema import TRACE
from pages._shared.theme import Palette

CONTROL, TEST, VIEW = "control", "test", "view"
STANDS_IN = " The trace below stands in as control."
Runs = Mapping[str, Mapping[str, Any]]
"""Rows of runs by their ids."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A trace alone, or beside its control. ``runs`` are those of the store that traces may be of."""

    control: Entry
    test: Entry | None
    runs: Runs = field(default_factory=dict, repr=False, compare=False)

    @property
    def traces(self) -> tuple[Entry, ...]:
        return (self.control,) if self.test is None else (self.control, self.test)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.traces)

    def letter(self, entry: Entry) -> str:
        """A is the control."""
        return "AB"[self.ids.index(entry.id)]

    def name(self, entry: Entry) -> str:
        """Short and unlike the other's: letter, what it is of, and where it comes from unless it was captured here."""
        return f"{self.letter(entry)} · {short_name(entry, self.runs)}"

    def colour(self, entry: Entry, colours: Palette) -> str:
        """Neutral for the control."""
        return colours.neutral if entry.id == self.control.id else colours.series[0]


def short_name(entry: Entry, runs: Runs) -> str:
    """What a trace is of, in a few words. Text of whoever made it: to be escaped where it is shown."""
    row = entry.row
    known = str(row.get("label") or "") or run_words(entry, runs) or str(row.get("source") or "") or entry.id
    origin = str(row.get("origin"))
    return known if origin == "measured" else f"{known} · {origin}"


def run_words(entry: Entry, runs: Runs) -> str:
    """Model and LP of the run that a trace is of, where the store has it."""
    model, lp = model_and_lp(entry, runs)
    return " · ".join(part for part in (model, lp) if part)


def model_and_lp(entry: Entry, runs: Runs) -> tuple[str, str]:
    run = runs.get(str(entry.row.get("run_id")), {})
    model = ":".join(str(part) for part in (run.get("model_alias"), run.get("model_step")) if part)
    return model, str(run.get("lp") or "")


def choose(found: Found, runs: Runs) -> tuple[Chosen | None, list[str]]:
    """The traces that the address names, else the default; and a word on each name that means no trace."""
    control, tests = st.query_params.get(CONTROL), [one for one in st.query_params.get_all(TEST) if one]
    if not control and not tests:
        return (None if CONTROL in st.query_params else default_choice(found.entries, runs)), []
    entries: dict[str, Entry] = {}
    complaints = []
    for name in [one for one in (control, *tests) if one][:3]:
        try:
            entry = found.get(name, TRACE)
            entries.setdefault(entry.id, entry)
        except StoreError as error:
            complaints.append(f"{error.what[:1].upper()}{error.what[1:]}.")
    if not entries:
        return None, complaints
    first, *others = entries.values()
    if control and control not in first.id:
        complaints[0] += STANDS_IN
    if len(tests) > 1:
        complaints.append("Two traces are compared at a time: further ones are left out.")
    return Chosen(first, others[0] if others else None, runs), complaints


def put(control: str | None, test: str | None = None) -> None:
    """Look at these from now on; at nothing, where there is no control."""
    # At once: each change of the address is a step for the browser's Back.
    st.query_params.update({CONTROL: control or "", TEST: [test] if test and test != control else []})


def address(control: str, test: str | None = None, **more: str) -> str:
    """A link to the page with these traces."""
    return "profiles?" + urlencode({CONTROL: control, **({TEST: test} if test else {}), **more})


def default_choice(entries: Sequence[Entry], runs: Runs) -> Chosen | None:
    """The newest captured trace of a run without an LP, and beside it the newest of the same model under one.

    Where there is none such: the newest trace alone, one that was captured or read before one that a text reports.
    """
    newest = list(reversed(entries))
    for control in newest:
        model, lp = model_and_lp(control, runs)
        if lp == "none" and _is_captured(control) and (test := _under_an_lp(control, model, newest, runs)):
            return Chosen(control, test, runs)
    by_origin = [one for one in newest if one.row.get("origin") != "reported"] or newest
    return Chosen(by_origin[0], None, runs) if by_origin else None


def _under_an_lp(control: Entry, model: str, newest: Sequence[Entry], runs: Runs) -> Entry | None:
    for entry in newest:
        its_model, lp = model_and_lp(entry, runs)
        has_device = (entry.row.get("device_us") is None) == (control.row.get("device_us") is None)
        if _is_captured(entry) and its_model == model and lp not in ("", "none") and has_device:
            return entry
    return None


def _is_captured(entry: Entry) -> bool:
    return entry.row.get("origin") == "measured" and entry.row.get("form") != "table"
