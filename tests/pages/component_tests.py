"""What tests of components share: their messages on the way to the browser, and a run of a page with a state."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest
from streamlit.testing.v1 import AppTest

from pages._kit.components.once import Component


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


class Frame(NamedTuple):
    """A 3D view, as it is sent."""

    title: str
    source: str

    @property
    def scene(self) -> dict[str, Any]:
        scene, _ = json.JSONDecoder().raw_decode(
            self.source, self.source.index("const scene = ") + len("const scene = ")
        )
        return dict(scene)

    @property
    def models(self) -> list[str]:
        return [json.loads(block) for block in re.findall(r'addModel\(("(?:[^"\\]|\\.)*")', self.source)]


def frames_of(page: AppTest) -> list[Frame]:
    return [Frame(frame.proto.alt, frame.proto.srcdoc) for frame in page.get("iframe")]
