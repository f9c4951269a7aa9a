"""What report 003 counts in its traces, counted the same way in any trace: launches, attention, copies, concatenations.

None where a trace cannot know: one without a device has no launches and no kinds of concatenations. There operators
are counted, those inside others too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.profile.stored_trace import Rows, Totals, work_side

ALIGNED = "alignedk"


@dataclass(frozen=True, slots=True)
class ReportCount:
    """One operation of the report's table. ``aligned``: of concatenations, only those, or only the others."""

    what: str
    family: str
    side: Literal["work", "call"] = "work"
    aligned: bool | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        if row["family"] != self.family:
            return False
        if self.aligned is None or row["side"] == "host":  # operators have no kind, so all are "others"
            return self.aligned is not True
        return self.aligned == (ALIGNED in str(row["name"]).casefold())


REPORT_COUNTS = (
    ReportCount("kernel launches", "launch", "call"),
    ReportCount("attention calls (FMHA)", "attention"),
    ReportCount("copies", "copy"),
    ReportCount("concatenations, aligned", "concat", aligned=True),
    ReportCount("concatenations, others", "concat", aligned=False),
)


def counts(rows: Rows) -> dict[str, Totals | None]:
    """By what is counted, of rows of ``trace_ops``."""
    work = work_side(rows)
    totals: dict[str, Totals | None] = {}
    for count in REPORT_COUNTS:
        side = work if count.side == "work" else count.side
        on_side = [row for row in rows if row["side"] == side]
        is_known = bool(on_side) and not (work == "host" and count.aligned)
        totals[count.what] = Totals.of([row for row in on_side if count.holds(row)]) if is_known else None
    return totals
