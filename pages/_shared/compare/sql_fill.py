"""Names for the runs that a page compares (``$control``, ``$tests``, ``$runs``), put into a statement as plain SQL.

The console takes numbered parameters and no lists, so a name becomes a literal. A run's id is letters, digits, dots,
hyphens and underscores, which cannot end a literal. Names inside of texts and comments stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.errors import SqlError, shown
from engine.store.entries import NAME

CONTROL, TESTS, RUNS = "$control", "$tests", "$runs"
NOTHING = "[]::VARCHAR[]"
MEANINGS = {
    CONTROL: "the control's run_id, as text",
    TESTS: "the tests' ids, as a list: run_id IN $tests",
    RUNS: "the ids of control and tests, as a list: run_id IN $runs",
}
# What is not ended goes on to the end, so that no text takes more than one look at each character.
_PARTS = re.compile(
    r"""(?<!\w)[eE]'(?:\\.|''|[^'\\])*(?:'|\Z)|'(?:''|[^'])*(?:'|\Z)|"(?:""|[^"])*(?:"|\Z)"""
    r"""|--[^\n]*|/\*.*?(?:\*/|\Z)"""
    r"""|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)|(?P<name>\$(?:control|tests|runs)\b)""",
    re.DOTALL,
)
_PLACE = re.compile(r", line (\d+)(?: column (\d+))?(?=, at '|$)")
_NAMED = (re.compile('column named "([^"]+)"'), re.compile("^[^'\"]*'([^']+)'"), re.compile('"([^"]+)"'))


@dataclass(frozen=True, slots=True)
class Filled:
    """A statement as it was written, as it is run, and where in it the two differ: written at, run at, run length."""

    written: str
    run: str
    puts: tuple[tuple[int, int, int, int], ...]  # start and end as written, start and end as run

    def written_at(self, offset: int) -> tuple[int, int]:
        """Where a character that is run was written: its place, or all of the name that it stands for."""
        shift = 0
        for start, end, run_start, run_end in self.puts:
            if offset < run_start:
                break
            if offset < run_end:
                return start, end
            shift = end - run_end
        return offset + shift, offset + shift + 1


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a statement is wrong, in characters as written; ``end`` is exclusive."""

    start: int
    end: int


def filled(sql: str, runs: Sequence[str]) -> Filled:
    """``runs`` are the ids of control and tests. SqlError where the statement names what is not chosen."""
    values = _values(runs)
    parts: list[str] = []
    puts: list[tuple[int, int, int, int]] = []
    done = length = 0
    for found in _PARTS.finditer(sql):
        if found["name"] is None:
            continue
        value = values[found["name"]]
        if value is None:
            raise SqlError(
                f"{found['name']} stands for no run", "Choose a control above, or write a run's id in quotes"
            )
        between = sql[done : found.start()]
        start = length + len(between)
        length = start + len(value)
        parts += [between, value]
        puts.append((found.start(), found.end(), start, length))
        done = found.end()
    return Filled(sql, "".join([*parts, sql[done:]]), tuple(puts))


def _values(runs: Sequence[str]) -> Mapping[str, str | None]:
    strange = [run_id for run_id in runs if not NAME.fullmatch(run_id)]
    if strange:
        raise SqlError(f"{shown(strange[0])} is no run_id", "Choose another run")
    return {CONTROL: _text(runs[0]) if runs else None, TESTS: _list(runs[1:]), RUNS: _list(runs)}


def _text(run_id: str) -> str:
    return f"'{run_id}'"


def _list(runs: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, runs))}]::VARCHAR[]"


def mark_of(error: SqlError, statement: Filled) -> Mark | None:
    """The part of a statement that an error is about: at its line and column, else the first place of what it names."""
    near = _PLACE.search(error.what)
    lines = statement.run.split("\n")
    if near is not None and int(near[1]) <= len(lines):
        before = sum(len(line) + 1 for line in lines[: int(near[1]) - 1])
        line = lines[int(near[1]) - 1]
        start = before + (int(near[2]) - 1 if near[2] else len(line) - len(line.lstrip()))
        word = re.match(r"\w+|.", statement.run[start:])
        end = start + (len(word[0]) if word else 0) if near[2] else before + len(line)
        return _mark(statement, start, end)
    named = next((found[1] for one in _NAMED if (found := one.search(error.what))), "")
    if not named:
        return None
    place = re.search(rf"(?<!\w){re.escape(named)}(?!\w)", statement.run, re.IGNORECASE)
    return _mark(statement, place.start(), place.end()) if place else None


def _mark(statement: Filled, start: int, end: int) -> Mark | None:
    begin, stop = statement.written_at(start)[0], statement.written_at(max(start, end - 1))[1]
    begin, stop = max(0, begin), min(stop, len(statement.written))
    return Mark(begin, stop) if begin < stop else None


def in_written_places(error: SqlError, statement: Filled) -> SqlError:
    """The error with the column as the user wrote the line, where names stood for longer values before it."""
    near, mark = _PLACE.search(error.what), mark_of(error, statement)
    if near is None or near[2] is None or mark is None or not statement.puts:
        return error
    column = mark.start - (statement.written.rfind("\n", 0, mark.start) + 1) + 1
    what = f"{error.what[: near.start()]}, line {near[1]} column {column}{error.what[near.end() :]}"
    return SqlError(what, error.fix)
