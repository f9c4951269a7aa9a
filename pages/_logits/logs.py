"""The Logit health page's logs: the choice of one or two, and the work on them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import counted, percent, precision_name
from engine.logits.causes import cause_words
from engine.logits.health import has_values
from engine.logits.pairs import first_logs, is_damaged
from engine.logits.parity import log_name
from engine.lp_records import LPS
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._kit.entry_table import EntryColumn, EntryTable, id_column, origin_column, row_column
from pages._kit.errors import escaped
from pages._kit.links import address_button, logits_address
from pages._kit.managing import entries as managing
from pages._kit.managing.start_form import StartForm, show_import
from pages._kit.picker import Picker
from pages._kit.words import visible_text

EMPTY = """
Import or record a first log below, under *Logs*, or from a terminal:

- `.venv/bin/python -m engine logits add 'logs/*.jsonl.gz'`
- `.venv/bin/python -m engine run --model demo-qwen --lp none --sample-size 8 --log-logits 10 --add-log`
"""


def _flagged(column: str, entry: Entry) -> float | None:
    return quotient(entry.row.get(column), entry.row["entries"])


def _cause(entry: Entry) -> str:
    return cause_words(entry.row) if has_values(entry) else "its values are missing or damaged"


FLAGGED = "Entries with a value that our rules flag, on purpose or not"
GARBAGE = "Entries with a huge number: garbage by the report's own rule"
TABLE = EntryTable(
    "log",
    (
        row_column("engine", 200),
        row_column("model", 120),
        EntryColumn("precision", "precision", 76, lambda entry: precision_name(entry.row.get("precision"))),
        row_column("entries", 72, "count", help="Lines with values"),
        row_column("values_logged", 80, "count", words="values"),
        EntryColumn("flagged", "flagged", 92, partial(_flagged, "flagged_entries"), "bar", FLAGGED),
        EntryColumn("report", "by report", 92, partial(_flagged, "garbage_entries"), "bar", GARBAGE),
        EntryColumn("cause", "likely cause", 180, _cause),
        row_column("file", 150),
        origin_column(),
        row_column("label", 120),
        row_column("created_at", 120, "time", words="made"),
        id_column("log"),
    ),
)


def verdict(entry: Entry, name: str) -> str:
    """Whether a log is healthy, by what was found when it was read. A late read shows in no log alone."""
    row = entry.row
    if not has_values(entry):
        return f"{name}: its values are missing or damaged."
    if is_damaged(entry):
        flagged = percent(quotient(row.get("flagged_entries"), row["entries"]))
        return f"{name} is damaged: {cause_words(row)}, {flagged} of {row['entries']:,} entries have flagged values."
    meant = f" {row['flagged_values']:,} values are masks or padding." if row.get("flagged_values") else ""
    return f"{name}: no sign of damage in {counted(row['entries'], 'entry', 'entries')}.{meant}"


def log_names(entries: Sequence[Entry]) -> dict[str, str]:
    """Engine, model and precision, and the id where these are the same. Anybody's text."""
    names = {entry.id: log_name(entry.row) for entry in entries}
    is_clear = len({*names.values()}) == len(names)
    return names if is_clear else {id_: f"{name} · {id_}" for id_, name in names.items()}


def default_choice(entries: Sequence[Entry], is_health: bool = False) -> Sequence[Entry]:
    """Health opens on the damaged log with the most entries, where there is one, the newest of equal ones."""
    damaged = [entry for entry in reversed(entries) if is_damaged(entry) and has_values(entry)]
    if is_health and damaged:
        return [max(damaged, key=lambda entry: entry.row["entries"])]
    return first_logs(entries)


LOGS = Picker(LOGIT_LOG, TABLE, "log", "beside", 2, default_choice, log_names, EMPTY, apart=("Health",))

# --- work on them ----------------------------------------------------------------------------------------------------

MOST_CHARS, ADD_LOG = 8_000, "--add-log"
ABOUT_FILES = (
    "Of any engine and length: a line that cannot be read is left out and reported; a truncated file is imported up to "
    "there. A file is imported once, whatever its name."
)
FIELDS = (
    ("Engine", "log_engine", "--engine", "what the entries say"),
    ("Model", "log_model", "--model", "what the entries say"),
    ("Precision", "log_precision", "--precision", "what the entries say, such as Q4_K_M"),
    ("Label", "log_label", "--label", "a name of your own"),
)


def show(store: Store, ids: Sequence[str]) -> None:
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, "logs", "log", ABOUT_FILES, FIELDS),
        "Record": RECORD.show,
        "One log": partial(managing.show, MANAGED, store),
    }
    managing.switch(views, {"One log": "Logs"}, store)


def _values() -> tuple[list[str], str]:
    text = st.text_input(
        "Values per entry",
        "10",
        key="log_values",
        bind="query-params",
        max_chars=MOST_CHARS,
        help="A number: the first so many; token ids, such as 17,24,25: those. The vocabulary has 150,000 values per "
        "entry, of which the reports logged the first ten.",
    )
    values = (text or "").replace(" ", "")
    is_valid = re.fullmatch(r"[1-9]\d{0,5}|\d{1,9},(\d{1,9},?)*", values, re.ASCII)
    return ["--log-logits", values, ADD_LOG], "" if is_valid else "Give a number, or token ids such as 17, 24, 25."


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


def _buttons(store: Store, entry: Entry) -> None:
    """A link to its health, and what of its file is missing: its notes say why, unless they were overwritten."""
    address = logits_address(entry.id, view="Health")
    address_button("Open its health", address, key=f"health-{entry.id}", icon=":material/monitor_heart:")
    if entry.row.get("left_out") or entry.row.get("is_cut"):
        cut = " The file is truncated." if entry.row.get("is_cut") else ""
        notes = escaped(visible_text(str(entry.row.get("notes") or "")))
        st.caption(f"{counted(entry.row.get('left_out') or 0, 'line')} could not be read.{cut} {notes}")


MANAGED = managing.Managed(
    kind=LOGIT_LOG, table=TABLE, parameter="one", loss="The imported file stays where it is.", buttons=_buttons
)
