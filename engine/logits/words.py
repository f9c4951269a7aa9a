"""What is wrong with a log, and with a single value, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from engine.logits.causes import ON_PURPOSE, Certainty, Finding, positions_in_words
from engine.logits.figures import Health
from engine.logits.flags import Flag

SURE: dict[Certainty, str] = {
    "sure": "Nothing else makes such values.",
    "likely": "It is the likeliest cause.",
    "possible": "Other causes fit as well.",
}


def health_sentences(health: Health) -> list[str]:
    """The answer first, then what it rests on."""
    found = [_answer(health)]
    found += [_finding(one) for one in health.findings]
    if health.flags:
        found.append(_places(health))
    found.append(_by_report(health))
    return found


def reason(flag: Flag, value: float, middle: float | None, spread: float | None) -> str:
    """Why this one value has this flag; ``middle`` and ``spread`` are its entry's."""
    if flag == "non_finite":
        return "it is no number" if value != value else "it is infinite"
    if flag == "outlier":
        if middle is None:
            return f"{value:g} can be no value here, and no other value of its entry can be one"
        distance = abs(value - middle)
        spreads = f", {distance / spread:,.0f} times their spread" if spread else ""
        return f"{value:g} is {distance:g} from the middle of its entry's values ({middle:.3g}){spreads}"
    return {
        "zero": "it is exactly 0, and computed values are not",
        "repeated": "an earlier token of the same text had bit for bit the same value here",
        "denormal": f"{value:g} is nearer to zero than a normal number of single precision can be",
        "pointer": "with its neighbour it has the bits of an address in memory",
        "constant": "all values of its entry are the same",
    }[flag]


def reasons(flags: Iterable[Flag], value: float, middle: float | None, spread: float | None) -> str:
    text = "; ".join(reason(flag, value, middle, spread) for flag in flags)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _answer(health: Health) -> str:
    of = f"{health.entries:,} entries ({health.values:,} values) of {_name(health)}"
    if not health.flagged_values:
        return f"Nothing is wrong with the {of}."
    if not health.damaged_values:
        return f"Nothing is damaged in the {of}; {health.flagged_values:,} values are as they are on purpose."
    size = ""
    if health.least is not None and health.largest is not None:
        size = f", {health.least:.3g} to {health.largest:.3g} in size"
    return (
        f"{health.damaged_share:.1%} of the {of} are damaged: {health.damaged_values:,} values "
        f"({health.damaged_values / health.values:.2%}){size}."
    )


def _name(health: Health) -> str:
    more = [one for one in (health.model, health.precision) if one]
    return f"{health.engine} ({', '.join(more)})" if more else health.engine


def _finding(finding: Finding) -> str:
    where = positions_in_words(finding.positions) if finding.positions and finding.cause != "padding" else ""
    place = f" at {where}" if where else ""
    values = "1 value" if finding.values == 1 else f"{finding.values:,} values"
    evidence = "; ".join(finding.evidence) or "no more than that is seen"
    title = f"{finding.title[:1].upper()}{finding.title[1:]} ({finding.certainty})"
    end = "" if finding.cause in ON_PURPOSE else f" {SURE[finding.certainty]}"
    return f"{title}: {values}{place}. Evidence: {evidence}.{end}"


def _places(health: Health) -> str:
    damaged = sorted((one for one in health.positions if one.damaged), key=lambda one: -one.damaged)
    if not damaged:
        return "No position is damaged."
    first = damaged[0]
    rest = f", then {positions_in_words(one.position for one in damaged[1:4])}" if len(damaged) > 1 else ""
    of = f"{first.damaged:,} of {first.seen:,} values"
    return f"Most of it stands at position {first.position:,} ({of}){rest}; {_positions(len(damaged))} any."


def _by_report(health: Health) -> str:
    return (
        f"By the report's own rule (a huge number) {health.garbage_share:.1%} of the entries are garbage, "
        f"by ours {health.damaged_share:.1%}."
    )


def _positions(count: int) -> str:
    return "1 position has" if count == 1 else f"{count:,} positions have"
