"""The damage of a stored log in figures: by entry, by value and by position.

Shares count damage. Values masked on purpose and rows without a token are flagged too, and counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.logits.causes import TITLES
from engine.logits.entries import MOST_INDEX
from engine.logits.rules import FLAGS, load_rules
from engine.store.entries import Entry
from engine.store.memo import computed_once
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES
from engine.store.store import Store

MOST_POSITIONS = 2_000  # of one answer: those with most flags

# A value is damaged where it has a flag and is neither a mask nor padding; `damage_query` has the parameters.
DAMAGED = """
    len(flags) > 0 AND position < $padded AND NOT (value = '-inf'::DOUBLE OR
    list_bool_or(list_transform($masks::DOUBLE[], lambda mask: abs(value - mask) <= 1e-6 * abs(mask))))
"""
COUNTS = ", ".join(f"(SELECT count(*) FROM {part.name}) AS {part.name}" for part in (LOGIT_ENTRIES, LOGIT_VALUES))
# Most values have no flag: the slow expression is evaluated for the others alone.
_HEALTH = f"""
WITH noted AS MATERIALIZED (
    SELECT entry, position, value, flags, {DAMAGED} AS is_damaged FROM logit_values WHERE len(flags) > 0
),
totals AS (
    SELECT count(*) AS damaged_values, count(DISTINCT entry) AS damaged_entries,
           min(abs(value)) FILTER (isfinite(value)) AS least, max(abs(value)) FILTER (isfinite(value)) AS largest
    FROM noted WHERE is_damaged
),
kinds AS (
    SELECT flag, count(*) AS values, count(DISTINCT entry) AS entries, count(DISTINCT position) AS positions
    FROM (SELECT entry, position, unnest(flags) AS flag FROM noted) GROUP BY flag
),
places AS (
    SELECT position, count(*) AS flagged, count(*) FILTER (is_damaged) AS damaged
    FROM noted GROUP BY position ORDER BY flagged DESC, position LIMIT {MOST_POSITIONS}
),
seen AS (
    SELECT position, count(*) AS seen, any_value(flagged) AS flagged, any_value(damaged) AS damaged,
           count(*) FILTER (isfinite(value) AND abs(value) > $above) AS garbage
    FROM logit_values JOIN places USING (position) GROUP BY position
)
SELECT totals.*, {COUNTS}, (SELECT list(one ORDER BY list_position($flags, flag)) FROM kinds AS one) AS flags,
       (SELECT list(one ORDER BY flagged DESC, position) FROM seen AS one) AS positions
FROM totals
"""


@computed_once(48)
def health(store: Store, entry: Entry) -> dict[str, Any]:
    """One log. ``damaged`` leaves out what was masked or padded on purpose; ``garbage`` is the report's rule.

    ``least`` and ``largest`` are in size, of the damaged values. ``flags``: flag, values, entries, positions; and
    ``positions``: position, values seen, flagged, damaged, garbage, those with most flags first.
    """
    require_values(entry)
    report = load_rules().rules["report-004"]
    (row,) = damage_query(store, entry, _HEALTH, above=report["above"], flags=FLAGS).to_pylist()
    require_values(entry, {name: row.pop(name) for name in (LOGIT_ENTRIES.name, LOGIT_VALUES.name)})
    entries, garbage = entry.parts[LOGIT_ENTRIES.name].rows, entry.row.get("garbage_entries", 0)
    return {
        "log_id": entry.id,
        **{name: entry.row.get(name) for name in ("engine", "model", "precision", "length")},
        "entries": entries,  # as counted; the sheet may say anything
        "values": entry.parts[LOGIT_VALUES.name].rows,
        "flagged_entries": entry.row.get("flagged_entries", 0),
        "flagged_values": entry.row.get("flagged_values", 0),
        "garbage_entries": garbage,
        "garbage_share": garbage / entries,
        "damaged_share": row["damaged_entries"] / entries,
        **row,
        "flags": row["flags"] or [],
        "positions": row["positions"] or [],
        "findings": findings_in(entry),
        "rule": report["title"],
    }


def findings_in(entry: Entry) -> list[dict[str, Any]]:
    """As they were stored with a log."""
    try:
        findings = json.loads(entry.row.get("findings") or "[]")
        return [{"places": len(row["positions"]), **row, "title": TITLES[row["cause"]]} for row in findings]
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(f"the findings of {entry.id} do not read", "Read its file in again, or remove it") from error


def damage_query(store: Store, entry: Entry, sql: str, **parameters: Any) -> pa.Table:
    """Rows of one log, of SQL with ``DAMAGED`` in it: where the padding begins, and which values are masks."""
    padded = [finding["positions"][0] for finding in findings_in(entry) if finding["cause"] == "padding"]
    of_log = {"padded": min(padded, default=MOST_INDEX), "masks": load_rules().masks["values"]}
    return store.table(sql, of_log | parameters, of=[entry.id])


def check_values(store: Store, entry: Entry) -> None:
    require_values(entry)
    require_values(entry, store.table(f"SELECT {COUNTS}", of=[entry.id]).to_pylist()[0])


def require_values(entry: Entry, counts: Mapping[str, int] | None = None) -> None:
    """Queries skip damaged files, so that missing values would count as undamaged ones: an error here.

    ``counts``: the rows that a query read, by table.
    """
    is_short = counts is not None and counts != {name: part.rows for name, part in entry.parts.items()}
    if not has_values(entry) or is_short:
        raise StoreError(f"the values of {entry.id} are missing or damaged", "Read its file in again, or remove it")


def has_values(entry: Entry) -> bool:
    """False where a file of its values is missing, or empty."""
    return all(name in entry.parts and entry.parts[name].rows for name in (LOGIT_ENTRIES.name, LOGIT_VALUES.name))
