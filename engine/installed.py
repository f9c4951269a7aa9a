"""What other installed packages bring, each named by an entry point of its package:

    [project.entry-points."driftscope.questions"]
    compare_mine = "mine.compare_mine"  # the question's key; a module of that name, as those of engine/questions/

    [project.entry-points."driftscope.lps"]
    mine = "mine.lp"  # a module with ``RECORD``, an `LpRecord` that names it, and ``build``

What such a module does is its author's matter: it runs as the program's own code does.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

_all_points = cache(entry_points)  # all packages are looked through once, which takes some milliseconds


def modules_of(group: str) -> dict[str, str]:
    """Names of modules by the names of their entry points; nothing is imported."""
    return {point.name: point.module for point in _all_points().select(group=group)}
