"""Does damage in the text go with damage in the molecule? Judged samples by what their text has and by their verdict.

A sample counts once, under the worst that its text has: junk, cut, unverified, clean, else other. Rates have Wilson's
interval, which treats the answers of one molecule as independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.figures.statistics import Interval, wilson
from engine.store.store import Store

TEXTS = ("junk", "cut", "unverified", "clean", "other")

_COUNTS = """
WITH of_blocks AS (
    SELECT run_id, sample_id, count_if(junk_text <> '') AS junk, count_if(list_contains(kinds, 'cut')) AS cut,
           count_if(list_contains(kinds, 'unverified')) AS unverified
    FROM blocks WHERE list_contains($runs, run_id) GROUP BY ALL
)
SELECT CASE WHEN junk > 0 THEN 'junk' WHEN cut > 0 THEN 'cut' WHEN unverified > 0 THEN 'unverified'
            WHEN clean THEN 'clean' ELSE 'other' END AS text,
       count(*)::BIGINT AS samples,
       count(stereo_right)::BIGINT AS stereo_judged, count_if(stereo_right)::BIGINT AS stereo_right,
       count(geometry_right)::BIGINT AS geometry_judged, count_if(geometry_right)::BIGINT AS geometry_right
FROM samples LEFT JOIN of_blocks USING (run_id, sample_id)
WHERE list_contains($runs, run_id) AND usable IS NOT NULL GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class TextDamage:
    """Samples with a verdict whose text has this; a rate is None where none of them has what it is of.

    A damaged text may have no conformer, so fewer have a geometry that could be judged.
    """

    text: str
    samples: int
    stereo_judged: int
    stereo_right: Interval | None
    geometry_judged: int
    geometry_right: Interval | None


def damage(store: Store, run_ids: Sequence[str]) -> list[TextDamage]:
    """The kinds of text that there are, worst first; nothing where no sample was judged."""
    rows = {row["text"]: row for row in store.table(_COUNTS, {"runs": list(run_ids)}, of=run_ids).to_pylist()}
    return [
        TextDamage(
            text,
            row["samples"],
            row["stereo_judged"],
            _rate(row, "stereo"),
            row["geometry_judged"],
            _rate(row, "geometry"),
        )
        for text in TEXTS
        if (row := rows.get(text)) is not None
    ]


def _rate(row: Mapping[str, int], part: str) -> Interval | None:
    right, judged = row[f"{part}_right"], row[f"{part}_judged"]
    return Interval(right / judged, *wilson(right, judged)) if judged else None
