"""Trace files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from engine.store.store import Store
from pages._shared.compare.manage_run import run_words
from pages._shared.drift.words import visible_text
from pages._shared.managing import tasks
from pages._shared.managing.file_inputs import Files, Given

MOST_LABEL, MOST_COUNT = 200, 10**12
FILES = Files("traces", "Trace files", ("json", "gz", "tsv", "csv", "txt"), "/data/traces/*.pt.trace.json.gz")
KEY, RUN = "run_of_traces", "trace_run"


@dataclass(frozen=True, slots=True)
class About:
    """What is said of the files, and how they are read."""

    run: str
    label: str
    tokens: int | None
    samples: int | None
    passes: int | None
    keep: bool
    events: bool
    partial: bool

    def words(self) -> list[str]:
        """For the command line; what is its default is left out."""
        found = [f"--run={self.run}"] if self.run else []
        found += [f"--label={self.label}"] if self.label else []
        for name in ("tokens", "samples", "passes"):
            value = getattr(self, name)
            found += [] if value is None else [f"--{name}", str(value)]
        return [*found, *(f"--{name}" for name in ("keep", "events", "partial") if getattr(self, name))]


def show(store: Store) -> None:
    """Draw the form and its button."""
    st.markdown(
        "Chrome traces of torch’s profiler, plain or `.gz`, of any size: they are read as a stream. Also tables of "
        "*name, count, total_ms, avg_ms* that somebody made of one, apart by tabs or commas."
    )
    given = FILES.show()
    about = _about(store)
    if st.button(
        "Read", type="primary", icon=":material/upload_file:", key="read_traces", disabled=not given
    ) and _submit(given, about):
        FILES.clear()
        st.rerun()


# --- what is said of them -------------------------------------------------------------------------------------------


def _about(store: Store) -> About:
    left, right = st.columns(2)
    label = left.text_input(
        "Label", key="trace_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
    )
    with right:
        run = _run(store)
    with st.container(horizontal=True, key="trace-options"):
        keep = st.checkbox(
            "Keep the file", key="trace_keep", bind="query-params",
            help="Beside the store’s entries, so that it can be downloaded for Perfetto",
        )  # fmt: skip
        events = st.checkbox(
            "Keep every event", key="trace_events", bind="query-params",
            help="So that the timeline can show single events, and SQL ask them; some 10 bytes each",
        )  # fmt: skip
        partial = st.checkbox(
            "Accept a file that is cut off", key="trace_partial", bind="query-params",
            help="Of a file that ends too early, what is there is taken, and the trace says so",
        )  # fmt: skip
    with st.expander("What it covers", icon=":material/straighten:"):
        st.caption("For figures a token, a sample and a pass. A trace that is linked to a run takes the run’s.")
        counts = _counts()
    tokens, samples, passes = counts
    return About(run or "", " ".join((label or "").split()), tokens, samples, passes, keep, events, partial)


def _run(store: Store) -> str | None:
    """By its id in the address: the widget's own binding would write its name there."""
    by_id = {entry.id: entry for entry in reversed(store.found().entries)}
    named = st.query_params.get(RUN, "")
    st.session_state[KEY] = named if named in by_id else None
    return st.selectbox(
        "Run that it is of",
        list(by_id),
        index=None,
        key=KEY,
        on_change=lambda: st.query_params.update({RUN: st.session_state[KEY] or ""}),
        format_func=lambda one: f"{one} · {visible_text(run_words(by_id[one]))}" if one in by_id else str(one),
        placeholder="none",
    )


def _counts() -> list[int | None]:
    found = []
    for spot, (name, label) in zip(
        st.columns(3), (("tokens", "Tokens"), ("samples", "Samples"), ("passes", "Forward passes")), strict=True
    ):
        value = spot.number_input(
            label, 1, MOST_COUNT, None, key=f"trace_{name}", bind="query-params", placeholder="not known"
        )
        found.append(None if value is None else int(value))
    return found


def _submit(given: Given, about: About) -> bool:
    words = ["trace", "add", *about.words(), "--", *given.paths]
    return tasks.submit(f"Reading {given.title}", words, given.inputs)
