"""Stores that somebody else crafted: sizes and checksums fit, and the figures are nonsense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.errors import DEBUG, StoreError
from engine.store import views
from engine.store.columns import table
from engine.store.inflated import StoredFileError, open_bytes
from engine.store.schema import KINDS, LOGIT_LOG, LOGIT_VALUES, RUN, Kind
from engine.store.sound_rows import unsound
from engine.store.store import Store, damaged_parts
from tests.cli import run
from tests.crafted import LONG, copied, craft, craft_sheet, filled

NONE, LOG = "demo-qwen-final-none", "driftscope-demo-qwen"
REFUSED: list[tuple[Kind, str, str, str, Any, str]] = [
    (RUN, NONE, "samples", "decode_s", float("nan"), "its decode_s is no number from 0 to 9.22e+18 in a row"),
    (RUN, NONE, "samples", "decode_s", 1e308, "its decode_s is no number"),
    (RUN, NONE, "samples", "tokens", -1, "its tokens is no number"),
    (RUN, NONE, "samples", "token_ids", [-1], "its token_ids is no number"),
    (RUN, NONE, "samples", "smiles", None, "its smiles is missing in a row"),
    (RUN, NONE, "samples", "sample_id", 0, "two of its rows have the same sample_id"),
    (RUN, NONE, "steps", "pos", 0, "two of its rows have the same sample_id and pos"),
    (RUN, NONE, "steps", "p_raw", float("inf"), "its p_raw is no number"),
    (LOGIT_LOG, LOG, "logit_entries", "entry", 0, "two of its rows have the same entry"),
    (LOGIT_LOG, LOG, "logit_entries", "checkpoint", "", "its checkpoint is empty in a row"),
    (LOGIT_LOG, LOG, "logit_values", "entry", 0, "two of its rows have the same entry and position"),
    (LOGIT_LOG, LOG, "logit_values", "flags", ["zer"], "its flags has a word that is none of its own"),
]


@pytest.mark.parametrize(("kind", "part", "name", "column", "value", "what"), REFUSED)
def test_rows_that_a_table_cannot_have_are_damage_by_name(
    tmp_path: Path, kind: Kind, part: str, name: str, column: str, value: Any, what: str
) -> None:
    """The bug: a page met them in a sum, a logarithm or a join, and each in its own way broke or had no end."""
    store, entry = copied(tmp_path, kind, part)
    assert damaged_parts(entry) == []
    craft(entry, name, filled(column, value))
    (damage,) = damaged_parts(store.entry(entry.id, kind))
    assert damage.what.startswith(what)
    assert store.rows(f"SELECT count(*) AS rows FROM {name}") == [{"rows": 0}]  # what is damaged is left out
    assert damage in store.found(kind).damages


def test_what_a_table_may_have_stays(tmp_path: Path) -> None:
    store, entry = copied(tmp_path, LOGIT_LOG, LOG)
    craft(entry, "logit_values", filled("value", float("nan")))
    craft(entry := store.entry(entry.id, LOGIT_LOG), "logit_entries", filled("source", LONG[:1_000]))
    assert damaged_parts(store.entry(entry.id, LOGIT_LOG)) == []


def test_a_file_of_several_row_groups_is_read_group_by_group() -> None:
    """The bug: 400,000 entries with flags were called damaged, since pyarrow joins no lists of texts of two groups."""
    values: dict[str, Any] = {"log_id": "a", "checkpoint": "logits", "token_idx": 0, "position": 0, "value": 1.0}
    rows = [values | {"entry": place, "flags": ["zero"]} for place in range(10)]
    pq.write_table(LOGIT_VALUES.rows(rows), file := pa.BufferOutputStream(), row_group_size=4)
    assert unsound(open_bytes(file.getvalue().to_pybytes(), "", LOGIT_VALUES), LOGIT_VALUES) == ""
    pq.write_table(LOGIT_VALUES.rows([*rows, rows[0]]), file := pa.BufferOutputStream(), row_group_size=4)
    with pytest.raises(StoredFileError, match="two of its rows have the same entry and position"):
        open_bytes(file.getvalue().to_pybytes(), "", LOGIT_VALUES)


@pytest.mark.parametrize(("column", "value"), [("engine", ""), ("entries", -1), ("garbage_entries", 2**62)])
def test_a_sheet_with_such_a_figure_is_damage(tmp_path: Path, column: str, value: Any) -> None:
    """The bug: ``logits show`` ended in a traceback at an engine without a name."""
    store, entry = copied(tmp_path, LOGIT_LOG, LOG)
    craft_sheet(entry, lambda sheet: sheet["row"].update({column: value}))
    assert store.found(LOGIT_LOG).entries == () and len(store.found(LOGIT_LOG).damages) == 1
    assert f"its {column} is" in run("logits", "show", entry.id, "--store", str(tmp_path)).error


def test_a_log_without_an_end_in_its_joins_is_refused_at_once(tmp_path: Path) -> None:
    """The bug: entries of one number were joined each with each, in 4 GB or without an end."""
    ids = []
    for part in (LOG, "llama.cpp-demo-qwen-final-f32"):
        _, entry = copied(tmp_path, LOGIT_LOG, part)
        craft(entry, "logit_entries", filled("entry", 0))
        ids.append(entry.id)
    for words in (["show", ids[0]], ["parity", *ids]):
        assert "damaged" in run("logits", *words, "--store", str(tmp_path)).error


def test_a_log_that_says_that_it_is_empty_is_counted(tmp_path: Path) -> None:
    """The bug: its shares were divided by the 0 of its sheet."""
    _, entry = copied(tmp_path, LOGIT_LOG, LOG)
    craft_sheet(entry, lambda sheet: sheet["row"].update(entries=0, values_logged=0))
    assert run("logits", "show", entry.id, "--store", str(tmp_path)).code == 0


def test_a_query_of_ours_is_stopped_at_its_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store, endless = (
        Store.open(tmp_path),
        "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE a.range % 7 = 1",
    )
    monkeypatch.setattr(views, "MOST_SECONDS", 0.05)
    with pytest.raises(StoreError, match=r"a query was stopped after 0\.05 s"):
        store.rows(endless)


def test_an_error_that_nobody_foresaw_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: Any) -> None:
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr(Store, "found", broken)
    with pytest.raises(ZeroDivisionError):
        run("runs")
    monkeypatch.setenv(DEBUG, "0")
    result = run("runs")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "an error that was not foreseen (ZeroDivisionError)" in result.err


def test_what_is_written_can_be_read_again() -> None:
    """A figure that no reader takes is stored as none."""
    samples = next(table for kind in KINDS for table in kind.tables if table.name == "samples")
    figures = [float("nan"), float("inf"), -1.0, 2.5]
    rows = samples.rows([{"run_id": "a", "sample_id": k, "smiles": "C", "decode_s": s} for k, s in enumerate(figures)])
    assert rows["decode_s"].to_pylist() == [None, None, None, 2.5]


def test_a_rule_names_a_column() -> None:
    with pytest.raises(ValueError, match="drifts has no drfit"):
        table("drifts", ("drift", pa.int64(), "of all"), signed="drfit")


@pytest.mark.parametrize("column", ["sample_id", "run_id", "smiles", "failed"])
@pytest.mark.parametrize("value", ["x", [1], {"a": 1}], ids=str)
def test_a_column_of_another_type_is_damage_of_a_named_file(tmp_path: Path, column: str, value: Any) -> None:
    """A sample_id of text ended `verify` and `sql` with a ValueError, where its keys were computed."""
    store, entry = copied(tmp_path, RUN, NONE)
    given = pa.array([value])
    if given.type == RUN.tables[0].schema.field(column).type:
        return

    def changed(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index(column)
        return rows.set_column(place, column, pa.array([value] * rows.num_rows, given.type))

    craft(entry, "samples", changed)
    (damage,) = damaged_parts(store.entry(entry.id))
    assert Path(damage.where).name == entry.parts["samples"].file and damage.what.startswith(f"its {column} is '")
    assert store.rows("SELECT count(*) AS n FROM samples") == [{"n": 0}]
