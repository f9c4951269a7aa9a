"""The Profiles page's traces: the choice of one, or of a control and a test, and the work on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import streamlit as st

from engine.figures.statistics import quotient
from engine.figures.words import fixed
from engine.lp_records import LPS
from engine.profile.ingest import FILES, remove_trace
from engine.store.entries import Entry, entry_names, model_name
from engine.store.schema import TRACE
from engine.store.store import Store
from pages._kit.choices import by_name
from pages._kit.entry_table import EntryColumn, EntryTable, id_column, origin_column, row_column
from pages._kit.errors import escaped
from pages._kit.links import address_button, compare_address, inspector_address
from pages._kit.managing import entries as managing
from pages._kit.managing.start_form import StartForm, show_import
from pages._kit.picker import Picker
from pages._kit.table_files import file_button
from pages._kit.words import run_title, visible_text

EMPTY = """
Three ways to get a first trace:

- Profile two runs: `.venv/bin/python -m engine run --model demo-qwen --lp none --lp exact --sample-size 8 --profile`
- Import a file of torch's profiler: `.venv/bin/python -m engine trace add trace.json.gz`
- Import or record one below, under *Traces*.
"""


Runs = Mapping[str, Mapping[str, Any]]  # rows of those to which traces may belong, by id


def trace_picker(runs: Runs) -> Picker:
    def default(entries: Sequence[Entry], is_apart: bool) -> list[Entry]:
        return default_choice(entries, runs)

    return Picker(TRACE, trace_table(runs), "control", "test", 2, default, entry_names, EMPTY)


def trace_table(runs: Runs) -> EntryTable:
    def own_run(entry: Entry) -> str | None:
        run_id = str(entry.row.get("run_id") or "")
        return compare_address(run_id) if run_id in runs else None

    return EntryTable(
        "trace",
        (
            EntryColumn("label", "label", 226, _label, help="Its own name, else the file or the text it comes from"),
            EntryColumn("lp", "LP", 120, lambda entry: model_and_lp(entry, runs)[1], help="Of its run"),
            EntryColumn("device", "device", 88, _device),
            EntryColumn("span", "span ms", 80, partial(_ms, "span_us"), "figure", "First event to last"),
            EntryColumn("work", "device ms", 80, partial(_ms, "device_us"), "figure", "Work of devices, added up"),
            EntryColumn("idle", "idle", 62, _idle, "share", IDLE),
            row_column("forward_passes", 66, "count", words="passes", help="Forward passes that it covers"),
            origin_column(),
            row_column("tokens", 70, "count", help="That it covers"),
            row_column("events", 80, "count", help="With a duration"),
            row_column("form", 62, help="events: a whole trace. table: sums of one, without times"),
            EntryColumn("model", "model", 110, lambda entry: model_and_lp(entry, runs)[0], help="Of its run"),
            row_column("created_at", 120, "time", words="made"),
            EntryColumn("run", "run", 200, own_run, "link", "Opens it in Compare runs"),
            id_column("trace"),
        ),
    )


IDLE = "Share of the time between a device's first and last work"


def _label(entry: Entry) -> str:
    return entry.row.get("label") or entry.row.get("source") or ""


def _ms(column: str, entry: Entry) -> float | None:
    return quotient(entry.row.get(column), 1000)


def _idle(entry: Entry) -> float | None:
    busy, idle = entry.row.get("busy_us"), entry.row.get("idle_us")
    return None if busy is None or idle is None else quotient(idle, busy + idle)


def _device(entry: Entry) -> str | None:
    is_on_cpu = entry.row.get("form") == "events" and entry.row.get("device_us") is None
    return entry.row.get("device") or ("CPU" if is_on_cpu else None)


def model_and_lp(entry: Entry, runs: Runs) -> tuple[str, str]:
    """Of the run that a trace belongs to; empty where the store does not have it."""
    run = runs.get(str(entry.row.get("run_id")), {})
    return model_name(run), str(run.get("lp") or "")


def default_choice(entries: Sequence[Entry], runs: Runs) -> list[Entry]:
    """A captured trace of a run without an LP, and next to it one of the same model under one.

    Those of the runs with the most samples, the newest of equal ones. Where there is no such pair: such a trace alone,
    one that was captured or read before one that a text reports.
    """

    def samples(entry: Entry) -> int:
        return runs.get(str(entry.row.get("run_id")), {}).get("samples") or 0

    largest = sorted(entries, key=samples)[::-1]
    captured = [entry for entry in largest if entry.row.get("origin") == "measured"]
    for control in captured:
        model, lp = model_and_lp(control, runs)
        for test in captured if lp == "none" else ():
            its_model, its_lp = model_and_lp(test, runs)
            is_alike = (test.row.get("device_us") is None) == (control.row.get("device_us") is None)
            if its_model == model and its_lp not in ("", "none") and is_alike:
                return [control, test]
    return ([entry for entry in largest if entry.row.get("origin") != "reported"] or largest)[:1]


# --- work on them ----------------------------------------------------------------------------------------------------

MOST_COUNT, FIRST_STEPS, MOST_STEPS = 10**12, 64, 10_000
FIELDS = (("Label", "trace_label", "--label", "a name of your own"),)
ABOUT_FILES = (
    "Traces of torch’s profiler may have any size: they are read as a stream. Tables of sums have *name, count, "
    "total_ms, avg_ms*, separated by tabs or commas."
)


def show(store: Store, ids: Sequence[str]) -> None:
    options = partial(_import_options, store)
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, "traces", "trace", ABOUT_FILES, FIELDS, options),
        "Record": RECORD.show,
        "One trace": partial(managing.show, managed(store), store),
    }
    managing.switch(views, {"One trace": "Traces"}, store)


def _import_options(store: Store) -> list[str]:
    runs = {entry.id: entry for entry in reversed(store.listing().entries)}
    run = by_name(
        "Belongs to run",
        runs,
        "trace_run",
        "run_of_traces",
        index=None,
        placeholder="none",
        format_func=lambda id_: f"{id_} · {visible_text(run_title(runs[id_]))[:90]}",
    )
    words = [f"--run={run}"] if run else []
    with st.container(horizontal=True, key="trace-options"):
        for name, text, help_ in (
            ("keep", "Keep the file", "With the store’s entries, so that it can be downloaded for Perfetto"),
            ("events", "Keep every event", "For single events in the timeline and in SQL; about 10 bytes per event"),
        ):
            if st.checkbox(text, key=f"trace_{name}", bind="query-params", help=help_):
                words.append(f"--{name}")
    with st.expander("What it covers", icon=":material/straighten:"):
        st.caption("For figures per token, per sample and per pass. A trace that belongs to a run takes the run’s.")
        spots = zip(st.columns(3), ("tokens", "samples", "passes"), strict=True)
        for spot, name in spots:
            text = "Forward passes" if name == "passes" else name.capitalize()
            count = spot.number_input(
                text, 1, MOST_COUNT, None, key=f"trace_{name}", bind="query-params", placeholder="not known"
            )
            words += [] if count is None else [f"--{name}", str(int(count))]
    return words


def _window() -> tuple[list[str], str]:
    left, right = st.columns(2)
    steps = left.number_input(
        "Forward passes",
        1,
        MOST_STEPS,
        FIRST_STEPS,
        key="profile_steps",
        bind="query-params",
        help="At most so many are in the trace: about 1,200 events per pass on a CPU",
    )
    skip = right.number_input(
        "Skip first passes",
        0,
        MOST_STEPS,
        0,
        key="profile_skip",
        bind="query-params",
        help="Passes before the recording begins. With 0 it includes templates and prefill.",
    )
    words = ["--profile", "--profile-steps", str(steps)]
    return words + (["--profile-skip", str(skip)] if skip else []), ""


RECORD = StartForm(
    key="start_capture",
    button="Record",
    title="profiled run",
    lps=list(LPS),
    first_lps=("none", "exact"),
    lp_help="A run and a trace under each. `none` is the control.",
    model_key="profile_model",
    lp_key="profile_lp",
    first_molecules=8,
    most_runs=8,
    lead="The model writes these molecules once under each LP, with torch’s profiler around a window of forward "
    "passes. Each run is stored with its trace and with what the engine counted.",
    options=_window,
)


def _buttons(store: Store, entry: Entry) -> None:
    """Its file, and links to the run that it belongs to, as far as the store has it."""
    name = str(entry.row.get("file") or "")
    size = entry.files.sizes(FILES).get(name.removeprefix(f"{FILES}/"))
    file_button(
        "Export",
        partial(entry.files.read, name),
        name.removeprefix(f"{FILES}/") or f"{entry.id}.json",
        key=f"trace-file-{entry.id}",
        type="secondary",
        disabled=size is None,
        help="The file is not in the store: import it again with “Keep the file”."
        if size is None
        else f"The trace file, {fixed(size / 1e6, 1)} MB. For Perfetto: open ui.perfetto.dev or `chrome://tracing` in "
        "your browser, then *Open trace file*. It is read in the browser; this app sends nothing.",
    )
    run_id = str(entry.row.get("run_id") or "")
    if run_id and run_id not in {run.id for run in store.listing().entries}:
        st.caption(f"It belongs to the run {escaped(run_id)}, which this store does not have.")
    elif run_id:
        for words, address, icon in (
            ("Open its run", compare_address(run_id), ":material/compare_arrows:"),
            ("Open its samples", inspector_address(run_id), ":material/biotech:"),
        ):
            address_button(words, address, key=f"{words} {entry.id}", icon=icon, type="tertiary")


def managed(store: Store) -> managing.Managed:
    return managing.Managed(
        kind=TRACE,
        table=trace_table({entry.id: entry.row for entry in store.listing().entries}),
        parameter="trace",
        loss="A kept file goes with its trace; the run that it belongs to stays.",
        buttons=_buttons,
        remove=remove_trace,
    )
