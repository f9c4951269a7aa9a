"""The Python side of a strip that is being written: what has to go, since when it can be used, what a tick costs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from pages._shared.components import token_strip
from pages._shared.components.token_strip import Chip, Written, common_length, selection, utf16_length
from tests.pages.component_tests import messages_of, run

texts = st.text("ab", max_size=8)


class Reader:
    """What the browser does: it keeps chips, and refuses a message whose beginning it does not have."""

    def __init__(self) -> None:
        self.epoch = ""
        self.number = 0
        self.chips = ""
        self.text = ""

    def take(self, epoch: str, number: int, since: int, chips: tuple[int, str], text: tuple[int, str]) -> bool:
        known = epoch == self.epoch and self.number >= since
        if max(chips[0], text[0]) > 0 and not known:
            return False
        self.epoch, self.number = epoch, number
        self.chips = self.chips[: chips[0]] + chips[1]
        self.text = self.text[: text[0]] + text[1]
        return True


@given(st.lists(st.tuples(texts, texts, st.booleans()), max_size=12))
def test_a_reader_who_takes_a_message_has_the_text_whatever_was_lost(history: list[tuple[str, str, bool]]) -> None:
    written, reader = Written("a text"), Reader()
    for chips, text, arrives in history:
        start, text_start, since = written.send(chips, text)
        if not arrives:
            continue
        message = ((start, chips[start:]), (text_start, text[text_start:]))
        if reader.take(written.epoch, written.number, since, *message):
            assert (reader.chips, reader.text) == (chips, text)


@given(st.lists(st.tuples(texts, texts), max_size=12))
def test_a_reader_who_missed_nothing_never_asks(history: list[tuple[str, str]]) -> None:
    written, reader = Written("a text"), Reader()
    for chips, text in history:
        start, text_start, since = written.send(chips, text)
        message = ((start, chips[start:]), (text_start, text[text_start:]))
        assert reader.take(written.epoch, written.number, since, *message)
        assert (reader.chips, reader.text) == (chips, text)


def test_a_tick_that_brings_nothing_may_be_lost() -> None:
    written = Written("a text")
    written.send("abc", "")
    written.send("abc", "")  # lost
    start, _, since = written.send("abcd", "")
    assert (start, since) == (3, 1)


def test_a_changed_end_goes_again() -> None:
    written = Written("a text")
    written.send("abc", "")
    assert written.send("abX", "")[0] == 2
    start, _, since = written.send("abXd", "")
    assert (start, since) == (3, 2)  # who missed the X has no use for the d


@pytest.mark.parametrize(("one", "other", "length"), [("", "", 0), ("ab", "ab", 2), ("ab", "abc", 2), ("xb", "ab", 0)])
def test_common_length(one: str, other: str, length: int) -> None:
    assert common_length(one, other) == common_length(tuple(one), tuple(other)) == length


@given(st.text())
def test_the_browser_counts_in_utf16(text: str) -> None:
    assert utf16_length(text) == len(text.encode("utf-16-le")) // 2


def stream_page() -> None:
    import streamlit as st

    from pages._shared.components.token_strip import Chip, token_strip

    pieces = st.session_state.get("pieces", ["[C]", "\ud800", "<"])
    chips = [Chip(piece, number) for number, piece in enumerate(pieces)]
    if not st.session_state.get("away"):
        selected = token_strip(
            chips,
            stream=st.session_state.get("stream", "one"),
            key="strip",
            label="Text",
            text="".join(pieces),
        )
        st.text(f"selected {selected}")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The data of every message."""
    return messages_of(token_strip._component, monkeypatch)


def test_only_what_is_new_goes(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(stream_page)
    run(page)
    run(page, pieces=["[C]", "\ud800", "<", "1"])
    run(page, pieces=["[C]", "\ud800", ">", "1"])
    assert [message["from"] for message in sent] == [0, 3, 2]
    assert [message["pieces"] for message in sent] == [["[C]", "\\ud800", "<"], ["1"], [">", "1"]]
    assert [message["text"] for message in sent] == [[0, "[C]\\ud800<"], [10, "1"], [9, ">1"]]
    assert len({message["epoch"] for message in sent}) == 1
    assert ["code" in message for message in sent] == [True, False, False]
    json.dumps(sent, ensure_ascii=False).encode()  # UTF-8, as the message to the browser is


def test_another_stream_starts_over_and_the_code_is_there(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(stream_page)
    run(page)
    run(page, stream="two")
    assert [message["from"] for message in sent] == [0, 0]
    assert sent[0]["epoch"] != sent[1]["epoch"]
    assert "code" not in sent[1]


def test_a_strip_that_was_away_is_sent_whole(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(stream_page)
    run(page)
    run(page, away=True)
    run(page, away=False)
    assert [message["from"] for message in sent] == [0, 0]
    assert "code" in sent[1]


def test_a_selection_holds_while_the_text_grows_and_ends_with_it() -> None:
    chips = [Chip(piece, number) for number, piece in enumerate(["[C]", "\ud800", "<"])]
    page = AppTest.from_function(stream_page)
    assert run(page, strip=selection(chips, 1)) == "selected 1"
    assert run(page, pieces=["[C]", "\ud800", "<", "1"]) == "selected 1"
    assert run(page, pieces=["[O]", "\ud800", "<", "1"]) == "selected None"


def test_a_tick_costs_what_it_brings(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(stream_page)
    run(page, pieces=["0"] * 3000)
    run(page, pieces=["0"] * 3025)
    whole, tick = (len(json.dumps(message)) for message in sent)
    assert tick < 2_000 < whole
