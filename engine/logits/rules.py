"""The rules that flag values and judge agreement, as ``data/logit_rules.toml`` has them, and what flags mean."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from engine.paths import DATA, read_toml
from engine.records import ValueFlag

RULES_FILE = DATA / "logit_rules.toml"
LOGITS, OTHER, UNKNOWN = "logits", "other", "unknown"
FLAGS: tuple[ValueFlag, ...] = get_args(ValueFlag)
Flags = NDArray[np.uint8]  # one bit a flag, in the order of FLAGS
Marks = NDArray[np.bool_]
Real = NDArray[np.float64]
Whole = NDArray[np.int64]
MEANING: dict[ValueFlag, str] = {
    "non_finite": "no number, or infinite",
    "outlier": "far outside the spread of its entry's other values",
    "zero": "exactly zero where computed values are not",
    "repeated": "bit for bit what an earlier token of the same text had in this place",
    "denormal": "nearer to zero than normal numbers of single precision are",
    "pointer": "with its neighbour the bits of an address in memory",
    "constant": "one of an entry whose values are all the same",
}


def bit(flag: ValueFlag) -> np.uint8:
    return np.uint8(1 << FLAGS.index(flag))


def has(flags: Flags, flag: ValueFlag) -> Marks:
    return np.asarray(flags & bit(flag), dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Plausible values of one kind of checkpoint."""

    zeros: bool  # whether an exact zero is suspicious
    spreads: float
    least: float
    absurd: float


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    most_chance: float
    reach: int
    checkpoints: Mapping[str, Bounds]
    masks: Real
    report: str  # report 004's own rule, in words
    above: float  # by it an entry with a finite value larger than this in size is garbage
    tolerances: Mapping[str, float]
    sha256: str

    def bounds(self, checkpoint: str) -> Bounds:
        """``logits`` and names that contain the word are logits; all else is the output of a layer."""
        return self.checkpoints[LOGITS if LOGITS in checkpoint.lower() else OTHER]

    def is_garbage(self, values: Real) -> Marks:
        """By the report's own rule, value by value."""
        return np.isfinite(values) & (np.abs(values) > self.above)

    def is_mask(self, values: Real) -> Marks:
        """Minus infinity, and numbers that code writes as a mask."""
        found = np.isneginf(values)
        suspects = values <= self.masks.max()
        with np.errstate(invalid="ignore"):
            found[suspects] |= np.isclose(values[suspects][:, None], self.masks, rtol=1e-6, atol=0).any(axis=1)
        return found

    def tolerance(self, precision: str | None) -> float:
        """Of a precision as engines write it (F16, fp16, Q4_K_M, float32, ...)."""
        text = (precision or "").lower()
        for spelling, plain in (("float", "f"), ("fp", "f"), ("iq", "q"), ("half", "f16")):
            text = text.replace(spelling, plain)
        known = (name for name in self.tolerances if name != UNKNOWN and text.startswith(name))
        return self.tolerances[max(known, key=len, default=UNKNOWN)]


@functools.lru_cache(maxsize=4)
def load_rules(path: Path = RULES_FILE) -> Rules:
    def rules(document: Mapping[str, Any]) -> Rules:
        report = document["rules"]["report-004"]
        return Rules(
            float(document["most_chance"]),
            int(document["reach"]),
            {name: Bounds(**bounds) for name, bounds in document["checkpoints"].items()},
            np.array(document["masks"]["values"], dtype=float),
            report["title"],
            float(report["above"]),
            {name: float(value) for name, value in document["tolerances"].items()},
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )

    return read_toml(path, "file of rules for logit logs", rules)
