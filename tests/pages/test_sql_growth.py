"""Answers that multiply once they are out of Arrow: what the app's own process grows by, beside theirs."""

from __future__ import annotations

import itertools
from concurrent.futures import Future
from pathlib import Path

import pytest

from engine.errors import SqlError
from engine.store.console import Console, SqlAnswer
from pages._compare import sql as page
from pages._compare.sql import LIMITS, Statement
from pages._kit.table_files import csv_of, parquet_of
from tests.support import sized

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


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not tell a process's peak")
def test_the_app_does_not_grow_with_what_an_answer_becomes() -> None:
    statements, answers = HOSTILE[:: sized(11, 1)], 0
    with Console({}, limits=LIMITS) as console:
        for sql in statements:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
            before = memory_mb("VmRSS")
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
            assert memory_mb("VmHWM") - before < MOST_GROWTH_MB, sql[:200]
    assert answers > len(statements) / 2
