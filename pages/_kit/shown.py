"""What a page shows, as data, so that a test can ask what a link selects, whatever widgets the page has.

``st.session_state["shown"]`` is JSON: the page's name, the ids of its entries in the reader's order, the control first,
and each option of the address that counts there, under its name in the address, or its default.
"""

from __future__ import annotations

import json
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner_utils.script_run_context import get_script_run_ctx

KEY = "shown"


def forget() -> None:
    """For the begin of a page."""
    st.session_state[KEY] = "{}"


def put_shown(**selected: Any) -> None:
    """Add this, and the values of all widgets drawn so far that the address holds. A page calls it last."""
    earlier = json.loads(st.session_state.get(KEY, "{}"))
    st.session_state[KEY] = json.dumps({**earlier, **_options(), **selected}, ensure_ascii=False, default=str)


def _options() -> dict[str, Any]:
    context = get_script_run_ctx()
    if context is None:  # a section that is drawn by itself, without Streamlit's runtime
        return {}
    drawn = context.shared.widget_ids_this_run
    with context.session_state.query_params() as params:
        names = [name for name, bound in params._bindings_by_param.items() if bound.widget_id in drawn]
    return {name: st.session_state[name] for name in names if name in st.session_state}
