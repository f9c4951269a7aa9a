"""What is asked of logit logs: garbage by model, damage with its causes, parity of two, late reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.logits.pairs import late_read
from engine.questions import ask, question_of
from engine.questions.question import Answered, Tables
from engine.store.entries import Entry
from engine.store.store import Store
from tests.engine.logits.logs import Rows, clean, new_log, objects, write


def added(store: Store, tmp_path: Path, rows: Rows, name: str = "llama.cpp", **options: Any) -> Entry:
    return new_log(store, write(tmp_path / f"{name}.jsonl", objects(rows, team=name, **options)))


def rows_of(tables: Tables, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables[name].to_pylist()
    return rows


def garbled() -> Rows:
    """50 entries: garbage in 10 at 0, the same value again in 5 at 1, masks in all at 5, zeros in all at the end."""
    rows = clean(50, 12)
    rows[:10, 0] = 10.0 ** np.random.default_rng(0).uniform(16, 34, 10)
    rows[20:25, 1] = -46_580.0
    rows[:, 5] = -np.inf
    rows[:, 10:] = 0
    return rows


def health(store: Store, log: Entry, **options: Any) -> Answered:
    return ask(store, "logits_health", [log.id], options)


def test_shares_leave_out_what_is_on_purpose(store: Store, tmp_path: Path) -> None:
    tables = health(store, added(store, tmp_path, garbled())).tables
    (totals,) = rows_of(tables, "main")
    assert (totals["entries"], totals["values"]) == (50, 600)
    assert (totals["flagged_entries"], totals["flagged_values"]) == (50, 165)
    assert (totals["damaged_entries"], totals["damaged_values"]) == (15, 15)
    assert (totals["garbage_entries"], totals["garbage_share"], totals["damaged_share"]) == (10, 0.2, 0.3)
    assert (totals["least"], totals["largest"]) == (46_580.0, garbled()[:10, 0].max())
    flags = {row["flag"]: (row["values"], row["entries"], row["positions"]) for row in rows_of(tables, "flags")}
    assert flags == {"non_finite": (50, 50, 1), "outlier": (15, 15, 2), "zero": (100, 50, 2), "repeated": (4, 4, 1)}
    names = ("seen", "flagged", "damaged", "garbage")
    counts = {row["position"]: tuple(row[name] for name in names) for row in rows_of(tables, "positions")}
    assert {position: counts[position] for position in (0, 1, 5)} == {
        0: (50, 10, 10, 10),
        1: (50, 5, 5, 0),
        5: (50, 50, 0, 0),
    }
    causes = [(row["cause"], row["is_damage"]) for row in rows_of(tables, "causes")]
    assert [is_damage for _, is_damage in causes] == [True, False, False]
    assert causes[0][0].startswith("Use after free (")


def test_the_map_shows_each_value_by_its_most_telling_flag(store: Store, tmp_path: Path) -> None:
    log = added(store, tmp_path, garbled())
    cells = {(c["token_idx"], c["position"]): c for c in rows_of(health(store, log, positions="12").tables, "map")}
    assert len(cells) == 600
    letters = {at: cells[at]["letter"] for at in ((0, "0"), (21, "1"), (0, "5"), (0, "11"), (30, "0"))}
    assert letters == {(0, "0"): "O", (21, "1"): "O", (0, "5"): "m", (0, "11"): "m", (30, "0"): ""}
    assert float(cells[0, "0"]["value"]) == pytest.approx(garbled()[0, 0])
    marks = {at: cells[at]["mark"] for at in ((0, "0"), (0, "5"), (30, "0"))}
    assert marks == {(0, "0"): "O outlier (garbage)", (0, "5"): "m mask or padding", (30, "0"): ""}
    (chart, _) = question_of("logits_health").CHARTS
    assert {cell["mark"] for cell in cells.values()} - {""} <= {*chart.kinds}


def test_flagged_values_are_filtered(store: Store, tmp_path: Path) -> None:
    log = added(store, tmp_path, garbled())

    def values(**options: Any) -> int:
        return health(store, log, **options).tables["values"].num_rows

    assert (values(), values(meant=True), values(flags=("repeated",)), values(at=(1,))) == (15, 165, 4, 5)
    assert values(flags="zero,repeated", at="10,1", meant="true") == 54


def test_logs_stand_by_their_garbage_the_worst_first(store: Store, tmp_path: Path) -> None:
    logs = [added(store, tmp_path, clean(50, 12), "ours", model="m"), added(store, tmp_path, garbled(), model="m")]
    rows = rows_of(ask(store, "logits_models", [log.id for log in logs]).tables, "main")
    assert [(row["engine"], row["by_report"], row["by_ours"]) for row in rows] == [
        ("llama.cpp", 0.2, 0.3),
        ("ours", 0, 0),
    ]
    assert (rows[0]["positions"], rows[0]["share"], rows[0]["vocabulary"]) == ("positions 0 and 1", 0.2, 12)
    assert 0.1 < rows[0]["low"] < 0.2 < rows[0]["high"] < 0.34
    (first, _) = rows_of(ask(store, "logits_models", [log.id for log in logs], {"rule": "our rules"}).tables, "main")
    assert first["share"] == 0.3


def test_a_log_is_read_by_one_query(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its values are whole was a query of its own."""
    logs = [added(store, tmp_path, garbled(), name) for name in ("one", "two")]
    asked: list[str] = []
    table = Store.table

    def counted(store: Store, sql: str, *args: Any, **more: Any) -> Any:
        asked.append(sql)
        return table(store, sql, *args, **more)

    monkeypatch.setattr(Store, "table", counted)
    assert ask(store, "logits_models", [log.id for log in logs]).tables["main"].num_rows == 2
    assert len(asked) == 2


