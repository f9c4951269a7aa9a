"""Who looks at the page: a name for the worker's queue, and whether the browser is still there."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import streamlit as st
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx


def visitor() -> str:
    """The same name for one browser tab as long as it is open."""
    return str(st.session_state.setdefault("visitor", uuid.uuid4().hex))


def adopt_visitor(name: str) -> None:
    """This tab goes on with what one that is gone had started under that name."""
    st.session_state["visitor"] = name


def presence() -> Callable[[], bool]:
    """Tells, from any thread, whether this tab is connected. Where no server runs, as in a test, it always is."""
    context = get_script_run_ctx()
    if context is None or not Runtime.exists():
        return lambda: True
    session_id, runtime = context.session_id, Runtime.instance()
    return lambda: bool(runtime.is_active_session(session_id))
