"""A managing section's parts, of which one is shown at a time; which, is in the address."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engine.store.store import Store
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown, shown_errors
from pages._shared.managing import undo


def show_one(views: Mapping[str, Callable[[], None]], store: Store, what: str) -> None:
    """Draw what can be undone, the switch, and the view that is chosen, else the first. ``what`` lies in the store."""
    about = f"{what} of this page lie in {escape_markdown(store.home.where)}."
    undo.show()
    view = one_of("What to do", list(views), "manage", label_visibility="collapsed", help=about)
    with shown_errors():
        views[view]()
