"""The Profiles page's choice of traces: a trace, or a control and a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.figures.statistics import quotient
from engine.store.entries import Entry, entry_names, model_name
from engine.store.trace_schema import TRACE
from pages._kit.picker import Picker, origin_column, time_column
from pages._shared.links import compare_address

EMPTY = """
Three ways to get a first trace:

- Profile two runs: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp exact --sample-size 8 --profile`
- Import a file of torch's profiler: `.venv/bin/python -m engine trace add trace.json.gz`
- Import or record one below, under *Traces*.
"""
Runs = Mapping[str, Mapping[str, Any]]
"""Rows of runs by their ids, to which traces may belong."""


def trace_picker(runs: Runs) -> Picker:
    default = partial(default_choice, runs=runs)
    return Picker(
        TRACE, "trace", "control", "test", 2, partial(_cells, runs=runs), _columns(), default, entry_names, EMPTY
    )


def _cells(entry: Entry, runs: Runs) -> dict[str, Any]:
    row = entry.row
    model, lp = model_and_lp(entry, runs)
    run_id, busy, idle = str(row.get("run_id") or ""), row.get("busy_us"), row.get("idle_us")
    is_on_cpu = row.get("form") == "events" and row.get("device_us") is None
    return {
        "label": row.get("label") or row.get("source"),
        "lp": lp,
        "device": row.get("device") or ("CPU" if is_on_cpu else None),
        "span": quotient(row.get("span_us"), 1000),
        "work": quotient(row.get("device_us"), 1000),
        "idle": None if busy is None or idle is None else quotient(idle, busy + idle),
        "passes": row.get("forward_passes"),
        **{name: row.get(name) for name in ("origin", "tokens", "events", "form")},
        "model": model,
        "made": row.get("created_at"),
        "run": compare_address(run_id) if run_id in runs else None,
    }


def _columns() -> dict[str, Any]:
    config = st.column_config
    idle = "Share of the time between a device's first and last work"
    return {
        "label": config.TextColumn("label", width=226, help="Its own name, else the file or the text it comes from"),
        "origin": origin_column(),
        "form": config.TextColumn("form", width=62, help="events: a whole trace. table: sums of one, without times"),
        "model": config.TextColumn("model", width=110, help="Of its run"),
        "lp": config.TextColumn("LP", width=120, help="Of its run"),
        "device": config.TextColumn("device", width=88),
        "events": config.NumberColumn("events", width=80, format="localized", help="With a duration"),
        "span": config.NumberColumn("span ms", width=80, format="%.1f", help="First event to last"),
        "work": config.NumberColumn("device ms", width=80, format="%.1f", help="Work of devices, added up"),
        "idle": config.NumberColumn("idle", width=62, format="percent", help=idle),
        "tokens": config.NumberColumn("tokens", width=70, format="localized", help="That it covers"),
        "passes": config.NumberColumn("passes", width=66, format="localized", help="Forward passes that it covers"),
        "made": time_column(),
        "run": config.LinkColumn("run", width=200, display_text=r"control=([^&]+)", help="Opens it in Compare runs"),
    }


def model_and_lp(entry: Entry, runs: Runs) -> tuple[str, str]:
    """Of the run that a trace belongs to; empty where the store does not have it."""
    run = runs.get(str(entry.row.get("run_id")), {})
    return model_name(run), str(run.get("lp") or "")


def default_choice(entries: Sequence[Entry], runs: Runs) -> list[Entry]:
    """The newest captured trace of a run without an LP, and beside it the newest of the same model under one.

    Where there is none such: the newest trace alone, one that was captured or read before one that a text reports.
    """
    newest = list(reversed(entries))
    captured = [e for e in newest if e.row.get("origin") == "measured" and e.row.get("form") != "table"]
    for control in captured:
        model, lp = model_and_lp(control, runs)
        for test in captured if lp == "none" else ():
            its_model, its_lp = model_and_lp(test, runs)
            is_alike = (test.row.get("device_us") is None) == (control.row.get("device_us") is None)
            if its_model == model and its_lp not in ("", "none") and is_alike:
                return [control, test]
    return ([entry for entry in newest if entry.row.get("origin") != "reported"] or newest)[:1]
