"""The ranking as two tables with the same figures: what the report states, and the logs of this store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import streamlit as st

from engine.errors import one_line
from engine.figures.words import percent, precision_name, shortened
from engine.logits.health import Health, has_values, health
from engine.logits.ranking import GarbageRate, Ranking, ReportedModel, ranking
from engine.logits.rules import DamageExtent
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits.logs import LogSelection
from pages._shared.charts.card import table_of
from pages._shared.entry_picker import origin_column
from pages._shared.rows import MORE_COLUMNS, fitting, table_height
from pages._shared.table_files import table_buttons

MOST_POSITIONS = 3
NO_LOG = "no log here"


def show_reported(ranked: Ranked) -> None:
    rows = [_reported(place, model, ranked) for place, model in enumerate(ranked.ranking.models, start=1)]
    of_logs = {"rule", "ours"} if all(row["rule"] == row["ours"] == NO_LOG for row in rows) else set()
    rows = [{name: value for name, value in row.items() if name not in of_logs} for row in rows]
    _table(rows, "reported-models", _REPORTED, "Garbage of six models as the report states it, and logs of this store")
    if of_logs:
        st.caption("This store has no logs of these models.")


def show_logs(ranked: Ranked) -> None:
    worst_first = sorted(ranked.ranking.logs, key=lambda rate: -max(rate.by_report, rate.by_ours or 0))
    rows = [_log(place, rate, ranked.healths[rate.id]) for place, rate in enumerate(worst_first, start=1)]
    _table(rows, "ranked-logs", _LOGS, "Logs of this store by their garbage")
    st.caption(MORE_COLUMNS)


def all_rows(ranked: Ranked) -> pa.Table:
    """Both tables for a file, in long form: one row per model or log, shares from 0 to 1."""
    garbage = {model.run_id: model.garbage for model in ranked.ranking.models}
    damage = garbage | {log_id: health.damage for log_id, health in ranked.healths.items()}
    return table_of([_record(rate, damage[rate.id]) for rate in ranked.ranking.rates])


def buttons(ranked: Ranked) -> None:
    with st.container(horizontal=True):
        table_buttons(lambda: all_rows(ranked), "logit_models", key="logit_models", what="Both tables")


# --- rows -----------------------------------------------------------------------------------------------------------


def _reported(place: int, model: ReportedModel, ranked: Ranked) -> dict[str, Any]:
    logs = ranked.ranking.logs_of(model)
    return {
        "rank": place,
        "model": model.model,
        "precision": precision_name(model.precision),
        "reported": 100 * model.garbage_share,
        "rule": _shares([log.by_report for log in logs]),
        "ours": _shares([log.by_ours for log in logs if log.by_ours is not None]),
        "positions": _positions(model.garbage.positions),
        "sizes": _sizes(model.garbage.least, model.garbage.largest),
        "size": _size(model.size),
        "vocabulary": model.vocab_size,
    }


def _log(place: int, rate: GarbageRate, health: Health) -> dict[str, Any]:
    return {
        "rank": place,
        "engine": _text(rate.engine),
        "model": _text(rate.model),
        "precision": _text(precision_name(rate.precision)),
        "rule": 100 * rate.by_report,
        "ours": None if rate.by_ours is None else 100 * rate.by_ours,
        "positions": _positions(health.damage.positions),
        "sizes": _sizes(health.least, health.largest),
        "entries": health.entries,
        "origin": rate.origin,
        "log": rate.id,
    }


def _record(rate: GarbageRate, damage: DamageExtent) -> dict[str, Any]:
    return {
        "origin": rate.origin,
        "engine": rate.engine,
        "model": rate.model,
        "architecture": rate.architecture,
        "precision": rate.precision,
        "vocab_size": rate.vocab_size,
        "entries": rate.entries,
        "share_by_report_rule": rate.by_report,
        "share_by_our_rules": rate.by_ours,
        "positions": " ".join(map(str, sorted(damage.positions))),
        "least_in_size": damage.least,
        "largest_in_size": damage.largest,
        "id": rate.id,
    }


# --- words and columns ----------------------------------------------------------------------------------------------


def _text(said: str | None) -> str | None:
    return None if said is None else one_line(shortened(said, 200))


def _shares(shares: Sequence[float]) -> str:
    """Range over the logs of this model."""
    if not shares:
        return NO_LOG
    low, high = percent(min(shares)), percent(max(shares))
    return low if len(shares) == 1 else f"{low} to {high} ({len(shares)} logs)" if low != high else f"{low} (all logs)"


def _size(said: str | None) -> str | None:
    """The report's word: millions or billions of parameters, but of one model its context."""
    return f"{said} context" if said and said.endswith("K") else said


