"""What commands that were started from the Logit health page bring: logs, of files or of runs that logged theirs."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st

from engine.runner.background import Snapshot, Task
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.logits import state
from pages._shared.logits.state import short_name
from pages._shared.managing.tasks import What, made_by

ADD_LOG = "--add-log"
MOST_TOLD, MOST_NAME = 12, 80


def is_of_logs(task: Task) -> bool:
    return task.words[:1] == ("logits",) or (task.words[:1] == ("run",) and ADD_LOG in task.words)


def brought(store: Store, seen: Snapshot) -> list[Entry]:
    """Its logs that are in the store still, in the order in which it read them."""
    known = {entry.id: entry for entry in store.found(LOGIT_LOG).entries}
    return [known[one] for one in made_by(seen) if one in known]


def _count(seen: Snapshot) -> int:
    return len({one for part in seen.parts if part.state == "done" for one in part.made_ids})


def _link(store: Store, task: Task, seen: Snapshot) -> None:
    logs = brought(store, seen)
    if not logs:
        return
    beside = logs[1].id if len(logs) == 2 else None
    st.link_button(
        "Set them side by side" if beside else "Look at it",
        state.address(logs[0].id, beside, **{state.VIEW: "Parity" if beside else "Health"}),
        key=f"look-{task.number}",
        icon=":material/compare_arrows:" if beside else ":material/monitor_heart:",
        type="primary",
    )


def _told(store: Store, seen: Snapshot) -> Iterator[str]:
    """What came in, and what was left out of it and why."""
    logs = brought(store, seen)
    for entry in logs[:MOST_TOLD]:
        row = entry.row
        name = escape_markdown(visible_text(short_name(entry))[:MOST_NAME])
        flagged = f"{row.get('flagged_entries') or 0:,} with a flag"
        yield f":material/check: **{name}**: {row['entries']:,} entries, {flagged}, as {escape_markdown(entry.id)}"
        if (row.get("left_out") or row.get("is_cut")) and (notes := str(row.get("notes") or "")):
            yield f":material/warning: {name}: {escape_markdown(visible_text(notes))}"
    if len(logs) > MOST_TOLD:
        yield f"and {len(logs) - MOST_TOLD:,} more"


LOGS = What("log", "logs", "entries", is_of_logs, _count, _link, told=_told)
