"""What the Compare page's table says in words: numbers with sensible digits, marks, and what runs share.

Texts are plain here; whoever draws them escapes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from engine.comparing.paired import PairedRuns
from engine.store.entries import Entry
from pages._shared.compare.table_cells import Cell, Form, Line, Mark

UNKNOWN = "–"
MARK_WORDS: dict[Mark, str] = {
    "": "",
    "better": "better",
    "worse": "worse",
    "differs": "differs",
    "noise": "within noise",
    "same": "no difference",
    "doubtful": "too little to tell",
    "unknown": "no interval",
}
MARK_SIGNS: dict[Mark, str] = {
    "": "",
    "better": "▲",
    "worse": "▼",
    "differs": "◆",
    "noise": "≈",
    "same": "=",
    "doubtful": "±",
    "unknown": "?",
}
SETUP = {
    "tokenizer": "tokenizer",
    "backend": "backend",
    "sampling": "sampling",
    "device": "device",
    "dtype": "precision",
    "batch_size": "batch size",
    "placeholder": "placeholder",
    "generations": "answers a molecule",
}
"""Columns of a run, beside model and LP, that a difference may come from."""


def number(value: float | None, form: Form = "number") -> str:
    if value is None or math.isnan(value):
        return UNKNOWN
    if form == "share":
        return _percent(100 * value)
    if form == "count":
        return f"{value:,.0f}"
    return _signed(value, three_digits(abs(value)))


def _percent(value: float) -> str:
    if 0 < value < 0.05:
        return "<0.1"
    if 99.95 <= value < 100:
        return ">99.9"
    return f"{value:.0f}" if value in (0, 100) else f"{value:.1f}"


def three_digits(value: float) -> str:
    if math.isinf(value):
        return "∞"
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    if value >= 1:
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _signed(value: float, digits: str) -> str:
    return f"−{digits}" if value < 0 and digits != "0" else digits


def times(ratio: float | None) -> str:
    """``2.62×``"""
    if ratio is None:
        return UNKNOWN
    return f"{three_digits(ratio)}×"


def range_words(cell: Cell) -> str:
    """A test's interval over pairs, of the ratio or, where the control has nothing of it, of the difference.

    What the answers say is told as well where the runs as wholes lie outside of it: they rest on other answers, or on a
    time that is not only the samples' own.
    """
    told, interval, difference = cell.told, cell.interval, cell.difference
    if told is None or cell.mark == "" or (cell.mark == "same" and is_near(cell)):
        return ""
    if interval is not None and interval.low is not None and interval.high is not None:
        said = f"{_between(interval.low, interval.high)}×"
        is_inside = cell.ratio is None or interval.low <= cell.ratio <= interval.high
        return said if is_inside else f"by answers {three_digits(interval.value)}× ({said})"
    if difference is None or difference.low is None or difference.high is None:
        return ""
    low, high = (change(value, told.measure) for value in (difference.low, difference.high))
    return f"{low} to {high} {unit_of_change(told.measure)}"


def is_near(cell: Cell) -> bool:
    """Whether the runs as wholes are as far apart as the answers that tell the noise; half a per cent is near."""
    interval = cell.interval
    if cell.ratio is None or interval is None or interval.low is None or interval.high is None:
        return True
    return 0.995 * interval.low <= cell.ratio <= 1.005 * interval.high


def _between(low: float, high: float) -> str:
    ends = dict.fromkeys(map(three_digits, (low, high)))
    return "–".join(ends)


def change(value: float, measure: str) -> str:
    """A difference with its sign."""
    scaled = 100 * value if unit_of_change(measure) == "points" else value
    return f"{'+' if scaled > 0 else ''}{_signed(scaled, three_digits(abs(scaled)))}"


def unit_of_change(measure: str) -> str:
    if measure in ("passed", "clean", "forced_share", "cov_r", "cov_p"):
        return "points"
    if measure in ("rmsd_ang", "mat_r", "mat_p"):
        return "Å"
    return {"decode_s": "s", "ms_a_token": "ms", "tokens": "tokens", "drift_abs": "tokens"}.get(measure, "a sample")


def pairs_words(cell: Cell, paired: PairedRuns | None) -> str:
    """What an interval rests on."""
    told = cell.told
    if told is None or not told.answers:
        return ""
    what = "pairs" if paired is None or paired.is_paired else "answers of both, not paired,"
    if told.measure in ("cov_r", "cov_p", "mat_r", "mat_p"):
        return f"over {count(told.molecules, 'molecule')}"
    return f"over {told.answers:,} {what} of {count(told.molecules, 'molecule')}"


def hover(line: Line, cell: Cell, paired: PairedRuns | None) -> str:
    """All that stands behind a cell's mark."""
    parts = [MARK_WORDS[cell.mark].capitalize() if cell.mark else ""]
    if range_words(cell):
        parts.append(f"{range_words(cell)} {pairs_words(cell, paired)}")
    parts.append(cell.reason)
    if line.measure is not None and cell.told is not None and cell.mark not in ("", "same"):
        parts.append(line.measure.caution)
    return ". ".join(part.strip().rstrip(".") for part in parts if part)


def sharing(name: str, control: str, paired: PairedRuns) -> str:
    """Whether two runs answered the same questions; empty where all of both are paired."""
    if paired.reason:
        return paired.reason
    if not paired.is_paired:
        return (
            f"{name} and {control} share no molecule, so each side is drawn by itself: that finds fewer differences,"
            " and other molecules may be the reason of any."
        )
    left = []
    if paired.control_alone:
        left.append(f"{count(paired.control_alone, 'answer')} of {control}")
    if paired.test_alone:
        left.append(f"{count(paired.test_alone, 'answer')} of {name}")
    if not left:
        return ""
    asked = f"{len(paired.only_control):,} molecules are only in {control}, {len(paired.only_test):,} only in {name}"
    return (
        f"{name} and {control} share {count(paired.shared_molecules, 'molecule')} ({paired.shared:,} pairs of"
        f" answers); {' and '.join(left)} have no partner ({asked}). Figures and ratios are of whole runs, marks"
        " of the pairs."
    )


def setup_differences(runs: Sequence[tuple[str, Entry]]) -> str:
    """In what the set-ups differ beyond model and LP, by letter; empty where in nothing that is known."""
    parts = []
    for column, words in SETUP.items():
        known = [(letter, entry.row.get(column)) for letter, entry in runs if entry.row.get(column) not in (None, "")]
        if column == "placeholder":
            known = [(letter, value) for (letter, value) in known if _counts(runs, letter)]
        values = dict.fromkeys(value for _, value in known)
        if len(values) > 1:
            said = ", ".join(f"{''.join(one for one, its in known if its == value)} {value}" for value in values)
            parts.append(f"{words} ({said})")
    return "; ".join(parts)


def _counts(runs: Sequence[tuple[str, Entry]], letter: str) -> bool:
    """Whether a run's LP goes by a placeholder."""
    return any(one == letter and str(entry.row.get("lp")).startswith("position") for one, entry in runs)


def own_interval(cell: Cell, form: Form) -> str:
    """A figure's own interval, where it has one."""
    return "" if cell.low is None else f"{number(cell.low, form)}–{number(cell.high, form)}"


def count(number_of: int, what: str) -> str:
    return f"{number_of:,} {what}{'' if number_of == 1 else 's'}"
