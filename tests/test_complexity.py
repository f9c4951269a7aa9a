"""No function is more complex than 15, as radon counts it: branches, loops, ``and``, ``or``, ternaries, comprehensions.

``complexity.json`` lists those that were more complex before there was a limit. The list only shrinks:
``python -m tests.test_complexity`` writes it again, without those that are simpler now.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Function

from tests.support import ROOT

MOST = 15
LIST = Path(__file__).with_name("complexity.json")


@cache
def too_complex() -> dict[str, int]:
    """``engine/cli/main.py:main`` and its complexity, of functions and methods; a class counts by its methods."""
    paths = [ROOT / "app.py", *(ROOT / "engine").rglob("*.py"), *(ROOT / "pages").rglob("*.py")]
    return {
        f"{path.relative_to(ROOT).as_posix()}:{block.fullname}": block.complexity
        for path in sorted(paths)
        for block in cc_visit(path.read_text(encoding="utf-8"))
        if isinstance(block, Function) and block.complexity > MOST
    }


def listed() -> dict[str, int]:
    functions: dict[str, int] = json.loads(LIST.read_text())
    return functions


def test_no_further_function_is_too_complex() -> None:
    before = listed()
    worse = {name: figure for name, figure in too_complex().items() if figure > before.get(name, MOST)}
    assert not worse, f"more than {MOST}, or more than it was: make it simpler"


def test_the_list_only_shrinks() -> None:
    simpler = {name: figure for name, figure in listed().items() if too_complex().get(name, 0) < figure}
    assert not simpler, "simpler than listed: python -m tests.test_complexity"


if __name__ == "__main__":
    was = listed() if LIST.exists() else too_complex()
    now = {name: min(figure, was[name]) for name, figure in too_complex().items() if name in was}
    LIST.write_text(json.dumps(now, indent=2) + "\n")
    print(f"{len(now)} functions over {MOST}, the most complex {max(now.values(), default=0)}")
