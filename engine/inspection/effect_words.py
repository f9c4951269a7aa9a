"""The figures of ``effect`` in a few sentences: does forcing push the model off its own choice, and where.

What the figures leave open is said to be open. Bounds that a judgement rests on stand here, not in the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.figures.statistics import LEAST_SAMPLES, Correlation
from engine.figures.words import counted, percent, points, with_interval
from engine.inspection.effect import RunEffect

MOSTLY = 0.99
"""Share of forced tokens from which on forcing is said to write what the model would have chosen anyway."""
NOTHING = 0.0005
"""Share of the mass below which nothing was taken: it is within rounding."""

UNLIKELY = 0.01
"""Probability below which a forced token of a descriptor is named: the model learnt to write the atom otherwise."""
MOST_NAMED = 3
_PLACES = {
    "the end": "at the end token",
    "closing a block": "where a block is closed",
    "opening a block": "where a block is opened",
    "inside the numbers": "inside the numbers",
    "inside a descriptor": "inside a descriptor",
    "between the blocks": "between the blocks",
}


def plain_words(effect: RunEffect) -> str:
    """What the LP did, for who knows none of the terms: no interval, no term. Of a run that has figures."""
    share, removed = effect.first_choice, effect.removed
    written = "The LP wrote no token itself."
    if share is not None:
        forced = percent(effect.forced / (effect.forced + effect.free))
        same = "All" if share.value == 1 else percent(share.value)
        written = f"The LP wrote {forced} of the tokens itself. {same} of these were the model's own choice."
    if removed is None:
        return written
    others = "At the others it" if effect.forced else "It"
    if removed.value < NOTHING:
        return f"{written} {others} ruled out {_little(removed.value, 'nothing')}."
    return f"{written} {others} ruled out {percent(removed.value)} of what the model might have written."


def _little(share: float, name: str) -> str:
    """``almost nothing (<0.1 %)``, as the figure beside it says; ``nothing`` only of 0."""
    return f"almost {name} ({percent(share)})" if share else name


def descriptor_words(steps: Iterable[Mapping[str, Any]]) -> str:
    """Of a sample's kept steps: forced tokens of descriptors, such as ``[OH]``, that the model gave next to nothing."""
    forced = [step for step in steps if step["forced"] and step["p_raw"] is not None and _is_descriptor(step["piece"])]
    unlikely = sorted((step for step in forced if step["p_raw"] < UNLIKELY), key=lambda step: float(step["p_raw"]))
    if not unlikely:
        return ""
    named = ", ".join(f"{step['piece']} ({percent(step['p_raw'])})" for step in unlikely[:MOST_NAMED])
    more = ", …" if len(unlikely) > MOST_NAMED else ""
    return (
        f"{len(unlikely):,} of {counted(len(forced), 'forced token')} inside atom descriptors had less than "
        f"{100 * UNLIKELY:g} % with the model: {named}{more}. The LP writes these atoms otherwise than the model does."
    )


def _is_descriptor(piece: str | None) -> bool:
    text = piece or ""
    return bool(re.search("[A-Za-z]", text)) and not re.search("[<>]|CONFORMER", text)


def sentence_of(effect: RunEffect) -> str:
    """A few sentences on the figures of a run."""
    if not effect.samples:
        kept = "its steps have no probabilities" if effect.has_steps else "this run kept no steps"
        return f"The effect of the LP is unknown: {kept}."
    parts = [_forcing(effect), _blocking(effect)]
    if effect.samples < 2:
        parts.append("These figures are from one sample, without an interval.")
    else:
        parts += [_accuracy(effect), f"In brackets: 95 % intervals over {effect.samples:,} samples."]
    return " ".join(part for part in parts if part)


# --- forcing ------------------------------------------------------------------------------------------------------


