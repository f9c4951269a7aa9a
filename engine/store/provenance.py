"""What made a run: versions of what computes, and the state of this program's own files."""

from __future__ import annotations

import functools
import json
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from engine import __version__
from engine.paths import ROOT

PACKAGES = ("torch", "transformers", "tokenizers", "rdkit", "numpy", "duckdb", "pyarrow")
_PATIENCE_S = 10


@functools.cache
def versions() -> str:
    """JSON, by package."""
    found = {"driftscope": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # such as in a container that only computes
            continue
    return json.dumps(found)


@functools.cache
def git_commit() -> str | None:
    """The commit, with a + where files had changed; None outside a checkout."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return None
    commit = _git(git, "rev-parse", "HEAD")
    if commit is None:
        return None
    return commit + ("+" if _git(git, "status", "--porcelain", "--untracked-files=no") else "")


def _git(git: str, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            [git, "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
