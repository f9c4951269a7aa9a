"""What a report counts in its traces, counted the same way in any trace: launches, attention, copies, concatenations.

A trace without a device has no launches and no kinds of concatenations, which is not nought of them: what a trace
cannot know is None. There operators are counted, those inside others too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.profile.compare import Totals

ALIGNED = "alignedk"
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Counted:
    """One operation of the report's table. ``aligned``: of concatenations, only those, or only the others."""

    what: str
    family: str
    side: Literal["work", "call"] = "work"
    aligned: bool | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        if row["family"] != self.family:
            return False
        if self.aligned is None or row["side"] == "host":  # operators are of no kind, so they are all others
            return self.aligned is not True
        return self.aligned == (ALIGNED in str(row["name"]).casefold())


COUNTED = (
    Counted("kernel launches", "launch", "call"),
    Counted("attention calls (FMHA)", "attention"),
    Counted("copies", "copy"),
    Counted("concatenations, aligned", "concat", aligned=True),
    Counted("concatenations, others", "concat", aligned=False),
)


def work_side(rows: Rows) -> str:
    """Where the work is: on devices, or in operators where there is none."""
    return "device" if any(row["side"] == "device" for row in rows) else "host"


def counts(rows: Rows) -> dict[str, Totals | None]:
    """By what is counted, of rows of ``trace_ops``; times of operators are without those inside them."""
    sides, work = {row["side"] for row in rows}, work_side(rows)
    found: dict[str, Totals | None] = {}
    for one in COUNTED:
        side = work if one.side == "work" else one.side
        some = [row for row in rows if row["side"] == side and one.holds(row)]
        times = [row["total_us"] if row.get("self_us") is None else row["self_us"] for row in some]
        is_known = side in sides and not (work == "host" and one.aligned)
        found[one.what] = Totals(sum(row["calls"] for row in some), sum(times)) if is_known else None
    return found
