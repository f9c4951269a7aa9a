"""How far two engines agree on one prompt, up to which position filter, and where they diverge.

Entries are matched by checkpoint, text and token, values by position. A filter leaves positions out, as the report
advises: it saw garbage at 0 and 2; the supported one is the mildest that leaves no flagged value. Relative: root mean
square of the differences over that of the control's values; the dashed line is what the coarser precision of the two
explains. If each engine sampled its own text, entries after the first different token do not compare the engines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from engine.figures.words import capitalised, counted
from engine.logits.pairs import PAIRED, both, late_read
from engine.logits.parity import Parity, compare_logs, parity_sentences
from engine.logits.rules import LOGITS
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "How far do the two logs agree?"
OF = Of("log", least=2, most=2)
BY = {"relative": "relative difference", "apart": "1 − cosine", "max_difference": "largest difference"}
MOST_POINTS, MOST_POSITIONS = 3_000, 2_000
Row = dict[str, Any]


def checkpoints(store: Store, entries: Sequence[Entry]) -> list[str]:
    """The first that diverges is the default, else the logits."""
    if len(entries) < 2:
        return []
    parity = compare_logs(store, *entries[:2])
    names = [row["checkpoint"] for row in parity["checkpoints"]]
    first = (parity["diverging"] or {}).get("checkpoint", LOGITS if LOGITS in names else names[0])
    return sorted(names, key=lambda name: name != first)


OPTIONS = (
    Option("parity_by", None, "Differences", {name: capitalised(words) for name, words in BY.items()}),
    Option("parity_at", None, "Checkpoint", checkpoints, help="Of the charts"),
)
COLUMNS = {
    "positions": Column("positions", is_pinned=True),
    "flagged": Column("flagged", help="With the pairs that have a flagged value, or without"),
    "supported": Column("supported", help="The mildest filter that leaves no flagged value"),
    "max_difference": Column("largest", help="Largest absolute difference of a pair"),
    "mean_difference": Column("mean", help="Mean absolute difference"),
    "shift": Column("shift", help="Mean difference, with its sign"),
    "max_relative": Column("largest relative", help="Of one value, over the larger of the pair"),
    "relative": Column("relative", help="Root mean square of the differences, over that of the control's values"),
    "rank": Column("rank", help="Spearman's correlation, mean over entries"),
    "top_1": Column("top-1", "%", "Entries with the largest value at the same position"),
    "not_finite": Column("not finite", help="Pairs with NaN, an infinity or a number over 1e150: left out"),
    "token_idx": Column("token"),
    "value": Column("difference"),
    "difference": Column("absolute difference"),
    "both": Column("in both"),
    "diverges_at": Column("diverges at", help="First token with a difference that precision does not explain"),
    "tolerance": Column(is_hidden=True),
    "entry": Column(is_hidden=True),
}
CHARTS = (
    Chart("points", "token_idx", "value", "tokens", colour="", interval="y", log="y", line_at="tolerance",
          hover=("token_idx", "sequence", "value")),
    Chart("points", "control", "test", "pairs", colour="", has_diagonal=True,
          hover=("token_idx", "position", "control", "test")),
    Chart("points", "position", "difference", "positions", colour="which", interval="y", log="y",
          hover=("position", "which", "difference")),
)  # fmt: skip
TABLES = ("main", "checkpoints")

SOUND = f"""{PAIRED}
SELECT token_idx, position, control, test, abs(test - control) AS off FROM paired
WHERE checkpoint = $checkpoint AND is_finite AND NOT is_flagged ORDER BY entry, position"""


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    control, test = entries
    parity = compare_logs(store, control, test)
    by, at = options["parity_by"], options["parity_at"]
    measured = [row for row in parity["places"] if row["checkpoint"] == at and row[by] is not None]
    tolerance = parity["tolerance"] if by == "relative" else None
    differing = [row | {"value": row[by], "tolerance": tolerance} for row in measured if row[by]]
    sound = both(store, SOUND, control, test, checkpoint=at)
    indexes = np.linspace(0, len(sound) - 1, min(MOST_POINTS, len(sound))).astype(np.int64)
    sentences = parity_sentences(parity)
    lead = [*sentences[:2], *late_words(store, entries)]
    notes = [*sentences[2:], *cautions(control.row, test.row)]
    equal = len(measured) - len(differing)
    if equal:
        notes.append(f"{counted(equal, 'entry is', 'entries are')} equal bit for bit, and not drawn.")
    return {
        "main": rows_table(filter_rows(parity)),
        "checkpoints": rows_table(parity["checkpoints"]),
        "tokens": rows_table(largest(differing)),
        "pairs": sound.take(indexes).drop_columns("off"),
        "positions": rows_table(offsets(sound)),
        "notes": rows_table([{"text": text, "is_lead": text in lead} for text in lead + notes]),
    }


def filter_rows(parity: Parity) -> list[Row]:
    """A row a filter, where values are flagged with and without these."""
    ways = [("none", "with_flagged")]
    if parity["filters"][0]["flagged"]:
        ways = [("with", "with_flagged"), ("without", "without_flagged")]
    rows = []
    for row in parity["filters"]:
        for words, key in ways:
            supported = "✓" if row["name"] == parity["supported"] and words != "without" else None
            rows.append({"positions": row["name"], "flagged": words, "supported": supported, **row[key]})
    return rows


def largest(rows: Sequence[Row]) -> list[Row]:
    """By token; of many the largest of each stretch of tokens."""
    ordered = sorted(rows, key=lambda row: row["token_idx"])
    stretch = -(-len(ordered) // MOST_POINTS) or 1
    parts = (ordered[start : start + stretch] for start in range(0, len(ordered), stretch))
    return [max(part, key=lambda row: row["value"]) for part in parts]


def offsets(sound: pa.Table) -> list[Row]:
    """Mean and largest difference by position, without those that are nothing."""
    by_position = sound.group_by("position").aggregate([("off", "mean"), ("off", "max")]).sort_by("position")
    places = by_position.slice(0, MOST_POSITIONS).to_pylist()
    rows = []
    for which, name in (("mean", "off_mean"), ("largest", "off_max")):
        rows += [{"position": at["position"], "which": which, "difference": at[name]} for at in places if at[name]]
    return rows


def late_words(store: Store, entries: Sequence[Entry]) -> Iterator[str]:
    for log in entries:
        if late := late_read(store, log, entries):
            hold = f"{late['nearer']:,} of {late['entries']:,} entries hold the other's values of the next token"
            yield f"{log.id} was probably read late: {hold}."


def cautions(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[str]:
    """Of two logs' rows; what one does not know is no difference."""

    def differs(name: str) -> bool:
        return bool(first.get(name) and second.get(name) and first[name] != second[name])

    if differs("model"):
        yield "Different models: differences say nothing about the engines."
    if differs("length"):
        yield f"Rows of {first['length']:,} and {second['length']:,} values: two vocabularies, or padding."
    if first["engine"] == second["engine"] and first.get("precision") == second.get("precision"):
        yield "Same engine and precision: this compares two runs of one engine."


def answer(tables: Tables, options: Options) -> str:
    notes = tables["notes"].to_pylist()
    return answer_text(*([note["text"] for note in notes if note["is_lead"] == is_lead] for is_lead in (True, False)))
