"""The list of claims: grouped by report and section, walked through by keyboard, one of them selected.

All rows travel once; what the filters leave and what is selected go with every message. What is selected is Python's
word: a click shows at once, and the rerun that it causes confirms it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pages._shared.components.atom_picks import OnPick, hand_on, hand_on_late, heard
from pages._shared.components.once import Component, sent_under, source
from pages._shared.components.token_strip import sendable

HEIGHT = 640
LABEL = "Claims by report and section"
Group = tuple[str, Sequence[int]]
"""A heading, and the places of the rows under it."""


def claims_list(
    groups: Sequence[Group],
    rows: Sequence[Mapping[str, str]],
    shown: Sequence[int],
    *,
    key: str,
    selected: int | None,
    on_pick: OnPick,
) -> None:
    """Show the rows at these places. ``on_pick`` is called before the rerun, with a place, or None for no selection."""
    hand_on_late(key, len(rows), on_pick)
    small = {"shown": list(shown), "selected": selected, "height": HEIGHT, "heard": heard(key)}
    _component.show(
        key, small, sent_under(key), packed(groups, rows), on_picked_change=partial(hand_on, key, len(rows), on_pick)
    )


def packed(groups: Sequence[Group], rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """What travels once."""
    return {
        "label": LABEL,
        "groups": [{"name": sendable(name), "places": list(places)} for name, places in groups],
        "rows": [{name: sendable(text) for name, text in row.items()} for row in rows],
    }


_component = Component(
    "driftscope_claims",
    html=source("claims_list.html"),
    css=source("component_theme.css", "claims_list.css"),
    js=source("claims_list.js"),
)
