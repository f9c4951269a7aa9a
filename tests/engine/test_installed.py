"""A question and an LP of other packages: one file each and an entry point, found by the terminal, the engine and the
pages. The packages are folders of their own on the path, as an installer leaves them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.store.store import DEMO
from tests.engine.inspection.made import demo_run
from tests.support import ROOT

QUESTION = '''
"""How many samples a run has."""
import pyarrow as pa
from engine.questions.question import Column, Of

TITLE, OF = "How many samples?", Of("run")
COLUMNS = {"samples": Column("samples of the run")}

def tables(store, entries, options):
    return {"main": pa.table({"run": [entries[0].id], "samples": [entries[0].row["samples"]]})}

def answer(tables, options):
    return f"It has {tables['main']['samples'][0]} samples."
'''
LP = """
from engine.lp_records import LpRecord

RECORD = LpRecord("free", "as none, in a package of its own", __name__, "model")

def build(name, tokenizer, vocab_rows, parameters):
    from engine.lp import unconstrained
    return unconstrained.build("none", tokenizer, vocab_rows, parameters)
"""
PAGE = """
from tests.pages.apps import opened, table
app = opened("compare", view="Charts", question="Installed", control={run!r})
print(int(table(app, "samples")["samples"].iloc[0]))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where two packages of a file each are installed."""
    groups = {"driftscope.questions": ("compare_count", QUESTION), "driftscope.lps": ("free_lp", LP)}
    for group, (module, text) in groups.items():
        (tmp_path / f"{module}.py").write_text(text)
        about = tmp_path / f"{module}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[{group}]\n{module.removesuffix('_lp')} = {module}\n")
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}", "DRIFTSCOPE_STORE": str(DEMO)}


def python(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)


def test_a_question_of_another_package_is_asked_listed_and_drawn(environment: dict[str, str]) -> None:
    run_id = demo_run("qwen", "exact")
    asked = json.loads(python(environment, "-m", "engine", "ask", "compare_count", run_id, "--json").stdout)
    assert asked["rows"] == [{"run": run_id, "samples": 64}] and asked["answer"] == "It has 64 samples."
    assert asked["columns"] == {"samples": {"unit": "", "help": ""}}
    listed = json.loads(python(environment, "-m", "engine", "ask", "--json").stdout)["rows"]
    assert {"key": "compare_count", "title": "How many samples?", "of": "run", "options": []} in listed
    drawn = python(environment, "-c", PAGE.format(run=run_id))
    assert drawn.stdout.strip() == "64", drawn.stderr


def test_an_lp_of_another_package_writes(environment: dict[str, str]) -> None:
    words = ("generate", "CC=O", "--model", "demo-qwen", "--max-new-tokens", "12", "--json")
    free, none = (
        json.loads(python(environment, "-m", "engine", *words, "--lp", lp).stdout)["samples"][0]["token_ids"]
        for lp in ("free", "none")
    )
    assert free == none and len(free) == 12
    offered = python(environment, "-c", "from engine.lp_records import lp_choices; print(lp_choices())").stdout
    assert "'free'" in offered


def test_what_cannot_be_imported_costs_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    for module in ("free_lp", "compare_count"):
        (tmp_path / f"{module}.py").write_text("import gone_module\n")
    refused = python(environment, "-m", "engine", "ask", "compare_count", "any")
    assert refused.returncode == 2 and "is left out: ModuleNotFoundError" in refused.stderr
    assert "Traceback" not in refused.stderr and "No module named 'gone_module'" in refused.stderr
    listed = python(environment, "-m", "engine", "runs", "--json")
    assert listed.returncode == 0 and "the LP free of another package is left out" in listed.stderr


def test_what_is_no_question_and_a_key_that_is_taken_are_left_out(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "compare_count.py").write_text("TITLE = 'Nothing else'\n")
    points = tmp_path / "compare_count-1.0.dist-info" / "entry_points.txt"
    points.write_text(points.read_text() + "compare_figures = compare_count\n[driftscope.lps]\nbad = not a module!\n")
    listed = python(environment, "-m", "engine", "ask", "--json")
    keys = [row["key"] for row in json.loads(listed.stdout)["rows"]]
    assert "compare_count" not in keys and keys.count("compare_figures") == 1
    assert "compare_count has no OF, COLUMNS, tables" in listed.stderr and "its key is taken" in listed.stderr
    assert "not a module! is no module" in listed.stderr


def test_an_lp_whose_module_needs_ours_is_there_whatever_is_imported_first(
    environment: dict[str, str], tmp_path: Path
) -> None:
    module = tmp_path / "free_lp.py"
    module.write_text("from engine.lp.constraint import Constraint\n" + LP)
    for first in ("engine.lp.processor", "engine.lp.exact", "engine.lp_records"):
        code = f"import {first}; from engine.lp_records import LPS; print('free' in LPS)"
        assert python(environment, "-c", code).stdout.strip() == "True", first
