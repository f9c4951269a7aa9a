"""Components with large parts that travel once: what the browser has is not sent again, and what it lacks it asks for.

Streamlit sends a component's definition and data with every message, and on a page that ticks four times a second that
is most of the traffic. So the definition is a small loader (``once.js``); markup, style and module of a component, and
whatever else is large, go with the first message only. Python remembers in the session what it sent under a key. It
cannot know whether that arrived: a new tab has nothing, and a message may be passed over by the next one. The loader
finds out and asks by a trigger, and then everything is sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

Callback = Callable[[], object]

HERE = Path(__file__).parent
_ROOT = '<div class="once"></div>'


def source(*names: str | Path) -> str:
    """Files next to this one, or by their whole paths, one after the other: in the browser they are one module."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in names)


def digest(value: object) -> str:
    return hashlib.blake2b(json.dumps(value).encode(), digest_size=8).hexdigest()


class Component:
    """A component of a module with ``mount(shell)``: an object with ``update(message)``, false where it has to ask.

    Made once, at import: Streamlit warns when one name is registered with two definitions.
    """

    def __init__(self, name: str, *, html: str, css: str, js: str) -> None:
        self._code = {"html": html, "css": css, "js": js}
        self._build = f"{name} {digest(self._code)}"
        self._mount: Callable[..., Any] = st.components.v2.component(name, html=_ROOT, js=_loader())

    def show(
        self, key: str, data: Mapping[str, object], sent: dict[str, Any], large: object = None, **callbacks: Callback
    ) -> object:
        """Mount under ``key`` with ``data``, and with ``large`` if the browser has not been sent just that.

        ``sent`` is what ``sent_under`` gave in this run; it is brought up to date.
        """
        message = {"build": self._build, **data}
        if sent.get("build") != self._build:
            message["code"] = self._code
        if large is not None:
            message["holds"] = digest(large)
            if sent.get("holds") != message["holds"]:
                message["large"] = large
        result = self._mount(key=key, data=message, on_ask_change=partial(forget, key), **callbacks)
        sent |= {"build": self._build, "holds": message.get("holds")}
        return result


def sent_under(key: str) -> dict[str, Any]:
    """What the browser was sent under ``key``; ask once a run, before the component is shown.

    Nothing, where no component of that key was on the page until now:
    Streamlit drops a component's state when a run did not mount it; what is mounted after that starts empty.
    """
    if key not in st.session_state:
        forget(key)
    sent: dict[str, Any] = st.session_state.setdefault(_slot(key), {})
    return sent


def forget(key: str) -> None:
    """The browser has nothing of this component any more, or said so."""
    st.session_state[_slot(key)] = {}


def _slot(key: str) -> str:
    return f"sent under {key}"


def _loader() -> str:
    """Without its comments: it goes with every message."""
    lines = source("once.js").splitlines()
    return "\n".join(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("//"))
