"""Report files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import Input
from engine.store.reports.importing import MOST_BYTES, expand
from pages._shared.compare import manage_tasks as tasks
from pages._shared.errors import escape_markdown

UPLOAD, HERE = "Upload", "On this machine"
MOST_LABEL, MOST_PATTERNS = 200, 4_000
MOST_NAMED = 5
_UPLOADS = "uploads so far"


def show() -> None:
    """Draw the form and its button."""
    st.markdown(
        "Report files in the JSON of the reports' runner, also as `.gz`. Their texts are read and checked anew, their "
        "own figures kept beside. A file comes in once, whatever its name."
    )
    source = st.segmented_control(
        "From where", [UPLOAD, HERE], default=UPLOAD, required=True, key="import_from", bind="query-params"
    )
    inputs, patterns = ([], _patterns()) if source == HERE else (_uploads(), [])
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
    count = len(inputs) or len(patterns)
    if st.button(
        "Import", type="primary", icon=":material/upload_file:", key="import_files", disabled=not count
    ) and _submit(inputs, patterns, label, tokenizer):
        st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1
        st.rerun()


def _uploads() -> list[Input]:
    number = st.session_state.setdefault(_UPLOADS, 0)  # a new widget after each import: the files have gone in
    given = st.file_uploader(
        "Report files", ["json", "gz"], accept_multiple_files=True, key=f"import_files_{number}",
        help="Written to a temporary folder for the import, and removed after it. "
        f"Unpacked, a file may hold {MOST_BYTES / 1024**3:g} GiB of JSON.",
    )  # fmt: skip
    return [(one.name, one.getvalue()) for one in given or ()]


def _patterns() -> list[str]:
    text = st.text_area(
        "Files or patterns, one a line",
        key="import_paths",
        height=90,
        bind="query-params",
        max_chars=MOST_PATTERNS,
        placeholder="/data/outputs/smoke/**/*.json.gz",
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
    named = [escape_markdown(path.name) for path in paths[:MOST_NAMED]]
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    st.caption(f"{len(paths):,} {'file' if len(paths) == 1 else 'files'}: {', '.join(named)}{more}")
    return patterns


def _submit(inputs: Sequence[Input], patterns: Sequence[str], label: str, tokenizer: str) -> bool:
    words = ["import"]
    words += [f"--label={' '.join(label.split())}"] if label.strip() else []
    words += [f"--tokenizer={tokenizer.strip()}"] if tokenizer.strip() else []
    count = len(inputs) or len(patterns)
    what = inputs[0][0] if len(inputs) == 1 else patterns[0] if len(patterns) == 1 else f"{count} files"
    return tasks.submit(f"Import of {what}", [*words, "--", *patterns], inputs)
