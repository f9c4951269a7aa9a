"""What a reader has to know before any figure of a trace, or of two traces compared.

Texts are plain, and may have words of a trace's file in them: escape them before they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.profile.stored_trace import StoredTrace

MOST_WARNINGS = 5
WINDOW = 0.02
"""Two traces whose tokens differ by less cover as much."""


def cautions(control: StoredTrace, test: StoredTrace | None = None) -> list[str]:
    """Those of both together first."""
    sides = {"trace": control} if test is None else {"control": control, "test": test}
    told = [] if test is None else list(_of_both(control, test))
    told += _of_reported([which for which, trace in sides.items() if trace.entry.row.get("origin") == "reported"])
    return told + [caution for which, trace in sides.items() for caution in _of_one(trace, which)]


def _of_both(control: StoredTrace, test: StoredTrace) -> Iterator[str]:
    if control.work_side != test.work_side:
        yield "Not comparable: one trace has device events, the other only operators on the CPU."
    if {trace.entry.row.get("form") for trace in (control, test)} == {"events", "table"}:
        yield "One of the two is a table of sums: its timeline, gaps and overlaps are unknown."
    devices = [trace.entry.row.get("device") for trace in (control, test)]
    if all(devices) and devices[0] != devices[1]:
        yield f"They ran on different devices: the control on {devices[0]}, the test on {devices[1]}."
    tokens = [trace.known("tokens") for trace in (control, test)]
    if tokens[0] and tokens[1] and abs(tokens[1] / tokens[0] - 1) > WINDOW:
        yield (
            f"They cover different numbers of tokens: {tokens[0]:,.0f} in A, {tokens[1]:,.0f} in B. "
            "Compare per-token figures."
        )


def _of_reported(names: Sequence[str]) -> Iterator[str]:
    if len(names) > 1:
        yield "Both are what a report states. They were not measured here."
    elif names:
        yield f"The {names[0]} is what a report states. It was not measured here."


def _of_one(trace: StoredTrace, which: str) -> Iterator[str]:
    """``which`` is what the trace is called here."""
    row = trace.entry.row
    if row.get("is_complete") is False:
        yield f"The {which} is cut off: its sums cover what could be read."
    if row.get("counted_by") == "run":
        yield f"Per-token figures of the {which} use the whole run's tokens: right only if the trace covers all of it."
    lines = str(row.get("warnings") or "").splitlines()
    for line in lines[:MOST_WARNINGS]:
        yield f"The {which}'s file: {line.rstrip('.')}."
    if len(lines) > MOST_WARNINGS:
        yield f"The {which}'s file: {len(lines) - MOST_WARNINGS:,} more warnings."
