"""Events of a trace as typed records of the fields that are used.

``decode_quickly`` and ``decode_exactly`` read many at once and are strict; ``lenient_event`` reads one as any tool may
have written it: numbers as texts, control characters, NaN, damaged UTF-8.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Generic, TypeVar

import msgspec

from engine.user_files import parsed_json

COARSE_US = float(2**43)
"""Above this a double has no nanosecond resolution for a time in microseconds."""
Mixed = int | str | float | None
Time = TypeVar("Time", float, Decimal)
_ODD_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?\b(?:nan|inf)\b', re.IGNORECASE | re.DOTALL)
_ODD_ESCAPE = re.compile(r'(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^\\]*+)++|\\(.|\Z)', re.DOTALL)


class Args(msgspec.Struct, gc=False):
    stream: Mixed = None
    correlation: Mixed = None
    device: Mixed = None


class Event(msgspec.Struct, Generic[Time], gc=False):
    """Times are microseconds. ``ts`` as Decimal keeps all digits: slower, and needed where times count from 1970."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: Time | None = None
    dur: float | None = None
    pid: Mixed = None
    tid: Mixed = None
    args: Args | None = None


AnyEvent = Event[float] | Event[Decimal]
decode_quickly: Callable[[Any], list[Event[float]]] = msgspec.json.Decoder(list[Event[float]]).decode
decode_exactly: Callable[[Any], list[Event[Decimal]]] = msgspec.json.Decoder(list[Event[Decimal]]).decode
UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # a ValidationError is a DecodeError


def is_coarse(events: list[Event[float]]) -> bool:
    """Whether a double is too coarse for the times of these."""
    first = next((event.ts for event in events if event.ph == "X" and event.ts is not None), 0.0)
    return abs(first) >= COARSE_US


def lenient_event(raw: bytes) -> Event[Decimal] | None:
    """One element of the array; None where it is no object. ValueError where it cannot be read at all."""
    event = _lenient_value(raw.decode("utf-8", "replace"))
    if not isinstance(event, dict):
        return None
    args = event.get("args")
    inner = args if isinstance(args, dict) else {}
    return Event[Decimal](
        ph=_text(event.get("ph")),
        cat=_text(event.get("cat")),
        name=_text(event.get("name")),
        ts=_decimal(event.get("ts")),
        dur=None if (dur := _decimal(event.get("dur"))) is None or math.isinf(float(dur)) else float(dur),
        pid=_mixed(event.get("pid")),
        tid=_mixed(event.get("tid")),
        args=Args(*(_mixed(inner.get(key)) for key in ("stream", "correlation", "device"))),
    )


def lenient_object(raw: bytes) -> Mapping[str, Any]:
    """The object around the array; empty where it cannot be read: no figure depends on it."""
    try:
        found = _lenient_value(raw.decode("utf-8", "replace"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lenient_value(text: str) -> Any:
    try:
        return parsed_json(text, strict=False, parse_float=_decimal)
    except ValueError:
        plain = _ODD_NUMBER.sub(lambda match: match[0] if match[0].startswith('"') else "null", text)
        plain = _ODD_ESCAPE.sub(lambda match: match[0] if match[1] is None else f"\\\\{match[1]}", plain)
        return parsed_json(plain, strict=False, parse_float=_decimal)


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


def _mixed(value: Any) -> Mixed:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, Decimal):
        return float(value)
    return value if isinstance(value, int) else _text(value)
