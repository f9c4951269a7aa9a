"""The molecules of runs in a terminal, against SQL; and how many functions are entered on the way to the table."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from engine.errors import DriftscopeError
from engine.questions import ask, question_of
from tests.cli import run_json
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.support import ROOT

RUN, OTHER = demo_run("qwen", "group-v2.1"), demo_run("qwen", "exact")
ASIDE = ("engine/store/", "engine/user_files.py", "engine/records.py")  # what opens and reads files
MOST = 25


def test_the_terminal_has_the_rows_of_the_page() -> None:
    document = run_json("ask", "drift_molecules", RUN, "--order", "Most blocks cut", "--first", "10")
    rows = document["rows"]
    (most,) = DEMO_STORE.rows("SELECT max(cut_blocks) AS cut FROM samples WHERE run_id = $1", [RUN])
    assert [row["cut_blocks"] for row in rows] == sorted((row["cut_blocks"] for row in rows), reverse=True)
    assert len(rows) == 10 and rows[0]["cut_blocks"] == most["cut"]
    assert document["answer"].startswith("10 of 64 samples: ")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"show": "Cut"}, "cut_blocks > 0"),
        ({"bin": "cut"}, "cut_blocks > 0"),
        ({"contains": "c1"}, "contains(smiles, 'c1')"),
        ({"bin": "run~{run}~1"}, "sample_id IN (SELECT sample_id FROM blocks WHERE run_id = $1 AND drift = 1)"),
    ],
)
def test_filters(options: dict[str, str], where: str) -> None:
    chosen = {name: value.format(run=RUN) for name, value in options.items()}
    found = ask(DEMO_STORE, "drift_molecules", [RUN], chosen).tables["main"]["sample_id"].to_pylist()
    rows = DEMO_STORE.rows(f"SELECT sample_id FROM samples WHERE run_id = $1 AND {where}", [RUN])
    assert sorted(found) == sorted(row["sample_id"] for row in rows)


def test_several_runs_are_told_apart_by_what_differs() -> None:
    table = ask(DEMO_STORE, "drift_molecules", [RUN, OTHER]).tables["main"]
    of_rows = zip(table["name"].to_pylist(), table["run_id"].to_pylist(), strict=True)
    assert set(of_rows) == {("group-v2.1", RUN), ("exact", OTHER)}


def test_a_bar_that_there_is_not_is_one_line() -> None:
    with pytest.raises(DriftscopeError, match="there is no bar 'lp~exact'"):
        ask(DEMO_STORE, "drift_molecules", [RUN], {"bin": "lp~exact"})


def test_few_functions_lie_between_a_question_and_its_table() -> None:
    """Each function or method of ours counts once, one inside of another not; what opens and reads the store is left
    out."""
    entered = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        file = code.co_filename.removeprefix(f"{ROOT}/")
        is_ours = file.startswith("engine/") and not file.startswith(ASIDE)
        if event == "call" and is_ours and "<" not in code.co_qualname:
            entered.add(f"{file}:{code.co_qualname}")
        if code.co_name == "tables" and event == "return":
            sys.setprofile(None)

    question_of("drift_molecules")  # importing it enters functions, too
    sys.setprofile(note)
    try:
        table = ask(DEMO_STORE, "drift_molecules", [RUN], {"first": "25"}).tables["main"]
    finally:
        sys.setprofile(None)
    assert table.num_rows == 25 and "engine/questions/drift_molecules.py:tables" in entered
    assert len(entered) <= MOST, sorted(entered)
