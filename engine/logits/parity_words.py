"""A comparison of two logs in sentences: the answer first, then its evidence and what was left out."""

from __future__ import annotations

import math

from engine.figures.words import counted, percent
from engine.logits.causes import positions_in_words
from engine.logits.parity import Agreement, Parity
from engine.store.entries import Entry

MOST_DIGITS = 12
FIGURE_NAMES = {
    "max_difference": "largest",
    "mean_difference": "mean",
    "relative": "relative",
    "cosine": "cosine",
    "rank": "rank",
    "top_1": "top-1",
}
"""Of an ``Agreement``, as tables head them."""


def parity_sentences(parity: Parity) -> list[str]:
    sentences = [_answer(parity), _divergence(parity), _flagged(parity), _filter(parity)]
    if parity.only_control or parity.only_test:
        sentences.append(
            f"In both logs: {counted(parity.entries, 'entry', 'entries')}. Left out: {parity.only_control:,} only in "
            f"the control and {parity.only_test:,} only in the test."
        )
    if parity.by_number:
        sentences.append(
            "The logs share no source names: the n-th text of one is compared with the n-th of the other, "
            "even if they differ."
        )
    return [sentence for sentence in sentences if sentence]


def cautions(control: Entry, test: Entry) -> list[str]:
    """Why two logs are a poor pair, by what they say of themselves."""
    texts = []
    models = [entry.row.get("model") for entry in (control, test)]
    if all(models) and models[0] != models[1]:
        texts.append("Different models: differences say nothing about the engines.")
    lengths = [entry.row.get("length") for entry in (control, test)]
    if all(lengths) and lengths[0] != lengths[1]:
        texts.append(f"Rows of {lengths[0]:,} and {lengths[1]:,} values: two vocabularies, or padding.")
    if control.row["engine"] == test.row["engine"] and control.row.get("precision") == test.row.get("precision"):
        texts.append("Same engine and precision: this compares two runs of one engine.")
    return texts


def digits_agreed(agreement: Agreement) -> int | None:
    """Decimal digits to which the values agree, by the root mean square of their differences."""
    if agreement.relative is None:
        return None
    if agreement.relative == 0:
        return MOST_DIGITS
    if not math.isfinite(agreement.relative):  # values near the largest that there are
        return 0
    return max(0, min(MOST_DIGITS, math.floor(-math.log10(agreement.relative))))


def _answer(parity: Parity) -> str:
    agreement = parity.filters[0].without_flagged
    names = f"{parity.test_name} and {parity.control_name}"
    entries = counted(agreement.entries, "entry", "entries")
    pairs = f"{counted(agreement.values, 'value')} of {entries}"
    if not agreement.values:
        return f"{names} cannot be compared: no pair of values is without a flag."
    if agreement.max_difference == 0:
        return f"{names} agree bit for bit in {pairs}."
    if agreement.relative is None:
        return f"{names} differ by {agreement.mean_difference:.2g} on average in {pairs}, all 0 in the control."
    digits = digits_agreed(agreement)
    to = f"to about {counted(digits, 'digit')}" if digits else "not even to the first digit"
    rank = "" if agreement.rank is None else f", rank correlation {agreement.rank:.4f}"
    top = "" if agreement.top_1 is None else f"; same largest value in {percent(agreement.top_1)} of the entries"
    shift = ""
    if agreement.shift and agreement.mean_difference and abs(agreement.shift) >= 0.9 * agreement.mean_difference:
        shift = f" Nearly all of that is a shift of {agreement.shift:+.2g} of all values, which changes no probability."
    return (
        f"{names} agree {to}: {pairs} {'differs' if agreement.values == 1 else 'differ'} by "
        f"{agreement.mean_difference:.2g} on average and {agreement.max_difference:.2g} at most{rank}{top}.{shift}"
    )


def _divergence(parity: Parity) -> str:
    first = parity.diverging
    if first is not None:
        relative = "without bound" if first.relative is None else f"{first.relative:.2g}"
        return (
            f"First divergence: checkpoint {first.checkpoint}, token {first.token_idx:,}, relative difference "
            f"{relative}; their precision explains {parity.tolerance:g}."
        )
    if parity.filters[0].without_flagged.relative is None:
        return ""
    return f"No divergence: no difference is larger than their precision explains (relative {parity.tolerance:g})."


def _flagged(parity: Parity) -> str:
    everything = parity.filters[0]
    if not everything.flagged:
        return "No compared value has a flag."
    pairs = counted(everything.flagged, "pair has", "pairs have")
    text = f"{pairs} a flagged value, at {positions_in_words(parity.flagged_positions)}"
    with_flagged, without = everything.with_flagged.max_difference, everything.without_flagged.max_difference
    if with_flagged is not None and without is not None and with_flagged > without:
        text += f"; with them the largest difference is {with_flagged:.3g} instead of {without:.3g}"
    return f"{text}."


def _filter(parity: Parity) -> str:
    if not parity.filters[0].flagged:
        return "No position filter is needed."
    if parity.supported is not None:
        return f"Position filter that the data supports: “{parity.supported}”, the mildest without a flagged value."
    least = min((result for result in parity.filters if result.flagged), key=lambda result: result.flagged)
    return (
        f"No position filter is enough: “{least.name}” still leaves {counted(least.flagged, 'flagged pair')}. "
        "Leave out flagged values instead of positions."
    )
