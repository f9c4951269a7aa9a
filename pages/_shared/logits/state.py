"""Which logs are looked at, as the page's address has it: one, and another beside it or none.

Anybody may write an address: what names no log is told, and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import streamlit as st

from engine.errors import StoreError
from engine.logits.causes import ON_PURPOSE
from engine.logits.figures import has_values
from engine.store.entries import Entry, Found
from engine.store.schema import LOGIT_LOG
from pages._shared.theme import Palette

LOG, BESIDE, VIEW = "log", "beside", "view"
LETTERS = "AB"
MOST_CHARS = 40
"""Of a part of a name."""
SYMBOLS = ("circle", "square")
"""Of the logs by their letters: colour never stands alone."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A log, A, and B beside it, that parity is asked with: A is its control."""

    log: Entry
    beside: Entry | None

    @property
    def logs(self) -> tuple[Entry, ...]:
        return (self.log,) if self.beside is None else (self.log, self.beside)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(entry.id for entry in self.logs)

    def letter(self, log_id: str) -> str:
        return LETTERS[self.ids.index(log_id)]

    def name(self, log_id: str) -> str:
        """Letter, engine, model, precision, and what else tells two of the same. Anybody's text: escape it."""
        log = self.logs[self.ids.index(log_id)]
        said = [self.letter(log_id), short_name(log)]
        if len(self.logs) > len({short_name(one) for one in self.logs}):
            said.append(shortened(str(log.row.get("label") or log.row.get("file") or log.id)))
        return " · ".join(said)

    def symbol(self, log_id: str) -> str:
        return SYMBOLS[self.ids.index(log_id)]

    def colour(self, log_id: str, colours: Palette) -> str:
        """Neutral for A, as a control's is everywhere."""
        return colours.neutral if self.ids.index(log_id) == 0 else colours.series[0]


def short_name(entry: Entry) -> str:
    """What a log is, in a few words. Anybody's text."""
    row = entry.row
    return " · ".join(shortened(str(part)) for part in (row["engine"], row.get("model"), row.get("precision")) if part)


def shortened(text: str, most: int = MOST_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def choose(found: Found) -> tuple[Chosen | None, list[str]]:
    """The logs that the address names, else the default; and a word on each name that means no log."""
    named = [st.query_params.get(LOG), st.query_params.get(BESIDE)]
    if not any(named):
        return (None if LOG in st.query_params else default_choice(found.entries)), []
    entries: dict[str, Entry] = {}
    complaints = []
    for name in filter(None, named):
        try:
            entry = found.get(name, LOGIT_LOG)
            entries.setdefault(entry.id, entry)
        except StoreError as error:
            complaints.append(f"{error.what[:1].upper()}{error.what[1:]}.")
    logs = list(entries.values())
    return (Chosen(logs[0], logs[1] if len(logs) > 1 else None) if logs else None), complaints


def default_choice(entries: Sequence[Entry]) -> Chosen | None:
    """The newest log, and beside it one of another engine with the same model.

    Of these one that is not damaged, then of the same precision, then of a run here, then the newest.
    """
    newest = [entry for entry in reversed(entries) if has_values(entry)]
    if not newest:
        return None
    log, *rest = newest
    model = log.row.get("model")
    others = [one for one in rest if model and one.row.get("model") == model and one.row["engine"] != log.row["engine"]]

    def worth(one: Entry) -> tuple[bool, bool, bool]:
        row = one.row
        is_sound = row.get("cause") is None or row["cause"] in ON_PURPOSE
        return is_sound, row.get("precision") == log.row.get("precision"), row["origin"] == "measured"

    return Chosen(log, max(others, key=worth, default=None))  # of equals the first: the newest


def put(log: str | None, beside: str | None = None) -> None:
    """Look at these from now on; at nothing, where there is no log."""
    # At once: each change of the address is a step for the browser's Back.
    st.query_params.update({LOG: log or "", BESIDE: beside or ""})


def swap(chosen: Chosen) -> None:
    """B becomes A: the log that is looked at, and the control of parity."""
    if chosen.beside is not None:
        put(chosen.beside.id, chosen.log.id)


def address(log: str, beside: str | None = None, **more: str) -> str:
    """A link to the page with these logs."""
    return "logits?" + urlencode({LOG: log, **({BESIDE: beside} if beside else {}), **more})
