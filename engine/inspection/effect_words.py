"""The figures of ``effect`` in a few sentences: does forcing push the model off its own choice, and where.

What the figures leave open is said to be open. Bounds that a judgement rests on stand here, not in the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.inspection.statistics import LEAST_SAMPLES, Correlation, Interval

if TYPE_CHECKING:
    from engine.inspection.effect import RunEffect

MOSTLY = 0.99
"""Share of forced tokens from which on forcing is said to write what the model would have chosen anyway."""
NOTHING = 0.0005
"""Share of the mass below which nothing was taken: it is within rounding."""

_PLACES = {
    "the end": "at the end token",
    "closing a block": "where a block is closed",
    "opening a block": "where a block is opened",
    "inside the numbers": "inside the numbers",
    "between the blocks": "between the blocks",
}


def sentence_of(effect: RunEffect, *, has_steps: bool = True) -> str:
    """A few sentences on the figures of a run."""
    if not effect.samples:
        kept = "the steps that it kept do not say what the model thought" if has_steps else "this run kept no steps"
        return f"What the LP did to the model cannot be told: {kept}."
    parts = [_forcing(effect), _blocking(effect)]
    if effect.samples < 2:
        parts.append("This is one sample, so how far these figures hold for others cannot be told.")
    else:
        parts += [_accuracy(effect), f"Brackets: 95 % intervals over {effect.samples:,} samples."]
    return " ".join(part for part in parts if part)


# --- forcing ------------------------------------------------------------------------------------------------------


def _forcing(effect: RunEffect) -> str:
    share, likelihood = effect.first_choice, effect.p_forced
    if share is None or likelihood is None:
        return "No token was forced."
    said = f"Of {_count(effect.forced, 'forced token')}, {percent(share)} were the model's own first choice"
    return f"{said}; their mean probability (geometric) is {number(likelihood)}. {_off(effect, share)}"


def _off(effect: RunEffect, share: Interval) -> str:
    low, high = (share.value if end is None else end for end in (share.low, share.high))
    if low >= MOSTLY:
        return "So forcing hardly ever wrote what the model would not have chosen itself."
    where = _where(effect)
    if high < MOSTLY:
        return f"So forcing does push the model off its own choice{where}{_surprise_trend(effect)}."
    said = "Whether forcing pushes the model off its own choice more than rarely is open"
    return f"{said}; where it did, it was{where}." if where else f"{said}."


def _where(effect: RunEffect) -> str:
    """The place with the most overruled choices; it comes first."""
    place = effect.forced_places[0]
    missed = round(place.tokens * (1 - place.first_choice.value))
    all_missed = round(sum(one.tokens * (1 - one.first_choice.value) for one in effect.forced_places))
    if not missed:
        return ""
    which = f"all {missed:,}" if missed == all_missed > 1 else f"{missed:,} of the {all_missed:,}"
    return f" {_PLACES.get(place.name, place.name)} ({which} overruled choices)"


def _surprise_trend(effect: RunEffect) -> str:
    trend = effect.surprise_trend
    if trend is None or not trend.excludes_zero:
        return ""
    return f", and {'more' if trend.value > 0 else 'less'} so in the second half of the answers"


# --- blocking -----------------------------------------------------------------------------------------------------


def _blocking(effect: RunEffect) -> str:
    removed = effect.removed
    if removed is None:
        return "No token was free."
    if (removed.value if removed.high is None else removed.high) < NOTHING:
        return f"At {_count(effect.free, 'free token')} the LP took nothing of the model's mass."
    said = f"At {_count(effect.free, 'free token')} the LP took {percent(removed)} of the model's mass"
    return f"{said}{_heaviest(effect)}{_removed_trend(effect)}."


def _heaviest(effect: RunEffect) -> str:
    """Under which rule, where there is more than one."""
    places = effect.free_places
    if len(places) < 2 or not places[0].name:
        return ""
    return f", most under the rule “{places[0].name}” ({percent(places[0].removed)} there)"


def _removed_trend(effect: RunEffect) -> str:
    trend = effect.removed_trend
    if trend is None or trend.low is None or trend.high is None:
        return ""
    if max(abs(trend.low), abs(trend.high)) < NOTHING:
        return ", as much in the first half of the answers as in the second"
    if not trend.excludes_zero:
        return f", with no trend along the answers (second half less the first: {points(trend)})"
    return f", {'more' if trend.value > 0 else 'less'} towards the end (second half less the first: {points(trend)})"


# --- accuracy -----------------------------------------------------------------------------------------------------


def _accuracy(effect: RunEffect) -> str:
    told = [
        (correlation, what)
        for correlation, what in (
            (effect.rmsd_surprise, "how unlikely the forced tokens were"),
            (effect.rmsd_removed if _takes(effect) else None, "the mass that was taken"),
        )
        if correlation is not None
    ]
    if not told:
        return _no_accuracy(effect)
    parts = [f"{number(correlation.plain)} for {what}" for correlation, what in told]
    said = f"Against RMSD over {told[0][0].samples:,} samples the rank correlation is {' and '.join(parts)}"
    return f"{said}, {_verdict([correlation for correlation, _ in told])}."


def _takes(effect: RunEffect) -> bool:
    return effect.removed is not None and effect.removed.value >= NOTHING


def _no_accuracy(effect: RunEffect) -> str:
    known = effect.rmsd_samples
    if not effect.forced and not _takes(effect):
        return ""
    if not known:
        return "RMSD is not known, so what that costs in accuracy cannot be told."
    if known < LEAST_SAMPLES:
        return f"RMSD is known of {_count(known, 'sample')}: too few to tell whether that costs accuracy."
    return "It is alike in all samples, so whether it costs accuracy cannot be told."


def _verdict(told: list[Correlation]) -> str:
    worse = [one for one in told if one.plain.excludes_zero and one.plain.value > 0]
    better = [one for one in told if one.plain.excludes_zero and one.plain.value < 0]
    if worse and all(one.adjusted is not None and not one.adjusted.excludes_zero for one in worse):
        return "which the molecules' sizes may explain: with size held constant it may be nothing"
    if worse:
        return "so conformers are farther off where the LP bends the model more; what causes what, it does not say"
    if better:
        return "so conformers are not farther off where the LP bends the model more, rather nearer"
    return "so these samples do not show that the LP costs accuracy, nor that it does not"


# --- figures ------------------------------------------------------------------------------------------------------


def percent(figure: Interval) -> str:
    """``97.1 % [96.0, 98.0]``"""
    return _bracketed(figure, 100, " %", 1)


def points(figure: Interval) -> str:
    """A difference of shares: ``+0.4 points [-0.1, 0.9]``"""
    return f"{'+' if figure.value >= 0 else ''}{_bracketed(figure, 100, ' points', 1)}"


def number(figure: Interval) -> str:
    return _bracketed(figure, 1, "", 2)


def _bracketed(figure: Interval, scale: float, unit: str, digits: int) -> str:
    value = f"{_rounded(figure.value * scale, digits)}{unit}"
    if figure.low is None or figure.high is None:
        return value
    return f"{value} [{_rounded(figure.low * scale, digits)}, {_rounded(figure.high * scale, digits)}]"


def _rounded(value: float, digits: int) -> str:
    """Never ``-0.0``."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
