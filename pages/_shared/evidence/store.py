"""What the Evidence page shows is read here: claims, the last verdicts, and verdicts that were asked for on the page.

What the page judges is kept for all visitors until the process ends, and never written: ``data/`` may be read-only, and
what ships there is the project's word, not a visitor's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.errors import FileFormatError
from engine.evidence import verdicts
from engine.evidence.checks.stored import LABEL
from engine.evidence.claims import Claim, files_of, load_claims
from engine.evidence.verdicts import Judgement
from engine.store.store import Store

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(slots=True)
class Shelf:
    """The verdicts of one store that somebody asked for on the page."""

    judgement: Judgement | None = None


@dataclass(frozen=True, slots=True)
class Last:
    """The newest verdicts there are. ``is_kept``: on disk; ``fault``: why those on disk cannot be read."""

    judgement: Judgement | None
    is_kept: bool
    fault: str = ""


def claims() -> tuple[Claim, ...]:
    """All claims, read anew when a file of theirs changes."""
    return _claims(_stamp())


def last(store: Store) -> Last:
    """What was judged last: by ``make claims``, or on the page."""
    here = _shelf(_name(store)).judgement
    try:
        kept, fault = verdicts.load(), ""
    except FileFormatError as error:
        kept, fault = None, str(error)
    if here is not None and (kept is None or here.when >= kept.when):
        return Last(here, is_kept=False, fault=fault)
    return Last(kept, is_kept=True, fault=fault)


def judge_anew(store: Store) -> None:
    """All claims now: some seconds."""
    _shelf(_name(store)).judgement = verdicts.judge_all(store)


def has_shipped_runs(store: Store) -> bool:
    """Whether the runs that checks ask for are in the store that is open."""
    return any(entry.row.get("label") == LABEL for entry in store.found().entries)


def _name(store: Store) -> str:
    return "\n".join(files.where for files in store.places)


def _stamp() -> Stamp:
    return tuple((str(path), *_when_and_size(path)) for path in files_of())


def _when_and_size(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return 0, 0  # whoever reads it says what is wrong
    return found.st_mtime_ns, found.st_size


@st.cache_resource(max_entries=2, show_spinner=False)
def _claims(stamp: Stamp) -> tuple[Claim, ...]:
    return load_claims()


@st.cache_resource(max_entries=8, show_spinner=False)
def _shelf(store: str) -> Shelf:
    return Shelf()
