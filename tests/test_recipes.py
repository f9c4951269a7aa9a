"""docs/architecture.md's recipes, followed in a copy of the program: a question, an LP, a page, a column and a form of
files each touch two files, and work from the terminal or a page."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.store.store import DEMO
from tests.engine.inspection.made import demo_run
from tests.support import ROOT, of_soak

RECIPES = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Clone:
    """``store`` is its own, and empty at first."""

    root: Path
    store: Path

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(text, encoding="utf-8")

    def put(self, name: str, before: str, more: str) -> None:
        """More lines in front of the first that has these words."""
        text = (self.root / name).read_text(encoding="utf-8")
        at = text.rindex("\n", 0, text.index(before)) + 1
        (self.root / name).write_text(f"{text[:at]}{more}\n{text[at:]}", encoding="utf-8")

    def touched(self) -> list[str]:
        words = ["git", "status", "--porcelain", "--untracked-files=all"]
        status = subprocess.run(words, cwd=self.root, capture_output=True, text=True, check=True).stdout
        return sorted(line[3:] for line in status.splitlines())

    def python(self, *words: str, store: Path | None = None) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.root), "DRIFTSCOPE_STORE": str(store or self.store)}
        command = [sys.executable, "-B", *words]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def engine(self, *words: str, store: Path | None = None) -> Any:
        return json.loads(self.python("-m", "engine", *words, "--json", store=store))


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    root = tmp_path_factory.mktemp("clone")
    names = subprocess.run(
        ["git", "ls-files", "-z", "app.py", "engine", "pages", "docs", ".streamlit"], cwd=ROOT, capture_output=True
    ).stdout
    for name in filter(None, names.decode().split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    for folder in ("data", "static"):
        (root / folder).symlink_to(ROOT / folder)
    (root / ".gitignore").write_text("data\nstatic\n.gitignore\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "as it is"],
    ):
        subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)
    return Clone(root, root)


@pytest.fixture
def clone(copied: Clone, tmp_path: Path) -> Iterator[Clone]:
    yield Clone(copied.root, tmp_path / "store")
    for words in (["checkout", "-q", "."], ["clean", "-fdq"]):
        subprocess.run(["git", *words], cwd=copied.root, check=True)


def files_of(recipe: str) -> list[str]:
    """The files that its numbered steps name first."""
    steps = re.search(rf"^## {recipe}\n\n((?:.+\n)+)", RECIPES, re.MULTILINE)
    assert steps
    return re.findall(r"^\d\. .*?`([^`]+/[^`]*)`", steps[1], re.MULTILINE)


QUESTION = '''"""How many blocks a run has."""

import pyarrow as pa

from engine.questions.question import Column, Of

TITLE, OF, OPTIONS, CHARTS, TABLES = "How many blocks?", Of("run"), (), (), ("main",)
COLUMNS = {"blocks": Column("blocks", help="of all samples")}


def tables(store, entries, options):
    sql = "SELECT count(*) AS blocks FROM blocks WHERE run_id = $run"
    return {"main": store.table(sql, {"run": entries[0].id})}


def answer(tables, options):
    return f"{tables['main']['blocks'][0]} blocks."
'''


def test_a_question(clone: Clone) -> None:
    clone.write("engine/questions/compare_blocks.py", QUESTION)
    clone.put(
        "engine/questions/__init__.py", '("Charts", "Masks")', '        ("Charts", "Blocks"): ["compare_blocks"],'
    )
    assert clone.touched() == ["engine/questions/__init__.py", "engine/questions/compare_blocks.py"]
    assert files_of("Add a question") == ["engine/questions/<page>_<thing>.py", "engine/questions/__init__.py"]
    asked = clone.engine("ask", "compare_blocks", demo_run("qwen", "exact"), store=DEMO)
    assert asked == {
        "answer": "829 blocks.",
        "rows": [{"blocks": 829}],
        "tables": {},
        "columns": {"blocks": {"unit": "", "help": "of all samples"}},
    }


LP = '''"""As ``none``, and an answer begins with the tag of a conformer."""

from engine.lp import unconstrained
from engine.lp.table import Cells


class Tagged(unconstrained.Unconstrained):
    name = "tagged"

    def __init__(self, tokenizer, vocab_rows):
        super().__init__(tokenizer.vocab_size, vocab_rows)
        self.tag = tokenizer.encode("[CONFORMER]")

    def compile(self, molecule):
        cells = Cells()
        cells.force(self.tag)
        cells.choose(0, -1)
        return cells.program()


def build(name, tokenizer, vocab_rows, parameters):
    return Tagged(tokenizer, vocab_rows)
'''


def with_lp(clone: Clone) -> None:
    clone.write("engine/lp/tagged.py", LP)
    record = '    LpRecord("tagged", "its first token is the tag", "engine.lp.tagged", "model"),'
    clone.put("engine/lp_records.py", 'LpRecord("guarded"', record)


def test_an_lp(clone: Clone) -> None:
    with_lp(clone)
    assert clone.touched() == ["engine/lp/tagged.py", "engine/lp_records.py"]
    assert files_of("Add an LP") == ["engine/lp/yours.py", "engine/lp_records.py"]
    script = """
