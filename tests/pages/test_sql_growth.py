"""Answers that multiply once they are out of Arrow: what the app's own process grows by, beside theirs."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.store.console import Console, SqlAnswer
from pages._compare import sql as page
from pages._compare.sql import LIMITS, Statement
from pages._shared.table_files import csv_of, parquet_of
from tests.support import ROOT, sized

MOST_GROWTH_MB = 300
LONG = "x" * 40_000
ENUM = f"'{LONG}'::ENUM ('{LONG}')"
VALUES = ["true", "x", "1.5::DECIMAL(9, 2)", "repeat('\u20ac', 500)", "[[]]", "{'a': {'b': x}}", "map {x: x}", ENUM]
SHAPES = [
    "SELECT list_transform(range(5000), lambda x: @) FROM range(7000)",
    "SELECT " + ", ".join(f"a a{i}" for i in range(100)) + " FROM (SELECT @ AS a FROM range(10000) AS r(x))",
    "SELECT list_transform(range(60), lambda y: list_transform(range(60), lambda x: @)) FROM range(10000)",
    "SELECT list_transform(range(30), lambda x: {'long name': @, 'n': x}) AS \"" + "n" * 3_000 + '" FROM range(10000)',
]
HOSTILE = [shape.replace("@", value) for shape, value in itertools.product(SHAPES, VALUES)]


def memory_mb(key: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:"))


def measure(every: int) -> None:
    """The growth by one statement in ``every``: the largest, or an error at the first that is too large."""
    logging.disable(logging.ERROR)  # Streamlit says for each element that there is no browser
    statements, answers, grown = HOSTILE[::every], 0, 0.0
    with Console({}, limits=LIMITS) as console:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
        before = memory_mb("VmRSS")
        for sql in statements:
            try:
                answer = console.query(sql)
            except SqlError:
                continue
            answers += 1
            done: Future[SqlAnswer] = Future()
            done.set_result(answer)
            page._answer(Statement(sql, (), done), {})  # to a browser that is not there
            csv_of(answer.table)
            parquet_of(answer.table)
            grown = memory_mb("VmHWM") - before
            assert grown < MOST_GROWTH_MB, f"{grown:.0f} MB with {sql[:200]}"
    assert answers > len(statements) / 2
    print(f"{answers} answers, at most {grown:.0f} MB more than before")


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell a process's peak")
def test_the_app_does_not_grow_with_what_an_answer_becomes() -> None:
    """In a process of its own, which other tests have not grown."""
    command = [sys.executable, "-W", "ignore", "-m", __name__, str(sized(11, 1))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
    print(done.stdout)


if __name__ == "__main__":
    measure(int(sys.argv[1]))
