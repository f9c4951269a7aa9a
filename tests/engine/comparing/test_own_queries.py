"""A user's own queries: kept whole, by names that can be seen, and never written over a file that is something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.comparing.own_queries import FILE, MOST_NAME, MOST_QUERIES, MOST_SQL, OwnQueries, OwnQuery
from engine.errors import DriftscopeError, FileFormatError, StoreError
from engine.store.files import LocalFiles


@pytest.fixture
def own(tmp_path: Path) -> OwnQueries:
    return OwnQueries(LocalFiles(tmp_path / "store"))


def names(own: OwnQueries) -> list[str]:
    return [one.name for one in own.all()]


def test_nothing_was_saved(own: OwnQueries) -> None:
    assert own.all() == ()


def test_save_rename_delete(own: OwnQueries) -> None:
    assert own.save(" b ", "SELECT 'é\n'") == OwnQuery("b", "SELECT 'é\n'")
    own.save("A", "SELECT 2")
    assert names(own) == ["A", "b"]
    own.rename("b", "C")
    assert own.all() == (OwnQuery("A", "SELECT 2"), OwnQuery("C", "SELECT 'é\n'"))
    own.rename("C", "C")
    own.delete("A")
    assert names(own) == ["C"]
    assert [path.name for path in Path(own.files.path("")).iterdir()] == [FILE]  # nothing half-written beside it


def test_a_name_is_taken_over_only_when_asked(own: OwnQueries) -> None:
    own.save("a", "SELECT 1")
    own.save("b", "SELECT 2")
    with pytest.raises(StoreError, match="there is a query 'a' already"):
        own.save("a", "SELECT 3")
    with pytest.raises(StoreError, match="there is a query 'a' already"):
        own.rename("b", "a")
    own.save("a", "SELECT 3", replace=True)
    assert {one.name: one.sql for one in own.all()} == {"a": "SELECT 3", "b": "SELECT 2"}


@pytest.mark.parametrize(
    ("name", "sql", "said"),
    [
        ("  ", "SELECT 1", "has 0 characters"),
        ("x" * (MOST_NAME + 1), "SELECT 1", f"has {MOST_NAME + 1} characters"),
        ("a\u202eb", "SELECT 1", "invisible character"),
        ("a\nb", "SELECT 1", "invisible character"),
        ("a", " \n", "no statement"),
        ("a", "x" * (MOST_SQL + 1), f"At most {MOST_SQL:,}"),
        ("a", "SELECT '\ud800'", "half a character at position 8"),
    ],
)
def test_what_cannot_be_kept(own: OwnQueries, name: str, sql: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        own.save(name, sql)
    assert own.all() == ()


def test_there_are_only_so_many(own: OwnQueries) -> None:
    rows = [{"name": f"q{number}", "sql": "SELECT 1"} for number in range(MOST_QUERIES)]
    own.files.write(FILE, json.dumps({"version": 1, "queries": rows}).encode())
    with pytest.raises(StoreError, match="Delete one first"):
        own.save("another", "SELECT 1")
    own.save("q0", "SELECT 2", replace=True)
    assert len(own.all()) == MOST_QUERIES


def test_a_query_that_is_not_there(own: OwnQueries) -> None:
    own.save("mean time", "SELECT 1")
    for act in (lambda: own.delete("mean tine"), lambda: own.rename("mean tine", "b")):
        with pytest.raises(StoreError, match="Did you mean mean time"):
            act()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff", "does not read"),
        (b"[]", "does not read"),
        (b'{"version": 1}', "KeyError"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"version": 2, "queries": []}', "version 2"),
        (b'{"version": 1, "queries": [{"name": 3, "sql": "SELECT 1"}]}', "cannot be of int"),
        (b'{"version": 1, "queries": [{"name": "a", "sql": null}]}', "cannot be of NoneType"),
        (b'{"version": 1, "queries": [{"name": "a", "sql": "\\ud800"}]}', "half a character"),
    ],
)
def test_a_damaged_file_is_named_and_left_alone(own: OwnQueries, content: bytes, said: str) -> None:
    own.files.write(FILE, content)
    for act in (own.all, lambda: own.save("a", "SELECT 1")):
        with pytest.raises(FileFormatError, match=f"queries.json' holds no saved queries.*{said}"):
            act()
    assert own.files.read(FILE) == content


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    own = OwnQueries(LocalFiles(tmp_path / "store"))
    with pytest.raises(DriftscopeError, match="cannot be"):
        own.save("a", "SELECT 1")
