"""What a reader has to know before any figure of a trace, or of two beside each other.

Texts are plain, and may have words of a trace's file in them: whoever draws them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.profile.compare import Trace

MOST_WARNINGS = 5
WINDOW = 0.02
"""Two windows whose tokens differ by less cover as much."""


def cautions(control: Trace, test: Trace | None = None) -> list[str]:
    """Of both together first."""
    if test is None:
        return list(_own(control, "trace"))
    return [*_together(control, test), *_own(control, "control"), *_own(test, "test")]


def _together(control: Trace, test: Trace) -> Iterator[str]:
    if control.work_side != test.work_side:
        yield "One of the two has no device events: its work is that of operators on the CPU, and not comparable."
    if {trace.entry.row.get("form") for trace in (control, test)} == {"events", "table"}:
        yield "One of the two is a table of sums: nothing is known of its timeline, gaps and overlaps."
    one, other = (trace.entry.row.get("device") for trace in (control, test))
    if one and other and one != other:
        yield f"They ran on different devices: the control on {one}, the test on {other}."
    tokens, others = (trace.known("tokens") for trace in (control, test))
    if tokens and others and abs(others / tokens - 1) > WINDOW:
        yield (
            f"They cover different work: {tokens:,.0f} tokens in the control, {others:,.0f} in the test. "
            "Figures a token compare like with like; totals do not."
        )


def _own(trace: Trace, which: str) -> Iterator[str]:
    """Of one; ``which`` it is, in a word."""
    row = trace.entry.row
    if row.get("is_complete") is False:
        yield f"The {which} is cut off: its sums are of what was there."
    if row.get("counted_by") == "run":
        yield f"Figures a token of the {which} take the whole run's tokens: right where the trace covers all of it."
    if row.get("origin") == "reported":
        yield f"The {which} is what a report states, and was not measured here."
    lines = str(row.get("warnings") or "").splitlines()
    for line in lines[:MOST_WARNINGS]:
        yield f"The {which}'s file: {line.rstrip('.')}."
    if len(lines) > MOST_WARNINGS:
        yield f"The {which}'s file has {len(lines) - MOST_WARNINGS:,} more oddities."
