"""Ticking entries in the picker's table: what the address names afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

from pages._compare.runs import QUERY as RUNS
from pages._drift.runs import query_of as inspected
from pages._logits.logs import QUERY as LOGS
from pages._profiles.traces import query_of
from pages._shared.entry_picker import EntryPicker
from pages._shared.links import MOST_TESTS
from pages._shared.rows import show_rows
from pages._shared.run_rows import run_columns
from pages._shared.selection import SelectionQuery
from tests.pages.params import Params


def ticked(
    monkeypatch: pytest.MonkeyPatch,
    query: SelectionQuery[Any],
    shown: list[str],
    ids: tuple[str, ...],
    rows: list[int],
    before: Params | None = None,
    session: dict[str, Any] | None = None,
) -> Params:
    """The address after these rows of a table that shows ``shown`` were ticked, where ``ids`` were ticked before."""
    params, session = before or Params(), {} if session is None else session
    monkeypatch.setattr(st, "query_params", params)
    monkeypatch.setattr(st, "session_state", session)
    monkeypatch.setattr(st, "toast", lambda text, icon: session.update(toast=text))
    picker = EntryPicker(query, lambda entry: {}, {}, "")
    key = show_rows(picker.key, shown, ids)
    session[key] = {"selection": {"rows": rows}}
    picker._take(key, shown, ids)
    return params


def named(params: Params, query: SelectionQuery[Any]) -> list[str]:
    return [name for name in (params[query.control], *params.get_all(query.test)) if name]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([0, 1, 2], ["b", "h", "a", "c"]),  # one more comes last
        ([1], ["b", "h"]),
        ([2], ["h", "a"]),  # the control leaves, and the next one takes its place
        ([], ["h"]),
    ],
)
def test_ticking_keeps_places_and_what_a_filter_hides(
    monkeypatch: pytest.MonkeyPatch, rows: list[int], expected: list[str]
) -> None:
    params = ticked(monkeypatch, RUNS, ["c", "b", "a"], ("b", "h", "a"), rows)
    assert named(params, RUNS) == expected


@pytest.mark.parametrize("query", [LOGS, query_of({})], ids=["logs", "traces"])
@pytest.mark.parametrize(
    ("ids", "rows", "expected"),
    [
        ((), [2], ["b"]),
        (("a",), [0, 3], ["a", "d"]),
        (("a", "c"), [1, 2, 3], ["c", "b"]),  # a third one replaces the oldest, so that two ticks make another pair
        (("c", "b"), [0, 1, 2], ["b", "d"]),
        (("a", "c"), [1], ["c"]),
        (("a", "c"), [], []),
        (("h", "c"), [], ["h"]),  # h is hidden by a filter
        (("h", "c"), [0, 1], ["c", "d"]),
        ((), [0, 1, 2], ["c", "b"]),
    ],
)
def test_a_pair_is_the_last_two_ticks(
    monkeypatch: pytest.MonkeyPatch,
    query: SelectionQuery[Any],
    ids: tuple[str, ...],
    rows: list[int],
    expected: list[str],
) -> None:
    assert named(ticked(monkeypatch, query, ["d", "c", "b", "a"], ids, rows), query) == expected


def test_what_a_tick_leaves_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for ids, told in ((("a", "c"), "At most 2 traces, so this leaves out a."), ((), "leaves out the first ones.")):
        session: dict[str, Any] = {}
        ticked(monkeypatch, query_of({}), ["d", "c", "b", "a"], ids, [0, 1, 3], session=session)
        assert session["toast"].endswith(told)


def test_other_runs_clear_what_was_chosen_inside_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, expected in (([0, 2], ["c", "a"]), ([], [""])):
        before = Params(run=["c"], sample="3", atom="2", view="Molecules")
        params = ticked(monkeypatch, inspected([]), ["c", "b", "a"], ("c",), rows, before)
        assert params.get_all("run") == expected
        assert not params.get_all("sample") and not params.get_all("atom") and params["view"] == "Molecules"


@pytest.mark.parametrize(
    ("default", "address", "rows", "expected"),
    [
        (("c",), {}, [0, 2], ["a"]),  # in place of the run that the page opened with
        (("c",), {"run": ["c"], "sample": "3"}, [0, 2], ["a"]),  # also where its molecules were looked at meanwhile
        (("h",), {}, [2], ["a"]),  # a filter hides it
        (("c",), {}, [], [""]),
        (None, {"run": ["c"]}, [0, 2], ["c", "a"]),  # a link or the reader chose it
    ],
)
def test_the_first_tick_replaces_what_no_reader_chose(
    monkeypatch: pytest.MonkeyPatch,
    default: tuple[str, ...] | None,
    address: dict[str, Any],
    rows: list[int],
    expected: list[str],
) -> None:
    query, ids = inspected([]), default or ("c",)
    session = {} if default is None else {"run_picker_default": default}
    params = ticked(monkeypatch, query, ["c", "b", "a"], ids, rows, Params(address), session)
    assert params.get_all("run") == expected
    is_folded = default is not None and expected == ["a"]
    assert ("run_picker_replaced" in session) is is_folded and "run_picker_default" not in session


def test_what_matters_of_a_run_is_in_sight_at_1000_pixels() -> None:
    """Boxes and letters take 36 pixels each, and the page has 670 for the table."""
    columns = run_columns()
    assert [*columns][:5] == ["model", "lp", "usable", "s", "run"]
    assert 2 * 36 + sum(columns[name]["width"] for name in [*columns][:5]) <= 670


def test_the_most_that_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    params = ticked(monkeypatch, RUNS, [str(number) for number in range(100)], (), list(range(100)))
    assert len(params["test"]) == MOST_TESTS and params["test"][-1] == "99"


def test_its_own_selection_heard_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ticked(monkeypatch, LOGS, ["a", "b"], ("a", "b"), [0, 1]) == {}


def test_an_entry_that_is_deleted_leaves_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", params := Params(control="run-a", test=["b", "run-c"]))
    RUNS.leave_out("run-b")
    assert named(params, RUNS) == ["run-a", "run-c"]
    RUNS.leave_out("run-a")
    assert named(params, RUNS) == ["run-c"]
    RUNS.leave_out("other")
    assert named(params, RUNS) == ["run-c"]
    monkeypatch.setattr(st, "query_params", params := Params())
    RUNS.leave_out("run-a")
    assert params == {}
