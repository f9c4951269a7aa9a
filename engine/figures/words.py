"""Figures as texts: three significant digits, one way each for shares, times, ratios, counts, lists and intervals.

There is one rounding, ``rounded``, for whatever a reader sees, half away from zero: 31.25 % is 31.3 % in a sentence, a
table, a chart and a terminal. A figure that is not known reads ``–``. Texts are plain; pages escape what needs it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.figures.statistics import Interval  # NumPy is slow to import, and the command line's messages need none

UNKNOWN = "–"
_UNIT_CHARACTERS = " %×Åµabcdefghijklmnopqrstuvwxyz"
_EXACT = Context(prec=400, rounding=ROUND_HALF_UP)  # a float has up to 309 digits before its point
_TIE_DIGITS = 6
LEAST_DECIMAL = 0.0009995  # what is less is written with an exponent


def rounded(value: float, decimals: int = 0) -> float:
    """To so many decimals, half away from zero: 31.25 to 31.3, -0.25 to -0.3.

    A float seldom is the tie that it was written as: 2.675 lies below it, 100 * 0.0615 above. What is below a tie by
    less than a millionth of the last digit counts as the tie, which is more than sums and quotients err by, and less
    than a share of up to 100,000 can be off it: those are rounded as the fractions that they are."""
    if not math.isfinite(value):
        return value
    unit = Decimal(1).scaleb(-decimals)
    size = _EXACT.quantize(_EXACT.add(Decimal(abs(float(value))), unit.scaleb(-_TIE_DIGITS)), unit)
    return math.copysign(float(size), value) + 0.0  # no -0


def to_digits(value: float, digits: int) -> float:
    """To so many significant digits."""
    return rounded(value, digits - 1 - Decimal(value).adjusted()) if math.isfinite(value) else value


def three_digits(value: float) -> float:
    """The figure that ``number`` writes, for a table whose browser writes it: ``0.046``, ``1.23``, ``1234``."""
    if not math.isfinite(value) or value == 0:
        return value
    if rounded(abs(value), 7) < LEAST_DECIMAL:
        return to_digits(value, 2)
    return rounded(value, min(max(0, 2 - Decimal(value).adjusted()), 3))


def fixed(value: float, decimals: int) -> str:
    """``1,234.50``, ``−0.25``"""
    return f"{rounded(value, decimals):,.{decimals}f}".replace("-", "−")


def decimals_apart(first: float, second: float, least: int = 2) -> int:
    """As many as tell two figures apart: 3 of 1.002 and 1.004. Equal ones, and such as differ by rounding, have 6."""
    return next((n for n in range(least, 6) if fixed(first, n) != fixed(second, n)), 6)


def number(value: int | float | None) -> str:
    """Three digits, and all before the point: ``9.996`` is ``10.0``. An ``int`` is a count and keeps all digits."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if value is None or math.isnan(value):
        return UNKNOWN
    size = abs(value)
    if math.isinf(size):
        digits = "∞"
    elif size == 0:
        digits = "0"
    elif rounded(size, 7) < LEAST_DECIMAL:
        digits = f"{to_digits(size, 2):.1e}"
    else:
        digits = _three_digits(size)
    return f"−{digits}" if value < 0 else digits


def _three_digits(size: float) -> str:
    """``0.123``, ``1.23``, ``12.3``, ``1,234``"""
    for decimals, end in ((3, 1), (2, 10), (1, 100)):
        if rounded(size, decimals) < end:
            return fixed(size, decimals)
    return fixed(size, 0)


def significant(value: float, digits: int = 6) -> str:
    """Of any size, as it was logged: ``−31.5``, ``1e+16``"""
    return f"{to_digits(value, digits):.{digits}g}".replace("-", "−", int(value < 0))


def signed(value: float) -> str:
    """A difference: ``+1.20``"""
    return f"+{number(value)}" if value > 0 else number(value)


def signed_nat(nat: float) -> str:
    """A difference of log-probabilities: ``+0.0213 nat``"""
    return f"{'+' if rounded(nat, 4) > 0 else ''}{fixed(nat, 4)} nat"


def whole(value: float | None) -> str:
    """A count that may not be known, or a mean of counts without its decimals."""
    return UNKNOWN if value is None or math.isnan(value) else number(int(rounded(value)))


def large(value: float | None) -> str:
    """A count that may run to thousands of millions: ``1.25 G``"""
    scale, letter = next((unit for unit in ((1e9, "G"), (1e6, "M")) if value and abs(value) >= unit[0]), (1.0, ""))
    return whole(value) if value is None or not letter else f"{number(value / scale)} {letter}"


def percent(share: float | None) -> str:
    """``97.1 %`` of 0.971. Only all is ``100 %`` and only nothing ``0 %``."""
    return UNKNOWN if share is None or math.isnan(share) else f"{hundredths(share)} %"


def hundredths(share: float) -> str:
    """A share in per cent, without the sign."""
    size = round(abs(100 * share), 9)  # Wilson's formula ends a rounding below all
    if 0 < size < 0.05:
        digits = "<0.1"
    elif 99.95 <= size < 100:
        digits = ">99.9"
    else:
        digits = fixed(size, 0 if size in (0, 100) else 1)
    return f"−{digits}" if share < 0 else digits


def short_percent(share: float) -> str:
    """A cell of a terminal's table: ``31.3%``, always with its decimal."""
    return f"{fixed(100 * share, 1)}%".replace("−", "-")


