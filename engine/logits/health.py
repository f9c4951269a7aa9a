"""The damage of a stored log in figures: by entry, by value and by position.

Shares count damage. Values masked on purpose and rows without a token are flagged too, and counted apart. The reports'
own rule is counted as well. Only the files of this one log are opened, and answers are cached.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from engine.errors import StoreError
from engine.inspection.memo import computed_once
from engine.logits.causes import LogFinding
from engine.logits.entries import MOST_INDEX
from engine.logits.flags import FLAGS, Flag
from engine.logits.ingest import findings_in
from engine.logits.rules import DamageExtent, load_rules
from engine.store.entries import Entry
from engine.store.schema import LOGIT_ENTRIES, LOGIT_VALUES
from engine.store.store import Store

MOST_CACHED = 24
MOST_POSITIONS = 2_000
"""Of one answer: those with most flags."""

# A value is damaged where it has a flag and is neither a mask nor padding; `damage_query` has the parameters.
DAMAGED = """
    len(flags) > 0 AND position < $padded AND NOT (value = '-inf'::DOUBLE OR
    list_bool_or(list_transform($masks::DOUBLE[], lambda mask: abs(value - mask) <= 1e-6 * abs(mask))))
"""
_TOTALS = f"""
SELECT count(*) AS damaged_values, count(DISTINCT entry) AS damaged_entries,
       min(abs(value)) FILTER (isfinite(value)) AS least, max(abs(value)) FILTER (isfinite(value)) AS largest
FROM logit_values WHERE {DAMAGED}
"""
_FLAGS = """
SELECT flag, count(*) AS values, count(DISTINCT entry) AS entries, count(DISTINCT position) AS positions
FROM (SELECT entry, position, unnest(flags) AS flag FROM logit_values WHERE len(flags) > 0) GROUP BY ALL
"""
# Most values have no flag: the slow expression is evaluated for the others alone.
_POSITIONS = f"""
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
"""
_COUNTS = """
SELECT (SELECT count(*) FROM logit_entries) AS logit_entries, (SELECT count(*) FROM logit_values) AS logit_values
"""
_ENTRIES = """
SELECT count(*) FILTER (flagged > 0) AS flagged_entries, coalesce(sum(flagged), 0)::BIGINT AS flagged_values,
       count(*) FILTER (is_garbage) AS garbage_entries
FROM logit_entries
"""
_PARTS = {"counts": _COUNTS, "entries": _ENTRIES, "totals": _TOTALS, "flags": _FLAGS, "positions": _POSITIONS}
# One query in place of five: opening the files takes longer than reading a small log.
_ALL = "SELECT " + ", ".join(f"(SELECT list(one) FROM ({sql}) AS one) AS {name}" for name, sql in _PARTS.items())


@dataclass(frozen=True, slots=True)
class FlagShare:
    flag: Flag
    values: int
    entries: int
    positions: int  # different ones


@dataclass(frozen=True, slots=True)
class PositionShare:
    position: int
    seen: int  # values that were logged there
    flagged: int
    damaged: int  # of them, not on purpose
    garbage: int  # by the reports' rule


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
    flags: tuple[FlagShare, ...]
    positions: tuple[PositionShare, ...]  # all that were logged, those with most flags first
    findings: tuple[LogFinding, ...]
    rule: str  # the reports' rule, in words

    @property
    def damaged_share(self) -> float:
        return self.damaged_entries / self.entries

    @property
    def garbage_share(self) -> float:
        return self.garbage_entries / self.entries

    @property
    def damage(self) -> DamageExtent:
        """The position with most damage first."""
        return DamageExtent(tuple(share.position for share in self.damaged_positions), self.least, self.largest)

    @property
    def damaged_positions(self) -> list[PositionShare]:
        """Those with most damage first."""
        return sorted((share for share in self.positions if share.damaged), key=lambda share: -share.damaged)

    def sheet(self) -> dict[str, Any]:
        """For JSON; of the positions only those with flags."""
        return asdict(self) | {
            "positions": [asdict(share) for share in self.positions if share.flagged],
            "findings": [finding.sheet() for finding in self.findings],
            "damaged_share": self.damaged_share,
            "garbage_share": self.garbage_share,
        }


@computed_once(MOST_CACHED)
def health(store: Store, entry: Entry) -> Health:
    rule, row = load_rules().report, entry.row
    (answers,) = damage_query(store, entry, _ALL, above=rule.above).to_pylist()
    _check_counts(entry, *answers["counts"])
    (totals,), (entries,) = answers["totals"], answers["entries"]
    shares = {share["flag"]: share for share in answers["flags"] or ()}
    positions = sorted(answers["positions"] or (), key=lambda share: (-share["flagged"], share["position"]))
    return Health(
        log_id=entry.id,
        engine=row["engine"],
        model=row.get("model"),
        precision=row.get("precision"),
        length=row.get("length"),
        entries=entry.parts[LOGIT_ENTRIES.name].rows,  # as counted; the sheet may say anything
        values=entry.parts[LOGIT_VALUES.name].rows,
        **entries,
        **totals,
        flags=tuple(FlagShare(**shares[flag]) for flag in FLAGS if flag in shares),
        positions=tuple(PositionShare(**share) for share in positions),
        findings=tuple(findings_in(entry)),
        rule=rule.title,
    )


def damage_parameters(entry: Entry) -> dict[str, Any]:
    """Of ``DAMAGED``: where the padding begins, and which values are masks."""
    padded = [finding.positions[0] for finding in findings_in(entry) if finding.cause == "padding"]
    return {"padded": min(padded, default=MOST_INDEX), "masks": list(load_rules().masks)}


def damage_query(store: Store, entry: Entry, sql: str, **parameters: Any) -> pa.Table:
    """Rows of one log, of SQL with ``DAMAGED`` in it."""
    return store.table(sql, damage_parameters(entry) | parameters, of=[entry.id])


def check_values(store: Store, entry: Entry) -> None:
    """Queries skip damaged files, so that missing values would count as undamaged ones: an error here."""
    _check_counts(entry, *store.table(_COUNTS, {}, of=[entry.id]).to_pylist())


def _check_counts(entry: Entry, counts: dict[str, int]) -> None:
    if not has_values(entry) or counts != {name: part.rows for name, part in entry.parts.items()}:
        raise StoreError(f"the values of {entry.id} are missing or damaged", "Read its file in again, or remove it")


def has_values(entry: Entry) -> bool:
    """False where a file of its values is missing, or empty."""
    return all(name in entry.parts and entry.parts[name].rows for name in (LOGIT_ENTRIES.name, LOGIT_VALUES.name))
