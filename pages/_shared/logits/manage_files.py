"""Log files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import Input
from engine.store.reports.importing import expand
from pages._shared.compare import manage_tasks as tasks
from pages._shared.errors import escape_markdown

UPLOAD, HERE = "Upload", "On this machine"
MOST_CHARS, MOST_PATHS, MOST_NAMED, MOST_FILES = 200, 4_000, 5, 200
TYPES = ["jsonl", "ndjson", "json", "log", "txt", "gz"]
_UPLOADS = "logs so far"


@dataclass(frozen=True, slots=True)
class About:
    """What takes the place of what the entries say; empty where they are believed."""

    engine: str
    model: str
    precision: str
    label: str

    def words(self) -> list[str]:
        """For the command line."""
        return [f"--{name}={value}" for name in self.__slots__ if (value := getattr(self, name))]


def show() -> None:
    """Draw the form and its button."""
    st.markdown(
        "Logit logs of any engine: JSON lines, plain or `.gz`, of any length. A line that cannot be read is left out "
        "and said; a file that breaks off is kept up to there. A file comes in once, whatever its name."
    )
    source = st.segmented_control(
        "From where", [UPLOAD, HERE], default=UPLOAD, required=True, key="logs_from", bind="query-params"
    )
    inputs, paths = ([], _paths()) if source == HERE else (_uploads(), [])
    about = _about()
    count = len(inputs) or len(paths)
    if st.button(
        "Read", type="primary", icon=":material/upload_file:", key="read_logs", disabled=not count
    ) and _submit(inputs, paths, about):
        st.session_state[_UPLOADS] = st.session_state.get(_UPLOADS, 0) + 1
        st.rerun()
    st.caption("The same from a terminal:")
    names = paths or [name for name, _ in inputs] or ["FILE.jsonl.gz"]
    words = ["python", "-m", "engine", "logits", "add", *about.words(), "--", *names[:MOST_NAMED]]
    st.code(shlex.join(words), language="bash", wrap_lines=True)


def _uploads() -> list[Input]:
    number = st.session_state.setdefault(_UPLOADS, 0)  # a new widget after each time: the files have gone in
    most = st.get_option("server.maxUploadSize")
    given = st.file_uploader(
        "Log files", TYPES, accept_multiple_files=True, key=f"logs_{number}",
        help=f"At most {most:,} MB each, as `server.maxUploadSize` in `.streamlit/config.toml` says. Larger ones, and "
        "those that lie on the app’s machine already, are read from there. An upload is removed when it has been read.",
    )  # fmt: skip
    return [(one.name, one.getvalue()) for one in given or ()]


def _paths() -> list[str]:
    text = st.text_area(
        "Files or patterns, one a line",
        key="log_paths",
        height=90,
        bind="query-params",
        max_chars=MOST_PATHS,
        placeholder="/data/logs/*.jsonl.gz",
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


def _about() -> About:
    """In pairs, so that they have room on a narrow window too."""
    told = (
        ("Engine", "log_engine", "what the entries say"),
        ("Model", "log_model", "what the entries say"),
        ("Precision", "log_precision", "what the entries say, such as Q4_K_M"),
        ("Label", "log_label", "a name of your own"),
    )
    spots = [*st.columns(2), *st.columns(2)]
    said = [
        spot.text_input(label, key=key, bind="query-params", max_chars=MOST_CHARS, placeholder=usual)
        for spot, (label, key, usual) in zip(spots, told, strict=True)
    ]
    return About(*(" ".join((one or "").split()) for one in said))


def _submit(inputs: Sequence[Input], paths: Sequence[str], about: About) -> bool:
    count = len(inputs) or len(paths)
    what = inputs[0][0] if len(inputs) == 1 else paths[0] if len(paths) == 1 else f"{count} files"
    return tasks.submit(f"Reading {what}", ["logits", "add", *about.words(), "--", *paths], inputs)
