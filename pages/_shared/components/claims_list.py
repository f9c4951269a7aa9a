"""The list of claims: grouped by report and section, walked through by keyboard, one of them selected.

All rows travel once; what the filters leave and what is selected go with every message. What is selected is Python's
word: a click shows at once, and the rerun that it causes confirms it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pages._shared.components.atom_picks import OnPick, show_pickable
from pages._shared.components.once import Component, source
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
    small = {"shown": list(shown), "selected": selected, "height": HEIGHT}
    show_pickable(_component, key, len(rows), on_pick, small, packed(groups, rows))


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