def _positions(positions: Sequence[int]) -> str:
    if not positions:
        return "none"
    more = f" and {len(positions) - MOST_POSITIONS:,} more" if len(positions) > MOST_POSITIONS else ""
    return ", ".join(f"{position:,}" for position in positions[:MOST_POSITIONS]) + more


def _sizes(least: float | None, largest: float | None) -> str | None:
    if least is None or largest is None:
        return None
    return f"{least:.3g}" if least == largest else f"{least:.3g} to {largest:.3g}"


def _rate(name: str, what: str) -> Any:
    return st.column_config.ProgressColumn(name, width=96, help=what, format="%.1f %%", min_value=0, max_value=100)


_NUMBER, _TEXT = st.column_config.NumberColumn, st.column_config.TextColumn
_RULE = "Share of entries with a huge number: the report's own rule"
_OURS = "Share of entries with a damaged value by our rules, masks and padding left out"
_SHARED: dict[str, Any] = {
    "rank": _NUMBER("#", width=32, help="Least garbage first", pinned=True),
    "model": _TEXT("model", width=112),
    "precision": _TEXT("precision", width=70),
    "vocabulary": _NUMBER("vocabulary", width=78, format="localized", help="Row length, by the shape of the entries"),
    "sizes": _TEXT("damaged values", width=138, help="Magnitudes of the damaged values, least and largest"),
}
_REPORTED = _SHARED | {
    "reported": _rate("garbage", "Share of tokens with garbage, as the report states it"),
    "rule": _TEXT("logs by report's rule", width=144, help=_RULE),
    "ours": _TEXT("logs by our rules", width=120, help=_OURS),
    "positions": _TEXT("positions", width=70, help="Where the report saw garbage"),
    "size": _TEXT("parameters", width=82, help="As the report writes them; of Phi-3-Mini it has the context only"),
}
_LOGS = _SHARED | {
    "rank": _NUMBER("#", width=32, help="Most garbage first, by the worse of both rules", pinned=True),
    "engine": _TEXT("engine", width=262, pinned=True),
    "rule": _rate("report's rule", _RULE),
    "ours": _rate("our rules", _OURS),
    "positions": _TEXT("positions", width=114, help="With damaged values, most first"),
    "entries": _NUMBER("entries", width=62, format="localized"),
    "origin": origin_column(),
    "log": _TEXT("log", width=260),
}


def _table(rows: list[dict[str, Any]], key: str, columns: dict[str, Any], alt: str) -> None:
    st.dataframe(
        rows,
        hide_index=True,
        height=table_height(len(rows)),
        column_config=columns,
        column_order=fitting(columns, rows[0]) if rows else None,
        placeholder="–",
        key=key,
        alt=alt,
    )


MOST_LOGS = 16
"""The newest; the first read of a log takes up to a second."""


@dataclass(frozen=True, slots=True)
class Ranked:
    ranking: Ranking
    healths: Mapping[str, Health]  # of its logs
    older: int  # logs that are not ranked


def ranked(store: Store, chosen: LogSelection | None) -> Ranked:
    """The newest logs, and the chosen ones."""
    entries = store.found(LOGIT_LOG).entries
    looked_at = () if chosen is None else chosen.ids
    newest = {entry.id for entry in entries[-MOST_LOGS:]} | set(looked_at)
    wanted = [entry for entry in entries if entry.id in newest]
    found, healths = _ranked(store, tuple(entry.key for entry in wanted), wanted)
    missing = [entry.id for entry in wanted if not has_values(entry)]
    whole = Ranking(found.models, found.rates, (*found.left_out, *missing))
    return Ranked(whole, healths, len(entries) - len(wanted))


@st.cache_resource(max_entries=8, show_spinner="Reading the logs …")
def _ranked(
    _store: Store, keys: tuple[tuple[str, ...], ...], _logs: Sequence[Entry]
) -> tuple[Ranking, Mapping[str, Health]]:
    found = ranking(_store, _logs)
    readable = {log.id for log in found.logs}
    return found, {entry.id: health(_store, entry) for entry in _logs if entry.id in readable}
