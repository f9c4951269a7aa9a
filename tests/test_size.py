"""How many lines the product has: each budget in ``size_budgets.json`` only goes down.

``python -m tests.test_size`` prints the figures, and ``--lower`` writes those that have gone down.

A line counts unless it is only a ``#`` or ``//`` comment; every tracked text file counts, whatever its suffix.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.support import ROOT

IN_COLUMNS = {".py", ".js", ".css", ".sql"}
COMMENTS = {".css": "(?!)", ".html": "(?!)", ".js": r"\s*//"}  # by suffix; elsewhere a line with # alone
MOST_COLUMNS, MOST_MEAN_BYTES = 120, 54
BUDGETS = Path(__file__).with_name("size_budgets.json")
WIDE = "lines over 120 columns"
PRODUCT = ("app.py", "pages/*", "engine/*")
GLOBS: dict[str, tuple[str, ...]] = {
    # A glob that begins with ! takes files away again.
    "product": PRODUCT,
    WIDE: (*PRODUCT, "tools/*"),
    "pages": ("app.py", "pages/*"),
    "tests": ("tests/*",),
    "tools": ("tools/*",),
    "Compare": (  # Advice has a row of its own
        *("pages/compare.py", "pages/_compare/*", "pages/_shared/managing/*"),
        *("engine/comparing/*", "engine/store/console.py", "engine/questions/compare_*", "!*advice*"),
    ),
    "Profiles": (
        *("pages/profiles.py", "pages/_profiles/*", "pages/_shared/components/timeline_*"),
        *("engine/profile/*", "engine/traces/*", "engine/questions/profiles_*"),
    ),
    "Logit health": ("pages/logits.py", "pages/_logits/*", "engine/logits/*", "engine/questions/logits_*"),
    "Evidence": (
        *("pages/evidence.py", "pages/_evidence/*", "pages/_shared/components/claims_list*"),
        *("engine/evidence/*", "engine/questions/evidence_*"),
    ),
    "claims": ("data/claims/*",),
    "Advice": ("engine/questions/*advice*",),
    "cost in nats, effect of forcing": (
        *("engine/inspection/effect*", "engine/inspection/lp_cost*", "pages/_drift/*lp*", "engine/questions/drift_lp*"),
    ),
    "words": ("engine/*words*", "pages/*words*"),
    "command line": ("engine/cli/*", "engine/__main__.py"),
    "chem": ("engine/chem/*",),
    "text": ("engine/text/*",),
    "lp": ("engine/lp/*", "engine/lp_records.py"),
    "models": ("engine/models/*",),
    "decode": ("engine/decode/*",),
    "inspection": ("engine/inspection/*",),
    "store": ("engine/store/*", "engine/user_files.py"),
    "jobs": ("engine/jobs/*",),
    "ground": tuple(f"engine/{name}.py" for name in ("assets", "errors", "paths", "processes", "records")),
    "sandbox": ("engine/sandbox.py",),
}


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in names.split("\0") if name]
    # One may be deleted and not yet committed; a picture or an archive has NUL bytes, text has none.
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def is_of(path: Path, globs: tuple[str, ...]) -> bool:
    name = path.relative_to(ROOT).as_posix()
    takes = [glob[1:] for glob in globs if glob.startswith("!")]
    return any(fnmatch(name, glob) for glob in globs) and not any(fnmatch(name, glob) for glob in takes)


def lines(path: Path) -> list[str]:
    comment = COMMENTS.get(path.suffix, r"\s*#")
    return [line for line in path.read_text(encoding="utf-8").splitlines() if not re.match(comment, line)]


def counted(kind: str) -> int:
    files = [path for path in tracked() if is_of(path, GLOBS[kind])]
    if kind == WIDE:
        return sum(len(line) > MOST_COLUMNS for path in files if path.suffix in IN_COLUMNS for line in lines(path))
    return sum(len(lines(path)) for path in files)


@pytest.mark.parametrize("kind", GLOBS)
def test_lines_keep_within_their_budget(kind: str) -> None:
    assert counted(kind) <= json.loads(BUDGETS.read_text())[kind]


def test_lines_are_no_denser() -> None:
    files = [path for path in tracked() if is_of(path, GLOBS[WIDE])]
    sizes = [len(line.encode()) for path in files for line in lines(path) if line.strip()]
    assert sum(sizes) / len(sizes) < MOST_MEAN_BYTES


if __name__ == "__main__":
    budgets = json.loads(BUDGETS.read_text()) if BUDGETS.exists() else {}
    now = {kind: counted(kind) for kind in GLOBS}
    for kind, figure in now.items():
        print(f"{figure:7,} of {budgets.get(kind, figure):7,}  {kind}")
    if "--lower" in sys.argv:
        lowered = {kind: min(figure, budgets.get(kind, figure)) for kind, figure in now.items()}
        BUDGETS.write_text(json.dumps(lowered, indent=2) + "\n")
