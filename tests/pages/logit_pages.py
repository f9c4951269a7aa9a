"""The Logit health page without a browser, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from engine.paths import ROOT
from engine.store.entries import Entry
from engine.store.store import Store
from tests.pages.logit_logs import add_all, add_hostile, store_at

PAGE = str(ROOT / "pages" / "logits.py")
Made = tuple[Store, dict[str, Entry]]
Open = Callable[..., AppTest]


def all_logs(folder: Path) -> Made:
    """A log of each kind, and one that is hostile."""
    store = store_at(folder)
    return store, {"hostile": add_hostile(store, folder)} | add_all(store, folder)


def opener(monkeypatch: pytest.MonkeyPatch) -> Open:
    st.cache_resource.clear()

    def open_(store: Store, **query: str) -> AppTest:
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(store.home.where))
        app = AppTest.from_file(PAGE, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    return open_


def said(app: AppTest) -> str:
    assert not app.exception
    parts = (*app.markdown, *app.caption, *app.info, *app.error)
    return "\n".join(str(part.value) for part in parts).replace("\\", "").replace("\u2060", "")


def tables(app: AppTest) -> list[pd.DataFrame]:
    return [one.value for one in app.dataframe]


def charts(app: AppTest) -> list[str]:
    return [chart.proto.spec for chart in app.get("plotly_chart")]
