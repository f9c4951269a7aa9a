"""The Compare page's choice of runs, and its work on the store: start, import, resume, rename, tag, export and delete.

What takes long is a command in a process of its own, in a queue that all users of this server share.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from engine.comparing.measures import has_samples, run_names
from engine.decode.plan import Plan
from engine.lp_records import lp_choices
from engine.models.server import is_server_set
from engine.store.entries import Entry, came_at, is_branch, is_pool, is_profiled, is_unjudged
from engine.store.reports.exporting import report_bytes
from engine.store.schema import REFERENCES, RUN, SAMPLES
from engine.store.store import DEMO, Store
from pages._kit.entry_table import RUN_TABLE, EntryTable, id_column, origin_column, row_column
from pages._kit.generation_inputs import backend_input
from pages._kit.links import MOST_TESTS
from pages._kit.managing import entries
from pages._kit.managing.entries import Managed
from pages._kit.managing.start_form import StartForm, show_import
from pages._kit.picker import Picker
from pages._kit.table_files import file_button

MOST_RUNS, MOST_BATCH, MOST_STEPS, MOST_REFERENCES, KEPT_STEPS = 24, 4_096, 100_000, 1_000, 16
FIELDS = (
    ("Label", "import_label", "--label", "a name of your own"),
    ("Tokenizer", "import_tokenizer", "--tokenizer", "the one that the files name, or qwen3, llama3, a folder"),
    ("Bins", "import_bins", "--bins", "of texts with bins: a JSON file with mode, L, H and edges"),
)
ABOUT_FILES = (
    "Texts of reports are checked again, and the files’ own figures are kept as reported. Conformers of any program, a "
    "file or a folder of one form, are judged as they are read. The same file is imported once, whatever its name."
)

MOST_DEFAULT = 7
EMPTY = """
Four ways to get a first run:

- Start runs below, under *Manage*, or from a terminal:
  `.venv/bin/python -m engine run --model demo-qwen --lp none --lp group-v2.1 --lp exact`
- Generate a molecule on the **Live generation** page and press *Save to store*.
- Import the reports' files under *Manage*, *Import*, or from a terminal:
  `.venv/bin/python -m engine import 'outputs/smoke/*.json.gz'`
- Import conformers of another program there: SDF, Parquet, or a pickle; or from a terminal:
  `.venv/bin/python -m engine import pool.sdf --label ETKDG`
