"""Runs as rows: of JSON with every column, and as short lines of a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from engine.cli.main import emit_json
from engine.cli.output import table, write
from engine.errors import one_line

if TYPE_CHECKING:
    from engine.store.entries import Entry

Row = Mapping[str, Any]
COLUMNS = (
    "run",
    "origin",
    "model",
    "LP",
    "samples",
    "passed",
    "clean",
    "blocks",
    "letters",
    "not num.",
    "cut",
    "Å",
    "s",
    "tokens/s",
    "MB",
)


def run_row(entry: Entry) -> dict[str, Any]:
    """All columns of a run, in JSON's types."""
    from engine.store.schema import RUNS

    found = {name: entry.row.get(name) for name in RUNS.names}
    if found["created_at"] is not None:
        found["created_at"] = found["created_at"].isoformat()
    return found


def show_rows(rows: Sequence[Row], *, is_json: bool) -> None:
    if is_json:
        emit_json(list(rows))
    elif rows:
        write(table(COLUMNS, [_line(row) for row in rows]))


def text(row: Row, name: str) -> str:
    """Printable: it may come from a file that anybody wrote."""
    return one_line(row.get(name) or "")


def figure(row: Row, name: str, form: str = ",") -> str:
    value = row.get(name)
    return "" if value is None else f"{value:{form}}"


def share(row: Row, part: str, whole: str) -> str:
    return "" if row.get(part) is None or not row.get(whole) else f"{row[part] / row[whole]:.1%}"


def _line(row: Row) -> tuple[str, ...]:
    model = ":".join(filter(None, [text(row, "model_alias") or text(row, "model_family"), text(row, "model_step")]))
    rate = f"{row['tokens'] / row['decode_s']:,.0f}" if row.get("tokens") and row.get("decode_s") else ""
    return (
        text(row, "run_id"),
        text(row, "origin"),
        model,
        text(row, "lp"),
        figure(row, "samples"),
        share(row, "passes", "samples"),
        share(row, "clean", "samples"),
        figure(row, "blocks"),
        figure(row, "junk_letters"),
        figure(row, "junk_nonnumeric"),
        figure(row, "cut_blocks"),
        figure(row, "rmsd_ang", ".2f"),
        figure(row, "wall_s", ",.1f"),
        rate,
        figure(row, "peak_memory_mb", ",.0f"),
    )
