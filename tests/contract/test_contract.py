"""What was recorded still holds: options and answers of commands, addresses of pages, and a store of before issue 17,
made by commit babcdbe, whose entries are shown as that code showed them and whose stopped runs end as then."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.contract.black_box import HERE, all_of, answers, engine, options, pages, unpacked, unpacked_old_store
from tests.contract.expected import gone, is_gone, is_known, keys_gone, missing, recorded
from tests.contract.inclusion import lost, reduced
from tests.support import ROOT, sized

OPTIONS, ANSWERS = recorded("options"), recorded("answers")


def test_commands_have_their_options_and_defaults() -> None:
    actual = options()
    names = [name for name in OPTIONS if not is_gone("command", name)]
    assert not [name for name in names if name not in actual]
    assert not [(name, loss) for name in names for loss in missing("command", name, OPTIONS[name], actual[name])]


def test_answers_over_the_demo_store_hold_what_was_recorded(tmp_path: Path) -> None:
    demo = Path(shutil.copytree(ROOT / "data" / "demo", tmp_path / "demo"))  # some are kept where they were computed
    calls = {name: call for name, call in ANSWERS.items() if not is_gone("call", name)}
    actual = answers(calls, demo)
    assert not [(name, lost) for name in calls for lost in missing("call", name, calls[name]["answer"], actual[name])]


LINKS = {name: link for name, link in recorded("links").items() if not is_gone("link", name)}


def test_links_to_pages_select_what_they_selected(tmp_path: Path) -> None:
    store = Path(shutil.copytree(ROOT / "data" / "demo", tmp_path / "demo"))
    wanted = {name: sorted(set(link["shown"]) - keys_gone("link", name)) for name, link in LINKS.items()}
    opened = pages([(link["page"], link["query"], wanted[name]) for name, link in LINKS.items()], store)
    actual = dict(zip(LINKS, opened, strict=True))
    assert not [(name, page["exceptions"]) for name, page in actual.items() if page["exceptions"]]
    assert not [
        (name, lost)
        for name, link in LINKS.items()
        for lost in missing("link", name, link["shown"], actual[name]["shown"])
    ]


CALLS = recorded("old_store")
STOPPED = json.loads((HERE / "recorded" / "resumed_before.json").read_text("utf-8"))
"""Samples of the stopped runs, as the code of then wrote them to their end."""
FEW = ["position-blocklist-short"]
LPS = [*FEW, "position-allowlist", "position-blocklist", "adaptive-placeholder", "truncating", "exact"]
OF_STOPPED = """SELECT run_id, lp, sample_id, text FROM samples JOIN runs USING (run_id)
    WHERE label = 'old, stopped' AND lp = '{lp}' ORDER BY sample_id"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_old_store(tmp_path_factory.mktemp("old"))


def test_the_entries_of_the_old_store_are_shown_as_they_were(store: Path) -> None:
    calls = {name: call for name, call in CALLS.items() if not is_gone("old", name)}
    actual = answers(calls, store)
    assert not [(name, lost) for name in calls for lost in missing("old", name, calls[name]["answer"], actual[name])]


def test_a_saved_query_is_there(store: Path) -> None:
    (query,) = json.loads((store / "queries.json").read_text("utf-8"))["queries"]
    rows = engine("sql", query["sql"], "--json", store=store).document
    assert {row["lp"] for row in rows} >= {"position-blocklist", "position-blocklist-short", "position-allowlist"}


@pytest.mark.soak
@pytest.mark.parametrize("lp", sized(FEW, LPS))
def test_a_stopped_run_is_resumed_under_its_name_and_rules(lp: str, tmp_path: Path) -> None:
    rows = [row for row in STOPPED if row["lp"] == lp]
    store = unpacked_old_store(tmp_path)
    (run,) = engine("run", "--resume", rows[0]["run_id"], "--json", store=store).document
    assert (run["lp"], run["samples"]) == (lp, len(rows))
    assert engine("sql", OF_STOPPED.format(lp=lp), "--json", store=store).document == rows


SET, NEW = "no set of reference conformers", "descriptors [O], [N] (plain), no begin token before the prompt"
ASSUMED = {1: f"{SET}, molecules not judged, strain not measured, {NEW}.", 2: f"{SET}, {NEW}."}


def test_a_stopped_run_of_each_earlier_version_is_resumed(tmp_path: Path) -> None:
    """`stopped_runs.tar.gz` has runs that the code of then began, killed after their second group. The bug: a KeyError
    where the threads of a run are shown; and the first version did not count what decodes, which came out as a no."""
    stores = [unpacked("stopped_runs", tmp_path) / f"v{version}" for version in range(1, 7)]
    runs = [(store, path.name) for store in stores for path in sorted((store / "staging").iterdir())]
    calls = [("run", "--resume", run_id, "--store", str(store)) for store, run_id in runs]
    for (store, run_id), done in zip(runs, all_of(calls, tmp_path), strict=True):
        version = int(store.name[1:])
        (note,) = [line for line in done.err.splitlines() if f"(schema version {version})" in line]
        assert done.code == 0 and ASSUMED.get(version, NEW) in note, done
        row = json.loads((store / f"runs/run_id={run_id}/run.json").read_text("utf-8"))["row"]
        assert row["samples"] == 6 and row["decodes"] >= row["clean"]
        sql = f"SELECT count(decodes) AS known, sum(decodes::INT) AS decodes FROM samples WHERE run_id = '{run_id}'"
        (counted,) = engine("sql", sql, "--json", store=store).document
        assert counted == {"known": 6, "decodes": row["decodes"]}


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
    commands = {call["args"][0] for call in recorded("answers").values()}
    assert commands >= {"tokens", "runs", "show", "compare", "verify", "sql", "export", "evaluate", "advise", "claims"}


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
        (ROWS[:3], [*ROWS[1:3], *ROWS[5:6]], ["run 0"]),
        (ROWS, ROWS[1:], [""]),
    ],
)
def test_what_is_lost_is_found(recorded_of: Any, answer: Any, expected: list[str]) -> None:
    assert [path for path, _ in lost(reduced(recorded_of), answer)] == expected


def test_each_row_of_a_long_list_is_kept_where_asked() -> None:
    answer = [{**row, "s": -1 if row["run_id"] == "run 7" else row["s"]} for row in ROWS]
    assert not list(lost(reduced(ROWS), answer))
    assert [path for path, _ in lost(reduced(ROWS, every=["s"]), answer)] == ["s"]
