"""Two logs of one prompt: how far the engines agree, and where they diverge.

What only one of them logged is counted and left out. Each figure is of all values and without the flagged ones, under
each of the position filters that the reports advise; which filter the data supports is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import FileError
from engine.figures.words import counted, fixed, percent, precision_name, shortened, significant
from engine.logits.causes import positions_in_words
from engine.logits.health import check_values
from engine.logits.pairs import PAIRED, both
from engine.logits.rules import load_rules
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import LOGIT_ENTRIES
from engine.store.store import Store

MOST_NAME, MOST_TOKENS, MOST_DIGITS = 40, 100_000, 12
Parity = dict[str, Any]

# Differences are test minus control. ``relative`` is the root mean square of the differences over that of the control;
# it includes a shift of a whole row (``shift``), which does not change probabilities. ``max_relative`` is of one value,
# over the larger of the pair. ``cosine``, ``rank`` (Spearman's) and ``top_1`` are means over entries.
_AGREEMENT = PAIRED + Path(__file__).with_name("parity.sql").read_text(encoding="utf-8")  # goes on with its tables


def log_name(row: Mapping[str, Any]) -> str:
    """``llama.cpp (demo, float16)``: engine, model and precision; what is not known is left out. Anybody's text."""
    names = (row["engine"], row.get("model"), precision_name(row.get("precision")))
    engine, *more = [shortened(str(name), MOST_NAME) for name in names if name]
    return f"{engine} ({', '.join(more)})" if more else engine


@computed_once(8)
def compare_logs(store: Store, control: Entry, test: Entry) -> Parity:
    """Both logs' figures, as `logits parity` prints them.

    ``filters``: name, with_flagged, without_flagged, flagged: pairs left with a flagged value; ``supported`` is the
    mildest filter that leaves none, null where none is enough. ``places``: entries of both logs, and how far they agree
    without flagged values; ``diverging`` is the first with a relative difference over ``tolerance``. ``by_number``:
    texts are matched by their number alone, since the logs share no names.
    """
    if control.id == test.id:
        raise FileError(f"{control.id} is given twice", "Parity takes two logs")
    check_values(store, control)
    check_values(store, test)
    # The precision of the weights, else of the values as logged.
    precisions = (entry.row.get("precision") or entry.row.get("dtype") for entry in (control, test))
    tolerance = max(map(load_rules().tolerance, precisions))
    (row,) = both(store, _AGREEMENT, control, test, tolerance=tolerance).to_pylist()
    entries = row["places"]
    if not entries:
        problem = f"{control.id} and {test.id} share no checkpoint, token and position"
        raise FileError(problem, "Log the same prompt with both")
    filters = by_filter(row["figures"])
    enough = (each["name"] for each in filters if not each["flagged"] and each["with_flagged"]["values"])
    control_name, test_name = log_name(control.row), log_name(test.row)
    return {
        "control": control.id,
        "test": test.id,
        "control_name": control_name if control_name != test_name else control.id,
        "test_name": test_name if control_name != test_name else test.id,
        "by_number": row["by_number"],
        "entries": len(entries),
        "only_control": control.parts[LOGIT_ENTRIES.name].rows - len(entries),
        "only_test": test.parts[LOGIT_ENTRIES.name].rows - len(entries),
        "filters": filters,
        "supported": next(enough, None),
        "flagged_positions": row["flagged_positions"] or [],
        "places": entries[:MOST_TOKENS],
        "checkpoints": row["checkpoints"],
        "tolerance": tolerance,
        "diverging": next((entry for entry in entries if (entry["relative"] or 0.0) > tolerance), None),
    }


def by_filter(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A record a filter of rows that come with the flagged values, then without them where there are any."""
    filters: dict[str, dict[str, Any]] = {}
    for figures in rows:
        name, flagged, *_ = [figures.pop(key) for key in ("name", "flagged", "filter", "is_whole")]
        record = filters.setdefault(name, {"name": name, "with_flagged": figures, "flagged": flagged})
        record["without_flagged"] = figures
    return [*filters.values()]


# --- in sentences ---------------------------------------------------------------------------------------------------


def parity_sentences(parity: Parity) -> list[str]:
    """The answer first, then where they diverge, flags, and what was left out."""
    agreed, flagged = parity["filters"][0]["without_flagged"], parity["filters"][0]["flagged"]
    first, relative = parity["diverging"], agreed["relative"]
    names, mean = f"{parity['test_name']} and {parity['control_name']}", agreed["mean_difference"]
    pairs = f"{counted(agreed['values'], 'value')} of {counted(agreed['entries'], 'entry', 'entries')}"
    if not agreed["values"]:
        sentences = [f"{names} cannot be compared: no pair of values is without a flag."]
    elif agreed["max_difference"] == 0:
        sentences = [f"{names} agree bit for bit in {pairs}."]
    else:
        # Decimal digits to which the values agree, by the root mean square of their differences.
        digits = counted(max(0, min(MOST_DIGITS, math.floor(-math.log10(relative or 1)))), "digit")
        rank = "" if agreed["rank"] is None else f", rank correlation {fixed(agreed['rank'], 4)}"
        top = "" if agreed["top_1"] is None else f"; same largest value in {percent(agreed['top_1'])} of the entries"
        most = f"{significant(mean, 2)} on average and {significant(agreed['max_difference'], 2)} at most"
        sentences = [f"{names} agree to about {digits}: {pairs} differ by {most}{rank}{top}."]
        if abs(agreed["shift"]) >= 0.9 * mean:
            shift = f"{'+' * (agreed['shift'] > 0)}{significant(agreed['shift'], 2)}"
            sentences[0] += f" Nearly all of that is a shift of {shift}, which changes no probability."
    if first is not None:
        location = f"checkpoint {first['checkpoint']}, token {first['token_idx']:,}"
        explained = f"their precision explains {parity['tolerance']:g}"
        sentences.append(
            f"First divergence: {location}, relative difference {significant(first['relative'], 2)}; {explained}."
        )
    elif relative is not None:
        limit = parity["tolerance"]
        sentences.append(f"No divergence: no relative difference is over {limit:g}, which precision explains.")
    if not flagged:
        sentences.append("No compared value has a flag; no position filter is needed.")
    else:
        where = positions_in_words(parity["flagged_positions"])
        enough = "No position filter is enough: leave out flagged values instead."
        if parity["supported"] is not None:
            enough = f"The mildest position filter without a flagged value: “{parity['supported']}”."
        sentences.append(f"{counted(flagged, 'pair has', 'pairs have')} a flagged value, at {where}. {enough}")
    if parity["only_control"] or parity["only_test"]:
        both, left = counted(parity["entries"], "entry", "entries"), (parity["only_control"], parity["only_test"])
        sentences.append(f"In both: {both}; left out: {left[0]:,} of the control, {left[1]:,} of the test.")
    if parity["by_number"]:
        sentences.append("The logs share no source names: the n-th text of one is compared with the n-th of the other.")
    return sentences
