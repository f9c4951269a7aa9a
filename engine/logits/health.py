"""The damage of a stored log in figures: by entry, by value and by position.

Shares count damage. Values masked on purpose and rows without a token are flagged too, and counted apart.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.inspection.memo import computed_once
from engine.logits.causes import LogFinding
from engine.logits.entries import MOST_INDEX
from engine.logits.ingest import findings_in
from engine.logits.rules import FLAGS, load_rules
from engine.store.entries import Entry
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES
from engine.store.store import Store

MOST_POSITIONS = 2_000  # of one answer: those with most flags

# A value is damaged where it has a flag and is neither a mask nor padding; `damage_query` has the parameters.
DAMAGED = """
    len(flags) > 0 AND position < $padded AND NOT (value = '-inf'::DOUBLE OR
    list_bool_or(list_transform($masks::DOUBLE[], lambda mask: abs(value - mask) <= 1e-6 * abs(mask))))
"""
_COUNTS = """
SELECT (SELECT count(*) FROM logit_entries) AS logit_entries, (SELECT count(*) FROM logit_values) AS logit_values
"""
_PARTS = {
    "counts": _COUNTS,
    "entries": """
SELECT count(*) FILTER (flagged > 0) AS flagged_entries, coalesce(sum(flagged), 0)::BIGINT AS flagged_values,
       count(*) FILTER (is_garbage) AS garbage_entries
FROM logit_entries
""",
    "totals": f"""
SELECT count(*) AS damaged_values, count(DISTINCT entry) AS damaged_entries,
       min(abs(value)) FILTER (isfinite(value)) AS least, max(abs(value)) FILTER (isfinite(value)) AS largest
FROM logit_values WHERE {DAMAGED}
""",
    "flags": """
SELECT flag, count(*) AS values, count(DISTINCT entry) AS entries, count(DISTINCT position) AS positions
FROM (SELECT entry, position, unnest(flags) AS flag FROM logit_values WHERE len(flags) > 0) GROUP BY ALL
""",
    # Most values have no flag: the slow expression is evaluated for the others alone.
    "positions": f"""
WITH noted AS (
    SELECT position, count(*) AS flagged, count(*) FILTER ({DAMAGED}) AS damaged
    FROM logit_values WHERE len(flags) > 0 GROUP BY ALL
),
logged AS (
    SELECT position, count(*) AS seen, count(*) FILTER (isfinite(value) AND abs(value) > $above) AS garbage
    FROM logit_values GROUP BY ALL
)
SELECT position, seen, coalesce(flagged, 0) AS flagged, coalesce(damaged, 0) AS damaged, garbage
FROM logged LEFT JOIN noted USING (position) ORDER BY flagged DESC, position LIMIT {MOST_POSITIONS}
""",
}
# One query in place of five: opening the files takes longer than reading a small log.
_ALL = "SELECT " + ", ".join(f"(SELECT list(one) FROM ({sql}) AS one) AS {name}" for name, sql in _PARTS.items())


@dataclass(frozen=True, slots=True)
class Health:
    """One log. ``damaged`` leaves out what was masked or padded on purpose; ``garbage`` is the reports' rule."""

    log_id: str
    engine: str
    model: str | None
    precision: str | None
    length: int | None
    entries: int
    values: int
    flagged_entries: int
    flagged_values: int
    damaged_entries: int
    damaged_values: int
    garbage_entries: int
    least: float | None  # in size, of the damaged values
    largest: float | None
    flags: list[dict[str, Any]]  # flag, values, entries, and the number of different positions
    positions: list[dict[str, Any]]  # position, values seen, flagged, damaged, garbage; those with most flags first
    findings: list[LogFinding]
    rule: str  # the reports' rule, in words

    @property
    def damaged_share(self) -> float:
        return self.damaged_entries / self.entries

    @property
    def garbage_share(self) -> float:
        return self.garbage_entries / self.entries

    def sheet(self) -> dict[str, Any]:
        """For JSON; of the positions only those with flags."""
        return asdict(self) | {
            "positions": [place for place in self.positions if place["flagged"]],
            "findings": [finding.sheet() for finding in self.findings],
            "damaged_share": self.damaged_share,
            "garbage_share": self.garbage_share,
        }


@computed_once(48)
def health(store: Store, entry: Entry) -> Health:
    rules, row = load_rules(), entry.row
    (answers,) = damage_query(store, entry, _ALL, above=rules.above).to_pylist()
    _check_counts(entry, *answers["counts"])
    return Health(
        log_id=entry.id,
        **{name: row.get(name) for name in ("engine", "model", "precision", "length")},  # type: ignore[arg-type]
        entries=entry.parts[LOGIT_ENTRIES.name].rows,  # as counted; the sheet may say anything
        values=entry.parts[LOGIT_VALUES.name].rows,
        **answers["entries"][0],
        **answers["totals"][0],
        flags=sorted(answers["flags"] or (), key=lambda share: FLAGS.index(share["flag"])),
        positions=sorted(answers["positions"] or (), key=lambda place: (-place["flagged"], place["position"])),
        findings=findings_in(entry),
        rule=rules.report,
    )


def damage_query(store: Store, entry: Entry, sql: str, **parameters: Any) -> pa.Table:
    """Rows of one log, of SQL with ``DAMAGED`` in it: where the padding begins, and which values are masks."""
    padded = [finding.positions[0] for finding in findings_in(entry) if finding.cause == "padding"]
    known = {"padded": min(padded, default=MOST_INDEX), "masks": load_rules().masks.tolist()}
    return store.table(sql, known | parameters, of=[entry.id])


def check_values(store: Store, entry: Entry) -> None:
    """Queries skip damaged files, so that missing values would count as undamaged ones: an error here."""
    _check_counts(entry, *store.table(_COUNTS, {}, of=[entry.id]).to_pylist())


def _check_counts(entry: Entry, counts: dict[str, int]) -> None:
    if not has_values(entry) or counts != {name: part.rows for name, part in entry.parts.items()}:
        raise StoreError(f"the values of {entry.id} are missing or damaged", "Read its file in again, or remove it")


def has_values(entry: Entry) -> bool:
    """False where a file of its values is missing, or empty."""
    return all(name in entry.parts and entry.parts[name].rows for name in (LOGIT_ENTRIES.name, LOGIT_VALUES.name))
