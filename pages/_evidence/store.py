"""The Evidence page's data: claims, the verdicts on disk, and verdicts computed on the page.

Verdicts computed on the page are shown to all visitors until the process ends and are never written: ``data/`` may be
read-only, and its verdicts are the project's, not a visitor's.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.errors import FileFormatError
from engine.evidence import verdicts
from engine.evidence.checks.stored import LABEL
from engine.evidence.claims import Claim, files_of, load_claims
from engine.evidence.verdicts import Judgement
from engine.store.store import Store


@dataclass(frozen=True, slots=True)
class LatestVerdicts:
    """The newest verdicts there are. ``is_kept``: on disk; ``fault``: why those on disk cannot be read."""

    judgement: Judgement | None
    is_kept: bool
    fault: str = ""


def claims() -> tuple[Claim, ...]:
    """All claims, read anew when one of their files changes."""
    stamps = []
    for path in files_of():
        try:
            stat = path.stat()
        except OSError:
            stamps.append((str(path), 0, 0))  # the reader names the error
        else:
            stamps.append((str(path), stat.st_mtime_ns, stat.st_size))
    return _claims(tuple(stamps))


@st.cache_resource(max_entries=2, show_spinner=False)
def _claims(stamps: tuple[tuple[str, int, int], ...]) -> tuple[Claim, ...]:
    return load_claims()


def last(store: Store) -> LatestVerdicts:
    """The newest verdicts: from ``make claims``, or from this page."""
    on_page = _page_verdicts(_name(store)).get("newest")
    try:
        on_disk, fault = verdicts.load(), ""
    except FileFormatError as error:
        on_disk, fault = None, str(error)
    if on_page is not None and (on_disk is None or on_page.when >= on_disk.when):
        return LatestVerdicts(on_page, is_kept=False, fault=fault)
    return LatestVerdicts(on_disk, is_kept=True, fault=fault)


def recheck(store: Store) -> None:
    """Check all claims now: some seconds."""
    _page_verdicts(_name(store))["newest"] = verdicts.judge_all(store)


@st.cache_resource(max_entries=8, show_spinner=False)
def _page_verdicts(store: str) -> dict[str, Judgement]:
    """One dictionary per store, shared by all visitors."""
    return {}


def has_shipped_runs(store: Store) -> bool:
    """Whether the open store has the shipped runs, which some checks need."""
    return any(entry.row.get("label") == LABEL for entry in store.found().entries)


def _name(store: Store) -> str:
    return "\n".join(files.where for files in store.places)
