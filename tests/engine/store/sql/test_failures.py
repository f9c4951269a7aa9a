"""DuckDB's messages as lines for users: the place and the candidates kept, settings and files left out."""

from __future__ import annotations

import pytest

from engine.errors import SqlError
from engine.store.sql.failures import failure_of, in_words


class InternalException(Exception):  # noqa: N818 - as DuckDB calls it
    pass


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('Binder Error: Referenced column "c" not found in FROM clause!\nCandidate bindings: "a", "b"',
         'Referenced column "c" not found in FROM clause. Candidate bindings: "a", "b"'),
        ('Parser Error: syntax error at or near "where"\n\nLINE 1: from t where\n               ^^^^^',
         "syntax error at or near \"where\", line 1 column 8, at 'where'"),
        ("Conversion Error: Could not convert\n\nLINE 12: ...  cast('x' as int)...\n               ^^^^^^^",
         "Could not convert, line 12, at 'ast('x''"),
        ("Parser Error: syntax error at end of input\n\nLINE 1: select\n              ^",
         "syntax error at end of input, line 1 column 7"),
        ('Parser Error: Max expression depth limit of 1000 exceeded. Use "SET max_expression_depth TO x" to ...',
         "Max expression depth limit of 1000 exceeded"),
        ("Invalid Input Error: Division by zero. Use TRY(...) to return NULL, or SET error_on_division_by_zero=false.",
         "Division by zero. Use TRY(...) to return NULL"),
        ("Invalid Input Error: mine: \u202e\x1b[31m", "mine: \\u202e\\x1b[31m"),
    ],
)  # fmt: skip
def test_in_words(text: str, line: str) -> None:
    assert str(in_words(text)) == line


@pytest.mark.parametrize(
    ("error", "said", "detail", "is_last"),
    [
        (SqlError("mine", "do"), "mine. do", False, False),
        (RecursionError("maximum"), "the statement is nested too deep", False, False),
        (MemoryError(), "the statement ran out of memory (limit 7 MB)", False, True),
        (OSError("Out of Memory Error: no"), "the statement ran out of memory (limit 7 MB)", False, True),
        (OSError("INTERRUPT Error: Query exceeded"), "the statement ran for over 2.5 s", False, False),
        (OSError("reading the stream registered as 'd' failed: /x"), "the table 'd' cannot be read", True, False),
        (OSError("IOError: /home/me/x"), "the statement failed inside DuckDB (OSError)", True, False),
        (InternalException("INTERNAL Error: /x"), "the statement failed inside DuckDB (InternalException)", True, True),
        (ValueError("Conversion Error: no"), "no", False, False),
    ],
)  # fmt: skip
def test_failures(error: Exception, said: str, detail: bool, is_last: bool) -> None:
    failure = failure_of(error, seconds=2.5, memory_mb=7)
    assert str(failure.error).startswith(said)
    assert "/" not in str(failure.error)
    assert (bool(failure.detail), failure.is_last) == (detail, is_last)


def test_an_internal_errors_stack_is_not_logged() -> None:
    error = InternalException("INTERNAL Error: too large\n\nStack Trace:\n\n/home/me/_duckdb.so(+0x1)")
    assert failure_of(error, seconds=1, memory_mb=1).detail == "INTERNAL Error: too large"
