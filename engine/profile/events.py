"""Events of a trace as typed records: what of an event is used, and nothing else of it.

``decode`` reads many at once and is strict; ``lenient_event`` reads one in whatever form the tools of the field have
written it: numbers as texts, control characters, NaN, damaged UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

COARSE_US = float(2**43)
"""From here on a double holds no nanosecond of a time in microseconds."""
Mixed = int | str | float | None
_ODD_NUMBER = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\b(?:nan|inf)\b', re.IGNORECASE | re.DOTALL)
_ODD_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(.|\Z))', re.DOTALL)


class Args(msgspec.Struct, gc=False):
    stream: Mixed = None
    correlation: Mixed = None
    device: Mixed = None


class Event(msgspec.Struct, gc=False):
    """Times are microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float | None = None
    dur: float | None = None
    pid: Mixed = None
    tid: Mixed = None
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times to their last digit: slower, and needed where they count from 1970."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: Decimal | None = None
    dur: float | None = None
    pid: Mixed = None
    tid: Mixed = None
    args: Args | None = None


AnyEvent = Event | ExactEvent
decode_quickly: Callable[[Any], list[Event]] = msgspec.json.Decoder(list[Event]).decode
decode_exactly: Callable[[Any], list[ExactEvent]] = msgspec.json.Decoder(list[ExactEvent]).decode
UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # a ValidationError is a DecodeError


def is_coarse(events: list[Event]) -> bool:
    """Whether these have times that a double cuts short."""
    first = next((event.ts for event in events if event.ph == "X" and event.ts is not None), 0.0)
    return abs(first) >= COARSE_US


def lenient_event(raw: bytes) -> ExactEvent | None:
    """One element of the array; None where it is no object. ValueError where it does not read at all."""
    found = _lenient_value(raw.decode("utf-8", "replace"))
    if not isinstance(found, dict):
        return None
    args = found.get("args")
    inner = args if isinstance(args, dict) else {}
    return ExactEvent(
        ph=_text(found.get("ph")),
        cat=_text(found.get("cat")),
        name=_text(found.get("name")),
        ts=_decimal(found.get("ts")),
        dur=_number(found.get("dur")),
        pid=_mixed(found.get("pid")),
        tid=_mixed(found.get("tid")),
        args=Args(*(_mixed(inner.get(key)) for key in ("stream", "correlation", "device"))),
    )


def lenient_object(raw: bytes) -> Mapping[str, Any]:
    """What stands around the array; empty where it does not read: no figure rests on it."""
    try:
        found = _lenient_value(raw.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lenient_value(text: str) -> Any:
    try:
        return json.loads(text, strict=False, parse_float=Decimal)
    except ValueError:
        plain = _ODD_NUMBER.sub(lambda found: found[0] if found[0].startswith('"') else "null", text)
        plain = _ODD_ESCAPE.sub(lambda found: found[0] if found[1] is None else f"\\\\{found[1]}", plain)
        return json.loads(plain, strict=False, parse_float=Decimal)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = Decimal(value)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return found if found.is_finite() else None


def _number(value: Any) -> float | None:
    found = _decimal(value)
    return None if found is None or not math.isfinite(float(found)) else float(found)


def _mixed(value: Any) -> Mixed:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int) else _text(value)
