"""A trace, or a comparison of two, in sentences: where the time goes, and what the difference is made of.

Texts are plain, and may have names of kernels in them: escape them before they are drawn. A is the control and B the
test, or A is a trace alone. Why a family takes longer is not known here unless it is told: only that it has more calls
or slower ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.figures.statistics import quotient
from engine.figures.words import (
    capitalised,
    counted,
    listed,
    microseconds,
    number,
    percent,
    shortened,
    signed_microseconds,
    times,
    whole,
)
from engine.profile.cautions import WINDOW
from engine.profile.compare import FamilyRow, TraceComparison
from engine.profile.stored_trace import COMPUTE, StoredTrace, Totals

MOST_FAMILIES = 3
MOST_NAME = 80
SMALL = 0.05  # of all changes: smaller families are not named
ROUNDING = 1e-3
PLAIN_NAMES = {"gemm": "matrix products, gemm", "concat": "concatenations"}
"""Of families whose names need one."""


def is_alone(comparison: TraceComparison) -> bool:
    """A trace compared with itself."""
    return comparison.control.entry.id == comparison.test.entry.id


def incomparable(comparison: TraceComparison) -> str:
    """Why the difference of these two cannot be split; empty where it can."""
    control, test = comparison.control, comparison.test
    if control.work_side != test.work_side:
        return "Not comparable: one is work of a device, the other of operators on a CPU."
    if control.is_whole != test.is_whole:
        return (
            f"Not comparable as a whole: {'A' if test.is_whole else 'B'} is a report, which names some operations only."
            " Compare the families that both have."
        )
    return ""


def is_known(trace: StoredTrace, row: FamilyRow, totals: Totals) -> bool:
    """Whether 0 means none: not for work of the other side, nor for what a report leaves out."""
    return row.side in (trace.work_side, "call") and (trace.is_whole or totals.calls > 0)


# --- families ---------------------------------------------------------------------------------------------------------


def alone(trace: StoredTrace, families: Sequence[FamilyRow]) -> str:
    """How long a trace takes by the clock, and where its work goes."""
    total = sum(row.control.total_us for row in families)
    if total <= 0:
        return "This trace has no work with a duration."
    parts = [
        f"{row.family} takes {percent(row.control.total_us / total)} ({counted(row.control.calls, 'call')} of "
        f"{microseconds(row.control.mean_us)})"
        for row in sorted(families, key=lambda row: -row.control.total_us)[:MOST_FAMILIES]
    ]
    tokens = trace.known("tokens")
    per_token = f", {microseconds(total / tokens)} per token" if tokens else ""
    span_us = trace.known("span_us")
    clock = f"The trace takes {microseconds(span_us)} by the clock" if span_us else ""
    clock += f" ({microseconds(span_us / tokens)} per token)" if span_us and tokens else ""
    text = f"{clock}. " if clock else ""
    text += f"Of {microseconds(total)} of work{_named_by_report(trace)}{per_token}: {listed(parts)}."
    if not trace.is_whole:
        return text
    return f"{text} Attention and gemm together are {percent(trace.totals(*COMPUTE).total_us / total)} of it."


def _named_by_report(*traces: StoredTrace) -> str:
    return "" if all(trace.is_whole for trace in traces) else " that the report names"


def where_from(comparison: TraceComparison, cause: str = "", head: str = "") -> str:
    """How much longer B takes, which families make the difference and how, and ``cause``.

    ``head`` is a clause on B's smaller output head. It stands beside faster products of matrices, its effect, where
    these are the largest part, and else after ``cause``.
    """
    causes = f"{cause} {head}.".lstrip() if head else cause
    if reason := incomparable(comparison):
        return f"{reason} {causes}".rstrip()
    work = comparison.figure("work_us")
    control, test = work.control or 0.0, work.test or 0.0
    if not any(row.difference_us for row in comparison.families):
        return f"Both take {microseconds(control)} of work, and no family differs. {causes}".rstrip()
    named = _named_by_report(comparison.control, comparison.test)
    tokens, per_token = comparison.figure("tokens"), comparison.figure("work_us_a_token")
    if control <= 0:
        text, base = f"B takes {microseconds(test)} of work{named} against {microseconds(control)} in A.", WHOLE
    elif per_token.ratio is None:
        text, base = f"B {_paces(comparison, WHOLE, control, test)}.", WHOLE
    else:
        base = _Base(tokens.control or 0, tokens.test or 0)
        text = f"Per token, B {_paces(comparison, base, per_token.control or 0, per_token.test or 0)}."
    families = _families(comparison, base, head)
    said = text, families, _named_part(comparison, base), cause if head in families else causes
    return " ".join(filter(None, said))


def are_unequal(comparison: TraceComparison) -> bool:
    """Whether the traces cover different counts of tokens: then they are compared per token."""
    ratio = comparison.figure("tokens").ratio
    return bool(ratio) and abs((ratio or 1) - 1) > WINDOW


@dataclass(frozen=True, slots=True)
class _Base:
    """What times and calls of each trace are divided by: their tokens, or 1 for whole traces."""

    control: float = 1
    test: float = 1

    @property
    def per(self) -> str:
        return "" if self == WHOLE else " per token"

    def difference_us(self, row: FamilyRow) -> float:
        return sum(row.split_us(self.control, self.test))


WHOLE = _Base()


def pace_words(ratio: float) -> str:
    """``is 1.06× faster`` or ``takes 1.05× as long``, of test over control."""
    return f"is {times(1 / ratio)} faster" if 0 < ratio < 1 else f"takes {times(ratio)} as long"


def _paces(comparison: TraceComparison, base: _Base, control: float, test: float) -> str:
    """How much faster by the clock, where that is known, and in work, of which these are the times."""
    named = _named_by_report(comparison.control, comparison.test)
    pace = pace_words(test / control)
    clock = _clock_us(comparison, base)
    if clock is None:
        return f"{pace}: {microseconds(test)} of work{named} against {microseconds(control)} in A"
    by_clock = f"{pace_words(clock[1] / clock[0])} by the clock"
    clock_times, times_of_work = (" to ".join(map(microseconds, pair)) for pair in (clock, (control, test)))
    if (clock[1] < clock[0]) == (test < control):
        return f"{by_clock} ({clock_times}{f'; work{named} {times_of_work}' if named else ''})"
    return f"{by_clock} ({clock_times}), but {pace} in work{named} ({times_of_work})"


def _clock_us(comparison: TraceComparison, base: _Base) -> tuple[float, float] | None:
    """From first to last event of both; None where a span or the tokens it covers are not known."""
    span, tokens = comparison.figure("span_us"), comparison.figure("tokens")
    if not span.control or not span.test or not tokens.ratio:
        return None
    return span.control / base.control, span.test / base.test


def _families(comparison: TraceComparison, base: _Base, head: str) -> str:
    """Those that change as the whole does, then the largest that changes the other way."""
    changes = sorted(((base.difference_us(row), row) for row in comparison.families), key=lambda pair: -abs(pair[0]))
    whole_us, moved = sum(change for change, _ in changes), sum(abs(change) for change, _ in changes)
    large = [(change, row) for change, row in changes if abs(change) >= SMALL * moved]
    same_way = [(change, row) for change, row in large if (change > 0) == (whole_us >= 0)][:MOST_FAMILIES]
    other_way = [(change, row) for change, row in large if (change > 0) != (whole_us >= 0) and change][:1]
    if not same_way or not whole_us:
        return ""
    share = sum(change for change, _ in same_way) / whole_us
    is_named = bool(_named_by_report(comparison.control, comparison.test))
    difference = "named work's difference" if is_named else "difference in work"
    if len(same_way) == 1 and not other_way and share <= 1 + ROUNDING:
        row = same_way[0][1]
        name, how = PLAIN_NAMES.get(row.family, row.family), _how(row, base, head)
        part = f"{percent(min(1.0, share))} of the {difference}"
        if head and how.endswith(head):
            return f"{'Mostly' if share > 0.5 else 'The largest part is'} {name} ({part}): {head}."
        return f"{part} is {name}: {how}."
    parts = "parts are" if len(same_way) > 1 else "part is"
    told = [_family_words(row, base, "" if place else head) for place, (_, row) in enumerate(same_way)]
    text = f"The largest {parts} {listed(told)}"
    if other_way:
        return f"{text}. In the other direction: {_family_words(other_way[0][1], base)}."
    if share > 1 + ROUNDING:
        return f"{text}: more than the whole {difference}, since smaller ones change in the other direction."
    return f"{text}: {percent(min(1.0, share))} of the {difference}."


def _named_part(comparison: TraceComparison, base: _Base) -> str:
    """How much of the difference by the clock is that of the work that a report names; empty for whole traces."""
    clock = _clock_us(comparison, base)
    if clock is None or not _named_by_report(comparison.control, comparison.test):
        return ""
    by_clock, named = clock[1] - clock[0], sum(base.difference_us(row) for row in comparison.families)
    change = f"By the clock B takes {microseconds(abs(by_clock))} {'more' if by_clock >= 0 else 'less'}{base.per}"
    share = quotient(named, by_clock)
    if share is None or not 0 < share <= 1:
        return f"{change}."
    return f"{change}: the named work's difference, {microseconds(abs(named))}, is {percent(share)} of that."


def _family_words(row: FamilyRow, base: _Base, head: str = "") -> str:
    """``matrix products, gemm (8.1 ms less per token: 20.0 % fewer calls per token, the mean call 2.10× faster)``"""
    difference_us = base.difference_us(row)
    change = f"{microseconds(abs(difference_us))} {'more' if difference_us >= 0 else 'less'}{base.per}"
    return f"{PLAIN_NAMES.get(row.family, row.family)} ({change}: {_how(row, base, head)})"


def _how(row: FamilyRow, base: _Base, head: str) -> str:
    """By how many more calls, and by how much longer ones.

    Why its calls are faster is ``head``, which only products of matrices tell.
    """
    control, test = row.control, row.test
    if not control.calls:
        return f"only in B, {counted(test.calls, 'call')}"
    if not test.calls:
        return f"only in A, {counted(control.calls, 'call')}"
    calls = _more_calls(test.calls / base.test / (control.calls / base.control)) + base.per
    if not control.mean_us or test.mean_us is None:
        return calls
    ratio = test.mean_us / control.mean_us
    why = f" because {head}" if head and row.family == "gemm" and ratio < 1 else ""
    return f"{calls}, the mean call {pace_words(ratio).split(' ', 1)[1]}{why}"


def _more_calls(ratio: float) -> str:
    if ratio >= 2:
        return f"{times(ratio)} the calls"
    return "as many calls" if ratio == 1 else f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'fewer'} calls"


def compute_words(comparison: TraceComparison, *, of_span: bool) -> str:
    """Attention and gemm against the rest, for both."""
    figure = comparison.figure("compute_span_share" if of_span else "compute_share")
    of_what = "the span from first to last event" if of_span else "the work"
    shares = (("A", figure.control), ("B", figure.test))
    known = {letter: percent(share / 100) for letter, share in shares if share is not None}
    if figure.control is not None and is_alone(comparison):
        return f"Attention and gemm are {known['A']} of {of_what}; {percent(1 - figure.control / 100)} is other work."
    if len(known) == 2:
        return f"Attention and gemm are {known['A']} of {of_what} in A and {known['B']} in B."
    for letter, share in known.items():
        return f"Attention and gemm are {share} of {of_what} in {letter}; in the other it is not known."
    return f"The share of attention and gemm in {of_what} is not known."


def other_words(trace: StoredTrace, families: Sequence[FamilyRow], *, of_test: bool = False) -> str:
    """How much no rule matched; empty where all is matched."""
    totals = {row.family: row.test if of_test else row.control for row in families}
    total = sum(one.total_us for one in totals.values())
    unmatched = totals.get("other")
    if unmatched is None or not unmatched.calls or total <= 0:
        return ""
    rows = sorted((row for row in trace.work if row["family"] == "other"), key=lambda row: -row["total_us"])
    names = dict.fromkeys(str(row["short_name"] or row["name"])[:MOST_NAME] for row in rows)
    share, calls = percent(unmatched.total_us / total), counted(unmatched.calls, "call")
    return f"{share} of the work ({calls}), most of it {listed(list(names)[:MOST_FAMILIES])}"


# --- launches ---------------------------------------------------------------------------------------------------------


def launches_words(comparison: TraceComparison) -> str:
    """What launching costs; where nothing is launched, how many operators run per token."""
    launches = comparison.figure("launch_calls")
    if launches.control is None and launches.test is None:
        return _operators(comparison)
    parts = [_counted(comparison, "launch", "kernels launched"), _counted(comparison, "sync", "waits for the device")]
    idle, delay = comparison.figure("idle_share"), comparison.figure("delay_us")
    if idle.control is not None and idle.test is not None:
        control, test = percent(idle.control / 100), percent(idle.test / 100)
        parts.append(_both(comparison, "the device idles {} of its time", control, test))
    if delay.control is not None and delay.test is not None:
        control, test = microseconds(delay.control), microseconds(delay.test)
        parts.append(_both(comparison, "a kernel begins {} after its launch", control, test))
    text = "; ".join(part for part in parts if part)
    return f"{capitalised(text)}." if text else "Launches are not known."


def _counted(comparison: TraceComparison, name: str, what: str) -> str:
    """Per token where both traces have a token count; else the counts that are known."""
    per_token, calls = comparison.figure(f"{name}_a_token"), comparison.figure(f"{name}_calls")
    if calls.control == 0 == calls.test:
        return f"no {what}"
    if per_token.control is not None and per_token.test is not None:
        texts = number(per_token.control), number(per_token.test)
        return _both(comparison, f"{{}} {what} per token", *texts, per_token.ratio)
    if calls.control is None or calls.test is None:
        letter, known = ("A", calls.control) if calls.test is None else ("B", calls.test)
        return "" if known is None else f"{whole(known)} {what} in {letter}"
    return _both(comparison, f"{{}} {what}", whole(calls.control), whole(calls.test), calls.ratio)


def _both(comparison: TraceComparison, text: str, control: str, test: str, ratio: float | None = None) -> str:
    if is_alone(comparison):
        return text.format(control)
    return f"{text.format(control)} in A and {test} in B{f', {times(ratio)}' if ratio is not None else ''}"


def _operators(comparison: TraceComparison) -> str:
    text = "Without an accelerator nothing is launched: operators run as they are called."
    calls, tokens = comparison.figure("work_calls"), comparison.figure("tokens")
    if not calls.control or not calls.test or not tokens.control or not tokens.test:
        return text
    control, test = calls.control / tokens.control, calls.test / tokens.test
    return f"{text} {_both(comparison, '{} operators per token', number(control), number(test), test / control)}."


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernels_words(comparison: TraceComparison) -> str:
    """How many operations were added, removed, or called more or less often, and the largest difference."""
    if reason := incomparable(comparison):
        return reason
    changes = [row.change for row in comparison.kernels]
    counts = {
        "only in B": changes.count("added"),
        "only in A": changes.count("gone"),
        "called more often": changes.count("grown"),
        "called less often": changes.count("shrunk"),
        "called as often": changes.count("same"),
    }
    text = listed([f"{count:,} {what}" for what, count in counts.items() if count])
    if not text:
        return "Neither trace has any."
    first = comparison.kernels[0]
    text = f"{_counted_over(comparison)} {len(changes):,} operations, {text}."
    if not first.difference_us:
        return text
    return (
        f"{text} The largest difference is {shortened(first.short_name, MOST_NAME)} "
        f"({first.family}): {signed_microseconds(first.difference_us)}, {counted(first.control.calls, 'call')} in A "
        f"and {first.test.calls:,} in B."
    )


def _counted_over(comparison: TraceComparison) -> str:
    """Counts are of whole traces; where these cover different work, that is said."""
    if not are_unequal(comparison):
        return "Of"
    return f"Over the whole traces (B has {times(comparison.figure('tokens').ratio)} the tokens of A), of"
