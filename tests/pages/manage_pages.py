"""What tests of work on the store share: its section alone as a page, and a queue that runs nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.errors import RunError
from engine.figures.queue_words import QueueState
from engine.jobs.commands import Input, Task, TaskQueue, TaskSnapshot
from engine.jobs.progress import PartProgress
from tests.pages.apps import section

RUNS_PAGE = """
from engine.store.store import Store
from pages._compare import manage
from pages._compare.manage import PICKER
from engine.store.schema import RUN as KIND
"""
TRACES = """
from engine.store.store import Store
from pages._profiles import traces as manage
from engine.store.schema import TRACE as KIND
PICKER = manage.trace_picker({entry.id: entry.row for entry in Store.open().found().entries})
"""
LOGS = """
from engine.store.store import Store
from pages._logits import logs as manage
from pages._logits.logs import LOGS as PICKER
from engine.store.schema import LOGIT_LOG as KIND
"""
DRAWN = """
store = Store.open()
chosen, _ = PICKER.read(store.found(KIND))
manage.show(store, [entry.id for entry in chosen])
"""


class Board(TaskQueue):
    """A queue that remembers what was submitted, and reports what a test tells it to."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.handed: list[tuple[str, list[str], list[Input], str]] = []
        self.told: list[tuple[Task, TaskSnapshot]] = []
        self.refusal: RunError | None = None

    def submit(self, title: str, words: Sequence[str], inputs: Iterable[Input] = (), *, about: str = "") -> Task:
        if self.refusal is not None:
            raise self.refusal
        self.handed.append((title, list(words), list(inputs), about))
        return self.task(title, words, about, "waiting")

    def task(self, title: str, words: Sequence[str], about: str, state: QueueState) -> Task:
        task = Task(len(self.handed) + len(self.told) + 1, title, words, self.folder, about)
        job: Any = SimpleNamespace(state=state)
        job.stop = lambda: setattr(job, "state", "stopped")
        task.job = job
        return task

    def tasks(self) -> list[tuple[Task, TaskSnapshot]]:
        return self.told

    def tell(self, state: QueueState, *parts: PartProgress, title: str = "2 runs", **more: Any) -> Task:
        task = self.task(title, ["run", "--model", "x"], more.pop("about", ""), state)
        self._tasks.append(task)
        told: dict[str, Any] = {"ahead": 0, "note": "", "error": "", "elapsed_s": 75.0, "parts": parts, "log": ()}
        self.told.insert(0, (task, TaskSnapshot(state, **{**told, **more})))
        return task

    @classmethod
    def used(cls, folder: Path, patch: pytest.MonkeyPatch) -> Board:
        """The page's queue as long as the test."""
        made = cls(folder)
        for module in ("tasks", "entries"):
            patch.setattr(f"pages._shared.managing.{module}.task_queue", lambda: made)
        return made


def opened(page: str = RUNS_PAGE, **query: str | list[str]) -> AppTest:
    return section(page + DRAWN, **query)


def keys(app: AppTest) -> set[str | None]:
    return {button.key for button in app.button}


def labelled(app: AppTest, kind: str, label: str) -> Any:
    return next(element for element in app.get(kind) if getattr(element, "label", None) == label)
