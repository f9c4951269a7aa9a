"""What a page shows without being asked for it, in the address too, so that a copied link shows the same tomorrow.

The browser gets it in place of the address that it has, since it is no step of the reader's; ``st.query_params`` would
make it one. The script knows it at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner_utils.script_run_context import get_script_run_ctx

from pages._shared.components.once import source


def limit_steps() -> None:
    """For the begin of every page: from then on the browser's Back undoes what a reader did, one act a step."""
    _mount(key="address-steps")


def put_quietly(values: Mapping[str, str | Sequence[str]]) -> None:
    """These parameters in place of what the address has under their names."""
    parameters = {name: [value] if isinstance(value, str) else [*value] for name, value in values.items()}
    context = get_script_run_ctx()
    if context is not None:
        with context.session_state.query_params() as params:
            for name, texts in parameters.items():
                params.set_with_no_forward_msg(name, texts)
            context.query_string = urlencode(params._query_params, doseq=True)
    # With a stamp, since the browser passes over a message that it had before.
    _mount(key="address-default", data={"stamp": secrets.token_hex(4), "parameters": parameters})


_mount = st.components.v2.component("driftscope_address", html="<span></span>", js=source("address.js"))
