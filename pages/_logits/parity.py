"""Two logs of one prompt: how far they agree, under which filter, where they diverge, and what only one of them has."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import streamlit as st

from engine.errors import DriftscopeError, one_line
from engine.figures.words import UNKNOWN, percent
from engine.logits.health import has_values
from engine.logits.health_words import late_words
from engine.logits.late_reads import late_read
from engine.logits.parity import Parity, compare_logs
from engine.logits.parity_detail import CheckpointCoverage, coverage
from engine.logits.parity_words import cautions, parity_sentences
from engine.logits.rules import LOGITS
from engine.store.store import Store
from pages._logits import parity_charts as charts
from pages._logits import parity_words as words
from pages._logits.logs import QUERY, LogSelection
from pages._shared.charts.card import table_of
from pages._shared.errors import escape_markdown
from pages._shared.links import logits_address
from pages._shared.rows import fitting, table_height
from pages._shared.table_files import csv_of, file_button

MOST_ROWS = 12
DIFFERENCES = {
    "largest": "Largest absolute difference of a pair",
    "mean": "Mean absolute difference",
    "relative": "Root mean square of the differences, over that of A's values",
}
ALONE = """
Parity takes two logs of the same prompt: tick a second one in the table above. From a terminal:
`.venv/bin/python -m engine logits parity CONTROL TEST`
"""
FILTERS_HELP = """
A filter leaves positions out, as the report advises: it saw garbage at positions 0 and 2. The *supported* one is the
mildest that leaves no flagged value. *relative* is the root mean square of the differences over that of A's values;
*cosine*, *rank* (Spearman's) and *top-1* (the largest value stands at the same position) are means over entries.
"""


def show(store: Store, chosen: LogSelection) -> None:
    if chosen.test is None:
        st.info(ALONE, icon=":material/compare_arrows:")
        return
    if missing := [entry.id for entry in chosen.entries if not has_values(entry)]:
        named = escape_markdown(", ".join(missing))
        st.error(f"The values of {named} are missing. Run `engine verify` for details.", icon=":material/error:")
        return
    for caution in cautions(chosen.control, chosen.test):
        st.warning(escape_markdown(caution), icon=":material/warning:")
    for log in chosen.entries:
        if late := late_read(store, log, chosen.entries):
            words = f"{chosen.letter(log.id)} was probably read late: {late_words(late)}"
            st.warning(escape_markdown(words), icon=":material/warning:")
    try:
        with st.spinner("Comparing the logs …"):
            parity = compare_logs(store, chosen.control, chosen.test)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        with suppress(DriftscopeError):  # damage is shown once
            _coverage(None, coverage(store, chosen.control, chosen.test))
        return
    checkpoints = coverage(store, chosen.control, chosen.test)
    _answer(chosen, parity)
    _filters(parity)
    checkpoint = _checkpoint(parity, checkpoints)
    charts.show(store, chosen, parity, checkpoint)
    _coverage(parity, checkpoints)


# --- the answer and the files -------------------------------------------------------------------------------------


def _answer(chosen: LogSelection, parity: Parity) -> None:
    first, *others = parity_sentences(parity)
    with st.container(key="parity-answer"):
        st.markdown(f"**{escape_markdown(first)}**")
        st.markdown("\n".join(f"- {escape_markdown(other)}" for other in others))
    command = shlex.join([".venv/bin/python", "-m", "engine", "logits", "parity", parity.control, parity.test])
    with st.container(horizontal=True, vertical_alignment="center", key="parity-files"):
        whole, table = (lambda: json.dumps(asdict(parity), indent=1)), table_of(words.filter_rows(parity))
        file_button("JSON", whole, "parity.json", key="parity_json", help="All figures: filters, entries, divergence")
        file_button("CSV", lambda: csv_of(table), "parity.csv", key="parity_csv", help="The table of filters")
        st.button(
            "Swap",
            icon=":material/swap_horiz:",
            key="swap_parity",
            type="tertiary",
            help="B becomes the control; differences are always B minus A",
            on_click=QUERY.put,
            args=(chosen.ids[::-1],),
        )
        st.link_button(
            "Link",
            logits_address(parity.control, parity.test, view="Parity"),
            icon=":material/link:",
            type="tertiary",
            key="parity-link",
            help="These two logs, for other users of this store",
        )
        with st.popover("From a terminal", icon=":material/terminal:", type="tertiary"):
            st.code(command, language=None, wrap_lines=True)


# --- tables -------------------------------------------------------------------------------------------------------


def _filters(parity: Parity) -> None:
    st.subheader("Which positions can be trusted?", anchor=False, help=FILTERS_HELP)
    config = st.column_config
    _table(
        [{name: _shown(name, value) for name, value in row.items()} for row in words.filter_rows(parity)],
        {
            "positions": config.TextColumn(width=92, pinned=True),
            "flagged": config.TextColumn(width=66, help="With the pairs that have a flagged value, or without"),
            "supported": config.TextColumn(width=76, help="The mildest filter that leaves no flagged value"),
            **{name: config.TextColumn(width=66, help=what) for name, what in DIFFERENCES.items()},
            **{name: config.NumberColumn(format="%.5f", width=66) for name in ("cosine", "rank")},
            "top-1": config.TextColumn(width=66, help="Entries with the same largest value"),
            "pairs": config.NumberColumn(format="localized", width=66),
            "not finite": config.NumberColumn(width=84, help="Pairs with NaN or an infinity: left out"),
            "entries": config.NumberColumn(format="localized", width=66),
        },
        "How far the two logs agree, by position filter, with and without flagged values",
    )


def _shown(name: str, value: Any) -> Any:
    """Differences range from 1e-7 to 1e34, which no column format shows well; shares are as in texts."""
    if value is None:
        return None
    return f"{value:.3g}" if name in DIFFERENCES else percent(value) if name == "top-1" else value


def _coverage(parity: Parity | None, checkpoints: Sequence[CheckpointCoverage]) -> None:
    st.subheader(
        "What does each log have?",
        anchor=False,
        help="Entries are matched by checkpoint, text and token. Look at the first checkpoint that diverges.",
    )
    config = st.column_config
    _table(
        words.coverage_rows(parity, checkpoints),
        {
            "checkpoint": config.TextColumn(width=80, pinned=True),
            "in A": config.TextColumn(width=196),
            "in B": config.TextColumn(width=196),
            "in both": config.NumberColumn(format="localized", width=62),
            "diverges at": config.TextColumn(width=90, help="First one that precision does not explain"),
            "relative, median": config.NumberColumn(format="%.3g", width=110),
            "relative, largest": config.NumberColumn(format="%.3g", width=110),
        },
        "Checkpoints of both logs, with what each log has of them",
    )


def _table(rows: list[dict[str, Any]], config: dict[str, Any], alt: str) -> None:
    """Columns in the order of ``config``, the most important first."""
    st.dataframe(
        table_of(rows),
        hide_index=True,
        height=table_height(min(len(rows), MOST_ROWS)),
        column_config=config,
        column_order=fitting(config, config),
        placeholder=UNKNOWN,
        alt=alt,
    )


def _checkpoint(parity: Parity, checkpoints: Sequence[CheckpointCoverage]) -> str:
    """The first that diverges, else the logits."""
    names = [checkpoint.checkpoint for checkpoint in checkpoints if checkpoint.both]
    if len(names) == 1:
        return names[0]
    usual = LOGITS if LOGITS in names else names[0]
    first = parity.diverging.checkpoint if parity.diverging is not None else usual
    chosen = st.selectbox(
        "Checkpoint",
        names,
        index=names.index(first),
        key="parity_at",
        bind="query-params",
        format_func=one_line,
        width=320,
        help="For the charts below. Starts at the first checkpoint that diverges.",
    )
    return chosen or first
