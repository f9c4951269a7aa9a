"""What a difference between two runs is worth, as numbers and in words: ratios, their marks, pace.

No interval covers other load on the machine, so a small difference of time is too close to call whatever its interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.comparing.measures import TIME_DOUBT, TOTALS, Measure, figure, model_words, rate
from engine.comparing.paired import Compared, PairedRuns
from engine.figures.statistics import Interval, quotient
from engine.figures.words import UNKNOWN, hundredths, listed, number, span, speed, times, whole
from engine.lp_records import UNKNOWN_LP, stored_lp
from engine.models.loading import sized
from engine.store.entries import Entry, is_profiled

SIGNS = {
    "better": "▲", "worse": "▼", "differs": "◆", "noise": "≈", "same": "=", "doubtful": "±", "unknown": "?", "": "",
}  # fmt: skip
MARKS = {"noise": "within noise", "same": "no difference", "doubtful": "too close to call", "unknown": "no interval"}
CLEAR = ("better", "worse", "differs")


def figure_row(entry: Entry, measure: Measure, of_samples: dict[str, Interval]) -> dict[str, Any]:
    interval = of_samples.get(measure.name) or (rate(entry, "pass_rate") if measure.name == "pass_rate" else None)
    value = figure(entry, measure.name) if interval is None else interval.value
    is_hypothetical = measure.name.startswith("drift_") and not has_template(entry)
    origin = "hypothetical" if is_hypothetical else entry.row["origin"]
    ends = (None, None) if interval is None else (interval.low, interval.high)
    return {"value": value, "low": ends[0], "high": ends[1], "origin": origin}


def against(
    measure: Measure, control: Entry, test: Entry, first: float | None, second: float | None, paired: PairedRuns
) -> dict[str, Any]:
    """The test's ratio to the control, and what it is worth; where there is none, the reason."""
    if not measure.has_ratio:
        return {}
    if first is None or second is None:
        missing = [side for side, value in (("control", first), ("test", second)) if value is None]
        return {"reason": f"Not known of the {' and the '.join(missing)}."}
    if (not_compared := _not_compared(measure, control, test)) is not None:
        return not_compared
    ratio = quotient(second, first)
    if not measure.sample:
        return {"ratio": ratio, "mark": "unknown", "reason": "Counted once per run, so there is no interval."}
    return _worth(measure, ratio, paired)


def _not_compared(measure: Measure, control: Entry, test: Entry) -> dict[str, Any] | None:
    """Why runs that have both figures are not compared by them; None where they are."""
    if measure.name in TOTALS and control.row.get("samples") != test.row.get("samples"):
        return {"reason": "Another number of samples: only figures per sample compare."}
    if measure.is_time and (is_profiled(control) or is_profiled(test)):
        return {"mark": "unknown", "reason": "One of the runs was profiled, which slows it: not compared."}
    if measure.name == "drift_abs_mean" and not (has_template(control) and has_template(test)):
        return {"reason": "Drift of text that no template wrote is hypothetical: it is not compared."}
    return None


def _worth(measure: Measure, ratio: float | None, paired: PairedRuns) -> dict[str, Any]:
    """Of the ratio of the runs as wholes, or over the molecules that both have: its mark, and both over pairs."""
    compared = paired.measure(measure.name)
    if measure.is_time and compared.ratio is not None and paired.is_paired:
        ratio = compared.ratio.value  # over the molecules that both have
    mark = mark_of(measure, ratio, compared)
    reason = compared.reason or ("" if compared.within_noise is not None else paired.reason)
    if mark == "doubtful":
        reason = "Beyond noise over molecules, but too small a difference for one run each."
    return {
        "ratio": ratio,
        "mark": mark,
        "answers": compared.answers,
        "molecules": compared.molecules,
        "control_mean": compared.control,
        "test_mean": compared.test,
        "reason": reason,
        **_pair_columns("ratio", compared.ratio),
        **_pair_columns("difference", compared.difference),
    }


def _pair_columns(name: str, interval: Interval | None) -> dict[str, Any]:
    if interval is None:
        return {}
    return {f"{name}_pairs": interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def mark_of(measure: Measure, ratio: float | None, compared: Compared) -> str:
    """What a difference is worth: no more than its interval, nor than one run each can tell of time."""
    difference = compared.difference
    if difference is None or compared.within_noise is None:
        return "unknown"
    if compared.within_noise:
        return "same" if difference.low == difference.high else "noise"
    if ratio is not None and compared.ratio is not None:
        doubt = TIME_DOUBT if measure.is_time else 0.0
        over_pairs = compared.ratio.value
        is_small = bool(doubt) and min(abs(over_pairs - 1), abs(ratio - 1)) <= doubt
        if is_small or (ratio - 1) * (over_pairs - 1) < 0:  # or the runs as wholes point the other way
            return "doubtful"
    if not measure.better:
        return "differs"
    return "better" if (difference.value < 0) == (measure.better == "less") else "worse"


def has_template(entry: Entry) -> bool:
    """Whether a template wrote its texts, as far as is known: only there drift costs anything."""
    lp = stored_lp(entry.row.get("lp"))
    return lp is UNKNOWN_LP or bool(lp.placeholder)


def figure_words(value: float | None, measure: Measure, origin: str = "") -> str:
    """Without its unit, which stands with the figure's name: ``45.3``"""
    if measure.unit == "%":
        text = UNKNOWN if value is None else hundredths(value)
    elif measure.unit or measure.whole:
        text = number(value)
    else:
        text = whole(value)
    return text + (" (hypothetical)" if origin == "hypothetical" else "")


def speed_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row with the ratio of a time, the same as speed, and in words."""
    parts = {"speed": "ratio", "speed_low": "ratio_high", "speed_high": "ratio_low"}
    low, high = row.get("ratio_low"), row.get("ratio_high")
    ends = (low, high) if low and high else None
    return {**{name: quotient(1.0, row.get(part)) for name, part in parts.items()}, "pace": speed(row["ratio"], ends)}


def ratio_words(row: Mapping[str, Any], measure: Measure) -> str:
    """``0.92× (0.90–0.95) ▲``, of times ``4.40× faster (4.34–4.46) ▲``; the ratio over pairs too, where that of whole
    runs is outside its interval."""
    ratio, sign = row.get("ratio"), SIGNS[row.get("mark") or ""]
    low, high, pairs = (row.get(f"ratio_{name}") for name in ("low", "high", "pairs"))
    words = speed if measure.is_time else times
    if ratio is None:
        return sign
    if measure.is_time and row["mark"] in ("unknown", "same"):
        return pace_words(ratio, row["mark"])  # "as fast ?" would ask
    if low is None or high is None or row["mark"] == "same":
        return f"{words(ratio)} {sign}".strip()
    text = speed(ratio, (low, high)) if measure.is_time else f"{times(ratio)} ({span(low, high)})"
    if not 0.995 * low <= ratio <= 1.005 * high:
        text += f", pairs {words(pairs)}"
    return f"{text} {sign}".strip()


def size_notes(entries: Sequence[Entry]) -> list[str]:
    """A ratio of speed is never stated without the size of the model."""
    models = sorted({model_words(entry) for entry in entries if entry.row.get("wall_s") is not None} - {""})
    sizes = listed([sized(model) for model in models])
    return [f"Times are of {sizes}: the gain shrinks with model size."] if models else []


def pace_words(ratio: float | None, mark: str | None) -> str:
    """``7.10× faster``, ``slower by 1.20× (within noise)``"""
    if ratio is None:
        return "time unknown"
    return speed(ratio) + ("" if mark in CLEAR else f" ({MARKS.get(mark or '', 'no interval')})")
