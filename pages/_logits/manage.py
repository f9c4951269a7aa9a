"""The Logit health page's work on logs: import files, record one of an embedded model, rename, tag and delete logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import streamlit as st

from engine.figures.words import counted
from engine.lp_records import LPS
from engine.runner.background import Task, TaskSnapshot
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits.logs import QUERY, LogSelection
from pages._shared.errors import escape_markdown
from pages._shared.links import logits_address
from pages._shared.managing import entries, tasks
from pages._shared.managing.entries import Managed
from pages._shared.managing.import_form import show_import
from pages._shared.managing.start_form import StartForm
from pages._shared.managing.tasks import TaskKind, brought, open_button
from pages._shared.words import visible_text

FIRST_VALUES, MOST_VALUES, MOST_IDS, MOST_CHARS = 10, 10_000, 1_000, 8_000
FIRST, IDS, ADD_LOG = "First values", "Chosen ids", "--add-log"
ABOUT_FILES = (
    "Logit logs of any engine: JSON lines, plain or `.gz`, of any length. A line that cannot be read is left out "
    "and reported; a truncated file is imported up to there. A file is imported once, whatever its name."
)
FROM_ENTRIES = "what the entries say"
FIELDS = (
    ("Engine", "log_engine", "--engine", FROM_ENTRIES),
    ("Model", "log_model", "--model", FROM_ENTRIES),
    ("Precision", "log_precision", "--precision", f"{FROM_ENTRIES}, such as Q4_K_M"),
    ("Label", "log_label", "--label", "a name of your own"),
)


def show(store: Store, chosen: LogSelection | None) -> None:
    """``chosen`` is None where no log is chosen."""
    tasks.show(store, LOGS)
    types, example = ("jsonl", "ndjson", "json", "log", "txt", "gz"), "/data/logs/*.jsonl.gz"
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, "logs", types, example, ABOUT_FILES, ("logits", "add"), FIELDS),
        "Record": RECORD.show,
        "One log": partial(entries.show, MANAGED, store, chosen.control.id if chosen else None),
    }
    entries.switch(views, {"One log": "Logs"}, store)


def _values() -> tuple[list[str], str]:
    how = st.segmented_control(
        "Values per entry", [FIRST, IDS], default=FIRST, required=True, key="log_how", bind="query-params",
        help="The vocabulary has 150,000 values per entry. The reports logged the first ten.",
    )  # fmt: skip
    if how == IDS:
        text = st.text_input(
            "Token ids", key="log_ids", bind="query-params", max_chars=MOST_CHARS, placeholder="17, 24, 25"
        )
        ids, problem = ids_of(text or "")
        return ["--log-logits", ids, ADD_LOG], problem
    count = st.number_input("Values", 1, MOST_VALUES, FIRST_VALUES, key="log_first", bind="query-params", width=220)
    return ["--log-logits", str(int(count or FIRST_VALUES)), ADD_LOG], ""


def ids_of(text: str) -> tuple[str, str]:
    """Ids as the command takes them, and what is wrong with them."""
    parts = text.replace(",", " ").split()
    if not parts:
        return "", "Give at least one token id."
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return "", "Token ids are whole numbers, such as 17, 24, 25."
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids) or len(ids) > MOST_IDS:
        return "", f"Give each id once, and at most {MOST_IDS:,} of them."
    return ",".join(map(str, ids)) + ("," if len(ids) == 1 else ""), ""


RECORD = StartForm(
    key="start_log",
    button="Record",
    title="logged run",
    lps=list(LPS),
    first_lps=("none",),
    lp_help="Logged values are raw under any LP; the LP decides which text the model reads.",
    model_key="log_of",
    lp_key="log_lp",
    first_molecules=4,
    lead="The model writes these molecules, and the raw logits of each step, before the LP, are logged. Each token is "
    "then drawn again from the log as a check. The run and the log are stored; in a terminal `--logit-log FILE` keeps "
    "the file, too.",
    options=_values,
)


def _of_one(store: Store, entry: Entry) -> None:
    """A link to its health, and what of its file is missing: its notes say why, unless they were overwritten."""
    st.link_button("Open its health", logits_address(entry.id, view="Health"), icon=":material/monitor_heart:")
    row = entry.row
    if row.get("left_out") or row.get("is_cut"):
        lines = f"{counted(row['left_out'], 'line')} could not be read. " if row.get("left_out") else ""
        cut = "The file is truncated. " if row.get("is_cut") else ""
        st.caption(f":material/warning: {lines}{cut}{escape_markdown(visible_text(str(row.get('notes') or '')))}")


MANAGED = Managed(
    kind=LOGIT_LOG,
    noun="log",
    parameter="one",
    columns=("label", "origin", "engine", "model", "precision", "entries", "flagged_entries", "file", "created_at"),
    loss="The imported file stays where it is.",
    leave_out=QUERY.leave_out,
    one=_of_one,
)


def _link(store: Store, task: Task, seen: TaskSnapshot) -> None:
    logs = brought(store, LOGIT_LOG, seen)
    if len(logs) == 2:
        open_button(task, logits_address(logs[0].id, logs[1].id, view="Parity"), "The first log is the control")
    elif logs:
        open_button(task, logits_address(logs[0].id, view="Health"), "")


def _told(store: Store, seen: TaskSnapshot) -> Iterable[str]:
    def words(entry: Entry) -> str:
        return f"{entry.row['entries']:,} entries, {entry.row.get('flagged_entries') or 0:,} flagged"

    return tasks.told(store, LOGIT_LOG, seen, words, "notes")


LOGS = TaskKind(
    "log",
    "logs",
    "entries",
    lambda task: task.words[:1] == ("logits",) or (task.words[:1] == ("run",) and ADD_LOG in task.words),
    lambda seen: len({log_id for part in seen.parts if part.state == "done" for log_id in part.made_ids}),
    _link,
    told=_told,
)
