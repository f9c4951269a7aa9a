"""What tests of components share: their messages on the way to the browser, and a run of a page with a state."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages._shared.components.once import Component


def messages_of(component: Component, patch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The data of every message from now on."""
    messages: list[dict[str, Any]] = []
    mount = component._mount

    def record(**arguments: Any) -> object:
        messages.append(arguments["data"])
        return mount(**arguments)

    patch.setattr(component, "_mount", record)
    return messages


def run(page: AppTest, **state: object) -> str:
    """The first text that the page shows."""
    for key, value in state.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception
    return page.text[0].value if page.text else ""
