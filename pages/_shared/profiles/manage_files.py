"""Trace files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import Input
from engine.store.reports.importing import expand
from engine.store.store import Store
from pages._shared.compare import manage_tasks as tasks
from pages._shared.compare.manage_run import run_words
from pages._shared.drift.words import visible_text
from pages._shared.errors import escape_markdown

UPLOAD, HERE = "Upload", "On this machine"
MOST_LABEL, MOST_PATHS, MOST_NAMED, MOST_FILES, MOST_COUNT = 200, 4_000, 5, 200, 10**12
TYPES = ["json", "gz", "tsv", "csv", "txt"]
KEY, RUN = "run_of_traces", "trace_run"
_UPLOADS = "traces so far"


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
    source = st.segmented_control(
        "From where", [UPLOAD, HERE], default=UPLOAD, required=True, key="traces_from", bind="query-params"
    )
    inputs, paths = ([], _paths()) if source == HERE else (_uploads(), [])
    about = _about(store)
    count = len(inputs) or len(paths)
    if st.button(
        "Read", type="primary", icon=":material/upload_file:", key="read_traces", disabled=not count
    ) and _submit(inputs, paths, about):
        st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1
        st.rerun()


def _uploads() -> list[Input]:
    number = st.session_state.setdefault(_UPLOADS, 0)  # a new widget after each time: the files have gone in
    most = st.get_option("server.maxUploadSize")
    given = st.file_uploader(
        "Trace files", TYPES, accept_multiple_files=True, key=f"traces_{number}",
        help=f"At most {most:,} MB each, as `server.maxUploadSize` in `.streamlit/config.toml` says. Larger ones, and "
        "those that lie on the app’s machine already, are read from there. An upload is removed when it has been read.",
    )  # fmt: skip
    return [(one.name, one.getvalue()) for one in given or ()]


def _paths() -> list[str]:
    text = st.text_area(
        "Files or patterns, one a line",
        key="trace_paths",
        height=90,
        bind="query-params",
        max_chars=MOST_PATHS,
        placeholder="/data/traces/*.pt.trace.json.gz",
        help="Of the machine that the app runs on, which need not be the one that you sit at. "
        "* and ? stand for what you leave open, ** for folders.",
    )
    patterns = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not patterns:
        return []
    try:
        paths = expand(patterns)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return []
    if len(paths) > MOST_FILES:
        st.error(f"These are {len(paths):,} files, and {MOST_FILES} are read at a time.", icon=":material/error:")
        return []
    named = [escape_markdown(path.name) for path in paths[:MOST_NAMED]]
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    st.caption(f"{len(paths):,} {'file' if len(paths) == 1 else 'files'}: {', '.join(named)}{more}")
    return [str(path.absolute()) for path in paths]


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


def _submit(inputs: Sequence[Input], paths: Sequence[str], about: About) -> bool:
    count = len(inputs) or len(paths)
    what = inputs[0][0] if len(inputs) == 1 else paths[0] if len(paths) == 1 else f"{count} files"
    return tasks.submit(f"Reading {what}", ["trace", "add", *about.words(), "--", *paths], inputs)
