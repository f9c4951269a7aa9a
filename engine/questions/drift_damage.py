"""Judged samples by the worst that their text has, junk before cut before unverified, each sample once.

With 95 % intervals (Wilson's), which treat the answers of one molecule as independent. What the strict reader refuses
has no geometry to judge.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.figures.statistics import wilson
from engine.figures.words import percent, span
from engine.questions.question import Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Does damage in the text go with damage in the molecule?"
OF = Of("run", least=1, most=41)
NEEDS_TEXTS = True
COLUMNS = {
    "text": Column("text"),
    "what": Column(""),
    "share": Column("right", "%"),
    "low": Column("from", "%"),
    "high": Column("to", "%"),
    "judged": Column("of those judged"),
    "samples": Column("samples", help="Of this text, judged or not"),
}
TEXTS = ("junk", "cut", "unverified", "clean", "other")
SQL = """
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


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    ids, rows = [entry.id for entry in entries], []
    by_text = {row["text"]: row for row in store.table(SQL, {"runs": ids}, of=ids).to_pylist()}
    for text, row in ((text, by_text[text]) for text in TEXTS if text in by_text):
        for check in ("stereo", "geometry"):
            right, judged = row[f"{check}_right"], row[f"{check}_judged"]
            low, high = wilson(right, judged) if judged else (None, None)
            rows.append(
                {
                    "text": text,
                    "what": f"{check} right",
                    "share": right / judged if judged else None,
                    "low": low,
                    "high": high,
                    "judged": judged,
                    "samples": row["samples"],
                }
            )
    return {"main": rows_table(rows if any(row["judged"] for row in rows) else [], list(COLUMNS))}


def answer(tables: Tables, options: Options) -> str:
    rows = [row for row in tables["main"].to_pylist() if row["what"] == "geometry right" and row["judged"]]
    lines = [
        f"Text {row['text']}: geometry right in {percent(row['share'])} ({span(row['low'], row['high'], percent)}) of "
        f"{row['judged']:,}."
        for row in rows
    ]
    return answer_text(lines or ["No judged sample of these runs has a geometry to judge."])
