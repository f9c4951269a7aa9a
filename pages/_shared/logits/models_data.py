"""What the page's ranking of models stands on, kept for the next rerun: a log never changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from engine.logits.figures import Health, has_values, health
from engine.logits.ranking import LeftOut, Ranking, ranking
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.logits.state import Chosen

MOST_LOGS = 16
"""The newest ones: each takes some hundredths of a second at first, or a second where it is large."""


@dataclass(frozen=True, slots=True)
class Ranked:
    ranking: Ranking
    healths: Mapping[str, Health]  # of its logs
    older: int  # logs that are not ranked


def ranked(store: Store, chosen: Chosen | None) -> Ranked:
    """The newest logs, and those that are looked at."""
    entries = store.found(LOGIT_LOG).entries
    looked_at = () if chosen is None else chosen.ids
    newest = {entry.id for entry in entries[-MOST_LOGS:]} | set(looked_at)
    wanted = [entry for entry in entries if entry.id in newest]
    found, healths = _ranked(store, tuple(entry.key for entry in wanted), wanted)
    missing = [LeftOut(entry.id, "its values are missing") for entry in wanted if not has_values(entry)]
    whole = Ranking(found.models, found.rates, (*found.left_out, *missing))
    return Ranked(whole, healths, len(entries) - len(wanted))


@st.cache_resource(max_entries=8, show_spinner="Looking through the logs …")
def _ranked(
    _store: Store, keys: tuple[tuple[str, ...], ...], _logs: Sequence[Entry]
) -> tuple[Ranking, Mapping[str, Health]]:
    found = ranking(_store, _logs)
    readable = {one.id for one in found.logs}
    return found, {entry.id: health(_store, entry) for entry in _logs if entry.id in readable}
