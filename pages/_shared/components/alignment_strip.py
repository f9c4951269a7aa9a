"""The alignment strip: a generated text over its template, position by position, on one track that scrolls sideways.

Each column is a row of ``engine.text.align``: the template's token, the generated one, or both. Under them run the
drift as a line and, where steps were kept, what the LP did to the model. The selection is Python's: a pick in the
browser is shown at once, told to ``on_pick``, and stands only if the next run says so too. Nothing here knows where
columns and steps come from. Pieces are untrusted; they are sent as text that can be seen (``alignment_columns``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import streamlit as st

from engine.text.align import AlignedToken
from pages._shared.components.alignment_columns import Step, digest, packed
from pages._shared.components.atom_picks import OnPick, known
from pages._shared.components.once import Component, sent_under, source
from pages._shared.components.token_strip import sendable

_NO_STEPS: Mapping[int, Step] = MappingProxyType({})
_NOTHING: Mapping[int, str] = MappingProxyType({})
_SIMULATED = "picked_in_test"


def alignment_strip(
    columns: Sequence[AlignedToken],
    *,
    key: str,
    label: str,
    steps: Mapping[int, Step] = _NO_STEPS,
    elements: Sequence[str] = (),
    caption: str = "",
    selected: int | None = None,
    block: int | None = None,
    wrong: Collection[int] = (),
    redrawn: Mapping[int, str] = _NOTHING,
    totals: Sequence[tuple[str, str]] = (),
    on_pick: OnPick | None = None,
    height: int | None = None,
) -> None:
    """Draw the strip. ``steps`` are by ``AlignedToken.pos``, ``elements`` by template block.

    ``selected`` is the selected column and scrolled to whenever it changes; ``block`` is a template block to outline,
    scrolled to when it changes and nothing is selected; numbers of ``wrong`` blocks are marked, and those of
    ``redrawn`` blocks, each with a line about its tries. ``totals``, a name and a figure each, are shown with those of
    the whole text. ``on_pick`` is called with the picked column, None when the
    pick was cleared, before the run that follows. ``height`` limits the whole, in pixels; more is scrolled.
    """
    made_on = digest(columns)
    _deliver_simulated(key, made_on, len(columns), on_pick)
    data = {
        "label": sendable(label),
        "caption": sendable(caption),
        "selected": known(selected, len(columns)),
        "block": block,
        "pickable": on_pick is not None,
        "height": height,
        "answered": st.session_state.get(_answered(key)),
    }
    _component.show(
        key,
        data,
        sent_under(key),
        packed(columns, steps, elements, frozenset(wrong), redrawn)
        | {"totals": [[sendable(name), sendable(figure)] for name, figure in totals]},
        on_picked_change=partial(_take, key, made_on, len(columns), on_pick),
    )


def picked_state(columns: Sequence[AlignedToken], index: int | None) -> dict[str, list[int | str]]:
    """What a test puts into session state under the strip's key: the next run goes as after a pick in the browser."""
    return {_SIMULATED: [-1 if index is None else index, digest(columns)]}


def _take(key: str, made_on: str, count: int, on_pick: OnPick | None) -> None:
    """The browser's pick: [column or -1, digest of its columns, number of the pick]."""
    state = st.session_state.get(key)
    sent = state.get("picked") if isinstance(state, Mapping) else None
    if isinstance(sent, list) and len(sent) == 3:
        st.session_state[_answered(key)] = sent[2]
    _tell(sent, made_on, count, on_pick)


def _tell(sent: object, made_on: str, count: int, on_pick: OnPick | None) -> None:
    match sent:
        case [int(index), str(theirs), *_] if on_pick and theirs == made_on and -1 <= index < count:
            on_pick(None if index < 0 else index)


def _deliver_simulated(key: str, made_on: str, count: int, on_pick: OnPick | None) -> None:
    state = st.session_state.get(key)
    if isinstance(state, Mapping) and _SIMULATED in state:
        del st.session_state[key]
        _tell(state[_SIMULATED], made_on, count, on_pick)
        st.rerun()


def _answered(key: str) -> str:
    """Where the number of the latest pick is kept: the browser holds a newer pick against an older answer."""
    return f"pick answered under {key}"


_component = Component(
    "driftscope_alignment_strip",
    html=source("alignment_strip.html"),
    css=source("component_theme.css", "token_looks.css", "alignment_strip.css", "alignment_panel.css"),
    js=source("alignment_strip.js", "alignment_draw.js", "alignment_facts.js"),
)
