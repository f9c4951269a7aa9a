"""The Compare page's work on the store: start runs, resume or delete unfinished ones, import files, manage runs.

What takes long is a command in a process of its own, in a queue that all users of this server share.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from engine.decode.plan import BACKENDS, Plan
from engine.figures.words import counted
from engine.lp_records import lp_choices
from engine.models.devices import spare_cores
from engine.runner.background import task_queue
from engine.store.entries import Entry, model_name
from engine.store.reports.exporting import export_report
from engine.store.reports.importing import MOST_BYTES
from engine.store.schema import RUN, SAMPLES
from engine.store.store import Store
from engine.store.trace_schema import TRACE
from engine.store.unfinished import Unfinished, abandon, unfinished_runs
from pages._compare import several
from pages._compare.runs import QUERY, RunSelection
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.links import profiles_address
from pages._shared.managing import tasks
from pages._shared.managing.entry_form import EntryForm, show_deletion
from pages._shared.managing.generation_form import GenerationForm, RunRequest
from pages._shared.managing.import_form import FileInput, option_input, show_import
from pages._shared.managing.views import show_one
from pages._shared.table_files import file_button
from pages._shared.words import run_title, visible_text

MOST_RUNS, MOST_BATCH, MOST_STEPS, MOST_REFERENCES, KEPT_STEPS = 24, 4_096, 100_000, 1_000, 16
MOST_TRACES = 5
"""Links to the newest ones."""
UNFINISHED_TICK_S = 2.0
MOST_UNFINISHED = 50
UNFINISHED_STATES = {
    "being written": ":material/edit_note: being written",
    "stopped": ":material/pause_circle: stopped",
    "damaged": ":material/broken_image: damaged",
}
FILES = FileInput(
    "import",
    "Report files",
    ("json", "gz"),
    "/data/outputs/smoke/**/*.json.gz",
    f"Unpacked, a file may hold {MOST_BYTES / 1024**3:g} GiB of JSON.",
    2_000,
)
ABOUT_FILES = (
    "Report files in the JSON format of the reports’ runner, also as `.gz`. Texts are checked again; the files’ own "
    "figures are kept as reported. The same file is imported once, whatever its name."
)


def show(store: Store, chosen: RunSelection | None) -> None:
    tasks.show(store)
    views: dict[str, Callable[[], None]] = {
        "Start runs": START.show,
        "Unfinished": partial(show_unfinished, store),
        "Import": partial(show_import, FILES, ABOUT_FILES, ("import",), _import_options, key="import_files"),
        "One run": partial(ONE_RUN.show, store, chosen),
        "Several runs": partial(several.show, store),
    }
    show_one(views, store, "Runs")


def _import_options() -> list[str]:
    left, right = st.columns(2)
    with left:
        label = option_input("Label", "import_label", "--label")
    with right:
        help_ = "qwen3, llama3, or a folder on the machine where the app runs; tokens are counted with it."
        return label + option_input(
            "Tokenizer", "import_tokenizer", "--tokenizer", "the one that the files name", help_
        )


# --- starting runs ----------------------------------------------------------------------------------------------------


def _plan_options() -> tuple[dict[str, Any], tuple[str, ...]]:
    left, right = st.columns(2)
    with left:
        about = "fast is Driftscope's own decoding loop, hf is `generate` of transformers."
        backend = one_of("Backend", BACKENDS, "run_backend", help=about)
    batch = right.number_input("Batch size", 1, MOST_BATCH, Plan().batch_size, key="run_batch", bind="query-params")
    steps = left.number_input(
        "Samples with token probabilities", 0, MOST_STEPS, KEPT_STEPS, key="run_steps", bind="query-params",
        help="Token probabilities are kept for this many samples; the Drift inspector shows them.",
    )  # fmt: skip
    rmsd = right.number_input(
        "Reference conformers", 0, MOST_REFERENCES, 0, key="run_rmsd", bind="query-params",
        help="RMSD of each answer to the nearest of this many RDKit conformers. 0 skips it.",
    )  # fmt: skip
    options = (("--keep-steps", int(steps or 0)), ("--rmsd", int(rmsd or 0)))
    words = [word for name, count in options if count for word in (name, str(count))]
    return {"backend": backend, "batch_size": int(batch or Plan().batch_size)}, tuple(words)


def _effect(request: RunRequest) -> str:
    runs, count, each = request.runs, request.molecules.count, request.plan.generations
    words = f"**{counted(runs, 'run')}**"
    if len(request.models) > 1 and len(request.lps) > 1:
        words += f" ({len(request.models)} models × {len(request.lps)} LPs)"
    words += f" of {request.over_molecules()}" + (f" × {each} samples" if each > 1 else "")
    total = "" if count is None else f": {runs * count * each:,} samples in all"
    return f"{words}{total}, one run after the other."


START = GenerationForm(
    key="start_runs",
    button="Start",
    lps=lp_choices(),
    first_lps=("none", "group-v2.1", "exact"),
    lp_help="One run per model and logits processor (LP). `none` is the control.",
    title=lambda request: request.title(counted(request.runs, "run")),
    effect=_effect,
    model_key="run_model",
    lp_key="run_lp",
    most_runs=MOST_RUNS,
    several_models=True,
    plan_options=_plan_options,
)


# --- unfinished runs --------------------------------------------------------------------------------------------------


def show_unfinished(store: Store) -> None:
    """Draw the list; it refreshes while a run is being written."""
    if any(run.state == "being written" for run in unfinished_runs(store.home)):
        _refreshing(store)
    else:
        _unfinished_list(store, unfinished_runs(store.home))


@st.fragment(run_every=UNFINISHED_TICK_S)
def _refreshing(store: Store) -> None:
    runs = unfinished_runs(store.home)
    if not any(run.state == "being written" for run in runs):
        st.rerun()
    _unfinished_list(store, runs)


def _unfinished_list(store: Store, runs: list[Unfinished]) -> None:
    if not runs:
        st.info(
            "No run is unfinished. Stopped and crashed runs are listed here. A resumed run continues after its last "
            "saved batch.",
            icon=":material/task_alt:",
        )
        return
    if len(runs) > MOST_UNFINISHED:
        st.caption(
            f"The newest {MOST_UNFINISHED} of {len(runs):,}; `.venv/bin/python -m engine runs --unfinished` lists all."
        )
    for run in runs[::-1][:MOST_UNFINISHED]:
        with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"unfinished-{run.run_id}"):
            st.markdown(_unfinished_words(run), width="stretch")
            _unfinished_buttons(store, run)


def _unfinished_words(run: Unfinished) -> str:
    row = run.row
    parts = [escape_markdown(str(part)) for part in (model_name(row), row.get("lp"), row.get("label")) if part]
    if run.samples_done is not None:
        parts.append(f"{run.samples_done:,} of {'?' if run.samples is None else f'{run.samples:,}'} samples")
    return f"**{escape_markdown(run.run_id)}**  \n{' · '.join([*parts, UNFINISHED_STATES[run.state]])}"


def _unfinished_buttons(store: Store, run: Unfinished) -> None:
    is_queued = task_queue().is_at(run.run_id)
    if run.can_resume and st.button(
        "Resume",
        key=f"resume-{run.run_id}",
        icon=":material/play_arrow:",
        disabled=is_queued or run.state != "stopped",
        help="It is in the queue" if is_queued else "Resumes after the last saved batch",
    ):
        words = ["run", f"--threads={spare_cores()}", "--resume", run.run_id]
        if tasks.submit(f"Resume {run.run_id}", words, about=run.run_id):
            st.rerun(scope="app")
    is_off = is_queued or run.state == "being written"
    loss = f" and its saved samples permanently.{tasks.owner_words([run.run_id])}"
    show_deletion(run.run_id, loss, partial(abandon, store.home, run.run_id), is_off=is_off)


# --- one run ----------------------------------------------------------------------------------------------------------


def _loss(entry: Entry) -> str:
    count = entry.row.get("samples")
    samples = f" and its {count:,} samples" if count else ""
    return f"{samples}. An export restores only its texts.{tasks.owner_words([entry.id])}"


def _report_file(entry: Entry) -> None:
    has_samples = SAMPLES.name in entry.parts
    about = "All texts, in the reports’ file format (.json.gz)" if has_samples else "This run has no samples to export"
    file_button(
        "Export", partial(report_bytes, entry), f"{entry.id}.json.gz", key=f"export-{entry.id}",
        disabled=not has_samples, help=about, type="secondary",
    )  # fmt: skip


def report_bytes(entry: Entry) -> bytes:
    buffer = io.BytesIO()
    export_report(entry, buffer)
    return gzip.compress(buffer.getvalue(), mtime=0)


def _trace_links(store: Store, entry: Entry) -> None:
    traces = [trace for trace in store.found(TRACE).entries if trace.row.get("run_id") == entry.id]
    if not traces:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="run-traces"):
        st.caption("Traces of this run")
        for trace in traces[: -MOST_TRACES - 1 : -1]:
            label = escape_markdown(visible_text(str(trace.row.get("label") or trace.id)))
            st.link_button(label, profiles_address(trace.id), icon=":material/speed:", type="tertiary")


ONE_RUN = EntryForm(
    kind=RUN,
    noun="run",
    parameter="run",
    name=lambda entry: run_title(entry),
    loss=_loss,
    leave_out=QUERY.leave_out,
    buttons=_report_file,
    links=_trace_links,
    read_only="it can be exported, not changed",
)
