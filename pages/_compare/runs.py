"""The Compare page's choice of runs."""

from __future__ import annotations

from engine.store.store import Store
from pages._compare.state import QUERY, RunSelection
from pages._shared.entry_picker import EntryPicker
from pages._shared.run_rows import RUN_CHOICES, run_columns, run_row

_EMPTY = """
Three ways to get a first run:

- Start runs below, under *Manage*, or from a terminal:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --lp position-blocklist --lp exact`
- Generate a molecule on the **Live generation** page and press *Save to store*.
- Import the reports' files: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


def chosen_runs(store: Store, *, is_open: bool = True) -> RunSelection | None:
    """Draw the table, folded unless ``is_open``, and return the compared runs."""
    picker = EntryPicker(QUERY, run_row, run_columns(), _EMPTY, choices=RUN_CHOICES)
    return picker.show(store.found(), is_open=is_open)
