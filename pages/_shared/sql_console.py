"""One browser session's SQL console: statements run in a thread beside the page, can be stopped, and end with it.

A console is a process. It starts with the first statement, is used again while the store's runs are the same, and ends
when they change or the session ends. What this module does not know: what a statement says.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

from engine.comparing.measures import has_samples
from engine.errors import DriftscopeError, SqlError
from engine.store.entries import StoreListing
from engine.store.schema import KINDS, RUN
from engine.store.sql.failures import is_unreadable
from engine.store.sql.guard import STOPPED, Console, SqlAnswer
from engine.store.sql.process import Limits
from engine.store.store import Store

LIMITS = Limits(answer_mb=32, written_mb=32)  # an answer is held as long as it is shown, and is sent to the browser
RUN_NAMES = {
    "$control": "the control's run_id, as text",
    "$tests": "the tests' ids, as a list: run_id IN $tests",
    "$runs": "the ids of control and tests, as a list: run_id IN $runs",
}
"""Names in a statement for the runs that the page compares."""
QUICK_S = 0.7  # most statements take less, and then the page is drawn once
TICK_S, RETRY_S = 0.4, 0.05
_RUN_NAME = re.compile(r"\$(?:control|tests|runs)\b")


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """A user's SQL, and the runs that its names stand for, the control first; none where it has no such name."""

    sql: str
    runs: tuple[str, ...] = ()

    @classmethod
    def of(cls, sql: str, runs: tuple[str, ...]) -> SqlStatement:
        return cls(sql, runs if _RUN_NAME.search(sql) else ())

    @property
    def names(self) -> dict[str, object]:
        return {"tests": self.runs[1:], "runs": self.runs} | ({"control": self.runs[0]} if self.runs else {})


@dataclass(frozen=True, slots=True)
class SqlOutcome:
    """What became of a statement: an answer or an error. ``origins`` are the store's runs when it ran."""

    statement: SqlStatement
    answer: SqlAnswer | None = None
    error: DriftscopeError | None = None
    origins: Mapping[str, str] = field(default_factory=dict)
    with_samples: frozenset[str] = frozenset()
    left_out: tuple[str, ...] = ()  # runs and other entries with damaged files


@dataclass(slots=True, eq=False)
class RunningStatement:
    """One statement under way. ``outcome`` is there when ``done`` is set."""

    session: SqlSession
    statement: SqlStatement
    version: object = None  # of what it reads; the same statement runs again where this changes
    began: float = field(default_factory=time.monotonic)
    done: threading.Event = field(default_factory=threading.Event)
    is_stopped: bool = False
    outcome: SqlOutcome | None = None

    def stop(self) -> None:
        """Returns at once; the statement may not have reached the console yet, so a thread stops it."""
        self.is_stopped = True
        threading.Thread(target=self.session.cancel, args=(self,), name="sql-stop", daemon=True).start()


class SqlSession:
    """Holds the console. Statements wait for each other."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._turn = threading.Lock()  # held by the statement that runs
        self._state = threading.Lock()
        self._console: Console | None = None
        self._entries: object = None  # the store's, when the console was opened
        self._left_out: tuple[str, ...] = ()
        self._running: RunningStatement | None = None
        self._is_closed = False

    def start(self, store: Store, statement: SqlStatement, version: object = None) -> RunningStatement:
        running = RunningStatement(self, statement, version)
        threading.Thread(target=self._run, args=(store, running), name="sql", daemon=True).start()
        return running

    def cancel(self, running: RunningStatement) -> None:
        """Waits for its end."""
        while not running.done.wait(RETRY_S):
            with self._state:  # so that no other statement is running when this one is cancelled
                if self._running is running and self._console is not None:
                    self._console.cancel()

    def close(self) -> None:
        """End the console's process; what is running is stopped."""
        with self._state:
            self._is_closed = True
            console, self._console = self._console, None
        if console is not None:
            console.close()

    def _run(self, store: Store, running: RunningStatement) -> None:
        # The page must not wait for ever where a fault of ours, which the log has, ends this thread.
        outcome = SqlOutcome(running.statement, error=SqlError("the statement could not be run", "See the log"))
        with self._turn:
            with self._state:
                self._running = running
            try:
                outcome = self._outcome(store, running)
            except DriftscopeError as error:
                outcome = SqlOutcome(running.statement, error=error)
            finally:
                with self._state:
                    self._running = None
                running.outcome = outcome
                running.done.set()

    def _outcome(self, store: Store, running: RunningStatement) -> SqlOutcome:
        found = [store.found(kind) for kind in KINDS]
        console = self._console_over(store, found)
        if running.is_stopped:
            raise SqlError(STOPPED)
        statement = running.statement
        try:
            answer = console.query(statement.sql, statement.names)
        except SqlError as error:
            if error.what == "$control has no value":
                fix = "Choose a control above, or write a run's id in quotes"
                raise SqlError("$control stands for no run", fix) from None
            if self._left_out or not is_unreadable(error):
                raise
            console = self._replace(*store.console_without_damage(self._limits))
            answer = console.query(statement.sql, statement.names)
        runs = found[KINDS.index(RUN)].entries
        origins = {entry.id: str(entry.row.get("origin")) for entry in runs}
        with_samples = frozenset(entry.id for entry in runs if has_samples(entry))
        return SqlOutcome(statement, answer, None, origins, with_samples, self._left_out)

    def _console_over(self, store: Store, found: Sequence[StoreListing]) -> Console:
        """The console over the store's entries as they are now: another one when one came, went, grew or changed."""
        entries = [(entry.key, *map(str, entry.row.values())) for listing in found for entry in listing.entries]
        key = (tuple(files.where for files in store.places), hash(tuple(entries)))
        if self._console is not None and key == self._entries:
            return self._console
        console = self._replace(store.console(self._limits))
        self._entries = key
        return console

    def _replace(self, console: Console, left_out: tuple[str, ...] = ()) -> Console:
        with self._state:
            former, self._console, self._left_out = self._console, console, left_out
            is_closed = self._is_closed
        if former is not None:
            former.close()
        if is_closed:
            self.close()
        return console


@st.cache_resource(scope="session", on_release=SqlSession.close, show_spinner=False)
def session() -> SqlSession:
    """This browser session's own; Streamlit releases it when the browser leaves."""
    return SqlSession(LIMITS)


# --- on a page ------------------------------------------------------------------------------------------------------


def run_statement(store: Store, statement: SqlStatement, slot: str, version: object = None) -> RunningStatement:
    """The statement of this slot of the session's state; started where it or its version is another than before."""
    running: RunningStatement | None = st.session_state.get(slot)
    if running is None or (running.statement, running.version) != (statement, version):
        drop_statement(slot)
        running = st.session_state[slot] = session().start(store, statement, version)
        running.done.wait(QUICK_S)
    return running


def drop_statement(slot: str) -> None:
    """Another statement follows, or the same one again: the former is stopped."""
    running: RunningStatement | None = st.session_state.pop(slot, None)
    if running is not None and not running.done.is_set():
        running.stop()


@st.fragment(run_every=TICK_S)
def show_progress(running: RunningStatement, key: str) -> None:
    """Time and a Stop button, until the statement ends; then the page is drawn again."""
    if running.done.is_set():
        st.rerun()
    seconds = time.monotonic() - running.began
    word = "Stopping …" if running.is_stopped else f"Running for {seconds:.0f} s, of at most {LIMITS.seconds:g} s"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(min(1.0, seconds / LIMITS.seconds), text=word)
        st.button("Stop", key=key, icon=":material/stop_circle:", disabled=running.is_stopped, on_click=running.stop)
