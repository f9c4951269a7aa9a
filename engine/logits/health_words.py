"""The damage of a log, and the flags of a single value, in sentences."""

from __future__ import annotations

from collections.abc import Iterable

from engine.figures.words import capitalised, counted, percent, precision_name, shortened, significant
from engine.logits.causes import CERTAINTY_LABELS, ON_PURPOSE, Cause, Certainty, LogFinding, positions_in_words
from engine.logits.flags import Flag
from engine.logits.health import Health
from engine.logits.late_reads import LateRead

MOST_NAME = 60
CERTAINTY_SENTENCES: dict[Certainty, str] = {
    "sure": "No other cause fits the evidence.",
    "likely": "This is the most likely cause.",
    "possible": "Other causes fit as well.",
}


RIVALS: dict[Cause, str] = {
    "freed": "Uninitialised memory can look the same.",
    "stale": "An uninitialised buffer can look the same.",
}
"""What else makes such values, however sure the evidence."""
TELL_APART = "A copy logged at the step tells: right there, it was freed later; wrong there too, it was never written."
UNSEEN = "A late read (values of the next token) would show only beside another log of the same texts."


def certainty_sentence(finding: LogFinding) -> str:
    sentence = CERTAINTY_SENTENCES[finding.certainty]
    if finding.certainty == "sure" and finding.cause in RIVALS:
        return f"{RIVALS[finding.cause]} {TELL_APART}"
    return sentence


def health_sentences(health: Health, late: LateRead | None = None) -> list[str]:
    """The answer first, then its evidence. ``late``: what another log shows of this one."""
    places = [_places(health)] if health.flags else []
    garbage, damaged = percent(health.garbage_share), percent(health.damaged_share)
    by_report = f"By the report's rule (a huge number) {garbage} of the entries are garbage, by ours {damaged}."
    return [_answer(health, late), *map(_finding, health.findings), *places, by_report]


def log_name(*names: str | None, most: int = MOST_NAME) -> str:
    """``llama.cpp (demo, float16)`` of an engine, a model and a precision; what is not known is left out."""
    engine, *more = [shortened(name, most) for name in names if name]
    return f"{engine} ({', '.join(more)})" if more else engine


def reason(flag: Flag, value: float, middle: float | None, spread: float | None) -> str:
    """Why this value has this flag; ``middle`` and ``spread`` are its entry's."""
    if flag == "non_finite":
        return "it is NaN" if value != value else "it is infinite"
    if flag == "outlier":
        if middle is None:
            return f"{significant(value)} is no plausible value, and its entry has none to compare with"
        distance = abs(value - middle)
        times = distance / spread if spread else 0
        spreads = f", {times:,.0f} times their spread" if 0 < times < 1e9 else ""
        apart = f"{significant(value)} is {distance:g} from the median"
        return f"{apart} of its entry's values ({significant(middle, 3)}){spreads}"
    return {
        "zero": "it is exactly 0, which computed values are not",
        "repeated": "bit for bit the value of an earlier token of the same text at this position",
        "denormal": f"{significant(value)} is smaller than any normal single-precision number",
        "pointer": "together with its neighbour it has the bits of a memory address",
        "constant": "all values of its entry are the same",
    }[flag]


def reasons(flags: Iterable[Flag], value: float, middle: float | None, spread: float | None) -> str:
    text = "; ".join(reason(flag, value, middle, spread) for flag in flags)
    return f"{capitalised(text)}." if text else ""


def late_words(late: LateRead) -> str:
    return (
        f"{late.nearer:,} of {counted(late.entries, 'entry', 'entries')} hold the values that "
        f"{shortened(late.engine, MOST_NAME)} ({shortened(late.other, MOST_NAME)}) has for the next token. Either this "
        "log was read after the next call, or that one a token too early."
    )


def _answer(health: Health, late: LateRead | None) -> str:
    name = log_name(health.engine, health.model, precision_name(health.precision))
    what = f"{counted(health.entries, 'entry', 'entries')} ({counted(health.values, 'value')}) of {name}"
    if late is not None:
        clean = "" if health.damaged_values else " No value is damaged by itself."
        return f"Probably read late, the {what}: {late_words(late)}{clean}"
    if not health.damaged_values:
        flagged = counted(health.flagged_values, "flagged value is", "flagged values are")
        meant = f"; {flagged} masks or padding" if health.flagged_values else ""
        return f"No sign of damage in the {what}{meant}. {UNSEEN}"
    size = ""
    if health.least is not None and health.largest is not None:
        size = f", magnitude {' to '.join(dict.fromkeys(f'{end:.3g}' for end in (health.least, health.largest)))}"
    share = percent(health.damaged_values / health.values)
    damaged = counted(health.damaged_values, "value")
    return f"{percent(health.damaged_share)} of the {what} are damaged: {damaged} ({share}){size}."


def _finding(finding: LogFinding) -> str:
    place = f" at {finding.where}" if finding.where else ""
    title = f"{capitalised(finding.title)} ({CERTAINTY_LABELS[finding.certainty]})"
    sentence = "" if finding.cause in ON_PURPOSE else f" {certainty_sentence(finding)}"
    evidence = "; ".join(finding.evidence) or "none"
    return f"{title}: {counted(finding.values, 'value')}{place}. Evidence: {evidence}.{sentence}"


def _places(health: Health) -> str:
    damaged = health.damaged_positions
    if not damaged:
        return "No position is damaged."
    first = damaged[0]
    values = f"{first.damaged:,} of {first.seen:,} values"
    if len({(share.damaged, share.seen) for share in damaged}) == 1 < len(damaged):
        return f"Equally at {positions_in_words(share.position for share in damaged)}: {values} each."
    rest = f", then {positions_in_words(share.position for share in damaged[1:4])}" if len(damaged) > 1 else ""
    positions = counted(len(damaged), "damaged position", "damaged positions")
    return f"Most damage is at position {first.position:,} ({values}){rest}; {positions} in all."
