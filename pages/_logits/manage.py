"""The Logit health page's work on logs: import files, record one of an embedded model, rename, tag and delete logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.figures.words import counted
from engine.lp_records import LPS
from engine.store.entries import Entry
from engine.store.schema import LOGIT_LOG
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.links import logits_address
from pages._shared.managing import entries, tasks
from pages._shared.managing.entries import Managed
from pages._shared.managing.start_form import StartForm, show_import
from pages._shared.words import visible_text

MOST_CHARS, ADD_LOG = 8_000, "--add-log"
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


def show(store: Store, ids: Sequence[str]) -> None:
    tasks.show(store)
    types, example = ("jsonl", "ndjson", "json", "log", "txt", "gz"), "/data/logs/*.jsonl.gz"
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, "logs", types, example, ABOUT_FILES, ("logits", "add"), FIELDS),
        "Record": RECORD.show,
        "One log": partial(entries.show, MANAGED, store, next(iter(ids), None)),
    }
    entries.switch(views, {"One log": "Logs"}, store)


def _values() -> tuple[list[str], str]:
    text = st.text_input(
        "Values per entry", "10", key="log_values", bind="query-params", max_chars=MOST_CHARS,
        help="A number: the first so many; token ids, such as 17,24,25: those. The vocabulary has 150,000 values per "
        "entry, of which the reports logged the first ten.",
    )  # fmt: skip
    values = (text or "").replace(" ", "")
    is_one = re.fullmatch(r"[1-9]\d{0,5}|\d{1,9},(\d{1,9},?)*", values, re.ASCII)
    return ["--log-logits", values, ADD_LOG], "" if is_one else "Give a number, or token ids such as 17, 24, 25."


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
    one=_of_one,
)
