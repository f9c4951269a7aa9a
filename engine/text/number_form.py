"""Which number format a model's texts show, where nobody names it.

Only numbers that the model ended itself count: x and y, behind which it wrote the comma, and z where it closed the
block too. Every writer truncates to as many decimals as most numbers have; the known ones always write them all, or
drop zeros down to one decimal, or all and the point. Which it is, the fewest numbers contradict; of two alike it is the
one with more decimals, so that an integer is a number where integers were seen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from engine.records import MOST_DECIMALS, NumberFormat

ENOUGH = 200
"""Numbers. Of so many, a writer that drops trailing zeros has shown it: one number in ten ends with one."""

# Below 100, as all coordinates of the field: what an LP made of 2.67 may be 267.
_NUMBER = rf"-?(?:0|[1-9]\d?)(?:\.(\d{{1,{MOST_DECIMALS}}}))?"
_NUMBERS = re.compile(rf"<{_NUMBER},(?:{_NUMBER}(,)(?:{_NUMBER}(>))?)?", re.ASCII)


def found_form(texts: Iterable[str], *, forced_close: bool) -> tuple[NumberFormat | None, int]:
    """The format, None where there are too few numbers or mostly integers; and how many numbers there are."""
    seen: Counter[tuple[int, bool]] = Counter()  # by decimals, and whether the last is a zero
    for text in texts:
        for x, y, comma, z, close in _NUMBERS.findall(text):
            ended = [x, *([y] if comma else ()), *([z] if close and not forced_close else ())]
            seen.update((len(decimals), decimals.endswith("0")) for decimals in ended)
    most = max(range(MOST_DECIMALS + 1), key=lambda length: seen[length, False] + seen[length, True])
    if seen.total() < ENOUGH or most == 0:
        return None, seen.total()

    def contradicting(least: int) -> int:
        """Numbers with fewer decimals, and longer ones whose last zero would have been dropped."""
        return sum(count for (length, is_zero), count in seen.items() if length < least or (is_zero and length > least))

    return NumberFormat(min((most, 1, 0), key=contradicting), most), seen.total()
