"""Traces of the store as questions read them: sums per family, passes, and what to know before any figure.

Work is what devices did, or where a trace has no device, what operators did without those inside them. What was done
before the first pass, such as packing weights, is done once and stands apart: it is no work of the passes, and is
divided by nothing. Where a trace marks no pass, that is not known. An operator that mostly waits for others inside it,
as ``aten::linear`` does for ``aten::addmm``, wraps them, and is no call of its own; of a family of wrappers alone each
counts. What a trace does not know is None, never 0. Ratios are test over control; a trace alone is its own test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.decode.steps import PREFIX, STEP
from engine.errors import StoreError
from engine.figures.statistics import quotient
from engine.figures.words import fixed, speed
from engine.store.entries import Entry, entry_names
from engine.store.memo import computed_once
from engine.store.schema import TRACE_MARKS, TRACE_OPS, TRACE_TIMELINE
from engine.store.store import Store

COMPUTE = ("attention", "gemm")  # what the reports call real compute; all other work is overhead to them
PERS = {"per token": "tokens", "whole traces": "", "per sample": "samples", "per pass": "forward_passes"}
SMALL_BAR, LEAST_BARS, MOST_BARS = 0.05, 3, 40
WINDOW = 0.02  # two traces with tokens that differ by less cover as much
SQL = """
SELECT side, family,
       coalesce(sum(calls) FILTER (coalesce(self_us, total_us) >= total_us / 2), sum(calls))::BIGINT AS calls,
       sum(coalesce(self_us, total_us)) AS us, sum(launched)::BIGINT AS launched, sum(delay_us) AS delay_us
FROM trace_ops GROUP BY ALL ORDER BY side, family
"""
FIRST_PASS = "SELECT min(start_us) AS first_us FROM trace_marks WHERE name = $step AND family = 'annotation'"
# To a bin of the timeline: of the one in which the first pass begins, the part before it.
BEFORE = """
SELECT side, family, sum(busy_us * least(1, ($first_us - start_us) / width_us)) AS us
FROM trace_timeline WHERE start_us < $first_us GROUP BY ALL ORDER BY us DESC
"""
OUTSIDE = "outside the passes"
PHASES = ("template", "prefill", "forward", "constraint", "sample", "other", OUTSIDE)
NAMES = {f"{PREFIX}decode": "forward"} | {f"{PREFIX}{name}": name for name in PHASES[:5]}
# Late in a long trace, a float may not tell a mark's end from its start: such a mark takes no time. What plain
# `generate` does between its marks is inside of a decode that is outside of the pass, so passes come first.
MARKS = """
SELECT name, start_us, dur_us FROM trace_marks
WHERE family = $family AND start_us + dur_us > start_us AND list_contains($names, name)
    AND thread IN (SELECT thread FROM trace_marks WHERE family = $family AND name = $step)
