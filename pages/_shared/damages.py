"""What a store leaves out because it is damaged, named on the page."""

from __future__ import annotations

import streamlit as st

from engine.store.entries import StoreListing
from pages._shared.errors import escape_markdown

MOST_NAMED = 10


def show_damages(found: StoreListing) -> None:
    """Nothing, where nothing is."""
    if not found.damages:
        return
    count = len(found.damages)
    said = "1 entry of the store is" if count == 1 else f"{count} entries of the store are"
    with st.expander(f"{said} damaged and left out", icon=":material/warning:"):
        lines = [f"- {escape_markdown(f'{damage.where}: {damage.what}')}" for damage in found.damages[:MOST_NAMED]]
        more = [f"- and {count - MOST_NAMED} more"] if count > MOST_NAMED else []
        st.markdown("\n".join([*lines, *more, "", "`.venv/bin/python -m engine verify` looks at every byte."]))
