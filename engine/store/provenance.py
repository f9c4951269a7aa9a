"""What made a run: versions of what computes, and the state of this program's own files."""

from __future__ import annotations

import functools
import json
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from engine import __version__
from engine.paths import ROOT


@functools.cache
def versions() -> str:
    """JSON, by package."""
    by_package = {"driftscope": __version__, "python": platform.python_version()}
    for name in ("torch", "transformers", "tokenizers", "rdkit", "numpy", "duckdb", "pyarrow"):
        with suppress(PackageNotFoundError):  # such as in a container that only computes
            by_package[name] = version(name)
    return json.dumps(by_package)


@functools.cache
def git_commit() -> str | None:
    """The commit, with a + where files had changed; None outside a checkout."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    with suppress(OSError, subprocess.SubprocessError):
        if (ROOT / ".git").exists():
            return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return None
