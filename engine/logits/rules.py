"""The rules that flag values and judge agreement, as ``data/logit_rules.toml`` has them."""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import FileFormatError, shown
from engine.paths import DATA

RULES_FILE = DATA / "logit_rules.toml"
LOGITS = "logits"
OTHER = "other"
REPORT_RULE = "report-004"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one kind of checkpoint: which values may be there."""

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
class ReportedGarbage:
    """What the report states of one model's garbage."""

    run_id: str
    positions: tuple[int, ...]
    least: float | None
    largest: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    most_chance: float
    reach: int
    checkpoints: Mapping[str, Bounds]
    masks: tuple[float, ...]
    report: ReportRule
    tolerances: Mapping[str, float]
    reported: tuple[ReportedGarbage, ...]
    sha256: str

    def bounds(self, checkpoint: str) -> Bounds:
        """``logits`` and names that hold the word are logits; all else is something behind a layer."""
        return self.checkpoints[LOGITS if LOGITS in checkpoint.lower() else OTHER]

    def tolerance(self, precision: str | None) -> float:
        """Of a precision as engines write it (F16, fp16, Q4_K_M, float32, ...)."""
        return self.tolerances[_precision(precision, self.tolerances)]


@functools.lru_cache(maxsize=4)
def load_rules(path: Path = RULES_FILE) -> Rules:
    try:
        content = path.read_bytes()
        return _rules(tomllib.loads(content.decode()), hashlib.sha256(content).hexdigest())
    except OSError as error:
        raise FileFormatError(f"{shown(path, 200)} cannot be read: {error.strerror}", "Check its path") from error
    except (ValueError, KeyError, TypeError) as error:
        raise FileFormatError(f"{shown(path, 200)} holds no rules for logit logs: {error}", "Mend it there") from error


def _rules(said: Mapping[str, Any], sha256: str) -> Rules:
    report = said["rules"][REPORT_RULE]
    return Rules(
        float(said["most_chance"]),
        int(said["reach"]),
        {name: Bounds(**bounds) for name, bounds in said["checkpoints"].items()},
        tuple(map(float, said["masks"]["values"])),
        ReportRule(REPORT_RULE, report["title"], float(report["above"])),
        {name: float(value) for name, value in said["tolerances"].items()},
        tuple(_reported(run_id, one) for run_id, one in said["reported"].items()),
        sha256,
    )


def _reported(run_id: str, said: Mapping[str, Any]) -> ReportedGarbage:
    positions = tuple(map(int, said["positions"]))
    return ReportedGarbage(run_id, positions, said.get("least"), said.get("largest"), said.get("tokens"))


def _precision(name: str | None, known: Mapping[str, float]) -> str:
    text = (name or "").lower().replace("float", "f").replace("fp", "f").replace("iq", "q").replace("half", "f16")
    return max((one for one in known if one != UNKNOWN and text.startswith(one)), key=len, default=UNKNOWN)
