"""What commands that were started from the Profiles page bring: traces, of files or of runs that were profiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import streamlit as st

from engine.runner.background import Snapshot, Task
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown
from pages._shared.managing.tasks import What, made_by
from pages._shared.profiles import state
from pages._shared.profiles.state import model_and_lp

PROFILE = "--profile"
MOST_TOLD, MOST_WARNINGS, MOST_NAME = 12, 5, 80


def is_of_traces(task: Task) -> bool:
    return task.words[:1] == ("trace",) or (task.words[:1] == ("run",) and PROFILE in task.words)


def brought(store: Store, seen: Snapshot) -> list[Entry]:
    """Its traces that are in the store still: those that it read, else those of the runs that it wrote."""
    made, runs = set(made_by(seen)), set(seen.run_ids)
    found = store.found(TRACE).entries
    return [one for one in found if one.id in made or (not made and one.row.get("run_id") in runs)]


def _count(seen: Snapshot) -> int:
    return len(made_by(seen)) or len(seen.run_ids)


def _link(store: Store, task: Task, seen: Snapshot) -> None:
    traces = brought(store, seen)
    if not traces:
        return
    control, test = pair_of(store, traces)
    st.link_button(
        "Compare them" if test else "Look at it",
        state.address(control, test),
        key=f"compare-{task.number}",
        icon=":material/compare_arrows:",
        type="primary",
        help=_which(len(traces)) if test else None,
    )


def _which(count: int) -> str:
    return "The one without an LP is the control" if count == 2 else "The one without an LP, and the last of the others"


def pair_of(store: Store, traces: Sequence[Entry]) -> tuple[str, str | None]:
    """The control, a trace without an LP where there is one; and the last of the others."""
    runs = {entry.id: entry.row for entry in store.found().entries}
    control = next((one for one in traces if model_and_lp(one, runs)[1] == "none"), traces[0])
    others = [one.id for one in traces if one.id != control.id]
    return control.id, others[-1] if others else None


def _told(store: Store, seen: Snapshot) -> Iterator[str]:
    """What came in, and what was odd about it."""
    traces = brought(store, seen)
    for entry in traces[:MOST_TOLD]:
        row = entry.row
        name = escape_markdown(visible_text(str(row.get("label") or row.get("source") or entry.id))[:MOST_NAME])
        said = [f"{row.get('events') or 0:,} events"]
        said += [f"{row['tokens']:,} tokens"] if row.get("tokens") is not None else []
        yield f":material/check: **{name}**: {', '.join(said)}, as {escape_markdown(entry.id)}"
        for line in str(row.get("warnings") or "").splitlines()[:MOST_WARNINGS]:
            yield f":material/warning: {name}: {escape_markdown(visible_text(line))}"
    if len(traces) > MOST_TOLD:
        yield f"and {len(traces) - MOST_TOLD} more"
    if seen.state == "done" and seen.run_ids and not traces:
        yield ":material/info: No trace: the runs ended before their window began, or their traces were removed."


TRACES = What("trace", "traces", "events", is_of_traces, _count, _link, told=_told)
