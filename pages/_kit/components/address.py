"""What a page shows without being asked for it, in the address too, so that a copied link shows the same tomorrow.

The browser gets it in place of the address that it has, since it is no step of the reader's; ``st.query_params`` would
make it one. Once it is there, it is told Streamlit's part in the browser too, which goes by what it was told last.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner_utils.script_run_context import get_script_run_ctx

from pages._kit.components.once import source
from pages._kit.theme import palette


def limit_steps() -> None:
    """For the begin of every page: the browser's Back undoes one act of the reader a step; a new theme redraws all."""
    _mount(key="address-steps", data={"ground": palette().background}, on_ground_change=lambda: None, height=1)


def put_quietly(values: Mapping[str, str | Sequence[str]]) -> None:
    """These parameters in place of what the address has under their names. Call it in every run, at the same place,
    also with nothing: a component that comes or goes makes the browser build anew what is behind it."""
    parameters = {name: [value] if isinstance(value, str) else [*value] for name, value in values.items()}
    context = get_script_run_ctx()
    if parameters and context is not None:
        with context.session_state.query_params() as params:
            for name, texts in parameters.items():
                params.set_with_no_forward_msg(name, texts)
            context.query_string = urlencode(params._query_params, doseq=True)
    # With a stamp, since the browser passes over a message that it had before; the answer's own run has the same one.
    _replace(parameters, secrets.token_hex(4))


def is_restored() -> bool:
    """Whether the browser went back or forward to this address, so that widgets take their values from it."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


@st.fragment
def _replace(parameters: Mapping[str, list[str]], stamp: str) -> None:
    """A fragment, so that the browser's answer redraws nothing."""
    data = {"stamp": stamp, "parameters": parameters} if parameters else None
    _mount(key="address-default", data=data, on_replaced_change=lambda: st.query_params.update(parameters), height=1)


_mount = st.components.v2.component("driftscope_address", html="<span></span>", js=source("address.js"))
