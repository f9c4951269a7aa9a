"""Errors of a user's SQL, in one line each: DuckDB's own messages, exceeded limits, crashes.

Messages keep DuckDB's line, column and suggestions. Text that could name a file goes to the log only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import SqlError, one_line, shown

_PLACE = re.compile(r"\n\nLINE (\d+): (.*)\n( *)(\^+)")
_PREFIX = re.compile(r"[A-Z][A-Za-z/ -]* Error: ")
_UNREADABLE = re.compile(r"reading the stream registered as '(.*?)' failed")
_NOT_READ = re.compile("the table '.*' cannot be read")
_SETTING_ADVICE = re.compile(r"[,.]? (?:or|Use) \"?SET .*")  # SET is not allowed here
_OUT_OF_MEMORY = ("Out of Memory Error", "std::bad_alloc")
MOST_DETAIL = 500
MOST_TEXT = 4_000
OUR_WORDS = {
    "Combining QUALIFY with GROUP BY ALL is not supported yet": (
        "QUALIFY does not go with GROUP BY ALL",
        "Name the columns in GROUP BY, or filter in a SELECT around this one",
    )
}
_BROKEN = frozenset({"InternalException", "FatalException"})  # DuckDB is unusable after these


@dataclass(frozen=True, slots=True)
class Failure:
    """An error for the user; ``detail`` is for the log, ``is_last`` says that the process is to be replaced."""

    error: SqlError
    detail: str = ""
    is_last: bool = False


def failure_of(error: BaseException, *, seconds: float, memory_mb: int) -> Failure:
    """What an exception met on the way to an answer means."""
    text = _middle_cut(str(error))
    if isinstance(error, SqlError):
        return Failure(error)
    if isinstance(error, RecursionError):
        return Failure(SqlError("the statement is nested too deep", "Write it with fewer levels"))
    if isinstance(error, MemoryError) or text.startswith(_OUT_OF_MEMORY):
        what = f"the statement ran out of memory (limit {memory_mb} MB)"
        fix = "Filter or aggregate before sorting, joining or making long values"
        return Failure(SqlError(what, fix), is_last=True)
    if text.startswith("INTERRUPT"):
        return Failure(too_long(seconds))
    if match := _UNREADABLE.search(text):
        what = f"the table {shown(match[1])} cannot be read"
        return Failure(SqlError(what, "Its files have changed or are damaged: open the store again"), _detail(text))
    is_broken = type(error).__name__ in _BROKEN
    if is_broken or not _PREFIX.match(text):
        what = f"the statement failed inside DuckDB ({type(error).__name__})"
        return Failure(SqlError(what, "Write it in another way"), _detail(text), is_broken)
    return Failure(in_words(text))


def is_unreadable(error: SqlError) -> bool:
    """Whether a table's files are damaged."""
    return _NOT_READ.fullmatch(error.what) is not None


def _middle_cut(text: str) -> str:
    """A message may quote megabytes of a value; its end says where in the statement that is."""
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT // 2]} … {text[-MOST_TEXT // 2 :]}"


def _detail(text: str) -> str:
    return one_line(text.partition("Stack Trace")[0][:MOST_DETAIL])


def too_long(seconds: float) -> SqlError:
    return SqlError(f"the statement ran for over {seconds:g} s and was stopped", "Ask for less, or join on a condition")


def in_words(text: str) -> SqlError:
    """DuckDB's message as one line: what happened, where, and what it proposes."""
    place = _PLACE.search(text)
    message = _PREFIX.sub("", text[: place.start()] if place else text, count=1).strip()
    what, _, fix = message.partition("\n")
    what = _SETTING_ADVICE.sub("", what).rstrip("!. ")
    if what in OUR_WORDS:
        return SqlError(*OUR_WORDS[what])
    if place is None:
        return SqlError(what, fix.rstrip("."))
    number, line = int(place[1]), place[2]
    column = len(place[3]) - len(f"LINE {number}: ")
    near = line[column : column + len(place[4])]
    what += f", line {number}" if line.startswith("...") else f", line {number} column {column + 1}"
    return SqlError(f"{what}, at {shown(near)}" if near else what, fix.rstrip("."))
