"""Runs in a picker's table: the same columns on every page that chooses runs."""

from __future__ import annotations

from typing import Any

import streamlit as st

from engine.comparing.figures import RunFigures
from engine.figures.words import counted
from engine.records import RULE_HELP
from engine.store.entries import Entry
from pages._shared.entry_picker import origin_column, per_cent, rate_column, time_column

RUN_CHOICES = {"model": "Model", "lp": "LP"}
"""Columns to filter by, and their labels."""
NOT_NUMERIC_HELP = "Blocks with anything but digits . , -, or with a letter where a report counts only those"


def run_row(entry: Entry) -> dict[str, Any]:
    run = RunFigures(entry)
    not_numeric = run.junk_letters_share if run.junk_nonnumeric_share is None else run.junk_nonnumeric_share
    return {
        "model": run.model,
        "lp": run.lp_words,
        "usable": per_cent(run.usable_rate),
        "s": run.wall_s_a_sample,
        "run": entry.id,
        "samples": run.samples,
        "clean": per_cent(run.clean_rate),
        "pass": per_cent(run.pass_rate),
        "decodes": per_cent(run.decodes_rate),
        "not numeric": per_cent(not_numeric),
        "cut": per_cent(run.cut_share),
        "origin": run.origin,
        "ms": run.ms_a_token,
        "profiler": "profiled" if run.is_profiled else None,
        "tokens": run.tokens_a_sample,
        "label": run.label,
        "tokenizer": run.tokenizer,
        "sampling": run.sampling,
        "batch": run.batch_size,
        "device": f"{run.device}, {counted(run.threads, 'thread')}" if run.threads else run.device,
        "made": run.created_at,
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
