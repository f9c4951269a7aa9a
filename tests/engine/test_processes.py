"""A worker process: what it runs, and that nothing of its parent runs twice or outlives it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.paths import ROOT

SCRIPT = """
print("main", flush=True)
from engine.processes import WorkerProcess
from tests.judge_processes import scripted
worker = WorkerProcess(scripted, None)
print(worker.connection.recv(), worker.process.pid, flush=True)
"""


def test_the_parents_program_runs_once_and_its_end_is_the_workers(tmp_path: Path) -> None:
    """A script without a guard, as an app's page is one."""
    script = tmp_path / "page.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(ROOT)}, check=True
    )
    assert ran.stderr == ""
    main, (ready, pid) = ran.stdout.splitlines()[0], ran.stdout.splitlines()[1].split()
    assert (main, ready, ran.stdout.count("main")) == ("main", "ready", 1)
    assert not Path(f"/proc/{pid}").exists()
