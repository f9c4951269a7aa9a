"""Runs in a picker's table: the same columns on every page that chooses runs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.comparing.measures import figure, lp_words, model_words
from engine.figures.words import counted
from engine.records import RULE_HELP
from engine.store.entries import Entry, is_profiled, run_value
from pages._shared.entry_picker import origin_column, per_cent, rate_column, time_column

RUN_CHOICES = {"model": "Model", "lp": "LP"}
"""Columns to filter by, and their labels."""
NOT_NUMERIC_HELP = "Blocks with anything but digits . , -, or with a letter where a report counts only those"


def run_row(entry: Entry) -> dict[str, Any]:
    counted_by = "junk_letters_share" if entry.row.get("junk_nonnumeric") is None else "junk_nonnumeric_share"
    row, threads = entry.row, entry.row.get("threads")
    return {
        "model": model_words(entry),
        "lp": lp_words(entry),
        "usable": per_cent(figure(entry, "usable_rate")),
        "s": figure(entry, "wall_s_a_sample"),
        "run": entry.id,
        "samples": row.get("samples"),
        "clean": per_cent(figure(entry, "clean_rate")),
        "pass": per_cent(figure(entry, "pass_rate")),
        "decodes": per_cent(figure(entry, "decodes_rate")),
        "not numeric": per_cent(figure(entry, counted_by)),
        "cut": per_cent(figure(entry, "cut_share")),
        "origin": row["origin"],
        "ms": figure(entry, "ms_a_token"),
        "profiler": "profiled" if is_profiled(entry) else None,
        "tokens": figure(entry, "tokens_a_sample"),
        "label": run_value(entry, "label"),
        "tokenizer": run_value(entry, "tokenizer"),
        "sampling": run_value(entry, "sampling"),
        "batch": row.get("batch_size"),
        "device": f"{row['device']}, {counted(threads, 'thread')}" if threads else row.get("device") or "",
        "made": row.get("created_at"),
    }


def run_columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "model": config.TextColumn("model", width=112, pinned=True),
        "lp": config.TextColumn("LP", width=124, pinned=True),
        "usable": rate_column("usable", "Of judged answers: clean, stereo right, geometry right", "green"),
        "s": config.NumberColumn("s / sample", width=76, help="Wall time over samples", format="%.3f"),
        "run": config.TextColumn("run", width=180),
        "samples": config.NumberColumn("samples", width=66, format="localized"),
        "clean": rate_column("clean", RULE_HELP["clean"], "green"),
        "pass": rate_column("pass", RULE_HELP["passed"]),
        "decodes": rate_column("decodes", RULE_HELP["decodes"]),
        "not numeric": config.NumberColumn(width=82, help=NOT_NUMERIC_HELP, format="%.1f %%"),
        "cut": config.NumberColumn("cut", width=62, help="Blocks closed inside their numbers", format="%.1f %%"),
        "origin": origin_column(),
        "ms": config.NumberColumn("ms / token", width=76, format="%.3f"),
        "profiler": config.TextColumn("profiler", width=66, help="Its times are the profiler's too: no ratio of them"),
        "tokens": config.NumberColumn("tokens / sample", width=104, format="%.0f"),
        "label": config.TextColumn("label", width=150),
        "tokenizer": config.TextColumn("tokenizer", width=80),
        "sampling": config.TextColumn("sampling", width=80),
        "batch": config.NumberColumn("batch", width=54),
        "device": config.TextColumn("device", width=110),
        "made": time_column(),
    }