ORDER BY name <> $step, start_us, dur_us DESC
"""


Row = Mapping[str, Any]


class Totals(NamedTuple):
    """Calls, and their time."""

    calls: int
    us: float

    @property
    def mean_us(self) -> float | None:
        return self.us / self.calls if self.calls else None


NOTHING = Totals(0, 0.0)


@dataclass(frozen=True, slots=True)
class Trace:
    entry: Entry
    name: str
    families: Mapping[tuple[str, str], Totals]  # by side and family, from the first pass on
    work_side: str  # device or host
    delay_us: float | None  # mean, from launch to kernel
    first_us: float  # where the first pass begins
    before_us: Mapping[tuple[str, str], float]  # time before that, by side and family

    @property
    def is_whole(self) -> bool:
        """False for a reported trace: the report names some operations only."""
        return self.entry.row.get("origin") != "reported"

    @property
    def span_us(self) -> float | None:
        """By the clock, from the first pass on."""
        span = self.known("span_us")
        return None if span is None else span - self.first_us

    @property
    def work_before_us(self) -> dict[str, float]:
        """By family, what was done before the first pass, the most first."""
        return {family: us for (side, family), us in self.before_us.items() if side == self.work_side}

    @property
    def has_calls(self) -> bool:
        return any(side == "call" for side, _ in self.families)

    def work(self, *families: str) -> Totals:
        """Of some families of the work, or of all."""
        of_side = ((name, totals) for (side, name), totals in self.families.items() if side == self.work_side)
        chosen = [totals for name, totals in of_side if not families or name in families]
        return Totals(sum(totals.calls for totals in chosen), sum(totals.us for totals in chosen))

    def known(self, column: str) -> float | None:
        value = self.entry.row.get(column)
        return None if value is None else float(value)


def families_of(store: Store, entries: Sequence[Entry]) -> dict[str, str]:
    """Families of these traces, as choices of which none may be chosen."""
    found = store.table("SELECT DISTINCT family FROM trace_ops ORDER BY family", of=[entry.id for entry in entries])
    return {"": "none"} | {family: family for family in found["family"].to_pylist()}


def traces_of(store: Store, entries: Sequence[Entry]) -> tuple[Trace, Trace]:
    """The control and the test."""
    names, both = entry_names(entries), (entries[0], entries[-1])
    control, test = (replace(trace_of(store, entry), entry=entry, name=names[entry.id]) for entry in both)
    return control, test


@computed_once(32)
def trace_of(store: Store, entry: Entry) -> Trace:
    """By its id: among others it may have another name."""
    if TRACE_OPS.name not in entry.parts:
        raise StoreError(f"{entry.id} has no table of operations", "Look at it with `verify`, or add it again")
    rows = store.table(SQL, of=[entry.id]).to_pylist()
    first_us, before_us = before_the_first_pass(store, entry)
    families = {}
    for row in rows:
        key = row["side"], row["family"]
        families[key] = Totals(row["calls"], max(0.0, row["us"] - before_us.get(key, 0.0)))
    side = "device" if any(side == "device" for side, _ in families) else "host"
    work = [row for row in rows if row["side"] == side]
    launched, delay = (sum(row[column] or 0 for row in work) for column in ("launched", "delay_us"))
    return Trace(entry, entry.id, families, side, quotient(delay, launched), first_us, before_us)


def before_the_first_pass(store: Store, entry: Entry) -> tuple[float, dict[tuple[str, str], float]]:
    """When the first pass begins, and the work before it by side and family; 0 and none where no pass is marked."""
    if not {TRACE_MARKS.name, TRACE_TIMELINE.name} <= entry.parts.keys():
        return 0.0, {}
    (row,) = store.table(FIRST_PASS, {"step": STEP}, of=[entry.id]).to_pylist()
    first_us = row["first_us"] or 0.0
    work = store.table(BEFORE, {"first_us": first_us}, of=[entry.id]).to_pylist()
    return first_us, {(row["side"], row["family"]): row["us"] for row in work if row["us"] > 0}


def split_us(control: Totals, test: Totals, per: tuple[float, float] = (1.0, 1.0)) -> tuple[float, float]:
    """The difference as more calls, each at the mean of both times, and slower calls; each trace over its count.

    The two add up to it. A family that only one of them has is all calls.
    """
    change = test.us / per[1] - control.us / per[0]
    if control.mean_us is None or test.mean_us is None:
        return change, 0.0
    by_calls = (test.calls / per[1] - control.calls / per[0]) * (control.mean_us + test.mean_us) / 2
    return by_calls, change - by_calls


def is_of_other_sizes(control: Trace, test: Trace, by_calls: float, by_each: float) -> bool:
    """The parts cancel: more calls that are shorter, or fewer that are longer, as +619 and -513 for a change of 106.

    Then they say nothing of speed: calls are of other sizes, as another batch or other lengths of texts make them. On
    another device calls may be as large and faster.
    """
    devices = {trace.entry.row.get("device") for trace in (control, test)} - {None}
    return len(devices) < 2 and by_calls * by_each < 0 and min(abs(by_calls), abs(by_each)) > abs(by_calls + by_each)


def pair_row(control: Totals, test: Totals, per: Mapping[str, tuple[float | None, float | None]]) -> dict[str, Any]:
    """Columns of both, each with its ratio, of times in words too. ``per`` has more: {"us_a_token": (256, 339)}."""
    pairs = {
        "calls": (control.calls, test.calls),
        "total_us": (control.us, test.us),
        "mean_us": (control.mean_us, test.mean_us),
        **{name: (quotient(control.us, first), quotient(test.us, second)) for name, (first, second) in per.items()},
    }
    by_calls, by_mean = split_us(control, test)
    return {
        **{key: value for name, pair in pairs.items() for key, value in _pair_columns(name, *pair).items()},
        "difference_us": test.us - control.us,
        "by_calls_us": by_calls,
        "by_mean_us": by_mean,
    }


def _pair_columns(name: str, control: float | None, test: float | None) -> dict[str, Any]:
    ratio = quotient(test, control)
    columns = {f"{name}_control": control, f"{name}_test": test, f"{name}_ratio": ratio}
    return columns if name == "calls" else {**columns, f"{name}_speed": speed(ratio)}


def fold_small(rows: Sequence[Row], figure: str, name: str, is_unfolded: bool) -> list[Row]:
    """Bars, pinned ones first, and one with the sum of those under 5 % of all, or after the first 40.

    The three largest are drawn in any case; a single small one too.
    """
    sizes = sorted((abs(row[figure]) for row in rows), reverse=True)
    least = 0.0 if is_unfolded else min([SMALL_BAR * sum(sizes), *sizes[:LEAST_BARS]])
    drawn = [row for row in rows if row["is_pinned"]]
    drawn += [row for row in rows if not row["is_pinned"] and abs(row[figure]) >= least][: MOST_BARS - len(drawn)]
    names = {row[name] for row in drawn}
    rest = [row for row in rows if row[name] not in names]
    if len(rest) < 2:
        return [*drawn, *rest]
    return [*drawn, {name: f"and {len(rest):,} more", "move": "small bars", figure: sum(row[figure] for row in rest)}]


def incomparable(control: Trace, test: Trace) -> str:
    """Why the difference of these two cannot be split; empty where it can."""
    if control.work_side != test.work_side:
        return "Not comparable: one trace has work of a device, the other only of operators on the CPU."
    if control.is_whole != test.is_whole:
        reported = control.name if test.is_whole else test.name
        return f"Not comparable as a whole: {reported} is a report's, which names some operations only."
    return ""


class Passes(NamedTuple):
    """The passes of a captured generation. Time is cut into pieces, each of the innermost mark that covers it."""

    marks: Sequence[Mapping[str, Any]]  # one for each pass: start_us, dur_us
    bounds_us: npt.NDArray[np.float64]  # [pieces + 1]
    phase: npt.NDArray[np.int64]  # [pieces], of PHASES; what no mark covers inside of a pass is other
    us: npt.NDArray[np.float64]  # [passes + 1, PHASES], the last row is what is outside of all


def passes_of(store: Store, entry: Entry, family: str = "annotation") -> Passes:
    """``family`` gpu_annotation: as a device has the marks. The host's are the time to launch work of a device."""
    parameters = {"family": family, "names": [STEP, *NAMES], "step": STEP}
    marks = store.table(MARKS, parameters, of=[entry.id]).to_pylist()
    ends = np.array([(row["start_us"], row["start_us"] + row["dur_us"]) for row in marks]).reshape(-1, 2).round(3)
    bounds = np.unique(ends)
    phase, number = (np.full(max(0, len(bounds) - 1), none) for none in (PHASES.index(OUTSIDE), -1))
    for index, (row, (first, last)) in enumerate(zip(marks, np.searchsorted(bounds, ends), strict=True)):
        phase[first:last] = PHASES.index(NAMES.get(row["name"], "other"))
        if row["name"] == STEP:
            number[first:last] = index
    steps = [row for row in marks if row["name"] == STEP]
    us = np.zeros((len(steps) + 1, len(PHASES)))
    np.add.at(us, (number, phase), np.diff(bounds))
    return Passes(steps, bounds, phase, us)