def _forcing(effect: RunEffect) -> str:
    share, likelihood = effect.first_choice, effect.p_forced
    if share is None or likelihood is None:
        return "No token was forced."
    chosen = f"{with_interval(share, percent)} were the model's own choice"
    lead = f"Of {counted(effect.forced, 'forced token')}, {chosen}"
    lead = f"{lead}; their mean probability (geometric) is {with_interval(likelihood)}."
    low, high = share.ends or (share.value, share.value)
    if low >= MOSTLY:
        return f"{lead} So forcing hardly ever overruled the model."
    where, trend = _where(effect), effect.surprise_trend
    if high < MOSTLY:
        way = "" if trend is None or not trend.excludes_zero else "more" if trend.value > 0 else "less"
        along = f", and {way} so in the second half of the answers" if way else ""
        return f"{lead} So forcing does overrule the model{where}{along}."
    at = f"; where it did, it was{where}" if where else ""
    return f"{lead} Whether forcing overrules the model more than rarely is open{at}."


def _where(effect: RunEffect) -> str:
    """The place with the most overruled choices; it comes first."""
    place = effect.forced_places[0]
    missed = round(place.tokens * (1 - place.first_choice.value))
    all_missed = round(sum(other.tokens * (1 - other.first_choice.value) for other in effect.forced_places))
    if not missed:
        return ""
    which = f"all {missed:,}" if missed == all_missed > 1 else f"{missed:,} of the {all_missed:,}"
    return f" {_PLACES.get(place.name, place.name)} ({which} overruled choices)"


# --- blocking -----------------------------------------------------------------------------------------------------


def _blocking(effect: RunEffect) -> str:
    removed = effect.removed
    if removed is None:
        return "No token was free."
    if (removed.value if removed.high is None else removed.high) < NOTHING:
        little = _little(removed.value, "none")
        return f"At {counted(effect.free, 'free token')} the LP removed {little} of the model's mass."
    taken = f"At {counted(effect.free, 'free token')} the LP took {with_interval(removed, percent)} of the model's mass"
    if len(effect.free_places) > 1 and (heaviest := effect.free_places[0]).name:
        taken += f", and {with_interval(heaviest.removed, percent)} under the rule “{heaviest.name}”"
    return f"{taken}{_removed_trend(effect)}."


def _removed_trend(effect: RunEffect) -> str:
    trend = effect.removed_trend
    if trend is None or trend.low is None or trend.high is None:
        return ""
    if max(abs(trend.low), abs(trend.high)) < NOTHING:
        return ", equal in both halves of the answers"
    way = "more towards the end" if trend.value > 0 else "less towards the end"
    if not trend.excludes_zero:
        way = "with no trend along the answers"
    return f", {way}: second half minus first half {with_interval(trend, points)}"


# --- accuracy -----------------------------------------------------------------------------------------------------


def _accuracy(effect: RunEffect) -> str:
    correlations = {
        "how unlikely the forced tokens were": effect.rmsd_surprise,
        "the mass that was taken": effect.rmsd_removed if _takes(effect) else None,
    }
    known = {what: correlation for what, correlation in correlations.items() if correlation is not None}
    if not known:
        return _no_accuracy(effect)
    parts = [f"{with_interval(correlation.plain)} for {what}" for what, correlation in known.items()]
    samples = next(iter(known.values())).samples
    lead = f"Against RMSD over {samples:,} samples the rank correlation is {' and '.join(parts)}"
    return f"{lead}, {_verdict(list(known.values()))}."


def _takes(effect: RunEffect) -> bool:
    return effect.removed is not None and effect.removed.value >= NOTHING


def _no_accuracy(effect: RunEffect) -> str:
    known = effect.rmsd_samples
    if not effect.forced and not _takes(effect):
        return ""
    if not known:
        return "RMSD is unknown, so the cost in accuracy is unknown."
    if known < LEAST_SAMPLES:
        return f"RMSD is known for {counted(known, 'sample')}: too few to show a cost in accuracy."
    return "It is the same in all samples, so its cost in accuracy is unknown."


def _verdict(correlations: list[Correlation]) -> str:
    sure = [correlation for correlation in correlations if correlation.plain.excludes_zero]
    worse = [correlation.adjusted for correlation in sure if correlation.plain.value > 0]
    if worse and all(adjusted is not None and not adjusted.excludes_zero for adjusted in worse):
        return "which molecule size may explain: with size held constant the interval includes 0"
    if worse:
        return "so conformers are farther off where the LP overrules the model more (a correlation, not a cause)"
    if sure:
        return "so conformers are not farther off where the LP overrules the model more, rather nearer"
    return "so these samples do not show whether the LP costs accuracy"
