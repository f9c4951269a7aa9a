"""What is wrong with a log, and with a single value, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from engine.logits.causes import ON_PURPOSE, Certainty, Finding, positions_in_words
from engine.logits.figures import Health
from engine.logits.flags import Flag

MOST_NAME = 60
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
        times = distance / spread if spread else 0
        spreads = f", {times:,.0f} times their spread" if 0 < times < 1e9 else ""
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
    of = f"{plural(health.entries, 'entry', 'entries')} ({plural(health.values, 'value')}) of {_name(health)}"
    if not health.flagged_values:
        return f"Nothing is wrong with the {of}."
    if not health.damaged_values:
        are = (
            "1 value is as it is" if health.flagged_values == 1 else f"{health.flagged_values:,} values are as they are"
        )
        return f"Nothing is damaged in the {of}; {are} on purpose."
    size = ""
    if health.least is not None and health.largest is not None:
        ends = dict.fromkeys(f"{one:.3g}" for one in (health.least, health.largest))
        size = f", {' to '.join(ends)} in size"
    return (
        f"{health.damaged_share:.1%} of the {of} are damaged: {plural(health.damaged_values, 'value')} "
        f"({health.damaged_values / health.values:.2%}){size}."
    )


def _name(health: Health) -> str:
    engine, *more = [_short(one) for one in (health.engine, health.model, health.precision) if one]
    return f"{engine} ({', '.join(more)})" if more else engine


def _short(name: str) -> str:
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def _finding(finding: Finding) -> str:
    place = f" at {finding.where}" if finding.where else ""
    values = plural(finding.values, "value")
    evidence = "; ".join(finding.evidence) or "no more than that is seen"
    title = f"{finding.title[:1].upper()}{finding.title[1:]} ({finding.certainty})"
    end = "" if finding.cause in ON_PURPOSE else f" {SURE[finding.certainty]}"
    return f"{title}: {values}{place}. Evidence: {evidence}.{end}"


def _places(health: Health) -> str:
    damaged = sorted((one for one in health.positions if one.damaged), key=lambda one: -one.damaged)
    if not damaged:
        return "No position is damaged."
    first = damaged[0]
    if len({(one.damaged, one.seen) for one in damaged}) == 1 < len(damaged):
        places = positions_in_words(one.position for one in damaged)
        return f"It stands alike at {places}: {first.damaged:,} of {first.seen:,} values each."
    rest = f", then {positions_in_words(one.position for one in damaged[1:4])}" if len(damaged) > 1 else ""
    of = f"{first.damaged:,} of {first.seen:,} values"
    return f"Most of it stands at position {first.position:,} ({of}){rest}; {_positions(len(damaged))} any."


def _by_report(health: Health) -> str:
    return (
        f"By the report's own rule (a huge number) {health.garbage_share:.1%} of the entries are garbage, "
        f"by ours {health.damaged_share:.1%}."
    )


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _positions(count: int) -> str:
    return "1 position has" if count == 1 else f"{count:,} positions have"
