"""The Profiles page's work on traces: import files, record a generation, rename, tag, export and delete traces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.lp_records import LPS
from engine.profile.ingest import remove_trace, trace_file
from engine.store.entries import Entry
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from pages._shared.choices import by_name
from pages._shared.errors import escape_markdown
from pages._shared.links import compare_address, inspector_address
from pages._shared.managing import entries, tasks
from pages._shared.managing.entries import Managed
from pages._shared.managing.start_form import StartForm, show_import
from pages._shared.table_files import file_button
from pages._shared.words import run_title, visible_text

MOST_COUNT, FIRST_STEPS, MOST_STEPS = 10**12, 64, 10_000
PROFILE = "--profile"
FIELDS = (("Label", "trace_label", "--label", "a name of your own"),)
ABOUT_FILES = (
    "Chrome traces of torch’s profiler, plain or `.gz`, of any size: they are read as a stream. Also tables of "
    "*name, count, total_ms, avg_ms* made from a trace, separated by tabs or commas."
)


def show(store: Store, ids: Sequence[str]) -> None:
    tasks.show(store)
    types, example = ("json", "gz", "tsv", "csv", "txt"), "/data/traces/*.pt.trace.json.gz"
    options = partial(_import_options, store)
    views: dict[str, Callable[[], None]] = {
        "Import": partial(show_import, "traces", types, example, ABOUT_FILES, ("trace", "add"), FIELDS, options),
        "Record": RECORD.show,
        "One trace": partial(entries.show, MANAGED, store, next(iter(ids), None)),
    }
    entries.switch(views, {"One trace": "Traces"}, store)


def _import_options(store: Store) -> list[str]:
    runs = {entry.id: entry for entry in reversed(store.found().entries)}
    run = by_name(
        "Belongs to run", runs, "trace_run", "run_of_traces", index=None, placeholder="none",
        format_func=lambda id_: f"{id_} · {visible_text(run_title(runs[id_]))[:90]}",
    )  # fmt: skip
    words = [f"--run={run}"] if run else []
    flags = []
    with st.container(horizontal=True, key="trace-options"):
        for name, text, help_ in (
            ("keep", "Keep the file", "With the store’s entries, so that it can be downloaded for Perfetto"),
            ("events", "Keep every event", "For single events in the timeline and in SQL; about 10 bytes per event"),
        ):
            if st.checkbox(text, key=f"trace_{name}", bind="query-params", help=help_):
                flags.append(f"--{name}")
    with st.expander("What it covers", icon=":material/straighten:"):
        st.caption("For figures per token, per sample and per pass. A trace that belongs to a run takes the run’s.")
        spots = zip(st.columns(3), ("tokens", "samples", "passes"), strict=True)
        for spot, name in spots:
            text = "Forward passes" if name == "passes" else name.capitalize()
            count = spot.number_input(
                text, 1, MOST_COUNT, None, key=f"trace_{name}", bind="query-params", placeholder="not known"
            )
            words += [] if count is None else [f"--{name}", str(int(count))]
    return words + flags


def _window() -> tuple[list[str], str]:
    left, right = st.columns(2)
    steps = left.number_input(
        "Forward passes", 1, MOST_STEPS, FIRST_STEPS, key="profile_steps", bind="query-params",
        help="At most so many are in the trace: about 1,200 events per pass on a CPU",
    )  # fmt: skip
    skip = right.number_input(
        "Skip first passes", 0, MOST_STEPS, 0, key="profile_skip", bind="query-params",
        help="Passes before the recording begins. With 0 it includes templates and prefill.",
    )  # fmt: skip
    words = [PROFILE] if steps == FIRST_STEPS else [PROFILE, "--profile-steps", str(steps)]
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


def _of_one(store: Store, entry: Entry) -> None:
    """Its file, and links to the run that it belongs to, as far as the store has it."""
    name, size = trace_file(entry) or ("", 0)
    file_button(
        "Export", partial(entry.files.read, name), name.rpartition("/")[2] or f"{entry.id}.json",
        key=f"trace-file-{entry.id}", type="secondary", disabled=not name,
        help="The file is not in the store: import it again with “Keep the file”."
        if not name
        else f"The trace file, {size / 1e6:,.1f} MB. For Perfetto: open ui.perfetto.dev or `chrome://tracing` in your "
        "browser, then *Open trace file*. It is read in the browser; this app sends nothing.",
    )  # fmt: skip
    run_id = str(entry.row.get("run_id") or "")
    if run_id and run_id not in {run.id for run in store.found().entries}:
        st.caption(f"It belongs to the run {escape_markdown(run_id)}, which this store does not have.")
    elif run_id:
        st.link_button("Open its run", compare_address(run_id), icon=":material/compare_arrows:", type="tertiary")
        st.link_button("Open its samples", inspector_address(run_id), icon=":material/biotech:", type="tertiary")


MANAGED = Managed(
    kind=TRACE,
    noun="trace",
    parameter="trace",
    columns=("label", "origin", "form", "run_id", "device", "events", "tokens", "created_at"),
    loss="A kept file goes with its trace; the run that it belongs to stays.",
    one=_of_one,
    remove=remove_trace,
)
