"""Times, counts and ratios of traces as texts, with sensible digits."""

from __future__ import annotations

import math

UNKNOWN = "–"
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))


def number(value: int | float | None) -> str:
    """Three digits, and more before the point; an ``int`` is a count and has all of its own."""
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if value is None or math.isnan(value):
        return UNKNOWN
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    size = abs(value)
    if size >= 99.95 or size == 0:
        digits = f"{size:,.0f}"
    elif size >= 0.001:
        digits = f"{size:.1f}" if size >= 9.995 else f"{size:.2f}" if size >= 0.995 else f"{size:.3f}"
    else:
        digits = f"{size:.1e}"
    return f"−{digits}" if value < 0 else digits


def time_of(time_us: float | None) -> str:
    """In the unit that reads best."""
    if time_us is None:
        return UNKNOWN
    size, unit = next((one for one in _UNITS if abs(time_us) >= one[0]), _UNITS[-1])
    return f"{number(time_us / size)} {unit}"


def signed_time(time_us: float) -> str:
    return f"+{time_of(time_us)}" if time_us > 0 else time_of(time_us)


def per_cent(share: float | None) -> str:
    if share is None:
        return UNKNOWN
    value = 100 * share
    if 0 < value < 0.05:
        return "<0.1 %"
    if 99.95 <= value < 100:
        return ">99.9 %"
    return f"{number(0.0)} %" if value == 0 else f"{_signed(value)} %"


def _signed(value: float) -> str:
    digits = f"{abs(value):.0f}" if abs(value) == 100 else f"{abs(value):.1f}"
    return f"−{digits}" if value < 0 else digits


def times(ratio: float | None) -> str:
    """``2.62×``, test over control."""
    return UNKNOWN if ratio is None else f"{number(ratio)}×"
