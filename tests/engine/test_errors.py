"""Messages for users: one line, printable, bounded, whatever the values in them are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DriftscopeError, EnrichedError, SmilesError, nearest, shown
from engine.records import NumberFormat
from tests.strategies import any_text


@given(any_text(200), st.integers(2, 80))
def test_shown_is_one_printable_line_of_bounded_length(text: str, limit: int) -> None:
    visible = shown(text, limit)
    assert visible.isprintable()
    assert visible[0] == visible[-1] == "'"
    assert len(visible) <= limit + 2
    visible.encode()  # a lone surrogate would end a page with a traceback


@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("CCO", 60, "'CCO'"),
        ("a" * 60, 60, "'" + "a" * 60 + "'"),
        ("a" * 61, 60, "'" + "a" * 59 + "…'"),
        ("a\0b", 60, "'a\\x00b'"),
        ("\0" * 20, 8, "'\\x00…'"),  # escapes count by what is seen
        ("\u202eabc", 60, "'\\u202eabc'"),  # a right-to-left override would turn the message around
        ("\udcff", 60, "'\\udcff'"),
        (17, 60, "'17'"),
    ],
)
def test_shown_escapes_and_shortens(text: object, limit: int, expected: str) -> None:
    assert shown(text, limit) == expected


@given(any_text(), any_text())
def test_a_message_is_one_printable_line(cause: str, fix: str) -> None:
    for error in (DriftscopeError(cause, fix), SmilesError(cause, fix, 3), EnrichedError(cause, block=1, text=fix)):
        message = str(error)
        assert len(message.splitlines()) <= 1
        assert message.isprintable()
        message.encode()


def test_a_message_says_where_and_what_to_do() -> None:
    assert str(DriftscopeError("it broke", "Mend it")) == "it broke. Mend it"
    expected = "enriched text, block 2, at position 7: the block is empty in '<>'"
    assert str(EnrichedError("the block is empty", block=2, position=7, text="<>")) == expected


@pytest.mark.parametrize("numbers", [(-1, 4, 3), (0, 0, 3), (3, 2, 3), (1, 13, 3), (1, 4, 0), (1, 4, 7)])
def test_a_number_format_checks_itself(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"decimals must satisfy|most_integer_digits is"):
        NumberFormat(*numbers)


def test_no_message_lists_all_of_many_names() -> None:
    assert nearest("exat", ["exact", "none"]) == "Did you mean exact?"
    assert nearest("zzz", ["exact", "none"]) == "Known are exact, none"
    assert nearest("zzz", [f"a{number}" for number in range(85)]).endswith(", a39 and 45 more")