def cautions(control: Trace, test: Trace) -> Iterator[str]:
    """What to know before any figure. Texts may have words of a trace's file in them: escape them."""
    if control.entry.id != test.entry.id:
        yield from pair_cautions(control, test)
    rows = {trace.name: trace.entry.row for trace in (control, test)}
    reported = [name for name, row in rows.items() if row.get("origin") == "reported"]
    if reported:
        yield f"{' and '.join(reported)}: as a report states it, which names some operations only; not measured here."
    for name, row in rows.items():
        if row.get("is_complete") is False:
            yield f"{name} is cut off: its sums cover what could be read."
        if row.get("counted_by") == "run":
            yield f"{name}: per-token figures use the whole run's tokens, right only if the trace covers all of it."
        for line in str(row.get("warnings") or "").splitlines():
            yield f"The file of {name}: {line.rstrip('.')}."


def pair_cautions(control: Trace, test: Trace) -> Iterator[str]:
    if reason := incomparable(control, test):
        yield reason
    if {control.entry.row.get("form"), test.entry.row.get("form")} == {"events", "table"}:
        yield "One of the two is a table of sums: its timeline, gaps and overlaps are unknown."
    first, second = control.entry.row.get("device"), test.entry.row.get("device")
    if first and second and first != second:
        yield f"They ran on different devices: {control.name} on {first}, {test.name} on {second}."
    control_tokens, test_tokens = control.known("tokens"), test.known("tokens")
    if control_tokens and test_tokens and abs(test_tokens / control_tokens - 1) > WINDOW:
        counts = f"{fixed(control_tokens, 0)} and {fixed(test_tokens, 0)}"
        yield f"They cover {counts} tokens: compare per-token figures."
