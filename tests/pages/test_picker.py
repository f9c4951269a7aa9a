"""Which entries an address names, and what it names after rows of the picker's table were ticked."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

from engine.store.entries import StoreListing
from pages._compare.manage import PICKER
from pages._drift.runs import inspected_picker
from pages._kit.picker import Picker, run_columns
from pages._logits.logs import LOGS
from pages._profiles.traces import trace_picker
from pages._shared.links import MOST_TESTS
from pages._shared.rows import show_rows
from tests.engine.inspection.made import DEMO_STORE
from tests.pages.params import Params

TRACES, INSPECTED = trace_picker({}), inspected_picker(lambda entries: entries[:1])


def ticked(
    monkeypatch: pytest.MonkeyPatch,
    picker: Picker,
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
    key = show_rows(picker.key, shown, ids)
    session[key] = {"selection": {"rows": rows}}
    picker.take(key, shown, dict(zip(ids, ids, strict=True)))
    return params


def named(params: Params, picker: Picker) -> list[str]:
    return [name for name in (params[picker.control], *params.get_all(picker.test)) if name]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([0, 1, 2], ["b", "h", "a", "c"]),  # one more comes last
        ([1], ["b", "h"]),
        ([2], ["h", "a"]),  # the control leaves, and the next one takes its place
        ([], ["h"]),  # h is hidden by a filter
    ],
)
def test_ticking_keeps_places_and_what_a_filter_hides(
    monkeypatch: pytest.MonkeyPatch, rows: list[int], expected: list[str]
) -> None:
    params = ticked(monkeypatch, PICKER, ["c", "b", "a"], ("b", "h", "a"), rows)
    assert named(params, PICKER) == expected


@pytest.mark.parametrize("picker", [LOGS, TRACES], ids=["logs", "traces"])
@pytest.mark.parametrize(
    ("ids", "rows", "expected"),
    [
        ((), [2], ["b"]),
        (("a",), [0, 3], ["a", "d"]),
        (("a", "c"), [1, 2, 3], ["c", "b"]),  # a third one replaces the oldest, so that two ticks make another pair
        (("a", "c"), [], []),
        (("h", "c"), [0, 1], ["c", "d"]),
        ((), [0, 1, 2], ["c", "b"]),
    ],
)
def test_a_pair_is_the_last_two_ticks(
    monkeypatch: pytest.MonkeyPatch, picker: Picker, ids: tuple[str, ...], rows: list[int], expected: list[str]
) -> None:
    session: dict[str, Any] = {}
    assert named(ticked(monkeypatch, picker, ["d", "c", "b", "a"], ids, rows, session=session), picker) == expected
    assert ("toast" in session) == (len({*ids, *("dcba"[row] for row in rows)}) > 2 and bool(rows))


def test_other_runs_clear_what_was_chosen_inside_the_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, expected in (([0, 2], ["c", "a"]), ([], [""])):
        before = Params(run=["c"], sample="3", atom="2", view="Molecules")
        params = ticked(monkeypatch, INSPECTED, ["c", "b", "a"], ("c",), rows, before)
        assert params.get_all("run") == expected
        assert not params.get_all("sample") and not params.get_all("atom") and params["view"] == "Molecules"


@pytest.mark.parametrize(
    ("default", "rows", "expected"),
    [
        (("c",), [0, 2], ["a"]),  # in place of the run that the page opened with
        (("h",), [2], ["a"]),  # a filter hides it
        (("c",), [], [""]),
        (None, [0, 2], ["c", "a"]),  # a link or the reader chose it
    ],
)
def test_the_first_tick_replaces_what_no_reader_chose(
    monkeypatch: pytest.MonkeyPatch, default: tuple[str, ...] | None, rows: list[int], expected: list[str]
) -> None:
    session = {} if default is None else {INSPECTED.opened_with: default}
    params = ticked(monkeypatch, INSPECTED, ["c", "b", "a"], default or ("c",), rows, Params(), session)
    assert params.get_all("run") == expected and INSPECTED.opened_with not in session


def test_what_matters_of_a_run_is_in_sight_at_1000_pixels() -> None:
    """Boxes take 36 pixels, and the page has 670 for the table."""
    columns = run_columns()
    assert [*columns][:5] == ["model", "lp", "usable", "s", "run"]
    assert 36 + sum(columns[name]["width"] for name in [*columns][:5]) <= 670


def test_the_most_that_can_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    params = ticked(monkeypatch, PICKER, [str(number) for number in range(100)], (), list(range(100)))
    assert len(params["test"]) == MOST_TESTS and params["test"][-1] == "99"


def test_its_own_selection_heard_again_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ticked(monkeypatch, LOGS, ["a", "b"], ("a", "b"), [0, 1]) == {}


@pytest.mark.parametrize("picker", [PICKER, LOGS, TRACES], ids=["runs", "logs", "traces"])
def test_what_a_page_opened_with_stays_as_long_as_it_is_there(picker: Picker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(st, "query_params", Params())
    session: dict[str, Any] = {}
    monkeypatch.setattr(st, "session_state", session)
    found = DEMO_STORE.found(picker.kind)
    usual, _ = picker.read(found)
    assert usual and session == {picker.opened_with: tuple(entry.id for entry in usual)}
    before = [entry.id for entry in found.entries][:2]
    session[picker.opened_with] = before
    assert [entry.id for entry in picker.read(found)[0]] == before
    less = StoreListing(tuple(entry for entry in found.entries if entry.id != before[1]), ())
    assert [entry.id for entry in picker.read(less)[0]] == before[:1], "the other one was deleted"
    session[picker.opened_with] = ["deleted"]
    assert picker.read(found)[0] == usual
