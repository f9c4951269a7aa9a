"""What other installed packages bring, each named by an entry point of its package:

    [project.entry-points."driftscope.questions"]
    compare_mine = "mine.compare_mine"  # the question's key; a module of that name, as those of engine/questions/

    [project.entry-points."driftscope.lps"]
    mine = "mine.lp"  # a module with ``RECORD``, an `LpRecord` that names it, and ``build``

What such a module does is its author's matter: it runs as the program's own code does.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from typing import cast

log = logging.getLogger(__name__)


@cache
def _all_points() -> EntryPoints:
    """All packages are looked through once, which takes some milliseconds; any of them may be malformed."""
    try:
        return cast(EntryPoints, entry_points())  # or what older Pythons have, which selects as well
    except Exception as error:  # noqa: BLE001 - files of others
        log.warning("entry points of packages cannot be read: %s: %s", type(error).__name__, error)
        return EntryPoints()


def modules_of(group: str) -> dict[str, str]:
    """Names of modules by the names of their entry points; nothing is imported."""
    modules = {}
    for point in _all_points().select(group=group):
        try:
            modules[point.name] = point.module
        except AttributeError:  # of a value that is no name of a module
            log.warning("the entry point %s of %s is left out: %s is no module", point.name, group, point.value)
    return modules