from engine.lp.constraint import build_constraint
from engine.lp_records import lp_choices
from engine.chem.smiles import parse_smiles
from engine.text.tokenizers import load_tokenizer
tokenizer = load_tokenizer("qwen3")
program = build_constraint("tagged", tokenizer, tokenizer.vocab_size).compile(parse_smiles("CC=O"))
print("tagged" in lp_choices(), program.forced.tolist())
"""
    assert clone.python("-c", script).strip() == "True [151670, -1]"


@of_soak
def test_a_new_lp_writes(clone: Clone) -> None:
    with_lp(clone)
    words = ("generate", "CC=O", "--model", "demo-qwen", "--lp", "tagged", "--max-new-tokens", "9")
    (sample,) = clone.engine(*words)["samples"]
    assert sample["token_ids"][0] == 151670 and sample["forced_tokens"] == 1 and len(sample["token_ids"]) == 9


PAGE = """import streamlit as st

from pages._kit.frame import page
from pages._kit.shown import put_shown
from pages._yours.lines import show

TITLE = "Yours"
ICON = ":material/star:"
LEAD = "One page more."

page(TITLE, LEAD)
show()
put_shown(page="yours", lines=1)
"""
OPENED = """
from streamlit.testing.v1 import AppTest
from pages._app.listing import page_files
app = AppTest.from_file("pages/yours.py", default_timeout=120).run()
assert not app.exception, app.exception
captions = [line.value for line in app.caption]
print([file.title for file in page_files()][-1], app.session_state["shown"], "its line" in captions)
"""


def test_a_page(clone: Clone) -> None:
    clone.write("pages/yours.py", PAGE)
    clone.write("pages/_yours/lines.py", 'import streamlit as st\n\n\ndef show():\n    st.caption("its line")\n')
    assert clone.touched() == ["pages/_yours/lines.py", "pages/yours.py"]
    assert files_of("Add a page") == ["pages/yours.py", "pages/_yours/"]
    title, *shown, line = re.split(r" (?=\{)|(?<=\}) ", clone.python("-c", OPENED).strip())
    assert (title, json.loads(shown[0]), line) == ("Yours", {"page": "yours", "lines": 1}, "True")


def with_column(clone: Clone) -> None:
    clone.put(
        "engine/store/schema.py", '("batch_size", "whole"', '    ("weekday", "whole", "of its beginning, from 0"),'
    )
    clone.put("engine/jobs/run.py", '"model_alias": entry.alias', '        "weekday": datetime.now(UTC).weekday(),')


def test_a_column(clone: Clone) -> None:
    with_column(clone)
    assert clone.touched() == ["engine/jobs/run.py", "engine/store/schema.py"]
    of_runs = [name for name in files_of("Add a column") if "measures" not in name]
    assert (
        of_runs == ["engine/store/schema.py", "engine/store/sample_rows.py"]
        and "`engine/jobs/run.py` for runs" in RECIPES
    )
    rows = clone.engine("sql", "SELECT count(*) > 30 AS many, count(weekday) AS known FROM runs", store=DEMO)
    assert rows == [{"many": True, "known": 0}]  # of runs of before it is null


@of_soak
def test_a_new_column_is_written(clone: Clone) -> None:
    with_column(clone)
    words = ("run", "CC=O", "--model", "demo-qwen", "--lp", "exact", "--no-closing")
    (run,) = clone.engine(*words)
    (shown,) = clone.engine("sql", "SELECT run_id, weekday, dayofweek(created_at) AS day FROM runs")
    assert shown["run_id"] == run["run_id"] and shown["weekday"] == (shown["day"] - 1) % 7


FORM = '''"""Lines with a SMILES, a tab, and x, y, z of each of its atoms."""

import numpy as np

from engine.chem.conformer_files import molecule_with, of_mol
from engine.chem.structure_files import content_lines


def line_conformers(paths, *_):
    for path in paths:
        for number, line in content_lines(path):
            smiles, numbers = line.split("\\t")
            xyz = np.array(numbers.split(","), float).reshape(-1, 3)
            yield from of_mol(molecule_with(smiles, [xyz]), f"line {number} of {path.name}", smiles)
'''
ROW = """    FileForm("lines", "lines of conformers", (".conf",), _POOL, "engine.chem.line_files:line_conformers",
             "lines.conf"),"""


def test_a_form_of_files(clone: Clone, tmp_path: Path) -> None:
    clone.write("engine/chem/line_files.py", FORM)
    clone.put("engine/file_forms.py", 'FileForm("list"', ROW)
    assert clone.touched() == ["engine/chem/line_files.py", "engine/file_forms.py"]
    assert files_of("Add a form of files") == ["engine/chem/yours.py", "engine/file_forms.py"]
    file = tmp_path / "lines.conf"
    file.write_text("CC=O\t-1.05,0.12,0.03,0.39,-0.25,-0.06,1.25,0.59,0.13\nCCO\t-0.9,-0.2,0,0.4,0.5,0,1.4,-0.4,0\n")
    (run,) = clone.engine("import", str(file))
    assert (run["samples"], run["molecules"], run["judged"]) == (2, 2, 2)
    (references,) = clone.engine("references", "add", str(file), "--label", "mine")
    assert (references["form"], references["conformers"]) == ("lines", 2)
    offered = clone.python(
        "-c", "from engine.file_forms import endings_of, words_of; print(endings_of('run'), words_of('pool'))"
    )
    assert "'conf'" in offered and "lines of conformers (.conf)" in offered
