"""What a document of ``lost-third`` has to have, and of which kind: a store may come from anywhere.

What else it has, its costs among it, is not looked at here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

Number = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Name = Annotated[str, msgspec.Meta(max_length=200)]


class CoverageChange(msgspec.Struct):
    value: Number
    low: Number | None
    high: Number | None


class FallStepValues(msgspec.Struct):
    step: Literal["forcing the SMILES", "failed parses", "placeholder and cut", "in all"]
    cov_r: CoverageChange | None


class LaneFigures(msgspec.Struct):
    cov_r: Number | None
    cov_p: Number | None
    mat_r_ang: Number | None
    mat_p_ang: Number | None
    thresholds: list[Number]
    cov_r_curve: list[Number | None]
    missing: Count

    def __post_init__(self) -> None:
        if len(self.thresholds) != len(self.cov_r_curve):
            raise ValueError("a curve has not a share for each threshold")


class LaneResult(msgspec.Struct):
    lane: Name
    words: Name
    molecules: Count
    samples_per_molecule: Count
    samples: Count
    parsed: Count
    zero: LaneFigures
    skip: LaneFigures
    not_decoded: dict[str, Count]


class LostThird(msgspec.Struct):
    model: Name
    lanes: list[LaneResult]
    fall: list[FallStepValues] | None
    reordered: dict[str, CoverageChange | None] | None
    descriptors: dict[str, CoverageChange | None] | None = None
    beside_none: dict[str, dict[str, CoverageChange | None]] | None = None


def check(document: Any) -> None:
    """ValueError with the place of what is missing or of another kind."""
    msgspec.convert(document, LostThird)
