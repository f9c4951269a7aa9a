"""Figures in words, and runs in words, as every chart of the Compare page says them.

Digits are those of the page's table, so that a figure reads the same in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from engine.comparing.figures import RATIOS, Beside, Ratio
from engine.comparing.measures import MEASURES
from engine.errors import one_line
from engine.store.comparison import wilson
from pages._shared.compare.table_cells import Mark, mark_of
from pages._shared.compare.table_words import MARK_WORDS, UNKNOWN, number, three_digits
from pages._shared.compare.table_words import times as times

MOST_CHARS = 30  # of a line of a name on an axis
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross", "star", "pentagon")
"""Of the runs by their letters: colour never stands alone."""

UNREADABLE = "The samples of these runs are damaged; `engine verify` says how."


def seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{three_digits(value)} s"


def percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{number(share, 'share')} %"


def within(low: float, high: float) -> str:
    """An interval of shares."""
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def rate(part: int, whole: int) -> str:
    """A share of samples with Wilson's interval, 95 %."""
    return f"{percent(part / whole)}, {within(*wilson(part, whole))}" if whole else UNKNOWN


def large(count: float | None) -> str:
    """A count that may run to thousands of millions."""
    if count is None:
        return UNKNOWN
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if count >= size:
            return f"{three_digits(count / size)} {letter}"
    return f"{count:,.0f}"


def listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def mark(pair: Beside, figure: str) -> Mark:
    """What a test's figure is worth beside the control's: the mark that the page's table has."""
    measure = RATIOS[figure]
    told = pair.paired.measure(measure) if measure else None
    return mark_of(pair.ratio(figure), MEASURES.get(measure), told)


def noise(found: Mark) -> str:
    """A mark in words: within noise, beyond it, too little to tell, or that no interval tells."""
    return "beyond noise" if found in ("better", "worse", "differs") else MARK_WORDS[found or "unknown"]


def range_of(ratio: Ratio) -> str:
    """The interval of a ratio, over paired molecules; empty where there is none."""
    told = ratio.interval
    if told is None or told.low is None or told.high is None:
        return ""
    return f"{times(told.low)} to {times(told.high)}"


def on_axis(name: str) -> str:
    """A run's name as a label of a figure: two lines, and nothing that plotly would read as markup."""
    first, *rest = one_line(name).split(" · ")
    lines = [" · ".join([first, *rest[:1]]), " · ".join(rest[1:])]
    return "<br>".join(escape(shortened(line)) for line in lines if line)


def shortened(text: str, most: int = MOST_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def drawn(text: str, most: int = 400) -> str:
    """Any text inside of a figure."""
    return escape(shortened(one_line(text), most))
