"""Report files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

import streamlit as st

from engine.store.reports.importing import MOST_BYTES
from pages._shared.managing import tasks
from pages._shared.managing.file_inputs import Files, Given

MOST_LABEL, MOST_FILES = 200, 2_000
FILES = Files(
    "import",
    "Report files",
    ("json", "gz"),
    "/data/outputs/smoke/**/*.json.gz",
    f"Unpacked, a file may hold {MOST_BYTES / 1024**3:g} GiB of JSON.",
    MOST_FILES,
)


def show() -> None:
    """Draw the form and its button."""
    st.markdown(
        "Report files in the JSON of the reports' runner, also as `.gz`. Their texts are read and checked anew, their "
        "own figures kept beside. A file comes in once, whatever its name."
    )
    given = FILES.show()
    left, right = st.columns(2)
    label = left.text_input(
        "Label", key="import_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
    )
    tokenizer = right.text_input(
        "Tokenizer",
        key="import_tokenizer",
        bind="query-params",
        max_chars=MOST_LABEL,
        placeholder="the one that the files name",
        help="qwen3, llama3, or a folder on the machine where the app runs; tokens are counted with it.",
    )
    if st.button(
        "Import", type="primary", icon=":material/upload_file:", key="import_files", disabled=not given
    ) and _submit(given, label, tokenizer):
        FILES.clear()
        st.rerun()


def _submit(given: Given, label: str, tokenizer: str) -> bool:
    words = ["import"]
    words += [f"--label={' '.join(label.split())}"] if label.strip() else []
    words += [f"--tokenizer={tokenizer.strip()}"] if tokenizer.strip() else []
    return tasks.submit(f"Import of {given.title}", [*words, "--", *given.paths], given.inputs)