"""

OF_MODEL, OF_SIZE = ("model_alias", "model_step", "model_family", "backend"), ("molecules", "samples", "origin")


def default_choice(entries: Sequence[Entry], of_all_models: bool = True) -> list[Entry]:
    """A run without an LP, and of the same model and size the newest under each LP, oldest first; ``of_all_models``
    those of each model that was asked as many molecules.

    Those with the most samples, the newest of equal ones: somebody's last two molecules say less than whole runs. Runs
    made under a profiler, and branches, are left out where there are others. Where there is no such
    control: the largest run, and the largest of another program's conformers.
    """
    with_samples = [entry for entry in reversed(entries) if has_samples(entry)]
    newest = [entry for entry in with_samples if not (is_profiled(entry) or is_branch(entry))] or with_samples
    largest = sorted(newest, key=lambda entry: -entry.parts[SAMPLES.name].rows)
    groups = list(filter(None, (_with_lps(control, newest) for control in largest)))
    if not groups:
        pools = [entry for entry in largest if is_pool(entry)]
        return [entry for entry in largest if entry not in pools][:1] + pools[:1]
    return _side_by_side(groups) if of_all_models else _first_of(groups)


def _side_by_side(groups: Sequence[list[Entry]]) -> list[Entry]:
    """One group a model, of those that were asked as much as the first and are in one store with it; oldest first."""
    first = _first_of(groups)
    beside = [
        group
        for group in [first, *groups]
        if _of(group[0], OF_SIZE) == _of(first[0], OF_SIZE) and group[0].files.where == first[0].files.where
    ]
    of_models = {_of(group[0], OF_MODEL): group for group in reversed(beside)}
    in_order = sorted(of_models.values(), key=lambda group: came_at(group[0]))
    return [entry for group in in_order for entry in group][: 1 + MOST_TESTS]


def _of(entry: Entry, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(entry.row.get(name) for name in names)


def _with_lps(control: Entry, newest: Sequence[Entry]) -> list[Entry]:
    """A run without an LP and those of its model and size under each LP; nothing where it is none or is alone."""
    by_lp: dict[str, Entry] = {}
    for entry in newest if control.row.get("lp") == "none" else ():
        is_alike = _of(entry, OF_MODEL + OF_SIZE) == _of(control, OF_MODEL + OF_SIZE)
        if is_alike and (lp := entry.row.get("lp")) not in (None, "none"):
            by_lp.setdefault(str(lp), entry)
    return [control, *list(reversed(by_lp.values()))[:MOST_DEFAULT]] if by_lp else []


def _first_of(groups: Sequence[list[Entry]]) -> list[Entry]:
    """Of the runs that ship, which are of one day, those of the model with the most LPs; else the first."""
    if groups[0][0].files.where != str(DEMO):
        return groups[0]
    return max((group for group in groups if group[0].files.where == str(DEMO)), key=len)


PICKER = Picker(
    RUN, RUN_TABLE, "control", "test", 1 + MOST_TESTS, default_choice, run_names, EMPTY, apart=("", "Side by side")
)


def show(store: Store, ids: Sequence[str]) -> None:
    if st.query_params.get("manage") in ("One run", "Unfinished"):  # as older links have it
        st.query_params["manage"] = "Several runs"
    views: dict[str, Callable[[], None]] = {
        "Start runs": START.show,
        "Import": partial(show_import, "import", "run", ABOUT_FILES, FIELDS, _import_options),
        "Several runs": partial(entries.show, RUNS, store),
        "References": partial(entries.show, REFERENCE_SETS, store),
    }
    entries.switch(views, {"Several runs": "Runs"}, store)


def _import_options() -> list[str]:
    about = "How far each conformer is above its relaxed one (MMFF94). For reports: `judge RUN --strain`."
    is_asked = st.toggle("Strain of conformers", key="import_strain", bind="query-params", help=about)
    return ["--strain"] if is_asked else []


def _plan_options() -> tuple[list[str], Plan]:
    left, right = st.columns(2)
    with left:
        about = "fast is Driftscope's own decoding loop, hf `generate` of transformers; auto is fast where it can run."
        backend = backend_input("run_backend", about)
    batch = right.number_input("Batch size", 1, MOST_BATCH, Plan().batch_size, key="run_batch", bind="query-params")
    steps = left.number_input(
        "Samples with token probabilities",
        0,
        MOST_STEPS,
        KEPT_STEPS,
        key="run_steps",
        bind="query-params",
        help="Token probabilities are kept for this many samples; the Drift inspector shows them.",
    )
    rmsd = right.number_input(
        "Reference conformers",
        0,
        MOST_REFERENCES,
        0,
        key="run_rmsd",
        bind="query-params",
        help="RMSD of each answer to the nearest of this many RDKit conformers. 0 skips it.",
    )
    about = "Stereo and geometry of each answer, while the model writes: without them no answer is known to be usable."
    is_judged = st.toggle("Judge the molecules", True, key="run_judge", bind="query-params", help=about)
    options = (("--keep-steps", int(steps or 0)), ("--rmsd", int(rmsd or 0)))
    words = [word for name, count in options if count for word in (name, str(count))]
    words += ["--judge"] if is_judged else []
    return words, Plan(backend=backend, batch_size=int(batch or Plan().batch_size))


START = StartForm(
    key="start_runs",
    button="Start",
    title="run",
    lps=lp_choices(has_server=is_server_set()),
    first_lps=("none", "group-v2.1", "exact"),
    lp_help="One run per model and logits processor (LP). `none` is the control.",
    model_key="run_model",
    lp_key="run_lp",
    most_runs=MOST_RUNS,
    several_models=True,
    plan_options=_plan_options,
)


def _buttons(_: Store, entry: Entry) -> None:
    is_whole = SAMPLES.name in entry.parts and not is_unjudged(entry)
    why = "Its texts are not judged yet" if is_unjudged(entry) else "This run has no samples to export"
    about = "All texts, in the reports’ file format (.json.gz)" if is_whole else why
    file_button(
        "Export",
        partial(packed_report, entry),
        f"{entry.id}.json.gz",
        key=f"export-{entry.id}",
        disabled=not is_whole,
        help=about,
        type="secondary",
    )


def packed_report(entry: Entry) -> bytes:
    return gzip.compress(report_bytes(entry), mtime=0)


RUNS = Managed(kind=RUN, table=RUN_TABLE, parameter="run", loss="An export restores only texts.", buttons=_buttons)
REFERENCE_SETS = Managed(
    kind=REFERENCES,
    table=EntryTable(
        "reference set",
        (
            id_column("reference set"),
            origin_column(),
            *(row_column(name, width) for name, width in (("label", 226), ("form", 80))),
            *(row_column(name, 80, "count") for name in ("molecules", "conformers")),
            row_column("created_at", 120, "time", words="made"),
        ),
    ),
    parameter="references",
    loss="Files that it was read from stay where they are.",
)
