"""The rules that flag values and judge agreement, as ``data/logit_rules.toml`` has them, and what flags mean."""

from __future__ import annotations

import functools
import hashlib
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.paths import DATA, read_toml
from engine.records import ValueFlag

RULES_FILE = DATA / "logit_rules.toml"
LOGITS, UNKNOWN = "logits", "unknown"
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
    "constant": "one of an entry with values that are all the same",
}


def bit(flag: ValueFlag) -> np.uint8:
    return np.uint8(1 << FLAGS.index(flag))


def has(flags: Flags, flag: ValueFlag) -> Marks:
    return np.asarray(flags & bit(flag), dtype=np.bool_)


class Bounds(msgspec.Struct, frozen=True):
    """Plausible values of one kind of checkpoint."""

    zeros: bool  # whether an exact zero is suspicious
    spreads: float
    least: float
    absurd: float


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As the file has them."""

    most_chance: float
    reach: int
    checkpoints: dict[str, Bounds]  # ``logits`` for names that contain the word, ``other`` is the output of a layer
    masks: dict[str, list[float]]
    rules: dict[str, dict[str, Any]]  # a report's own: an entry with a finite value over ``above`` in size is garbage
    tolerances: dict[str, float]
    sha256: str

    def is_mask(self, values: Real) -> Marks:
        """Minus infinity, and numbers that code writes as a mask."""
        is_masked, masks = np.isneginf(values), np.array(self.masks["values"])
        suspects = values <= masks.max()
        with np.errstate(invalid="ignore"):
            is_masked[suspects] |= np.isclose(values[suspects][:, None], masks, rtol=1e-6, atol=0).any(axis=1)
        return is_masked

    def tolerance(self, precision: str | None) -> float:
        """Of a precision as engines write it (F16, fp16, Q4_K_M, float32, ...)."""
        text = (precision or "").lower()
        for spelling, plain in (("float", "f"), ("fp", "f"), ("iq", "q"), ("half", "f16")):
            text = text.replace(spelling, plain)
        return self.tolerances[max(filter(text.startswith, self.tolerances), key=len, default=UNKNOWN)]


@functools.cache
def load_rules() -> Rules:
    sha256 = hashlib.sha256(RULES_FILE.read_bytes()).hexdigest()
    return read_toml(
        RULES_FILE, "file of rules for logit logs", lambda table: msgspec.convert({**table, "sha256": sha256}, Rules)
    )