def test_parity_by_entry_position_and_checkpoint(store: Store, tmp_path: Path) -> None:
    rows = clean(30, 8)
    other = rows.copy()
    other[12:, 3] += 0.5
    other[:, 0] = 1e30
    logs = added(store, tmp_path, rows, "ours", model="m"), added(store, tmp_path, other, model="m")
    tables = ask(store, "logits_parity", [log.id for log in logs]).tables
    main = rows_of(tables, "main")
    assert [(row["positions"], row["flagged"]) for row in main if row["supported"]] == [("skip 0", "with")]
    assert [row["token_idx"] for row in rows_of(tables, "tokens")] == list(range(12, 30))
    largest = {row["position"]: row["difference"] for row in rows_of(tables, "positions") if row["which"] == "largest"}
    assert largest == {3: 0.5}
    (line,) = rows_of(tables, "checkpoints")
    assert (line["both"], line["diverges_at"]) == (30, 12)
    assert tables["pairs"].num_rows == 30 * 7
    cosines = ask(store, "logits_parity", [log.id for log in logs], {"parity_by": "apart"}).tables["tokens"]
    assert cosines.num_rows and max(cosines["value"].to_pylist()) < 0.02 and cosines["tolerance"].null_count


# --- late reads -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["late", "same", "noise", "short", "another model", "alone", "damaged"])
def test_a_late_read_has_the_next_tokens_values_of_another_log(store: Store, tmp_path: Path, kind: str) -> None:
    rows = clean(30, 12)
    right = rows[:5] if kind == "short" else rows[:-1].copy()
    if kind == "damaged":
        right[:, 0] = np.float32(1e30)
    if kind != "alone":
        other = added(store, tmp_path, right, "right", model="m")
        assert late_read(store, other) is None
    values = {"same": rows[:-1] + 1e-4, "noise": clean(29, 12, seed=4)}.get(kind, rows[1:] + 1e-4)
    log = added(store, tmp_path, values, "log", model="n" if kind == "another model" else "m")
    match = late_read(store, log)
    assert (match is not None) == (kind == "late")
    if match is not None:
        assert (match["other"], match["engine"], match["nearer"]) == (other.id, "right", 28)
