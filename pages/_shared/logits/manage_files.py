"""Log files into the store from the page: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import streamlit as st

from pages._shared.managing import tasks
from pages._shared.managing.file_inputs import Files, Given

MOST_CHARS = 200
FILES = Files("logs", "Log files", ("jsonl", "ndjson", "json", "log", "txt", "gz"), "/data/logs/*.jsonl.gz")


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
    given = FILES.show()
    about = _about()
    if st.button(
        "Read", type="primary", icon=":material/upload_file:", key="read_logs", disabled=not given
    ) and _submit(given, about):
        FILES.clear()
        st.rerun()
    st.caption("The same from a terminal:")
    names = given.names or ["FILE.jsonl.gz"]
    words = ["python", "-m", "engine", "logits", "add", *about.words(), "--", *names]
    st.code(shlex.join(words), language="bash", wrap_lines=True)


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


def _submit(given: Given, about: About) -> bool:
    words = ["logits", "add", *about.words(), "--", *given.paths]
    return tasks.submit(f"Reading {given.title}", words, given.inputs)
