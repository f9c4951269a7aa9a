"""A log's positions and its flagged values, as tables with filters and files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import streamlit as st

from engine.figures.words import counted, percent
from engine.logits.flagged import MOST_IN_FILE, FlaggedValues, ValueFilter, flagged_values
from engine.logits.flags import FLAGS, MEANING
from engine.logits.health import Health
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.charts.card import card, table_of
from pages._shared.rows import table_height
from pages._shared.table_files import table_buttons

MOST_ROWS = 500
MOST_PLACES = 200
"""Positions offered as filters."""
HEIGHT = 330
POSITIONS_HELP = """
By position in the row, which for logits is the token id. Shares are of the values logged there; *damaged* leaves out
masks and padding, *huge* is the report's rule.
"""
VALUES_HELP = "Each flagged value with the reason for each flag. The files have up to 200,000."


def show_positions(health: Health) -> None:
    with card("logit-positions", "Which positions?", POSITIONS_HELP) as frame:
        frame.tell(_sentence(health))
        rows = [
            {
                "position": share.position,
                "values": share.seen,
                "damaged": 100 * share.damaged / share.seen,
                "flagged": 100 * share.flagged / share.seen,
                "huge": 100 * share.garbage / share.seen,
            }
            for share in health.positions
        ]
        table = table_of(rows)
        config = st.column_config
        st.dataframe(
            table,
            hide_index=True,
            height=table_height(table.num_rows, HEIGHT),
            column_config={
                "position": config.NumberColumn(format="localized", width=72),
                "values": config.NumberColumn(format="localized", width=72),
                "damaged": _percent(),
                "flagged": _percent("Damaged, masked or padded"),
                "huge": _percent("Garbage by the report's rule"),
            },
            key="positions_table",
            alt="Share of flagged values by position",
        )
        with st.container(horizontal=True):
            table_buttons(table, f"{health.log_id}-positions", key="positions", what="Positions")


def _percent(what: str | None = None) -> Any:
    return st.column_config.ProgressColumn(format="%.1f %%", min_value=0, max_value=100, width=96, help=what)


def _sentence(health: Health) -> str:
    damaged = health.damaged_positions
    meant = sum(position.flagged > position.damaged for position in health.positions)
    words = f"Of {len(health.positions):,} positions, {len(damaged):,} {'has' if len(damaged) == 1 else 'have'} damage"
    if damaged:
        worst = max(damaged, key=lambda share: share.damaged / share.seen)
        words += f", most at position {worst.position:,} ({percent(worst.damaged / worst.seen)} of its values)"
    have = "has" if meant == 1 else "have"
    return f"{words}; {meant:,} {have} values masked or padded on purpose." if meant else f"{words}."


@st.fragment
def show_values(store: Store, log: Entry, health: Health) -> None:
    with card("logit-flagged", "Which values, and why?", VALUES_HELP) as frame:
        if not health.flagged_values:
            frame.tell(f"None of {health.values:,} values has a flag.")
            return
        wanted = _wanted(health)
        flagged = flagged_values(store, log, wanted, MOST_ROWS)
        if not flagged.values:
            frame.tell("No value matches. Remove a filter, or include masks and padding.")
            return
        shown = f"; the first {MOST_ROWS:,} are shown" if flagged.values > MOST_ROWS else ""
        frame.tell(f"{counted(flagged.values, 'value')} in {counted(flagged.entries, 'entry', 'entries')}{shown}.")
        _table(flagged)
        with st.container(horizontal=True):
            table_buttons(
                lambda: flagged_values(store, log, wanted).rows, f"{log.id}-flagged", key="flagged", what="Values"
            )
        frame.leave_out(f"Files end after {MOST_IN_FILE:,} values." if flagged.values > MOST_IN_FILE else "")


def _wanted(health: Health) -> ValueFilter:
    present = {share.flag: share.values for share in health.flags}
    places = [str(position.position) for position in health.positions if position.flagged][:MOST_PLACES]
    with st.container(horizontal=True, vertical_alignment="bottom", key="flag-filters"):
        flags = st.pills(
            "Flags",
            list(present),
            selection_mode="multi",
            format_func=lambda flag: flag.replace("_", "-"),
            key="flags",
            bind="query-params",
            width="content",
            help="  \n".join(f"**{flag.replace('_', '-')}**: {MEANING[flag]}" for flag in present),
        )
        at = st.multiselect("Positions", places, placeholder="any", key="at", bind="query-params", width=240)
        meant = st.toggle("Masks and padding too", key="meant", bind="query-params", width="content")
    return ValueFilter(tuple(flag for flag in FLAGS if flag in flags), tuple(map(int, at)), meant)


def _table(flagged: FlaggedValues) -> None:
    config = st.column_config
    rows = flagged.rows.drop_columns(["middle", "spread"])
    values = [f"{value:.9g}" for value in rows["value"].to_pylist()]  # a column of numbers would round 1e-41 to 0
    flags = [", ".join(names) for names in rows["flags"].to_pylist()]
    shown = rows.set_column(rows.column_names.index("value"), "value", pa.array(values, pa.string()))
    shown = shown.set_column(rows.column_names.index("flags"), "flags", pa.array(flags, pa.string()))
    st.dataframe(
        table_of(shown.to_pylist()),  # checkpoint names are untrusted text
        hide_index=True,
        height=table_height(flagged.rows.num_rows, HEIGHT + 60),
        column_config={
            "line": config.NumberColumn("line", width=64, help="Of the file"),
            "checkpoint": config.TextColumn("checkpoint", width=90),
            "sequence": config.NumberColumn("text", width=50, help="Counted from 0"),
            "token_idx": config.NumberColumn("token", width=64),
            "position": config.NumberColumn("position", width=72),
            "value": config.TextColumn("value", width=130),
            "flags": config.TextColumn("flags", width=140),
            "is_damaged": config.CheckboxColumn("damaged", width=72, help="Neither a mask nor padding"),
            "reason": config.TextColumn("reason", width=620),
        },
        key="flagged_table",
        alt="Flagged values with the reason for each flag",
    )
