"""What two logs say beside each other, in sentences: the answer first, then what it rests on and what was left out."""

from __future__ import annotations

import math

from engine.logits.causes import positions_in_words
from engine.logits.parity import Agreement, Parity
from engine.logits.words import plural
from engine.store.entries import Entry

MOST_DIGITS = 12


def parity_sentences(parity: Parity) -> list[str]:
    found = [
        _answer(parity),
        _first_difference(parity),
        _flagged(parity),
        _filter(parity),
        _left_out(parity),
        _numbers(parity),
    ]
    return [sentence for sentence in found if sentence]


def cautions(control: Entry, test: Entry) -> list[str]:
    """What makes two logs a poor pair, by what they say of themselves."""
    found = []
    models = [entry.row.get("model") for entry in (control, test)]
    if all(models) and models[0] != models[1]:
        found.append("The logs are of different models: that they differ says nothing about the engines.")
    lengths = [entry.row.get("length") for entry in (control, test)]
    if all(lengths) and lengths[0] != lengths[1]:
        found.append(
            f"Their rows have {lengths[0]:,} and {lengths[1]:,} values: these are two vocabularies, or padding."
        )
    if control.row["engine"] == test.row["engine"] and control.row.get("precision") == test.row.get("precision"):
        found.append("Both name the same engine and precision: this compares two goes of one engine.")
    return found


def digits_agreed(agreement: Agreement) -> int | None:
    """Decimal digits to which the values agree, by the root mean square of their differences."""
    if agreement.relative is None:
        return None
    if agreement.relative == 0:
        return MOST_DIGITS
    return max(0, min(MOST_DIGITS, math.floor(-math.log10(agreement.relative))))


def _best(parity: Parity) -> Agreement:
    return parity.filters[0].without_flagged


def _answer(parity: Parity) -> str:
    own = _best(parity)
    names = f"{parity.test_name} and {parity.control_name}"
    if not own.values:
        return f"No pair of values without a flag is left to compare {names} by."
    if own.max_difference == 0:
        return f"{names} agree bit for bit in {_of(own)}."
    if own.relative is None:
        return f"{names} differ by {own.mean_difference:.2g} on average in {_of(own)}, all 0 in the control."
    digits = digits_agreed(own)
    to = "not even to the first digit" if digits == 0 else f"to about {digits} digit{'s' if digits != 1 else ''}"
    top = "" if own.top_1 is None else f"; the largest value is the same in {own.top_1:.1%} of the entries"
    rank = "" if own.rank is None else f", and their order to {own.rank:.4f} (1 is the same)"
    return (
        f"{names} agree {to}: {_of(own)} {'differs' if own.values == 1 else 'differ'} by {own.mean_difference:.2g} on "
        f"average and {own.max_difference:.2g} at most{rank}{top}.{_shift(own)}"
    )


def _of(own: Agreement) -> str:
    return f"{plural(own.values, 'value')} of {plural(own.entries, 'entry', 'entries')}"


def _shift(own: Agreement) -> str:
    """Where most of the difference moves a row as a whole, which no probability depends on."""
    if not own.shift or not own.mean_difference or abs(own.shift) < 0.9 * own.mean_difference:
        return ""
    return f" Nearly all of that is a shift of {own.shift:+.2g} of everything, which no probability depends on."


def _first_difference(parity: Parity) -> str:
    place = parity.diverging
    if place is None and _best(parity).relative is None:
        return ""  # nothing is left to tell by
    if place is None:
        return f"Nowhere is the difference larger than their precision explains (relative {parity.tolerance:g})."
    return (
        f"They part at checkpoint {place.checkpoint}, token {place.token_idx:,}: there the relative difference is "
        f"{place.relative:.2g}, and their precision explains {parity.tolerance:g}."
    )


def _flagged(parity: Parity) -> str:
    whole = parity.filters[0]
    if not whole.flagged:
        return "Neither log has a flagged value where they meet."
    sizes = [one.max_difference for one in (whole.with_flagged, whole.without_flagged)]
    pairs = "1 pair has" if whole.flagged == 1 else f"{whole.flagged:,} pairs have"
    text = f"{pairs} a flagged value, at {positions_in_words(parity.flagged_positions)}"
    if sizes[0] is not None and sizes[1] is not None and sizes[0] > sizes[1]:
        text += f"; with them the largest difference is {sizes[0]:.3g} in place of {sizes[1]:.3g}"
    return f"{text}."


def _filter(parity: Parity) -> str:
    if not parity.filters[0].flagged:
        return "The data asks for no filter of positions."
    if parity.supported is not None:
        return f"The data supports the filter “{parity.supported}”: it is the mildest that leaves no flagged value."
    least = min((one for one in parity.filters if one.flagged), key=lambda one: one.flagged)
    return (
        f"No filter of positions is enough: “{least.name}” still leaves {plural(least.flagged, 'flagged pair')}. "
        "Leave out flagged values in place of positions."
    )


def _left_out(parity: Parity) -> str:
    if not parity.only_control and not parity.only_test:
        return ""
    return (
        f"In both logs: {plural(parity.entries, 'entry', 'entries')}. Left out: {parity.only_control:,} that only the "
        f"control has and {parity.only_test:,} that only the test has."
    )


def _numbers(parity: Parity) -> str:
    if not parity.by_number:
        return ""
    return (
        "No source of the logs names a text of both: the n-th text of one is set against the n-th of the other, "
        "whatever it is."
    )
