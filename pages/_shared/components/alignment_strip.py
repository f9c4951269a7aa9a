"""The alignment strip: a generated text over its template, position by position, on one track that scrolls sideways.

Each column is a row of ``engine.text.align``: the template's token, the generated one, or both. Under them run the
drift as a line and, where steps were kept, what the LP did to the model. The selection is Python's: a pick in the
browser is shown at once, told to ``on_pick``, and stands only if the next run says so too. Nothing here knows where
columns and steps come from. Pieces are untrusted; they are sent as text that can be seen (``alignment_columns``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from engine.text.align import AlignedToken
from pages._shared.components.alignment_columns import Step, packed
from pages._shared.components.atom_picks import OnPick, known, show_pickable
from pages._shared.components.once import Component, source
from pages._shared.components.token_strip import sendable

_NO_STEPS: Mapping[int, Step] = MappingProxyType({})
_NOTHING: Mapping[int, str] = MappingProxyType({})


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
) -> None:
    """Draw the strip. ``steps`` are by ``AlignedToken.pos``, ``elements`` by template block.

    ``selected`` is the selected column and scrolled to whenever it changes; ``block`` is a template block to outline,
    scrolled to when it changes and nothing is selected; numbers of ``wrong`` blocks are marked, and those of
    ``redrawn`` blocks, each with a line about its tries. ``totals``, a name and a figure each, are shown with those of
    the whole text. ``on_pick`` is called with the picked column, None when the pick was cleared, before the run that
    follows.
    """
    small = {
        "label": sendable(label),
        "caption": sendable(caption),
        "selected": known(selected, len(columns)),
        "block": block,
    }
    large = packed(columns, steps, elements, frozenset(wrong), redrawn)
    large |= {"totals": [[sendable(name), sendable(figure)] for name, figure in totals]}
    show_pickable(_component, key, len(columns), on_pick, small, large)


_component = Component(
    "driftscope_alignment_strip",
    html=source("alignment_strip.html"),
    css=source("component_theme.css", "token_looks.css", "alignment_strip.css", "alignment_panel.css"),
    js=source("alignment_strip.js", "alignment_draw.js", "alignment_facts.js"),
)
