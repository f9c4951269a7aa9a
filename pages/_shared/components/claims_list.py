"""The list of claims: grouped by report and section, walked through by keyboard, one of them selected.

All rows travel once; what the filters leave and what is selected go with every message. What is selected is Python's
word: a click shows at once, and the rerun that it causes confirms it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pages._shared.components.atom_picks import OnPick, hand_on, hand_on_late, heard
from pages._shared.components.once import Component, sent_under, source
from pages._shared.components.token_strip import sendable
from pages._shared.evidence.claims import Judged, by_section
from pages._shared.evidence.words import (
    apart_words,
    found_word,
    look_of,
    measured_words,
    reported_words,
    short_reason,
    word_of,
)

HEIGHT = 640
LABEL = "Claims by report and section"


def claims_list(
    rows: Sequence[Judged], shown: Sequence[int], *, key: str, selected: int | None, on_pick: OnPick
) -> None:
    """Show the rows at these places. ``on_pick`` is called before the rerun, with a place, or None for no selection."""
    hand_on_late(key, len(rows), on_pick)
    small = {"shown": list(shown), "selected": selected, "height": HEIGHT, "heard": heard(key)}
    _component.show(
        key, small, sent_under(key), packed(rows), on_picked_change=partial(hand_on, key, len(rows), on_pick)
    )


def packed(rows: Sequence[Judged]) -> dict[str, Any]:
    """What travels once."""
    groups = [
        {"name": sendable(f"report {report} · {section}"), "places": places}
        for report, section, places in by_section(rows)
    ]
    return {"label": LABEL, "groups": groups, "rows": [_row(row) for row in rows]}


def _row(row: Judged) -> dict[str, str]:
    apart = apart_words(row)
    words = {
        "statement": row.claim.statement,
        "subject": row.claim.subject,
        "reason": short_reason(row),
        "verdict": word_of(row.name),
        "sign": look_of(row.name).sign,
        "reported": reported_words(row.claim),
        "measured": measured_words(row),
        "apart": "" if apart == "=" else apart,
        "source": found_word(row),
    }
    return {name: sendable(text) for name, text in words.items()}


_component = Component(
    "driftscope_claims",
    html=source("claims_list.html"),
    css=source("component_theme.css", "claims_list.css"),
    js=source("claims_list.js"),
)
