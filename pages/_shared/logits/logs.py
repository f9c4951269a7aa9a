"""The Logit health page's choice of logs: all of the store in one table, of which one is looked at, or two.

Which ones is in the address. A filter hides rows and changes nothing about what is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from engine.errors import one_line
from engine.logits.causes import TITLES
from engine.logits.figures import has_values
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.damages import show_damages
from pages._shared.errors import escape_markdown
from pages._shared.logits import state
from pages._shared.logits.state import Chosen
from pages._shared.managing.ticking import legend, ticked_ids, ticked_table
from pages._shared.theme import palette

KEY = "chosen_logs"
FILTER_FROM = 8
"""So few rows are seen at once without one."""
MOST_CHARS = 200
LEGEND_WIDTH = 560
_EMPTY = """
Three ways to a first log:

- Upload one, or record one of an embedded model, below under *Logs*.
- Read files in from a terminal: `.venv/bin/python -m engine logits add 'logs/*.jsonl.gz'`
- Let a run here write one:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --sample-size 8 --log-logits 10 --add-log`

What the report states of six models is below under *Models* all the same.
"""


def chosen_logs(store: Store, *, is_open: bool = True) -> Chosen | None:
    """Draw the table of logs, folded away unless ``is_open``, and give those that are looked at."""
    found = store.found(LOGIT_LOG)
    if not found.entries:
        st.info(_EMPTY, icon=":material/inbox:", title="There is no logit log in this store yet")
        show_damages(found)
        return None
    chosen, complaints = state.choose(found)
    for one in complaints:
        st.error(escape_markdown(one), icon=":material/error:")
    with st.expander(_heading(chosen), expanded=is_open, icon=":material/checklist:"):
        entries = list(reversed(found.entries))
        _filter(entries)
        _table([entry for entry in entries if _is_wanted(entry)], chosen)
        _roles(chosen)
        show_damages(found)
    return chosen


def _heading(chosen: Chosen | None) -> str:
    if chosen is None:
        return "Logs"
    names = [escape_markdown(one_line(chosen.name(one))) for one in chosen.ids]
    return f"Logs: {', beside '.join(names)}"


def _filter(entries: list[Entry]) -> None:
    if len(entries) >= FILTER_FROM or st.query_params.get("contains"):
        st.text_input(
            "Contains",
            key="contains",
            placeholder="any",
            bind="query-params",
            max_chars=MOST_CHARS,
            help="In a log's name, engine, model, precision, label, file, notes or cause",
            width=240,
        )


def _is_wanted(entry: Entry) -> bool:
    names = ("engine", "model", "precision", "label", "file", "notes", "cause", "origin", "source")
    told = " ".join([entry.id, *(str(entry.row.get(name) or "") for name in names)]).casefold()
    return all(word in told for word in (st.session_state.get("contains") or "").casefold().split())


def _table(entries: list[Entry], chosen: Chosen | None) -> None:
    if not entries:
        st.info("No log is like that. Take the filter away.", icon=":material/filter_alt_off:")
        return
    ids = chosen.ids if chosen is not None else ()
    rows = {entry.id: _row(entry, chosen) for entry in entries}
    ticked_table(
        KEY,
        rows,
        ids,
        _take,
        columns=_columns(),
        alt="Logit logs of the store: tick the one to look at, and another to set beside it",
    )


def _take(shown: Sequence[str], ids: Sequence[str]) -> None:
    """The first that was ticked is looked at, the last one stands beside it; what the filter hides stays."""
    looked_at = ticked_ids(KEY, shown, ids)
    if looked_at is None:
        return
    state.put(looked_at[0] if looked_at else None, looked_at[-1] if len(looked_at) > 1 else None)


def _row(entry: Entry, chosen: Chosen | None) -> dict[str, Any]:
    row = entry.row
    is_chosen = chosen is not None and entry.id in chosen.ids
    return {
        "as": chosen.letter(entry.id) if is_chosen and chosen is not None else None,
        "engine": _text(row["engine"]),
        "model": _text(row.get("model")),
        "precision": _text(row.get("precision")),
        "entries": row["entries"],
        "values": row["values_logged"],
        "flagged": _per_cent(row, "flagged_entries"),
        "report": _per_cent(row, "garbage_entries"),
        "cause": _cause(entry),
        "file": _text(row.get("file")),
        "origin": row["origin"],
        "made": row.get("created_at"),
        "label": _text(row.get("label")),
        "notes": _text(row.get("notes")),
        "log": entry.id,
    }


def _cause(entry: Entry) -> str:
    """In words; of a log whose files are gone, that."""
    if not has_values(entry):
        return "its values are missing or damaged"
    cause = entry.row.get("cause")
    if cause is None:
        return "nothing is wrong" if entry.row.get("flagged_values") == 0 else ""
    sure = entry.row.get("certainty")
    return _text(TITLES.get(cause, cause) + (f" ({sure})" if sure else "")) or ""


def _text(said: object) -> str | None:
    return None if said is None else one_line(str(said)[:MOST_CHARS])


def _per_cent(row: Mapping[str, Any], count: str) -> float | None:
    known = row.get(count)
    return None if known is None or not row["entries"] else 100 * known / row["entries"]


def _columns() -> dict[str, Any]:
    config = st.column_config
    return {
        "as": config.TextColumn("as", width=36, pinned=True, help="A is looked at; B stands beside it"),
        "engine": config.TextColumn("engine", width=110),
        "model": config.TextColumn("model", width=120),
        "precision": config.TextColumn("precision", width=76),
        "entries": config.NumberColumn("entries", width=72, format="localized", help="Lines with values"),
        "values": config.NumberColumn("values", width=80, format="localized"),
        "flagged": _rate("flagged", "Entries with a value that our rules flag, on purpose or not"),
        "report": _rate("by report", "Entries with a huge number: garbage by the report's own rule"),
        "cause": config.TextColumn("likely cause", width=220),
        "file": config.TextColumn("file", width=150),
        "origin": config.TextColumn("origin", width=80, help="measured: a run here wrote it. imported: a file's"),
        "made": config.DatetimeColumn("read in", width=120, format="D MMM YYYY HH:mm"),
        "label": config.TextColumn("label", width=120),
        "notes": config.TextColumn("notes", width=200),
        "log": config.TextColumn("log", width=260),
    }


def _rate(name: str, what: str) -> Any:
    return st.column_config.ProgressColumn(name, width=92, help=what, format="%.1f %%", min_value=0, max_value=100)


def _roles(chosen: Chosen | None) -> None:
    """Who is A, who is B, whether or not a row shows it."""
    if chosen is None:
        st.info(
            "Tick a log in the table to look at it, and a second one to set beside it.", icon=":material/checklist:"
        )
        return
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="log-roles"):
        st.html(_legend(chosen), width=LEGEND_WIDTH)
        with st.container(horizontal=True, width="content"):
            st.button(
                "Swap",
                icon=":material/swap_horiz:",
                key="swap_logs",
                type="tertiary",
                disabled=chosen.beside is None,
                help="A is looked at, and is parity's control",
                on_click=state.swap,
                args=(chosen,),
            )
            st.button(
                "Choose nothing",
                icon=":material/close:",
                key="no_log",
                type="tertiary",
                on_click=state.put,
                args=(None,),
            )


def _legend(chosen: Chosen) -> str:
    """Letters in their colours, with names."""
    colours = palette()
    named = [(chosen.colour(one, colours), one_line(chosen.name(one))) for one in chosen.ids]
    hint = "" if chosen.beside else "Tick a second log to set it beside."
    return legend(named, "Logs that are looked at", hint)
