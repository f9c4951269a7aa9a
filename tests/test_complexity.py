"""No function is more complex than 15, as radon counts it: branches, loops, conditions, comprehensions."""

from __future__ import annotations

from radon.complexity import cc_visit
from radon.visitors import Function

from tests.support import ROOT

MOST = 15


def test_no_function_is_too_complex() -> None:
    """A class counts by its methods."""
    paths = [ROOT / "app.py", *(ROOT / "engine").rglob("*.py"), *(ROOT / "pages").rglob("*.py")]
    assert len(paths) > 200
    too_complex = {
        f"{path.relative_to(ROOT).as_posix()}:{block.fullname}": block.complexity
        for path in sorted(paths)
        for block in cc_visit(path.read_text(encoding="utf-8"))
        if isinstance(block, Function) and block.complexity > MOST
    }
    assert not too_complex, "make it simpler"
