"""One browser session's console: statements run in a thread beside the page, can be stopped, and end with the session.

A console is a process. It is started with the first statement, used again while the store's runs are the same, and
ended when they are others or the session ends. What this module does not know: what a statement says.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from engine.comparing.reading import has_samples
from engine.errors import DriftscopeError, SqlError
from engine.store.entries import Found
from engine.store.guard import STOPPED, Answer, Console, Limits
from engine.store.schema import KINDS, RUN
from engine.store.store import Store, without_damage
from engine.store.views import datasets
from pages._shared.compare.sql_fill import Filled, in_written_places

LIMITS = Limits(answer_mb=32)  # an answer is held as long as it is shown, and is sent to the browser
RETRY_S = 0.05
_UNREADABLE = re.compile("^the table '.*' cannot be read$")  # the console's words for files that are damaged


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement: an answer or an error. ``origins`` are the store's runs when it was asked."""

    statement: Filled
    answer: Answer | None = None
    error: DriftscopeError | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    with_samples: frozenset[str] = frozenset()
    without: tuple[str, ...] = ()  # runs and other entries of which damaged files were left out


@dataclass(slots=True, eq=False)
class Asked:
    """One statement on its way. ``outcome`` is there when ``done`` is set."""

    desk: Desk
    statement: Filled
    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    is_stopped: bool = False
    outcome: Outcome | None = None

    def stop(self) -> None:
        self.desk.stop(self)

    def end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self.done.set()


class Desk:
    """Holds the console. Statements wait for each other; another one is asked by stopping the former."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._turn = threading.Lock()  # held by the statement that is worked on
        self._state = threading.Lock()
        self._console: Console | None = None
        self._key: object = None
        self._without: tuple[str, ...] = ()
        self._running: Asked | None = None
        self._is_closed = False

    def ask(self, store: Store, statement: Filled) -> Asked:
        asked = Asked(self, statement)
        threading.Thread(target=self._work, args=(store, asked), name="sql", daemon=True).start()
        return asked

    def stop(self, asked: Asked) -> None:
        """End it. Returns at once; the statement may not have reached the console yet, so a thread sees to it."""
        asked.is_stopped = True
        threading.Thread(target=self._stop, args=(asked,), name="sql-stop", daemon=True).start()

    def close(self) -> None:
        """End the console's process; what is running is stopped."""
        with self._state:
            self._is_closed = True
            console, self._console = self._console, None
        if console is not None:
            console.close()

    def _stop(self, asked: Asked) -> None:
        while True:
            with self._state:  # so that no other statement is running when this one's is cancelled
                if self._running is asked and self._console is not None:
                    self._console.cancel()
            if asked.done.wait(RETRY_S):
                return

    def _work(self, store: Store, asked: Asked) -> None:
        with self._turn:
            with self._state:
                self._running = asked
            try:
                asked.end(self._outcome(store, asked))
            finally:
                with self._state:
                    self._running = None
                if not asked.done.is_set():  # a fault of ours, which the log has: the page must not wait for ever
                    asked.end(Outcome(asked.statement, error=SqlError("the statement could not be run", "See the log")))

    def _outcome(self, store: Store, asked: Asked) -> Outcome:
        try:
            found = [store.found(kind) for kind in KINDS]
            console = self._ready(store, found)
            if asked.is_stopped:
                raise SqlError(STOPPED)
            try:
                answer = console.query(asked.statement.run)
            except SqlError as error:
                if self._without or not _UNREADABLE.search(error.what):
                    raise
                answer = self._take(*whole_console(store, self._limits)).query(asked.statement.run)
        except SqlError as error:
            return Outcome(asked.statement, error=in_written_places(error, asked.statement))
        except DriftscopeError as error:
            return Outcome(asked.statement, error=error)
        runs = found[KINDS.index(RUN)].entries
        return Outcome(
            asked.statement,
            answer,
            origins={entry.id: str(entry.row.get("origin")) for entry in runs},
            with_samples=frozenset(entry.id for entry in runs if has_samples(entry)),
            without=self._without,
        )

    def _ready(self, store: Store, found: Sequence[Found]) -> Console:
        """The console over the store's entries as they are now."""
        key = (tuple(files.where for files in store.places), _digest(found))
        if self._console is not None and key == self._key:
            return self._console
        console = self._take(store.console(self._limits))
        self._key = key
        return console

    def _take(self, console: Console, without: tuple[str, ...] = ()) -> Console:
        """In place of the one before, which ends."""
        with self._state:
            former, self._console, self._without = self._console, console, without
            is_closed = self._is_closed
        if former is not None:
            former.close()
        if is_closed:
            self.close()
        return console


def whole_console(store: Store, limits: Limits) -> tuple[Console, tuple[str, ...]]:
    """Over the files alone that are what was written, and which entries lack some. Reads every byte of the store."""
    tables: dict[str, Any] = {}
    without: list[str] = []
    for kind in KINDS:
        found = store.found(kind).entries
        whole = [without_damage(entry) for entry in found]
        without += [entry.id for entry, kept in zip(found, whole, strict=True) if entry.parts != kept.parts]
        tables |= datasets(kind, whole)
    return Console(tables, limits=limits), tuple(without)


def _digest(found: Sequence[Found]) -> int:
    """Changes when an entry comes, goes, grows or is named otherwise."""
    return hash(tuple((entry.key, *map(str, entry.row.values())) for one in found for entry in one.entries))


@st.cache_resource(scope="session", on_release=Desk.close, show_spinner=False)
def desk() -> Desk:
    """This browser session's own; Streamlit lets go of it when the browser leaves."""
    return Desk(LIMITS)
