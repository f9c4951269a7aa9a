"""Which of the listed faults do the tests catch? ``make faults``, or ``python -m tests.faults.check [--out FILE]``.

One run of all tests under coverage says which tests reach which line, and how long each takes. Then each fault is
planted in a copy of the tree, and the tests that reach its line run until the first fails. Tests of the module's own
file come first, then short ones. Servers and commands in a process of their own are not measured, so a fault that only
they reach counts as missed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import coverage

from tests.faults.draw import LIST, Fault
from tests.support import ROOT

MOST_TEST_S = 240.0  # seconds of tests per fault, by the times of the run under coverage
HANGS_AFTER_S = 900.0  # a fault that makes tests hang is caught
NOT_COPIED = (
    ".git",
    ".venv",
    "__pycache__",
    "data/store",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
    ".hypothesis",
)
SOUND = ("tests/engine/test_errors.py", "tests/pages/test_app.py")
"""Tests that must pass in a copy without a fault, or its verdicts would mean nothing."""
CONFIG = "[run]\nsource = engine,pages\nconcurrency = thread\ndata_file = {file}\n"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def pytest_sessionfinish(session: Any) -> None:
    """As a plugin of pytest: write how long each test took. Under xdist only the controller sees all reports."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (file := os.environ.get("DRIFTSCOPE_TEST_TIMES")) and reporter and not hasattr(session.config, "workerinput"):
        seconds: dict[str, float] = {}
        for reports in reporter.stats.values():
            for report in reports:
                if hasattr(report, "duration"):
                    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
        Path(file).write_text(json.dumps(seconds))


def measure(folder: Path) -> None:
    """All tests once, under coverage: ``coverage`` and ``times.json`` in ``folder``."""
    (folder / "coveragerc").write_text(CONFIG.format(file=folder / "coverage"))
    options = ["-p", "tests.faults.check", "--cov", f"--cov-config={folder / 'coveragerc'}", "--cov-context=test"]
    env = {**os.environ, **ONE_THREAD, "DRIFTSCOPE_TEST_TIMES": str(folder / "times.json")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", *options, "--cov-report="], cwd=ROOT, env=env)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the run under coverage ended with {done.returncode}")


def place_of(fault: Fault) -> tuple[Path, int] | None:
    """The file and line number of a fault; None where the code it was drawn from is gone."""
    source = (ROOT / fault.file).read_text(encoding="utf-8") if (ROOT / fault.file).is_file() else ""
    numbers = [number for number, line in enumerate(source.splitlines()) if line.strip() == fault.before]
    inside = [number for number in numbers if _function_at(source, number + 1) == fault.function]
    if fault.nth < len(inside):
        return ROOT / fault.file, inside[fault.nth]
    return (ROOT / fault.file, numbers[0]) if len(numbers) == 1 else None


def _function_at(source: str, line: int) -> str:
    """The qualified name of the innermost function around a line."""

    def look(node: ast.AST, name: str) -> str:
        for child in ast.iter_child_nodes(node):
            if getattr(child, "lineno", 0) <= line <= (getattr(child, "end_lineno", 0) or 0):
                return look(child, f"{name}.{child.name}".lstrip(".") if hasattr(child, "name") else name)
        return name

    return look(ast.parse(source), "")


class Reach:
    """Which tests reach a line, those of the file's own test module first."""

    def __init__(self, folder: Path) -> None:
        self.data = coverage.CoverageData(str(folder / "coverage"))
        self.data.read()
        self.seconds: dict[str, float] = json.loads((folder / "times.json").read_text())

    def tests(self, path: Path, line: int) -> list[str]:
        lines = self.data.contexts_by_lineno(str(path))
        contexts = lines.get(line + 1, [])
        if not any(contexts):  # it runs on import: every test that reaches the file
            contexts = [context for names in lines.values() for context in names]
        ids = {context.partition("|")[0] for context in contexts if context}
        near = f"test_{path.stem}"
        ordered = sorted(ids & self.seconds.keys(), key=lambda name: (near not in name, self.seconds[name], name))
        total = 0.0
        kept: list[str] = []
        for name in ordered:
            total += self.seconds[name]
            if total > MOST_TEST_S and kept:
                break
            kept.append(name)
        return kept


@contextmanager
def planted(copy: Path, fault: Fault, place: tuple[Path, int]) -> Iterator[None]:
    path = copy / place[0].relative_to(ROOT)
    sound = path.read_text(encoding="utf-8")
    lines = sound.splitlines(keepends=True)
    lines[place[1]] = lines[place[1]].replace(fault.before, fault.after)
    path.write_text("".join(lines), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def verdict(copy: Path, fault: Fault, reach: Reach) -> dict[str, Any]:
    began = time.monotonic()
    place = place_of(fault)
    if place is None:
        return {**asdict(fault), "result": "gone"}
    tests = reach.tests(*place)
    if not tests:
        return {**asdict(fault), "result": "missed", "tests": 0}
    names = copy / "names.txt"
    names.write_text("\n".join(tests))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header"]
    with planted(copy, fault, place):
        try:
            done = subprocess.run(
                [*command, f"@{names}"], cwd=copy, env={**os.environ, **ONE_THREAD}, timeout=HANGS_AFTER_S,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip
            result, by = ("missed", "") if done.returncode == 0 else ("caught", done.stdout.strip()[-400:])
        except subprocess.TimeoutExpired:
            result, by = "caught", "hangs"
    seconds = round(time.monotonic() - began, 1)
    return {**asdict(fault), "result": result, "tests": len(tests), "by": by, "seconds": seconds}


def copy_of_the_tree(folder: Path) -> Path:
    """A copy in which the tests pass."""

    def ignored(inside: str, names: list[str]) -> list[str]:
        return [name for name in names if name in NOT_COPIED or str(Path(inside, name).relative_to(ROOT)) in NOT_COPIED]

    copy = Path(shutil.copytree(ROOT, folder / ROOT.name, ignore=ignored))
    (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *SOUND],
        cwd=copy,
        env={**os.environ, **ONE_THREAD},
        check=True,
    )
    return copy


def check(folder: Path, workers: int) -> list[dict[str, Any]]:
    """Every fault's verdict, in the list's order."""
    reach = Reach(folder)
    faults = [Fault(**entry) for entry in json.loads(LIST.read_text(encoding="utf-8"))]
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(workers):
        copies.put(copy_of_the_tree(folder / f"copy-{number}"))

    def judged(fault: Fault) -> dict[str, Any]:
        copy = copies.get()
        try:
            row = verdict(copy, fault, reach)
        finally:
            copies.put(copy)
        print(f"{row['result']:7} {row.get('seconds', 0):6.1f} s  {fault.file}: {fault.after}", flush=True)
        return row

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(judged, faults))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write every fault's verdict here, as JSON")
    parser.add_argument("--measured", type=Path, help="a folder with the coverage and times of an earlier run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.measured:
            for name in ("coverage", "times.json"):
                shutil.copy(options.measured / name, folder)
        else:
            measure(folder)
        rows = check(folder, options.workers)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    counts = {result: sum(row["result"] == result for row in rows) for result in ("caught", "missed", "gone")}
    print(", ".join(f"{count} {result}" for result, count in counts.items()))


if __name__ == "__main__":
    main()
