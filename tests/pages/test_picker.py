"""Which entries an address names, and what it names after rows of the picker's table were ticked."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import streamlit as st

from engine.comparing.measures import figure
from engine.figures.words import number
from engine.store.entries import StoreListing
from pages._compare.manage import PICKER
from pages._drift.runs import inspected_picker
from pages._kit.card import FORMATS
from pages._kit.entry_table import RUN_TABLE, show_rows
from pages._kit.links import MOST_TESTS
from pages._kit.picker import Picker
from pages._logits.logs import LOGS
from pages._profiles.traces import trace_picker
from tests.engine.inspection.made import DEMO_STORE
from tests.pages.apps import Params

TRACES, INSPECTED = trace_picker({}), inspected_picker(lambda entries, is_apart: entries[:1])


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    state: dict[str, Any] = {}
    monkeypatch.setattr(st, "session_state", state)
    monkeypatch.setattr(st, "query_params", Params())
    monkeypatch.setattr(st, "toast", lambda text, icon: state.update(toast=text))
    return state


def ticked(
    session: dict[str, Any], picker: Picker, shown: str | list[str], ids: tuple[str, ...], rows: list[int]
) -> list[str]:
    """What the address names after these rows of a table that shows ``shown`` were ticked, ``ids`` being so before."""
    key = show_rows(picker.table.key, list(shown), ids)
    session[key] = {"selection": {"rows": rows}}
    picker.table.tick(key, list(shown), ids, partial(picker.take, dict(zip(ids, ids, strict=True))))
    names = st.query_params.get_all(picker.control)
    return [name for name in (names if picker.control == picker.test else names + _tests(picker)) if name]


def _tests(picker: Picker) -> list[str]:
    return st.query_params.get_all(picker.test)


@pytest.mark.parametrize(
    ("picker", "ids", "rows", "expected"),
    [
        (PICKER, ("b", "h", "a"), [1, 2, 3], ["b", "h", "a", "c"]),  # one more comes last; a filter hides h
        (PICKER, ("b", "h", "a"), [2], ["b", "h"]),
        (PICKER, ("b", "h", "a"), [3], ["h", "a"]),  # the control leaves, and the next one takes its place
        (PICKER, ("b", "h", "a"), [], ["h"]),
        *(
            (pair, ids, rows, expected)
            for pair in (LOGS, TRACES)
            for ids, rows, expected in [
                ((), [2], ["b"]),
                (("a",), [0, 3], ["a", "d"]),
                (("a", "c"), [1, 2, 3], ["c", "b"]),  # a third one replaces the oldest, so that two make another pair
                (("a", "c"), [], []),
                (("h", "c"), [0, 1], ["c", "d"]),
                ((), [0, 1, 2], ["c", "b"]),
                (("c", "b"), [1, 2], []),  # its own selection heard again changes nothing
            ]
        ),
    ],
)
def test_ticking_keeps_places_and_a_pair_is_the_last_two_ticks(
    session: dict[str, Any], picker: Picker, ids: tuple[str, ...], rows: list[int], expected: list[str]
) -> None:
    assert ticked(session, picker, "dcba", ids, rows) == expected
    is_over = picker is not PICKER and len({*ids, *("dcba"[row] for row in rows)}) > 2 and bool(rows)
    assert ("toast" in session) == is_over


@pytest.mark.parametrize(("rows", "expected"), [([0, 2], ["c", "a"]), ([], [""])])
def test_other_runs_clear_what_was_chosen_inside(session: dict[str, Any], rows: list[int], expected: list[str]) -> None:
    inside = dict.fromkeys(("of", "sample", "atom", "token", "bin", "conformer", "drift_other_reader"), "2")
    st.query_params.update(run=["c"], view="Molecules", **inside)
    ticked(session, INSPECTED, "cba", ("c",), rows)
    assert {name: st.query_params.get_all(name) for name in ("run", "view", *inside)} == {
        "run": expected,
        "view": ["Molecules"],
        **{name: [] for name in inside},
    }


@pytest.mark.parametrize(
    ("default", "rows", "expected"),
    [
        (("c",), [0, 2], ["a"]),  # in place of the run that the page opened with
        (("h",), [2], ["a"]),  # a filter hides it
        (("c",), [], []),
        (None, [0, 2], ["c", "a"]),  # a link or the reader chose it
    ],
)
def test_the_first_tick_replaces_what_no_reader_chose(
    session: dict[str, Any], default: tuple[str, ...] | None, rows: list[int], expected: list[str]
) -> None:
    if default is not None:
        session[INSPECTED.opened_with] = default
    assert ticked(session, INSPECTED, "cba", default or ("c",), rows) == expected
    assert INSPECTED.opened_with not in session


def test_the_most_that_can_be_compared(session: dict[str, Any]) -> None:
    chosen = ticked(session, PICKER, [str(number) for number in range(100)], (), list(range(100)))
    assert len(chosen) == 1 + MOST_TESTS and chosen[-1] == "99"


@pytest.mark.parametrize("picker", [PICKER, LOGS, TRACES], ids=["runs", "logs", "traces"])
def test_what_a_page_opened_with_stays_as_long_as_it_is_there(picker: Picker, session: dict[str, Any]) -> None:
    listing = DEMO_STORE.listing(picker.kind)
    usual, _ = picker.read(listing)
    assert usual and session[picker.opened_with] == tuple(entry.id for entry in usual)
    before = [entry.id for entry in listing.entries][:2]
    session[picker.opened_with] = before
    assert [entry.id for entry in picker.read(listing)[0]] == before
    less = StoreListing(tuple(entry for entry in listing.entries if entry.id != before[1]), ())
    assert [entry.id for entry in picker.read(less)[0]] == before[:1], "the other one was deleted"
    session[picker.opened_with] = ["deleted"]
    assert picker.read(listing)[0] == usual


def test_a_picker_rounds_as_a_card_does() -> None:
    """40.625 % is 40.6 % in both, and the browser has nothing left to round."""
    entries = DEMO_STORE.listing().entries
    columns = {column.name: column for column in RUN_TABLE.columns}
    shares = ("usable", "clean", "pass", "decodes", "not numeric", "cut")
    assert {columns[name].config["type_config"]["format"] for name in shares} == {FORMATS["%"][0]}
    llama = next(entry for entry in entries if figure(entry, "usable_rate") == 0.40625)
    assert columns["usable"].cell(llama) == 40.6
    for entry in entries:
        seconds, shown = figure(entry, "wall_s_a_sample"), columns["s / sample"].cell(entry)
        assert number(seconds) == number(shown) and (shown is None or float(f"{shown:.3g}") == shown)
