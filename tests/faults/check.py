"""Which of the listed faults do the tests catch? ``make faults``, or ``python -m tests.faults.check [--out FILE]``.

``python -m tests.faults.check --fifty --measured FOLDER --out FILE`` checks the other list, and for each fault
the contract tests run too. It takes hours. With the same FOLDER and FILE it resumes where it was stopped: FOLDER keeps
the run under coverage of this tree, FILE the verdicts.

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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any

import coverage

from tests.faults.draw import FIFTY, LIST, Fault, listed
from tests.support import ROOT

MOST_TEST_S = 240.0  # seconds of tests per fault, by the times of the run under coverage
HANGS_AFTER_S = 900.0  # a fault that makes tests hang is caught
CONTRACT = "tests/contract"
OF_CONTRACT = [f"{CONTRACT}/test_contract.py"]
"""They start processes, so that coverage says nothing of them."""
CATCHERS = (("unit tests", "by"), ("contract tests", "by_contract"))
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
    files = ",".join(sorted({str(place[0]) for place in map(place_of, faults) if place}))
    (folder / "coveragerc").write_text(CONFIG.format(files=files, data=folder / "coverage"))
    options = ["--cov", f"--cov-config={folder / 'coveragerc'}", "--cov-context=test", "--cov-report="]
    options += ["-m", "not browser", "-n", "auto", "--dist=worksteal", f"--ignore={CONTRACT}"]
    done = run_tests(options, ROOT, folder / "outcome.json")
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
    """The file and line number of a fault, also where its function moved to another module; None where it is gone."""
    path = ROOT / fault.file
    here = _lines_with(fault, path) if path.is_file() else []
    inside = [number for number, function in here if function == fault.function]
    if fault.nth < len(inside):
        return path, inside[fault.nth]
    if len(here) == 1:
        return path, here[0][0]
    name = fault.function.rpartition(".")[2]
    moved = [
        (other, number)
        for top in ("engine", "pages", "tools")
        for other in sorted((ROOT / top).rglob("*.py"))
        for number, function in _lines_with(fault, other)
        if name and function.rpartition(".")[2] == name
    ]
    return moved[0] if len(moved) == 1 else None


def _lines_with(fault: Fault, path: Path) -> list[tuple[int, str]]:
    """Where a module has the fault's line: the numbers, and the functions around them."""
    source = path.read_text(encoding="utf-8")
    if fault.before not in source:
        return []
    numbers = [number for number, line in enumerate(source.splitlines()) if line.strip() == fault.before]
    return [(number, _function_at(source, number + 1)) for number in numbers]


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


def verdict(copy: Path, fault: Fault, reach: Reach, has_contract: bool) -> dict[str, Any]:
    """Which test caught it first, and, ``has_contract``, also which contract test."""
    began = time.monotonic()
    place = place_of(fault)
    if place is None:
        return {**asdict(fault), "result": "gone"}
    tests = reach.tests(*place)
    by = catcher(copy, fault, place, tests)
    row = {**asdict(fault), "result": "caught" if by else "missed", "tests": len(tests), "by": by or ""}
    if has_contract:
        row["by_contract"] = catcher(copy, fault, place, OF_CONTRACT) or ""
        row["result"] = "caught" if row["by"] or row["by_contract"] else "missed"
    return {**row, "seconds": round(time.monotonic() - began, 1)}


def catcher(copy: Path, fault: Fault, place: tuple[Path, int], tests: Sequence[str]) -> str | None:
    """The first of the tests that fails with the fault and not without it."""
    unsteady: list[str] = []
    while tests:
        with planted(copy, fault, place):
            failed = first_failed(copy, tests, unsteady)
        if failed is None or "::" not in failed or first_failed(copy, [failed], []) != failed:
            return failed
        unsteady.append(failed)
    return None


def first_failed(copy: Path, tests: Sequence[str], without: Sequence[str]) -> str | None:
    """The test that failed first, or a word where pytest came to none."""
    names, outcome = copy.parent / "names.txt", copy.parent / "outcome.json"
    names.write_text("\n".join([*tests, *(f"--deselect={name}" for name in without)]))
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


def check(
    folder: Path, faults: Sequence[Fault], workers: int, out: Path | None, has_contract: bool
) -> list[dict[str, Any]]:
    """Every fault's verdict. Each is written to ``out`` at once; those of the fifty there are kept."""
    reach = Reach(folder)
    begun = json.loads(out.read_text(encoding="utf-8")) if has_contract and out is not None and out.is_file() else []
    known = {_key(row): row for row in begun}
    waiting = [fault for fault in faults if _key(asdict(fault)) not in known]
    copies: SimpleQueue[Path] = SimpleQueue()
    writing = Lock()
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(min(workers, len(waiting))):
            copies.put(copy_of_the_tree(Path(temporary, f"copy-{number}")))

        def judged(fault: Fault) -> None:
            copy = copies.get()
            try:
                row = verdict(copy, fault, reach, has_contract)
            finally:
                copies.put(copy)
            by = ", ".join(filter(None, (row.get("by"), row.get("by_contract"))))
            print(f"{row['result']:7} {row.get('seconds', 0):6.1f} s  {fault.file}: {fault.after}  {by}", flush=True)
            with writing:
                known[_key(row)] = row
                if out is not None:
                    part = out.with_suffix(".part")
                    part.write_text(json.dumps(sorted(known.values(), key=_key), indent=1) + "\n", encoding="utf-8")
                    part.replace(out)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(judged, waiting))
    return [known[_key(asdict(fault))] for fault in faults]


def _key(fault: Mapping[str, Any]) -> str:
    return json.dumps([fault[field] for field in ("file", "function", "before", "after", "nth")])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fifty", action="store_true", help="the other list, with the contract tests")
    parser.add_argument("--match", default="", help="only faults in files with this in their path")
    parser.add_argument("--out", type=Path, help="write every fault's verdict here, as JSON")
    parser.add_argument("--measured", type=Path, help="keeps the coverage and times of the run without a fault")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    faults = [fault for fault in listed(FIFTY if options.fifty else LIST) if options.match in fault.file]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.measured or Path(temporary)
        if not (folder / "outcome.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            measure(folder, faults)
        rows = check(folder, faults, options.workers, options.out, options.fifty)
    counts = {result: sum(row["result"] == result for row in rows) for result in ("caught", "missed", "gone")}
    print(", ".join(f"{count} {result}" for result, count in counts.items()))
    if options.fifty:
        print(*(f"by {name}: {sum(bool(row.get(key)) for row in rows)}" for name, key in CATCHERS), sep=", ")


if __name__ == "__main__":
    main()
