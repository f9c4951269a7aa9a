"""The Profiles page on a store of its own, for tests without a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from engine.store.store import Store
from tests.engine.store.stored_runs import store_at

PAGE = str(ROOT / "pages" / "profiles.py")
Open = Callable[..., AppTest]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_at(tmp_path / "store")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, store: Store) -> Open:
    def open_(**query: str | list[str]) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(store.home.where))
        app = AppTest.from_file(PAGE, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        app.run()
        assert not app.exception
        return app

    return open_


def table(app: AppTest, place: int = 0) -> pd.DataFrame:
    found: pd.DataFrame = app.dataframe[place].value
    return found


def said(app: AppTest) -> str:
    parts = [str(one.value) for one in (*app.markdown, *app.caption, *app.info, *app.error)]
    return "\n".join(parts).replace("\\", "").replace("\u00a0", " ")


def html(app: AppTest) -> str:
    return "".join(one.proto.body for one in app.get("html"))


def runs(store: Store) -> dict[str, dict[str, object]]:
    return {entry.id: dict(entry.row) for entry in store.found().entries}
