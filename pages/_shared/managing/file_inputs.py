"""Files for a command: uploaded, or named where they lie on the machine that the app runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.errors import DriftscopeError
from engine.runner.background import Input
from engine.store.reports.importing import expand
from pages._shared.errors import escape_markdown

UPLOAD, HERE = "Upload", "On this machine"
MOST_PATHS, MOST_NAMED, MOST_FILES = 4_000, 5, 200
_MORE = (
    "Larger ones, and those that lie on the app’s machine already, are read from there. "
    "An upload is removed when it has been read."
)


@dataclass(frozen=True, slots=True)
class Given:
    """What a reader gave: files of his own, or paths here; one of the two is empty."""

    inputs: Sequence[Input] = ()
    paths: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.inputs) or len(self.paths)

    @property
    def names(self) -> list[str]:
        """For a command that is shown."""
        return [*self.paths, *(name for name, _ in self.inputs)][:MOST_NAMED]

    @property
    def title(self) -> str:
        return self.names[0] if len(self) == 1 else f"{len(self)} files"


@dataclass(frozen=True, slots=True)
class Files:
    """``key`` begins the names of the widgets; ``example`` stands in the empty field for paths."""

    key: str
    label: str
    types: Sequence[str]
    example: str
    about: str = ""  # them, after how large they may be
    most: int = MOST_FILES

    def show(self) -> Given:
        """Draw the fields."""
        source = st.segmented_control(
            "From where", [UPLOAD, HERE], default=UPLOAD, required=True, key=f"{self.key}_from", bind="query-params"
        )
        return Given(paths=self._paths()) if source == HERE else Given(self._uploads())

    def clear(self) -> None:
        """The files have gone in: a new widget, without them."""
        st.session_state[self._count] = st.session_state.get(self._count, 0) + 1

    @property
    def _count(self) -> str:
        return f"{self.key} so far"

    def _uploads(self) -> list[Input]:
        number = st.session_state.setdefault(self._count, 0)
        most = st.get_option("server.maxUploadSize")
        given = st.file_uploader(
            self.label, list(self.types), accept_multiple_files=True, key=f"{self.key}_{number}",
            help=f"At most {most:,} MB each, as `server.maxUploadSize` in `.streamlit/config.toml` says. {_MORE} "
            f"{self.about}",
        )  # fmt: skip
        return [(one.name, one.getvalue()) for one in given or ()]

    def _paths(self) -> list[str]:
        text = st.text_area(
            "Files or patterns, one a line",
            key=f"{self.key}_paths",
            height=90,
            bind="query-params",
            max_chars=MOST_PATHS,
            placeholder=self.example,
            help="Of the machine that the app runs on, which need not be the one that you sit at. "
            "* and ? stand for what you leave open, ** for folders.",
        )
        patterns = [line.strip() for line in (text or "").splitlines() if line.strip()]
        return [str(path.absolute()) for path in _expanded(patterns, self.most)]


def _expanded(patterns: Sequence[str], most: int) -> list[Path]:
    """The files that are meant, said below the field; none where something is wrong, which is said too."""
    if not patterns:
        return []
    try:
        paths = expand(patterns)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return []
    if len(paths) > most:
        st.error(f"These are {len(paths):,} files, and {most:,} are read at a time.", icon=":material/error:")
        return []
    named = [escape_markdown(path.name) for path in paths[:MOST_NAMED]]
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    st.caption(f"{len(paths):,} {'file' if len(paths) == 1 else 'files'}: {', '.join(named)}{more}")
    return paths
