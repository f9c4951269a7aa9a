"""The Python side of the token strip: what is sent, what is made visible, and which chip counts as selected."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine.text.align import AlignedToken, Alignment
from pages._live.lanes import chips_of
from pages._shared.components.once import source
from pages._shared.components.token_strip import SHOWN_CHARS, Chip, digest, packed, selection, sendable, visible

ROW = [
    Chip("[C]", 18531, "COPY", True, start=0, end=3),
    Chip("<", 27, "BOUNDARY", True, block=0, start=3, end=4),
    Chip("1", 16, "FREE", False, block=0, start=4, end=5),
    Chip("amen", 5762, "FREE", False, "junk", 0, 5, 9, "left over"),
]
any_text = st.text(st.characters(codec=None))  # lone surrogates too


def test_chips_are_sent_as_columns() -> None:
    sent = packed(ROW)
    assert sent["pieces"] == ["[C]", "<", "1", "amen"]
    assert sent["ids"] == [18531, 27, 16, 5762]
    assert (sent["roles"], sent["forced"], sent["marks"]) == ("CBFF", "1100", "---j")
    assert (sent["blocks"], sent["starts"], sent["ends"]) == ([None, 0, 0, 0], [0, 3, 4, 5], [3, 4, 5, 9])
    assert sent["notes"] == {"3": "left over"}
    assert sent["shown"] == {}


def test_columns_without_a_value_are_not_sent() -> None:
    sent = packed([Chip("C", 34), Chip("O", 46)])
    assert (sent["blocks"], sent["starts"], sent["ends"], sent["notes"]) == ([], [], [], {})
    assert (sent["roles"], sent["forced"], sent["marks"]) == ("--", "--", "--")


def test_a_chip_is_tinted_by_how_likely_it_was_for_the_model() -> None:
    chips = [Chip("0", 15, p_raw=p_raw) for p_raw in (None, 1.0, 0.9, 0.5, 0.1, 0.01, 0.0099, 0.0, float("nan"))]
    assert packed(chips)["tints"] == "-0012344-"


def test_what_an_lp_closed_is_said_to_be_closed() -> None:
    """In a lane each token has its position: the one before a forced close is the last of its number."""
    row = AlignedToken(0, 15, "0", 0, 1, "FREE", 0, 0, 15, "0", "FREE", 0, False, "cut", 0)
    sent = packed(chips_of(Alignment("position", "0", (row,), (), ()))[0])
    assert (sent["marks"], sent["notes"]) == ("k", {})
    for name in ("token_strip.html", "token_strip.js"):
        assert "cut: the LP closed the number" in source(name)


def test_three_thousand_chips_stay_small() -> None:
    """A live page sends a strip four times a second: some 30 bytes a chip, not the 200 of an object."""
    chips = [Chip("0", 15 + i, "FREE", False, block=i // 24, start=i, end=i + 1) for i in range(3000)]
    assert len(json.dumps(packed(chips))) < 40 * len(chips)


@pytest.mark.parametrize(
    ("piece", "seen"),
    [
        ("C", "C"),
        (" CC", "·CC"),
        ("a\nb\tc", "a↵b⇥c"),
        ("\r\x00\x7f", r"\r\x00\x7f"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\u202eabc", r"\u202eabc"),
        ("\ud800", r"\ud800"),
        ("\u0301x", "◌\u0301x"),
        ("", "∅"),
        ("מול", "מול"),
        ("\U000e0041", r"\U000e0041"),
        ("<b>&amp;", "<b>&amp;"),
    ],
)
def test_visible(piece: str, seen: str) -> None:
    assert visible(piece) == seen


def test_a_long_piece_is_cut_on_its_chip_and_kept_for_the_clipboard() -> None:
    sent = packed([Chip("x" * 10_000, 1)])
    shown = sent["shown"]
    assert isinstance(shown, dict)
    assert len(shown["0"]) == SHOWN_CHARS
    assert shown["0"].endswith("…")
    assert sent["pieces"] == ["x" * 10_000]


@given(any_text)
def test_nothing_unseen_or_turning_reaches_a_chip(piece: str) -> None:
    seen = visible(piece)
    assert 0 < len(seen) <= SHOWN_CHARS
    assert not {unicodedata.category(char) for char in seen} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}


@given(any_text, any_text)
def test_whatever_a_chip_holds_can_be_sent(piece: str, note: str) -> None:
    sent = packed([Chip(piece, 1, note=note)])
    json.dumps(sent, ensure_ascii=False).encode()  # UTF-8, as the message to the browser is


def test_sendable_changes_lone_surrogates_only() -> None:
    assert sendable("a\u202e\ud83dé") == "a\u202e\\ud83dé"


def strip_page() -> None:
    import streamlit as st

    from pages._shared.components.token_strip import Chip, token_strip

    pieces = st.session_state.get("pieces", ["[C]", "\ud800", "<", "1"])
    chips = [Chip(piece, number) for number, piece in enumerate(pieces)]
    st.text(f"selected {token_strip(chips, key='strip', label='Text')}")


def run_page(**state: object) -> str:
    page = AppTest.from_function(strip_page)
    for key, value in state.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception
    return page.text[0].value


CHIPS = [Chip(piece, number) for number, piece in enumerate(["[C]", "\ud800", "<", "1"])]


def test_the_strip_runs_without_a_browser_and_nothing_is_selected() -> None:
    assert run_page() == "selected None"


def test_a_selection_from_the_browser_is_returned() -> None:
    assert run_page(strip=selection(CHIPS, 2)) == "selected 2"


def test_a_selection_stays_when_chips_are_appended() -> None:
    assert run_page(strip=selection(CHIPS, 2), pieces=["[C]", "\ud800", "<", "1", ".", "0"]) == "selected 2"


def test_a_selection_ends_with_the_text_that_it_was_made_on() -> None:
    assert run_page(strip=selection(CHIPS, 2), pieces=["[C]", "[O]", "<", "1"]) == "selected None"
    assert run_page(strip=selection(CHIPS, 2), pieces=["[C]", "\ud800", "<"]) == "selected None"


@pytest.mark.parametrize(
    "sent", [None, 2, [2], [2, 4], ["2", 4, "x"], [2, 4, "x"], [4, 4, digest(CHIPS)], [-1, 4, digest(CHIPS)]]
)
def test_a_selection_that_no_strip_of_ours_sent_is_none(sent: object) -> None:
    assert run_page(strip={"selected": sent}) == "selected None"
