"""Pages without a browser: one opened by its address, and what it shows then."""

from __future__ import annotations

import json
import re
import secrets
from typing import Any

import pandas as pd
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT


def opened(page: str, *, session: Any = None, **query: str | list[str]) -> AppTest:
    """Of the store that ``DRIFTSCOPE_STORE`` names."""
    app = AppTest.from_file(str(ROOT / "pages" / f"{page}.py"), default_timeout=120)
    return _run(app, session or {}, query)


def _run(app: AppTest, session: dict[str, Any], query: dict[str, Any]) -> AppTest:
    for key, value in session.items():
        app.session_state[key] = value
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def section(script: str, **query: str | list[str]) -> AppTest:
    """A part of a page alone."""
    return _run(AppTest.from_string(script, default_timeout=60), {}, query)


def words(app: AppTest) -> str:
    parts = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    text = re.sub(r"</?abbr[^>]*>", "", "\n".join(str(part.value) for part in parts))
    return text.replace("\\", "").replace("\u00a0", " ")


def shown(app: AppTest) -> dict[str, Any]:
    """What the page says that it shows."""
    return dict(json.loads(app.session_state["shown"]))


def query(app: AppTest, name: str) -> str | None:
    values = app.query_params.get(name)
    return None if not values else values[-1] if isinstance(values, list) else str(values)


def table(app: AppTest, column: str) -> pd.DataFrame:
    """The first that has the column."""
    return next(frame.value for frame in app.dataframe if column in frame.value)


def picked_atom(index: int | None) -> dict[str, Any]:
    """The state that a view has when an atom was picked, None for a selection that was cleared."""
    return {"picked": {"atom": index, "stamp": secrets.token_hex(4)}}


def keys(app: AppTest) -> set[str | None]:
    return {button.key for button in app.button}


def is_harmless(app: AppTest) -> bool:
    """No markup of others, and nothing that turns the writing around."""
    parts = [str(part.value) for part in (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)]
    cells = [frame.value.to_string() for frame in app.dataframe]
    return "<img" not in "".join(parts).replace("\\<", "") and "\u202e" not in "".join(parts + cells)


class Params(dict):
    """Streamlit's ``st.query_params``, as far as pages use it, where no page runs."""

    def get_all(self, name: str) -> list[str]:
        value = self.get(name, [])
        return [value] if isinstance(value, str) else value
