"""Which of the listed faults do the tests catch? ``make faults``, or ``python -m tests.faults.check [--out FILE]``.

``--fifty`` checks the other list, and lets the contract tests run too. It takes hours: with the same ``--measured
FOLDER --out FILE`` it resumes where it was stopped. FOLDER keeps the run under coverage of one tree, FILE the verdicts.

One run of all tests under coverage says which tests reach which line, and how long each takes. Then each fault is
planted in a copy of the tree, and the tests that reach its line run until the first fails. Tests of the module's own
file come first, then short ones. A test that fails without the fault too has caught nothing. Servers and commands in a
process of their own are not measured, so a fault that only they reach counts as missed; browser tests are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import coverage

from tests.faults.draw import FIFTY, LIST, Fault, listed, location_of
from tests.support import ROOT

MOST_TEST_S = 240.0  # seconds of tests per fault, by the times of the run under coverage
HANGS_AFTER_S = 900.0  # a fault that makes tests hang is caught
CONTRACT = "tests/contract"
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
CONFIG = "[run]\ninclude = {files}\nconcurrency = thread\ndata_file = {data}\n"
OUTCOME = "DRIFTSCOPE_TEST_OUTCOME"  # names a file


def pytest_sessionfinish(session: Any) -> None:
    """As a plugin of pytest: write which tests failed and how long each took. Under xdist only the controller knows."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if (file := os.environ.get(OUTCOME)) and reporter and not hasattr(session.config, "workerinput"):
        seconds: Counter[str] = Counter()
        for report in (report for reports in reporter.stats.values() for report in reports):
            if hasattr(report, "duration"):
                seconds[report.nodeid] += report.duration
        failed = [report.nodeid for kind in ("failed", "error") for report in reporter.stats.get(kind, [])]
        Path(file).write_text(json.dumps({"seconds": seconds, "failed": failed}))


def measure(folder: Path, faults: list[Fault]) -> None:
    """All tests without a browser once, under coverage of the faults' files: ``coverage`` and ``outcome.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    files = ",".join(sorted({str(location[0]) for location in map(location_of, faults) if location}))
    (folder / "coveragerc").write_text(CONFIG.format(files=files, data=folder / "coverage"))
    options = ["--cov", f"--cov-config={folder / 'coveragerc'}", "--cov-context=test", "--cov-report="]
    options += ["-m", "not browser", "-n", "auto", "--dist=worksteal", f"--ignore={CONTRACT}"]
    done = run_tests(options, ROOT, folder / "outcome.json")
    if done not in (0, 1):
        raise SystemExit(f"the run under coverage ended with {done}")


def run_tests(arguments: list[str], tree: Path, outcome: Path, limit_s: float | None = None) -> int:
    """pytest's exit code; the outcome of each test is in a file."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.faults.check", "-p", "no:cacheprovider", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", OUTCOME: str(outcome)}
    with outcome.with_suffix(".log").open("w") as log:
        return subprocess.run(
            command, cwd=tree, env=env, timeout=limit_s, stdout=log, stderr=subprocess.STDOUT
        ).returncode


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
        ids = {context.partition("|")[0] for context in contexts} & self.seconds.keys()
        near = f"test_{path.stem}"
        ordered = sorted(ids, key=lambda name: (near not in name, self.seconds[name], name))
        totals = accumulate(self.seconds[name] for name in ordered)
        return [name for name, total in zip(ordered, totals, strict=True) if total <= MOST_TEST_S] or ordered[:1]


@contextmanager
def planted(copy: Path, fault: Fault, location: tuple[Path, int]) -> Iterator[None]:
    path = copy / location[0].relative_to(ROOT)
    sound = path.read_text(encoding="utf-8")
    lines = sound.splitlines(keepends=True)
    lines[location[1]] = lines[location[1]].replace(fault.before, fault.after)
    path.write_text("".join(lines), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(sound, encoding="utf-8")


def catcher(copy: Path, fault: Fault, location: tuple[Path, int], tests: Sequence[str]) -> str:
    """The first of the tests that fails with the fault and not without it; empty where none does."""
    unsteady: list[str] = []
    while True:
        with planted(copy, fault, location):
            failed = first_failed(copy, tests, unsteady)
        if "::" not in failed or first_failed(copy, [failed], []) != failed:
            return failed
        unsteady.append(failed)


def first_failed(copy: Path, tests: Sequence[str], without: Sequence[str]) -> str:
    """The test that failed first, or a word where pytest came to none; empty where all pass."""
    names, outcome = copy.parent / "names.txt", copy.parent / "outcome.json"
    names.write_text("\n".join([*tests, *(f"--deselect={name}" for name in without)]))
    outcome.unlink(missing_ok=True)
    try:
        if not tests or run_tests(["-x", "-n", "0", f"@{names}"], copy, outcome, HANGS_AFTER_S) == 0:
            return ""
    except subprocess.TimeoutExpired:
        return "hangs"
    failed = json.loads(outcome.read_text())["failed"] if outcome.exists() else []
    return str(failed[0]) if failed else "no test ran"


def copy_of_the_tree(folder: Path) -> Path:
    def ignored(inside: str, names: list[str]) -> set[str]:
        return NOT_COPIED(inside, names) | ({"store"} if Path(inside) == ROOT / "data" else set())

    copy = Path(shutil.copytree(ROOT, folder / ROOT.name, ignore=ignored))
    (copy / ".venv").symlink_to((ROOT / ".venv").resolve())
    if (ROOT.parent / "shared").exists():
        (folder / "shared").symlink_to((ROOT.parent / "shared").resolve())
    return copy


def check(folder: Path, faults: Sequence[Fault], workers: int, out: Path, contract: Sequence[str]) -> Counter[str]:
    """How many have which verdict; each is a line of ``out`` at once, and none that stands there is made again."""
    reach = Reach(folder)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()] if out.is_file() else []
    waiting = [fault for fault in faults if not any(asdict(fault).items() <= row.items() for row in rows)]
    copies: SimpleQueue[Path] = SimpleQueue()

    def judged(fault: Fault) -> dict[str, Any]:
        if (location := location_of(fault)) is None:
            return {**asdict(fault), "result": "gone"}
        copy = copies.get()
        try:
            by = catcher(copy, fault, location, [*reach.tests(*location), *contract])
        finally:
            copies.put(copy)
        return {**asdict(fault), "result": "caught" if by else "missed", "by": by}

    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(workers) as pool:
        for number in range(workers):
            copies.put(copy_of_the_tree(Path(temporary, f"copy-{number}")))
        for row in pool.map(judged, waiting):
            rows.append(row)
            print(f"{row['result']:7} {row['file']}: {row['after']}  {row.get('by', '')}", flush=True)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    return Counter(row["result"] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fifty", action="store_true", help="the other list, with the contract tests")
    parser.add_argument("--match", default="", help="only faults in files with this in their path")
    parser.add_argument("--out", type=Path, help="every fault's verdict, a line of JSON each")
    parser.add_argument("--measured", type=Path, help="keeps the coverage and times of the run without a fault")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    faults = [fault for fault in listed(FIFTY if options.fifty else LIST) if options.match in fault.file]
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.measured or Path(temporary)
        if not (folder / "outcome.json").is_file():
            measure(folder, faults)
        out = options.out or Path(temporary, "verdicts.jsonl")
        if not options.measured:  # of another tree, perhaps
            out.unlink(missing_ok=True)
        counts = check(folder, faults, options.workers, out, [CONTRACT] if options.fifty else [])
    print(*(f"{count} {result}" for result, count in sorted(counts.items())), sep=", ")


if __name__ == "__main__":
    main()
