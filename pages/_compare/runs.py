"""The Compare page's choice of runs: a control and its tests, and the default where the address names none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.comparing.measures import has_samples, run_name
from engine.store.entries import Entry, is_profiled
from engine.store.schema import RUN
from engine.store.store import Store
from pages._shared.entry_picker import EntryPicker
from pages._shared.links import MOST_TESTS
from pages._shared.run_rows import RUN_CHOICES, run_columns, run_row
from pages._shared.selection import Selection, SelectionQuery

MOST_DEFAULT = 7
_EMPTY = """
Three ways to get a first run:

- Start runs below, under *Manage*, or from a terminal:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --lp group-v2.1 --lp exact`
- Generate a molecule on the **Live generation** page and press *Save to store*.
- Import the reports' files: `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
"""


@dataclass(frozen=True, slots=True)
class RunSelection(Selection):
    def short_name(self, entry: Entry) -> str:
        return run_name(entry)

    @property
    def measured(self) -> tuple[Entry, ...]:
        """Those with samples; a reported run has none."""
        return tuple(entry for entry in self.entries if has_samples(entry))


def default_choice(entries: Sequence[Entry]) -> RunSelection | None:
    """The newest run without an LP, and the same model's runs of as many molecules under each LP.

    Runs beside which a profiler ran are left out where there are others, since their times say little.

    Where there is no such control: the newest run with samples, alone.
    """
    with_samples = [entry for entry in reversed(entries) if has_samples(entry)]
    newest = [entry for entry in with_samples if not is_profiled(entry)] or with_samples
    for control in newest:
        tests = _under_lps(control, newest) if control.row.get("lp") == "none" else {}
        if tests:
            return RunSelection(control, tuple(tests.values())[:MOST_DEFAULT])
    return RunSelection(newest[0]) if newest else None


def _under_lps(control: Entry, entries: Iterable[Entry]) -> dict[str, Entry]:
    """The newest of each LP, oldest first."""
    same = ("model_alias", "model_step", "model_family", "molecules", "samples", "origin")
    by_lp: dict[str, Entry] = {}
    for entry in entries:
        is_alike = all(entry.row.get(name) == control.row.get(name) for name in same)
        if is_alike and (lp := entry.row.get("lp")) not in (None, "none"):
            by_lp.setdefault(str(lp), entry)
    return dict(reversed(by_lp.items()))


QUERY = SelectionQuery(RUN, "run", "control", "test", MOST_TESTS, RunSelection, default_choice)


def chosen_runs(store: Store) -> RunSelection | None:
    """Draw the table and return the compared runs."""
    picker = EntryPicker(QUERY, run_row, run_columns(), _EMPTY, choices=RUN_CHOICES)
    return picker.show(store.found())
