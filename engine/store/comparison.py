"""Runs beside a control: every figure as it is, and as a ratio to the control's. Pass rates come with their interval.

``control`` and ``test`` are always in this order, and a ratio is always test over control.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.store.entries import Entry

Z_95 = 1.959963984540054
RATIOS = ("wall_s", "tokens", "ms_a_token", "forward_passes", "pass_rate", "wall_s_a_sample")
FIGURES = (
    "samples",
    "passes",
    "clean",
    "blocks",
    "junk_letters",
    "junk_nonnumeric",
    "bad_blocks",
    "cut_blocks",
    "wall_s",
    "decode_s",
    "tokens",
    "forced_tokens",
    "forward_passes",
    "chars_raw",
    "chars_clean",
)


def wilson(passes: int, samples: int, z: float = Z_95) -> tuple[float, float]:
    """The interval of a rate that so many of so many point to; all of it where there is no sample."""
    if not samples:
        return 0.0, 1.0
    rate, square = passes / samples, z * z / samples
    middle = (rate + square / 2) / (1 + square)
    half = z * math.sqrt(rate * (1 - rate) / samples + square / (4 * samples)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def compare(control: Entry, tests: Sequence[Entry]) -> list[dict[str, Any]]:
    """One row a run, the control first."""
    base = _figures(control.row)
    return [_row("control", control, base, base), *(_row("test", one, _figures(one.row), base) for one in tests)]


def _row(part: str, entry: Entry, figures: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    known = ("origin", "label", "model_alias", "model_step", "model_family", "tokenizer", "lp", "backend", "sampling")
    said = {"part": part, "run_id": entry.id, **{name: entry.row.get(name) for name in known}}
    return said | dict(figures) | {f"{name}_ratio": _over(figures[name], base[name]) for name in RATIOS}


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {name: row.get(name) for name in FIGURES}
    samples, passes = row.get("samples"), row.get("passes")
    low, high = _interval(passes, samples)
    seconds = row.get("decode_s") or row.get("wall_s")
    return found | {
        "pass_rate": _over(passes, samples),
        "pass_rate_low": low,
        "pass_rate_high": high,
        "ms_a_token": _over(seconds, row.get("tokens"), 1000),
        "wall_s_a_sample": _over(row.get("wall_s"), samples),
        "forced_share": _over(row.get("forced_tokens"), row.get("tokens")),
    }


def _interval(passes: int | None, samples: int | None) -> tuple[float | None, float | None]:
    is_rate = passes is not None and samples is not None and 0 <= passes <= samples
    return wilson(passes or 0, samples or 0) if is_rate else (None, None)


def _over(part: float | None, whole: float | None, scale: int = 1) -> float | None:
    if part is None or not whole:
        return None
    found = scale * part / whole
    return found if math.isfinite(found) else None