def signed_hundredths(difference: float) -> str:
    """A difference of shares, without its unit: ``+0.4``"""
    return f"{'+' if rounded(100 * difference, 1) > 0 else ''}{fixed(100 * difference, 1)}"


def points(difference: float) -> str:
    """A difference of shares: ``+0.4 points``"""
    return f"{signed_hundredths(difference)} points"


def times(ratio: float | None) -> str:
    """``2.62×``"""
    return UNKNOWN if ratio is None else f"{number(ratio)}×"


def speed(ratio: float | None, ends: tuple[float, float] | None = None, *, per: str = "", than: str = "") -> str:
    """Of a test's time over its control's, as speed is told everywhere: ``4.40× faster (4.34–4.46)`` of 0.227, and
    ``slower by 1.20×`` of 1.2. ``ends`` are those of the ratio's interval; ``4.40× faster per sample than none``."""
    if not ratio or math.isinf(ratio):
        return UNKNOWN
    size = times(1 / ratio if ratio < 1 else ratio)
    text = f"{size} faster" if ratio < 1 else f"slower by {size}"
    joint = "than"
    if size == times(1.0):
        text, joint = "as fast", "as"
    text += (f" per {per}" if per else "") + (f" {joint} {than}" if than else "")
    return text if ends is None or not all(ends) else f"{text} ({speed_span(ratio, ends)})"


def speed_span(ratio: float, ends: tuple[float, float]) -> str:
    """The ends of a ratio's interval as ``speed`` tells them: ``4.34–4.46``"""
    low, high = sorted(1 / end for end in ends) if ratio < 1 else ends
    return span(low, high)


def seconds(value: float | None) -> str:
    return UNKNOWN if value is None else f"{number(value)} s"


def angstrom(value: float | None) -> str:
    return UNKNOWN if value is None else f"{number(value)} Å"


def microseconds(value: float | None) -> str:
    """In the unit that reads best: ``1.20 ms``"""
    if value is None:
        return UNKNOWN
    unit, unit_us = time_unit(value)
    return f"{number(value / unit_us)} {unit}"


def time_unit(value_us: float) -> tuple[str, float]:
    """The unit of a time, or of several by the largest of them, and its microseconds: ``ms`` and 1,000 of 1,200."""
    units = (("s", 1e6), ("ms", 1e3), ("µs", 1.0))
    return next((pair for pair in units if abs(value_us) >= pair[1]), units[-1])


def signed_microseconds(value: float) -> str:
    return f"+{microseconds(value)}" if value > 0 else microseconds(value)


def duration(value: float) -> str:
    """A wait, in whole units: ``34 s``, ``2 min 05 s``, from an hour on ``1 h 15 min``.

    Below ten seconds it has three digits."""
    if math.isinf(value):
        return "never"
    total = int(rounded(value))
    if total < 90:
        return f"{total} s" if value >= 9.995 or abs(value - total) < 0.005 else seconds(value)
    if total < 3_600:
        return f"{total // 60} min {total % 60:02} s"
    return f"{total // 3_600:,} h {total % 3_600 // 60:02} min"


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 run``, ``2 runs``"""
    return f"{count:,} {agreeing(count, noun, plural or f'{noun}s')}"


def agreeing(count: int, singular: str, plural: str) -> str:
    """The form of a word that goes with a count: ``agreeing(2, "is", "are")``."""
    return singular if count == 1 else plural


def parameter_count(parameters: int) -> str:
    """``25,888``, ``2.4 M``"""
    return f"{parameters / 1e6:,.1f} M" if parameters >= 10**6 else f"{parameters:,}"


def precision_name(precision: str | None) -> str | None:
    """``FP16``, ``f16`` and ``F16`` are ``float16``, as the command line has it; ``q4_K_M`` is ``Q4_K_M``."""
    if not precision:
        return None
    return re.sub(r"\b(B?)F(?:LOAT|P)?(?=\d)", lambda match: f"{match[1].lower()}float", precision.strip().upper())


def quoted(text: str) -> str:
    """Between backticks, so that a page can show what a model wrote as it is."""
    return f"`{text.replace('`', 'ʼ')}`"


def listed(parts: Sequence[str], word: str = "and") -> str:
    """``a, b and c``"""
    return f" {word} ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def capitalised(text: str) -> str:
    """A sentence's first letter as a capital; the others stay, as in ``LP``, and so do names such as ``demo:final``."""
    is_name = ":" in text.partition(" ")[0][:-1]
    return text if is_name else text[:1].upper() + text[1:]


def shortened(text: str, most: int) -> str:
    """At most so many characters, the last of them ``…`` where some are left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


def span(low: float, high: float, form: Callable[[float], str] = number) -> str:
    """An interval's ends: ``0.170–0.190 s``, and ``−0.100 to 0.200 s`` where a sign would be read as the dash."""
    last = form(high)
    first = form(low).removesuffix(_unit(last))
    return f"{first} to {last}" if {first[0], last[0]} & set("+−") else f"{first}–{last}"


def with_interval(figure: Interval | None, form: Callable[[float], str] = number) -> str:
    """``0.180 s (0.170–0.190)``; the value alone where its interval is not known."""
    if figure is None:
        return UNKNOWN
    value = form(figure.value)
    if figure.ends is None or math.isinf(figure.value):
        return value
    return f"{value} ({span(*figure.ends, form).removesuffix(_unit(value))})"


def _unit(text: str) -> str:
    """``" s"`` of ``0.180 s``"""
    return text[len(text.rstrip(_UNIT_CHARACTERS)) :]
