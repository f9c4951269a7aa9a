"""The net itself: it looks from outside, it sees what is lost, and what is gone on purpose is named."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.contract.black_box import HERE
from tests.contract.expected import gone, is_known, recorded
from tests.contract.inclusion import lost, reduced
from tests.support import ROOT


def test_nothing_here_imports_the_product() -> None:
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"engine", "pages", "app"}, path.name
            assert not [name for name in names if name.startswith("tests.") and not name.startswith(OWN)], path.name


OWN = ("tests.contract.", "tests.support")


def test_each_page_has_links_and_each_command_options() -> None:
    pages = {path.stem for path in (ROOT / "pages").glob("[!_]*.py")}
    assert {link["page"] for link in recorded("links").values()} >= pages
    assert len(recorded("links")) >= 40
    asked = {call["args"][0] for call in recorded("answers").values()}
    assert asked >= {"tokens", "runs", "show", "compare", "verify", "sql", "export", "evaluate", "advise", "claims"}


def test_what_is_gone_was_recorded() -> None:
    assert not [entry for entry in gone() if not is_known(entry)]


ROWS = [{"run_id": f"run {number}", "s": number / 3} for number in range(20)]


@pytest.mark.parametrize(
    ("recorded_of", "answer", "expected"),
    [
        ({"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 2], "c": 3}, []),
        ({"a": 1}, {}, ["a"]),
        ({"a": {"b": 1.0}}, {"a": {"b": 1.0 + 1e-8}}, []),
        ({"a": {"b": 1.0}}, {"a": {"b": 1.0001}}, ["a/b"]),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": "one of many such sentences"}, {"a": "in other words"}, []),
        ([1, 2], [2, 1], ["", ""]),
        (list(range(20)), list(range(21)), [""]),
        (ROWS, ROWS[::-1], []),
        (ROWS, [*ROWS, {"run_id": "new", "s": 1}], []),
        (ROWS, [{**row, "s": 2} for row in ROWS], ["s", "s", "s"]),
        (ROWS[:3], [*ROWS[1:3], *ROWS[5:6]], [""]),
        (ROWS, ROWS[1:], [""]),
    ],
)
def test_what_is_lost_is_found(recorded_of: Any, answer: Any, expected: list[str]) -> None:
    assert [path for path, _ in lost(reduced(recorded_of), answer)] == expected


def test_each_row_of_a_long_list_is_kept_where_asked() -> None:
    answer = [{**row, "s": -1 if row["run_id"] == "run 7" else row["s"]} for row in ROWS]
    assert not list(lost(reduced(ROWS), answer))
    assert [path for path, _ in lost(reduced(ROWS, every=["s"]), answer)] == ["s"]
