"""What tests of work on the store share: its section alone as a page, and a desk that carries nothing out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import RunError
from engine.runner.background import Desk, Input, Snapshot, State, Task
from engine.runner.said import Part

PAGE = """
import streamlit as st
from engine.store.store import Store
from pages._shared.compare import manage
from pages._shared.compare import state as compare_state
store = Store.open()
chosen, _ = compare_state.choose(store.found())
manage.show(store, chosen)
"""


class Board(Desk):
    """A desk that remembers what was handed in, and tells of it what a test says."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.handed: list[tuple[str, list[str], list[Input], str]] = []
        self.told: list[tuple[Task, Snapshot]] = []
        self.refusal: RunError | None = None

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        if self.refusal is not None:
            raise self.refusal
        self.handed.append((title, list(words), list(inputs), about))
        return Task(len(self.handed), title, words, self.folder, about)

    def tasks(self) -> list[tuple[Task, Snapshot]]:
        return self.told

    def tell(self, state: State, *parts: Part, title: str = "2 runs", **more: Any) -> Task:
        task = Task(len(self.told) + 1, title, ["run", "--model", "x"], self.folder, more.pop("about", ""))
        task._state = state
        self._tasks.append(task)
        self.told.insert(
            0, (task, Snapshot(state, **{"ahead": 0, "parts": parts, "seconds": 75.0, "log": (), "error": "", **more}))
        )
        return task

    @classmethod
    def used(cls, folder: Path, patch: pytest.MonkeyPatch) -> Board:
        """The page's desk as long as the test."""
        made = cls(folder)
        for module in ("managing.tasks", "compare.manage_unfinished"):
            patch.setattr(f"pages._shared.{module}.desk", lambda: made)
        return made


def opened(**query: str | list[str]) -> AppTest:
    app = AppTest.from_string(PAGE, default_timeout=60)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def query(app: AppTest, name: str) -> str | None:
    values = app.query_params.get(name)
    return None if not values else values[-1] if isinstance(values, list) else str(values)


def words(app: AppTest) -> str:
    shown = (*app.markdown, *app.caption, *app.info, *app.error, *app.warning)
    return "\n".join(one.value for one in shown).replace("\\", "")


def command(app: AppTest) -> str:
    return str(app.code[-1].value)
