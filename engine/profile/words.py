"""What a trace, or one beside its control, says in sentences: where the time goes, and what the difference is made of.

Texts are plain, and may have names of kernels in them: whoever draws them escapes them. A is the control and B the
test, or A is a trace alone. Nothing here says why a family takes longer: more calls and slower calls are what is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.profile.cautions import WINDOW
from engine.profile.compare import COMPUTE, Comparison, FamilyRow, Totals, Trace
from engine.profile.figures import number, per_cent, signed_time, time_of, times

MOST_FAMILIES = 3
MOST_NAME = 80
SMALL = 0.05  # of all changes: a family below it is no part of the answer
ROUNDING = 1e-3


def is_alone(found: Comparison) -> bool:
    """A trace beside itself."""
    return found.control.entry.id == found.test.entry.id


def incomparable(found: Comparison) -> str:
    """Why no difference of these two can be taken apart; empty where it can."""
    if found.control.work_side != found.test.work_side:
        return "One is work of a device, and the other that of operators on a CPU: no difference can be taken apart."
    if found.control.is_whole != found.test.is_whole:
        which = "A" if found.test.is_whole else "B"
        return (
            f"{which} is what a report states, which names some operations only: of what the other one has beside them "
            "nobody knows whether it is more. Compare the families that both have."
        )
    return ""


def is_known(trace: Trace, row: FamilyRow, totals: Totals) -> bool:
    """Whether nought means none: not of another side's work, and not of what a report leaves out."""
    return row.side in (trace.work_side, "call") and (trace.is_whole or totals.calls > 0)


# --- families ---------------------------------------------------------------------------------------------------------


def alone(trace: Trace, families: Sequence[FamilyRow]) -> str:
    """Where a trace's own time goes."""
    total = sum(row.control.total_us for row in families)
    if total <= 0:
        return "No work with a duration is in this trace."
    first = sorted(families, key=lambda row: -row.control.total_us)[:MOST_FAMILIES]
    parts = [
        f"{row.family} takes {per_cent(row.control.total_us / total)} ({calls_of(row.control.calls)} of "
        f"{time_of(row.control.mean_us)})"
        for row in first
    ]
    tokens = trace.known("tokens")
    a_token = f", {time_of(total / tokens)} a token" if tokens else ""
    return f"Of {time_of(total)} of work{_named(trace)}{a_token}: {listed(parts)}.{_compute(trace, total)}"


def _compute(trace: Trace, total: float) -> str:
    if not trace.is_whole:
        return ""
    return f" Attention and gemm together are {per_cent(trace.totals(*COMPUTE).total_us / total)} of it."


def _named(*traces: Trace) -> str:
    return "" if all(trace.is_whole for trace in traces) else " that the report names"


def where_from(found: Comparison) -> str:
    """Where the difference of the work's time comes from: the families that make most of it, and how."""
    if reason := incomparable(found):
        return reason
    one, other = found.figure("work_us").control or 0.0, found.figure("work_us").test or 0.0
    moved = sum(abs(row.difference_us) for row in found.families)
    if not moved:
        return f"Both take {time_of(one)} of work, and no family differs."
    ratio = f"{times(other / one)} the work of A" if one > 0 else "work where A has none"
    ratio += _named(found.control, found.test)
    said = f"B takes {ratio}: {time_of(other)} against {time_of(one)}, {signed_time(found.difference_us)}."
    return " ".join(part for part in (said, _a_token(found), _families(found, moved)) if part)


def _a_token(found: Comparison) -> str:
    tokens, each = found.figure("tokens"), found.figure("work_us_a_token")
    if tokens.ratio is None or each.ratio is None or abs(tokens.ratio - 1) <= WINDOW:
        return ""
    return f"Over {times(tokens.ratio)} the tokens, that is {times(each.ratio)} a token."


def _families(found: Comparison, moved: float) -> str:
    """Those that go with the whole, then the largest that goes against it."""
    is_more = found.difference_us >= 0
    large = [row for row in found.families if abs(row.difference_us) >= SMALL * moved]
    with_it = [row for row in large if (row.difference_us > 0) == is_more][:MOST_FAMILIES]
    against = [row for row in large if (row.difference_us > 0) != is_more and row.difference_us][:1]
    if not with_it:
        return ""
    said = f"The largest parts are {listed([_family(row) for row in with_it])}"
    said = said if len(with_it) > 1 else said.replace("parts are", "part is", 1)
    if against:
        return f"{said}. The other way goes {_family(against[0])}."
    share = sum(row.difference_us for row in with_it) / found.difference_us
    if share > 1 + ROUNDING:
        return f"{said}: more than the whole difference, since smaller ones go the other way."
    return f"{said}: {per_cent(min(1.0, share))} of the difference."


def _family(row: FamilyRow) -> str:
    """``gemm (+8.1 ms: 1.20× the calls, each 2.10× as long)``"""
    one, other = row.control, row.test
    change = signed_time(row.difference_us)
    if not one.calls:
        return f"{row.family} ({change}: only in B, {calls_of(other.calls)})"
    if not other.calls:
        return f"{row.family} ({change}: only in A, {calls_of(one.calls)})"
    calls = "as many calls" if one.calls == other.calls else f"{times(other.calls / one.calls)} the calls"
    if not one.mean_us or other.mean_us is None:
        return f"{row.family} ({change}: {calls})"
    return f"{row.family} ({change}: {calls}, each {times(other.mean_us / one.mean_us)} as long)"


