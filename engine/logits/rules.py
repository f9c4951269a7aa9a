"""The rules that flag values and judge agreement, as ``data/logit_rules.toml`` has them."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.paths import DATA, read_toml

RULES_FILE = DATA / "logit_rules.toml"
LOGITS = "logits"
OTHER = "other"
REPORT_RULE = "report-004"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Plausible values of one kind of checkpoint."""

    zeros: bool  # whether an exact zero is suspicious
    spreads: float
    least: float
    absurd: float


@dataclass(frozen=True, slots=True)
class ReportRule:
    """A named rule that is not ours: an entry with a finite value larger than ``above`` in size is garbage."""

    name: str
    title: str
    above: float


@dataclass(frozen=True, slots=True)
class DamageExtent:
    """Where a log's damage is, and its size: measured, or what the report states of one model's garbage."""

    positions: tuple[int, ...]
    least: float | None
    largest: float | None
    tokens: int | None = None  # with garbage, where the report counts them


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    most_chance: float
    reach: int
    checkpoints: Mapping[str, Bounds]
    masks: tuple[float, ...]
    report: ReportRule
    tolerances: Mapping[str, float]
    reported: Mapping[str, DamageExtent]  # by reported run
    sha256: str

    def bounds(self, checkpoint: str) -> Bounds:
        """``logits`` and names that contain the word are logits; all else is the output of a layer."""
        return self.checkpoints[LOGITS if LOGITS in checkpoint.lower() else OTHER]

    def tolerance(self, precision: str | None) -> float:
        """Of a precision as engines write it (F16, fp16, Q4_K_M, float32, ...)."""
        text = (precision or "").lower()
        for spelling, plain in (("float", "f"), ("fp", "f"), ("iq", "q"), ("half", "f16")):
            text = text.replace(spelling, plain)
        known = (name for name in self.tolerances if name != UNKNOWN and text.startswith(name))
        return self.tolerances[max(known, key=len, default=UNKNOWN)]


@functools.lru_cache(maxsize=4)
def load_rules(path: Path = RULES_FILE) -> Rules:
    return read_toml(path, "file of rules for logit logs", lambda document: _rules(document, path.read_bytes()))


def _rules(document: Mapping[str, Any], content: bytes) -> Rules:
    report = document["rules"][REPORT_RULE]
    return Rules(
        float(document["most_chance"]),
        int(document["reach"]),
        {name: Bounds(**bounds) for name, bounds in document["checkpoints"].items()},
        tuple(map(float, document["masks"]["values"])),
        ReportRule(REPORT_RULE, report["title"], float(report["above"])),
        {name: float(value) for name, value in document["tolerances"].items()},
        {
            run_id: DamageExtent(tuple(map(int, row["positions"])), *map(row.get, ("least", "largest", "tokens")))
            for run_id, row in document["reported"].items()
        },
        hashlib.sha256(content).hexdigest(),
    )
