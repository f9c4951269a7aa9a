"""Which of the listed faults do the tests catch? ``make faults``, or ``python -m tests.faults.check [--out FILE]``.

One run of all tests under coverage says which tests reach which line, and how long each takes. Then each fault is
planted in a copy of the tree, and the tests that reach its line run until the first fails. Tests of the module's own
file come first, then short ones. A test that fails without the fault too has caught nothing. Servers and commands in a
process of their own are not measured, so a fault that only they reach counts as missed; browser tests are left out.
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
CONFIG = "[run]\ninclude = {files}\nconcurrency = thread\ndata_file = {data}\n"
OUTCOME = "DRIFTSCOPE_TEST_OUTCOME"  # names a file
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def pytest_sessionfinish(session: Any) -> None:
    """As a plugin of pytest: write which tests failed and how long each took. Under xdist only the controller knows."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (file := os.environ.get(OUTCOME)) and reporter and not hasattr(session.config, "workerinput"):
        seconds: dict[str, float] = {}
        for reports in reporter.stats.values():
            for report in reports:
                if hasattr(report, "duration"):
                    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
        failed = [report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
        Path(file).write_text(json.dumps({"seconds": seconds, "failed": failed}))


def measure(folder: Path, faults: list[Fault]) -> None:
    """All tests without a browser once, under coverage of the faults' files: ``coverage`` and ``outcome.json``."""
    files = ",".join(sorted({str(ROOT / fault.file) for fault in faults}))
    (folder / "coveragerc").write_text(CONFIG.format(files=files, data=folder / "coverage"))
    options = ["--cov", f"--cov-config={folder / 'coveragerc'}", "--cov-context=test", "--cov-report="]
    done = run_tests([*options, "-m", "not browser", "-n", "auto", "--dist=worksteal"], ROOT, folder / "outcome.json")
    if done not in (0, 1):
        raise SystemExit(f"the run under coverage ended with {done}")


def run_tests(arguments: list[str], tree: Path, outcome: Path, limit_s: float | None = None) -> int:
    """pytest's exit code; the outcome of each test is in a file."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.faults.check", "-p", "no:cacheprovider", *arguments]
    env = {**os.environ, **ONE_THREAD, OUTCOME: str(outcome)}
    with outcome.with_suffix(".log").open("w") as log:
        return subprocess.run(
            command, cwd=tree, env=env, timeout=limit_s, stdout=log, stderr=subprocess.STDOUT
        ).returncode


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
        self.seconds: dict[str, float] = json.loads((folder / "outcome.json").read_text())["seconds"]

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
    count, result, by = len(tests), "missed", ""
    while tests and result == "missed":
        with planted(copy, fault, place):
            failed = first_failed(copy, tests)
        if failed is None:
            break
        if failed in tests and first_failed(copy, [failed]) == failed:
            tests.remove(failed)
        else:
            result, by = "caught", failed
    seconds = round(time.monotonic() - began, 1)
    return {**asdict(fault), "result": result, "tests": count, "by": by, "seconds": seconds}


def first_failed(copy: Path, tests: list[str]) -> str | None:
    """The test that failed first, or a word where pytest came to none."""
    names, outcome = copy.parent / "names.txt", copy.parent / "outcome.json"
    names.write_text("\n".join(tests))
    outcome.unlink(missing_ok=True)
    try:
        if run_tests(["-x", "-n", "0", f"@{names}"], copy, outcome, HANGS_AFTER_S) == 0:
            return None
    except subprocess.TimeoutExpired:
        return "hangs"
    failed = json.loads(outcome.read_text())["failed"] if outcome.exists() else []
    return str(failed[0]) if failed else "no test ran"


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


def check(folder: Path, faults: list[Fault], workers: int) -> list[dict[str, Any]]:
    """Every fault's verdict, in the list's order."""
    reach = Reach(folder)
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
    faults = [Fault(**entry) for entry in json.loads(LIST.read_text(encoding="utf-8"))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if options.measured:
            for name in ("coverage", "outcome.json"):
                shutil.copy(options.measured / name, folder)
        else:
            measure(folder, faults)
        rows = check(folder, faults, options.workers)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    counts = {result: sum(row["result"] == result for row in rows) for result in ("caught", "missed", "gone")}
    print(", ".join(f"{count} {result}" for result, count in counts.items()))


if __name__ == "__main__":
    main()
