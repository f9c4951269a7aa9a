"""The Python side of the alignment strip: what is sent, and which picks from the browser reach the page."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine.text.align import AlignedToken
from pages._shared.components.alignment_columns import digest, packed
from pages._shared.components.atom_picks import picked_atom

any_text = st.text(st.characters(codec=None))  # lone surrogates too
ROW = AlignedToken(0, 34, "C", 0, 1, "COPY", -1, 0, 34, "C", "COPY", -1, True, "", 0)
COLUMNS = (
    ROW,
    AlignedToken(1, 27, "<", 1, 2, "BOUNDARY", 0, 1, 27, "<", "BOUNDARY", 0, True, "", 0),
    AlignedToken(2, 5762, "amen", 2, 6, "FREE", 0, 2, 15, "0", "FREE", 0, False, "junk", 1),
    AlignedToken(None, None, "", None, None, None, -1, 3, 15, "0", "FREE", 0, None, "left_over", 2),
    AlignedToken(3, 16, "1", 6, 7, "FREE", 0, None, None, "", None, -1, False, "beyond", 1),
)
TOP = {"token_id": 34, "piece": "C", "p_raw": 0.5, "allowed": True}
STEP: dict[str, Any] = {
    "rule": "forced by the template", "p_raw": 0.123456, "p_lp": 1.0, "allowed_mass": 0.123456, "rank_raw": 7,
    "entropy_nat": 0.5, "top_k": [TOP],
}  # fmt: skip


def test_columns_are_sent_as_lists() -> None:
    sent = packed(COLUMNS, {}, ("C",))
    assert sent["texts"] == ["C", "<", "amen", "1", "0"]
    assert (sent["pieces"], sent["template_pieces"]) == ([0, 1, 2, -1, 3], [0, 1, 4, 4, -1])
    assert (sent["pos"], sent["template_pos"]) == ([0, 1, 2, None, 3], [0, 1, 2, 3, None])
    assert (sent["ids"], sent["template_ids"]) == ([34, 27, 5762, None, 16], [34, 27, 15, 15, None])
    assert (sent["text_roles"], sent["roles"]) == ("CBF-F", "CBFF-")
    assert (sent["text_blocks"], sent["blocks"]) == ([-1, 0, 0, -1, 0], [-1, 0, 0, 0, -1])
    assert (sent["forced"], sent["marks"], sent["drift"]) == ("110-0", "--jlb", [0, 0, 1, 2, 1])
    assert (sent["starts"], sent["ends"]) == ([0, 1, 2, None, 6], [1, 2, 6, None, 7])
    assert (sent["elements"], sent["steps"]) == (["C"], None)


def test_a_number_that_was_drawn_anew_is_marked_where_nothing_worse_is() -> None:
    written = [*COLUMNS, replace(COLUMNS[2], mark=""), replace(COLUMNS[2], block=1, mark="")]
    sent = packed(written, {}, (), redrawn={0: "drawn 2 times", 1: "drawn 3 times"})
    assert (sent["marks"], sent["redrawn"]) == ("--jlbrr", {"0": "drawn 2 times", "1": "drawn 3 times"})
    assert packed(written, {}, (), frozenset({1}), {0: "", 1: ""})["marks"] == "--jlbrw"


def test_steps_go_by_generated_position() -> None:
    """A gap has none, and a step for a position that no column has is not sent."""
    steps = {0: STEP, 2: STEP | {"rule": "anything", "rank_raw": 1, "allowed_mass": 0.75}, 9: STEP}
    sent = packed(COLUMNS, steps, ())["steps"]
    assert isinstance(sent, dict)
    assert sent["pos"] == [0, 2]
    assert (sent["rules"], sent["rule"]) == (["forced by the template", "anything"], [0, 1])
    assert (sent["p_raw"], sent["p_lp"], sent["rank"]) == ([0.1235, 0.1235], [1.0, 1.0], [7, 1])
    assert (sent["taken"], sent["entropy"]) == ([0.8765, 0.25], [0.5, 0.5])
    assert sent["top"] == [[34, 0, 0.5, 1]] * 2


@pytest.mark.parametrize(
    ("value", "short"),
    [(0.99999999, 0.9999), (1.0, 1.0), (1.23456e-9, 1.235e-9), (0.0, 0.0), (math.nan, None), (math.inf, None)],
)
def test_a_probability_keeps_four_digits_and_is_never_one_by_rounding(value: float, short: float | None) -> None:
    sent = packed((ROW,), {0: STEP | {"p_raw": value}}, ())["steps"]
    assert isinstance(sent, dict)
    assert sent["p_raw"] == [short]


def test_steps_that_lack_figures_are_sent_without() -> None:
    sent = packed((ROW,), {0: dict.fromkeys(STEP)}, ())["steps"]
    assert isinstance(sent, dict)
    assert (sent["p_raw"], sent["taken"], sent["rank"], sent["top"]) == ([None], [0.0], [0], [[]])


def test_more_allowed_than_all_took_nothing_away() -> None:
    sent = packed((ROW,), {0: STEP | {"allowed_mass": 1.0000001}}, ())["steps"]
    assert isinstance(sent, dict)
    assert sent["taken"] == [0.0]


@given(any_text, any_text, any_text)
def test_whatever_a_piece_holds_can_be_sent(piece: str, rule: str, element: str) -> None:
    column = replace(ROW, piece=piece, template_piece=element)
    step = STEP | {"rule": rule, "top_k": [TOP | {"piece": piece, "allowed": False}]}
    json.dumps(packed([column], {0: step}, [element]), ensure_ascii=False, allow_nan=False).encode()


def test_three_thousand_columns_stay_small() -> None:
    top = [TOP | {"token_id": 15 + i, "piece": str(i), "p_raw": 0.123456 / (i + 1)} for i in range(5)]
    steps = {i: STEP | {"top_k": top} for i in range(3000)}
    columns = [replace(ROW, pos=i, template_pos=i, running_drift=i) for i in range(3000)]
    assert len(json.dumps(packed(columns, steps, ()))) < 300 * len(columns)


@pytest.mark.parametrize("change", [{"token_id": 35}, {"pos": 5}, {"piece": "D"}, {"template_id": 1}])
def test_another_token_makes_another_digest(change: dict[str, Any]) -> None:
    assert digest([replace(ROW, **change)]) != digest([ROW])


# --- picks ------------------------------------------------------------------------------------------------------------


def strip_page() -> None:
    import streamlit as st

    from pages._shared.components.alignment_strip import alignment_strip
    from tests.pages.test_alignment_strip import COLUMNS

    def remember(index: int | None) -> None:
        st.session_state["heard"] = [*st.session_state.get("heard", []), index]

    st.text(f"heard {st.session_state.get('heard', [])}")
    columns = COLUMNS[: st.session_state.get("count", len(COLUMNS))]
    listener = None if st.session_state.get("deaf") else remember
    alignment_strip(columns, key="strip", label="Text", selected=st.session_state.get("selected"), on_pick=listener)


def run_page(**state: object) -> AppTest:
    page = AppTest.from_function(strip_page)
    for key, value in state.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception
    return page


def test_without_a_pick_nothing_is_heard() -> None:
    assert run_page().text[0].value == "heard []"


def test_a_pick_is_heard_once_and_before_the_page_is_drawn() -> None:
    page = run_page(strip=picked_atom(2))
    assert page.text[0].value == "heard [2]"
    assert page.run().text[0].value == "heard [2]"


def test_a_cleared_pick_is_heard_as_none() -> None:
    assert run_page(strip=picked_atom(None)).text[0].value == "heard [None]"


def test_picks_follow_each_other() -> None:
    page = run_page(strip=picked_atom(2))
    page.session_state["strip"] = picked_atom(4)
    assert page.run().text[0].value == "heard [2, 4]"


@pytest.mark.parametrize("sent", [None, [2], {}, {"picked": [2]}, {"picked": {"atom": 5, "stamp": "a"}}, 7])
def test_a_pick_that_no_strip_of_ours_sent_is_ignored(sent: object) -> None:
    assert run_page(strip=sent).text[0].value == "heard []"


def test_a_strip_without_a_listener_takes_no_pick() -> None:
    assert run_page(strip=picked_atom(2), deaf=True).text[0].value == "heard []"


@pytest.mark.parametrize("selected", [-1, 5, 10_000])
def test_a_selection_outside_of_the_columns_is_none(selected: int) -> None:
    assert not run_page(selected=selected).exception


def test_no_columns_at_all() -> None:
    assert run_page(count=0).text[0].value == "heard []"
