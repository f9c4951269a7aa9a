"""Runs beside which a profiler ran: marked, in no default choice, and without ratios of time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.comparing.figures import RunFigures, compare_entries_with
from engine.comparing.slowdown import slowdown
from engine.store.store import Store
from pages._compare import charts_data as data
from pages._compare import charts_pass as passing
from pages._compare.runs import RunSelection, default_choice
from pages._compare.table_cells import cell_of, rows_of
from pages._compare.table_words import sentence
from pages._shared.words import run_name
from tests.engine.inspection.made import sample_row, write_run
from tests.pages.drift_stores import store_at


def with_profiled(place: Path) -> Store:
    """Two runs, and later ones of the same beside which a profiler ran."""
    store = store_at(place)
    for day, lp in enumerate(("none", "exact"), 1):
        made = f"2026-01-{day:02}T00:00:00+00:00"
        rows = [sample_row(0, decode_s=1.0, tokens=9)]
        about: dict[str, Any] = {"model_alias": "m", "lp": lp, "tokens": 9, "wall_s": 1.0}
        write_run(store, lp, rows, **about, created_at=made)
        profiled: dict[str, Any] = {
            "source": f"python -m engine run --lp {lp} --profile --n 1",
            "created_at": made.replace("01", "02", 1),
        }
        write_run(store, f"{lp}-profiled", rows, **about, **profiled)
    return store


def test_a_profiled_run_is_marked_and_no_default_choice(tmp_path: Path) -> None:
    store = with_profiled(tmp_path)
    found = default_choice(store.found().entries)
    assert found is not None and found.ids == ("none", "exact")
    assert run_name(RunFigures(store.entry("exact-profiled"))) == "m · exact · profiled"


def test_times_beside_a_profiler_are_not_compared(tmp_path: Path) -> None:
    store = store_at(tmp_path)
    for lp, source in (("none", "engine run"), ("exact", "engine run --profile")):
        rows = [sample_row(number, smiles="C" * (number + 1), decode_s=1.0, tokens=9) for number in range(9)]
        write_run(store, lp, rows, lp=lp, tokens=81, wall_s=9.0, decode_s=9.0, passes=9, source=source)
    chosen = RunSelection(store.entry("none"), (store.entry("exact"),))
    (pair,) = data.compared_runs(store, chosen)
    assert [pair.ratio(figure).ratio for figure in ("wall_s", "wall_s_a_sample", "ms_a_token")] == [None] * 3
    assert pair.ratio("tokens").ratio == 1
    parts = slowdown(*chosen.entries).by_tokens
    assert parts.total is None and "profiler" in parts.reason
    assert passing.judgement(pair, RunFigures(chosen.control)).startswith("Time not compared: a profiler ran beside it")
    comparison = compare_entries_with(store, chosen.control, chosen.tests)
    rows_ = rows_of(comparison, {})
    assert cell_of(rows_, "wall_s_a_sample", 1).compared is None
    assert sentence(1, comparison.control, comparison.tests[0], rows_).startswith("times not compared (profiled); ")
