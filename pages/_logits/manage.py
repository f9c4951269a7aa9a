"""The Logit health page's work on logs: import files, record one of an embedded model, look after one.

What takes long is a command in a process of its own, carried out for everybody who uses this server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import streamlit as st

from engine.figures.words import counted
from engine.lp_records import LPS
from engine.runner.background import Task, TaskSnapshot
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._logits.logs import QUERY, LogSelection, log_name
from pages._shared.errors import escape_markdown
from pages._shared.links import logits_address
from pages._shared.managing import tasks
from pages._shared.managing.entry_form import EntryForm
from pages._shared.managing.generation_form import GenerationForm
from pages._shared.managing.import_form import FileInput, option_input, show_import
from pages._shared.managing.tasks import TaskKind, made_by, open_button
from pages._shared.managing.views import show_one
from pages._shared.words import visible_text

FIRST_VALUES, MOST_VALUES, MOST_IDS, MOST_CHARS = 10, 10_000, 1_000, 8_000
FIRST, IDS = "First values", "Chosen ids"
FILES = FileInput("logs", "Log files", ("jsonl", "ndjson", "json", "log", "txt", "gz"), "/data/logs/*.jsonl.gz")
ABOUT_FILES = (
    "Logit logs of any engine: JSON lines, plain or `.gz`, of any length. A line that cannot be read is left out "
    "and reported; a truncated file is imported up to there. A file is imported once, whatever its name."
)
FROM_ENTRIES = "what the entries say"
OPTIONS = (
    ("Engine", "log_engine", "--engine", FROM_ENTRIES),
    ("Model", "log_model", "--model", FROM_ENTRIES),
    ("Precision", "log_precision", "--precision", f"{FROM_ENTRIES}, such as Q4_K_M"),
    ("Label", "log_label", "--label", "a name of your own"),
)


def show(store: Store, chosen: LogSelection | None) -> None:
    """Draw this section; ``chosen`` is None where no log is chosen."""
    tasks.show(store, LOGS)
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, FILES, ABOUT_FILES, ("logits", "add"), _import_options, key="read_logs"),
        "Record": RECORD.show,
        "One log": partial(ONE_LOG.show, store, chosen),
    }
    show_one(views, store, "Logs")


def _import_options() -> list[str]:
    """In pairs, so that they have room on a narrow window too."""
    words = []
    for spot, option in zip([*st.columns(2), *st.columns(2)], OPTIONS, strict=True):
        with spot:
            words += option_input(*option)
    return words


# --- recording --------------------------------------------------------------------------------------------------------


def _values() -> tuple[tuple[str, ...], str]:
    how = st.segmented_control(
        "Values per entry", [FIRST, IDS], default=FIRST, required=True, key="log_how", bind="query-params",
        help="The vocabulary has 150,000 values per entry. The reports logged the first ten.",
    )  # fmt: skip
    if how == IDS:
        text = st.text_input(
            "Token ids", key="log_ids", bind="query-params", max_chars=MOST_CHARS, placeholder="17, 24, 25"
        )
        ids, problem = ids_of(text or "")
        return ("--log-logits", ids, ADD_LOG), problem
    count = st.number_input("Values", 1, MOST_VALUES, FIRST_VALUES, key="log_first", bind="query-params", width=220)
    return ("--log-logits", str(int(count or FIRST_VALUES)), ADD_LOG), ""


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


RECORD = GenerationForm(
    key="start_log",
    button="Record",
    lps=list(LPS),
    first_lps=("none",),
    lp_help="Logged values are raw under any LP; the LP decides which text the model reads.",
    title=lambda request: request.title("Log"),
    effect=lambda request: f"**1 run** with its log, of {request.over_molecules()}",
    model_key="log_of",
    lp_key="log_lp",
    first_molecules=4,
    lead="The model writes these molecules, and the raw logits of each step, before the LP, are logged. Each token is "
    "then drawn again from the log as a check. The run and the log are stored.",
    hint="; `--logit-log FILE` keeps the file, too",
    options=_values,
)


# --- one log ----------------------------------------------------------------------------------------------------------


def left_out(entry: Entry) -> str:
    """What of the file is missing and why: its notes, unless they were overwritten."""
    notes, count = str(entry.row.get("notes") or ""), entry.row.get("left_out") or 0
    if not count and not entry.row.get("is_cut"):
        return ""
    if any(words in notes for words in ("could not be read", "truncated", "breaks off")):
        return notes
    lines = f"{counted(count, 'line')} could not be read." if count else ""
    return f"{lines} {'The file is truncated; what could be read is here.' if entry.row.get('is_cut') else ''}".strip()


def _health_link(entry: Entry) -> None:
    st.link_button("Open its health", logits_address(entry.id, view="Health"), icon=":material/monitor_heart:")


ONE_LOG = EntryForm(
    kind=LOGIT_LOG,
    noun="log",
    parameter="one",
    name=log_name,
    loss=lambda entry: f" and its {entry.row['entries']:,} entries. The imported file stays where it is.",
    leave_out=QUERY.leave_out,
    buttons=_health_link,
    caution=left_out,
    hidden=("findings", "rules"),  # JSON for programs; the Health tab says it in words
)


ADD_LOG = "--add-log"
MOST_TOLD, MOST_NAME = 12, 80


def is_of_logs(task: Task) -> bool:
    return task.words[:1] == ("logits",) or (task.words[:1] == ("run",) and ADD_LOG in task.words)


def brought(store: Store, seen: TaskSnapshot) -> list[Entry]:
    """Its logs that are in the store still, in the order in which it read them."""
    known = {entry.id: entry for entry in store.found(LOGIT_LOG).entries}
    return [known[log_id] for log_id in made_by(seen) if log_id in known]


def _link(store: Store, task: Task, seen: TaskSnapshot) -> None:
    logs = brought(store, seen)
    if len(logs) == 2:
        open_button(task, logits_address(logs[0].id, logs[1].id, view="Parity"), "The first log is the control")
    elif logs:
        open_button(task, logits_address(logs[0].id, view="Health"), "")


def _told(store: Store, seen: TaskSnapshot) -> Iterator[str]:
    """What was imported, and what was left out and why."""
    logs = brought(store, seen)
    for entry in logs[:MOST_TOLD]:
        row = entry.row
        name = escape_markdown(visible_text(log_name(entry))[:MOST_NAME])
        flagged = f"{row.get('flagged_entries') or 0:,} flagged"
        yield f":material/check: **{name}**: {row['entries']:,} entries, {flagged}, as {escape_markdown(entry.id)}"
        if (row.get("left_out") or row.get("is_cut")) and (notes := str(row.get("notes") or "")):
            yield f":material/warning: {name}: {escape_markdown(visible_text(notes))}"
    if len(logs) > MOST_TOLD:
        yield f"and {len(logs) - MOST_TOLD:,} more"


LOGS = TaskKind(
    "log",
    "logs",
    "entries",
    is_of_logs,
    lambda seen: len({log_id for part in seen.parts if part.state == "done" for log_id in part.made_ids}),
    _link,
    told=_told,
)
