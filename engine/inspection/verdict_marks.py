"""Many samples' verdicts at a glance: of each its text, stereo and geometry, all runs in one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.chem.verdict import LOADED
from engine.inspection.molecules import sample_table
from engine.store.store import Store

Mark = Literal["right", "damaged", "wrong", "unknown"]
OF_FLAG: Mapping[bool | None, Mark] = {True: "right", False: "wrong", None: "unknown"}


@dataclass(frozen=True, slots=True)
class VerdictMarks:
    """``text`` is damaged where it passes and is not clean. Unknown: not judged, or nothing is specified."""

    text: Mark
    stereo: Mark
    geometry: Mark
    usable: Mark
    has_conformer: bool
    lost_ang: float = 0.0  # how far damage puts its atoms off, as far as known

    @property
    def harm(self) -> tuple[bool, float, int]:
        """Not usable (not right where not judged), Å lost, and how much is wrong."""
        return self.usable == "wrong" or (self.usable == "unknown" and self.text != "right"), self.lost_ang, self.wrong

    @property
    def wrong(self) -> int:
        """How many of the three are not right. A text without a conformer is wrong in all."""
        if not self.has_conformer:
            return 3
        return (self.text != "right") + (self.stereo == "wrong") + (self.geometry == "wrong")


def marks_of(row: Mapping[str, Any]) -> VerdictMarks:
    """Of a row of ``sample_table``."""
    return VerdictMarks(
        text="right" if row["clean"] else "damaged" if row["passed"] else "wrong",
        stereo=OF_FLAG[row["stereo_right"]],
        geometry=OF_FLAG[row["geometry_right"]],
        usable=OF_FLAG[row["usable"]],
        has_conformer=LOADED not in (row["checks"] or "").split(", "),
        lost_ang=row["lost_ang"] or 0.0,
    )


def marks_by_sample(store: Store, run_ids: Sequence[str]) -> dict[str, dict[int, VerdictMarks]]:
    """By run, then by sample."""
    marks: dict[str, dict[int, VerdictMarks]] = {run_id: {} for run_id in run_ids}
    columns = [
        "run_id",
        "sample_id",
        "clean",
        "passed",
        "stereo_right",
        "geometry_right",
        "usable",
        "checks",
        "lost_ang",
    ]
    for row in sample_table(store, run_ids).select(columns).to_pylist():
        marks[row["run_id"]][row["sample_id"]] = marks_of(row)
    return marks


def worst_first(marks: Sequence[Mapping[int, VerdictMarks]], samples: int) -> list[int]:
    """All samples, those first with most harm over all runs; of equals, as they were written."""

    def harm(sample: int) -> tuple[float, ...]:
        known = [run[sample].harm for run in marks if sample in run]
        return tuple(-sum(one[part] for one in known) for part in range(3))

    return sorted(range(samples), key=harm)
