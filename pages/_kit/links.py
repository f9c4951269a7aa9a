"""Links from page to page: each with what the page is to show in its query.

People keep such links, so parameter names stay. Texts are encoded here; where a link is in HTML, escape it there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlencode

import streamlit as st

MOST_TESTS = 40  # that an address can hold


def compare_address(control: str, tests: Iterable[str] = (), **more: str) -> str:
    return "compare?" + urlencode({"control": control, "test": list(tests), **more}, doseq=True)


def sql_address(sql: str) -> str:
    return "compare?" + urlencode({"view": "SQL", "sql": sql})


def inspector_address(run_id: str, sample_id: int | None = None) -> str:
    """A run in the Drift inspector, with one of its samples open if given."""
    return "drift?" + urlencode({"run": run_id, **({} if sample_id is None else {"sample": sample_id})})


def profiles_address(control: str, test: str | None = None) -> str:
    return "profiles?" + urlencode({"control": control, **({"test": test} if test else {})})


def logits_address(log: str, other: str | None = None, **more: str) -> str:
    return "logits?" + urlencode({"log": log, **({"beside": other} if other else {}), **more})


def address_button(words: str, address: str, *, key: str, **look: Any) -> None:
    """Opens an address of ours in this tab; Streamlit's own button for links always takes another one."""
    if st.button(words, key=key, **look):
        open_address(address)


def open_address(address: str) -> None:
    page, _, query = address.partition("?")
    st.switch_page(f"pages/{page}.py", query_params=parse_qs(query))