def compute_words(found: Comparison, *, of_span: bool) -> str:
    """Attention and gemm against the rest, for both."""
    figure = found.figure("compute_span_share" if of_span else "compute_share")
    whole = "the span from first to last event" if of_span else "the work"
    if figure.control is None or figure.test is None:
        return f"Of {whole}, what attention and gemm take is not known of both."
    one, other = (per_cent(value / 100) for value in (figure.control, figure.test))
    if is_alone(found):
        rest = per_cent(1 - figure.control / 100)
        return f"Attention and gemm are {one} of {whole}; {rest} is all else."
    return f"Attention and gemm are {one} of {whole} in A and {other} in B; the rest is all else."


def other_words(trace: Trace, families: Sequence[FamilyRow], *, of_test: bool = False) -> str:
    """How much no rule caught; empty where there is nothing of it."""
    totals = {row.family: row.test if of_test else row.control for row in families}
    whole = sum(one.total_us for one in totals.values())
    caught = totals.get("other")
    if caught is None or not caught.calls or whole <= 0:
        return ""
    some = sorted((row for row in trace.work if row["family"] == "other"), key=lambda row: -row["total_us"])
    names = dict.fromkeys(str(row["short_name"] or row["name"])[:MOST_NAME] for row in some)
    shown = listed(list(names)[:MOST_FAMILIES])
    return f"{per_cent(caught.total_us / whole)} of the work ({calls_of(caught.calls)}), most of it {shown}"


# --- launches ---------------------------------------------------------------------------------------------------------


def launches_words(found: Comparison) -> str:
    """What launching costs; where there are no launches, how many operators a token takes."""
    launches = found.figure("launch_calls")
    if launches.control is None and launches.test is None:
        return _operators(found)
    parts = [_counted(found, "launch", "kernels launched"), _counted(found, "sync", "waits for the device")]
    idle, delay = found.figure("idle_share"), found.figure("delay_us")
    if idle.control is not None and idle.test is not None:
        one, other = per_cent(idle.control / 100), per_cent(idle.test / 100)
        parts.append(_both(found, "the device idles {} of its time", one, other))
    if delay.control is not None and delay.test is not None:
        parts.append(_both(found, "a kernel begins {} after its launch", time_of(delay.control), time_of(delay.test)))
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}." if said else "Nothing is known of launches."


def _counted(found: Comparison, name: str, what: str) -> str:
    """A token, where both know their tokens; of one alone what is known of it."""
    each, calls = found.figure(f"{name}_a_token"), found.figure(f"{name}_calls")
    if calls.control == 0 == calls.test:
        return f"no {what}"
    if each.control is not None and each.test is not None:
        return _both(found, f"{{}} {what} a token", number(each.control), number(each.test), each.ratio)
    if calls.control is None or calls.test is None:
        known = calls.control if calls.test is None else calls.test
        letter = "A" if calls.test is None else "B"
        return "" if known is None else f"{known:,.0f} {what} in {letter}"
    return _both(found, f"{{}} {what}", number(round(calls.control)), number(round(calls.test)), calls.ratio)


def _both(found: Comparison, words: str, one: str, other: str, ratio: float | None = None) -> str:
    if is_alone(found):
        return words.format(one)
    beside = f", {times(ratio)}" if ratio is not None else ""
    return f"{words.format(one)} in A and {other} in B{beside}"


def _operators(found: Comparison) -> str:
    said = "Without an accelerator nothing is launched: operators run as they are called."
    calls, tokens = found.figure("work_calls"), found.figure("tokens")
    if not calls.control or not calls.test or not tokens.control or not tokens.test:
        return said
    one, other = calls.control / tokens.control, calls.test / tokens.test
    return f"{said} {_both(found, '{} operators a token', number(one), number(other), other / one)}."


# --- kernels ----------------------------------------------------------------------------------------------------------


def kernels_words(found: Comparison) -> str:
    """How many came, went, grew and shrank, and the one that makes the largest difference."""
    if reason := incomparable(found):
        return reason
    changes = [row.change for row in found.kernels]
    counted = {
        "only in B": changes.count("added"),
        "only in A": changes.count("gone"),
        "called more often": changes.count("grown"),
        "called less often": changes.count("shrunk"),
        "called as often": changes.count("same"),
    }
    said = listed([f"{count:,} {what}" for what, count in counted.items() if count])
    if not said:
        return "Neither trace has any."
    first = found.kernels[0]
    if not first.difference_us:
        return f"Of {len(changes):,} operations, {said}."
    return (
        f"Of {len(changes):,} operations, {said}. The largest difference is {first.short_name[:MOST_NAME]} "
        f"({first.family}): {signed_time(first.difference_us)}, {calls_of(first.control.calls)} in A and "
        f"{first.test.calls:,} in B."
    )


def calls_of(count: int) -> str:
    return f"{count:,} call{'' if count == 1 else 's'}"


def listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
