"""Importing files into the store: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.file_patterns import expand
from engine.runner.background import Input
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.managing import tasks

UPLOAD, HERE = "Upload", "On this machine"
MOST_PATHS, MOST_NAMED, MOST_FILES, MOST_TEXT = 4_000, 5, 200, 200
_MORE = "Larger files can be read where they lie on the app’s machine. An upload is deleted after the import."


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """Uploaded files, or paths on this machine; one of the two is empty."""

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
class FileInput:
    """``key`` begins the names of the widgets; ``example`` is shown in the empty field for paths."""

    key: str
    label: str
    types: Sequence[str]
    example: str
    about: str = ""  # the files, after how large they may be
    most: int = MOST_FILES

    def show(self) -> ImportedFiles:
        source = one_of("Source", (UPLOAD, HERE), f"{self.key}_from")
        return ImportedFiles(paths=self._paths()) if source == HERE else ImportedFiles(self._uploads())

    def clear(self) -> None:
        """After the import: a new widget, without the files."""
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
            "Files or patterns, one per line",
            key=f"{self.key}_paths",
            height=90,
            bind="query-params",
            on_change=self._look,
            max_chars=MOST_PATHS,
            placeholder=self.example,
            help="On the machine that the app runs on, which may not be yours. "
            "\\* and ? match parts of a name, \\*\\* matches folders.",
        )
        patterns = [line.strip() for line in (text or "").splitlines() if line.strip()]
        if patterns and st.session_state.get(self._looked_for) != text:
            st.info("These came with the address. Nothing has been looked for yet.", icon=":material/link:")
            st.button("Look for files", key=f"{self.key}_look", on_click=self._look)
            return []
        return [str(path.absolute()) for path in _expanded(patterns, self.most)]

    @property
    def _looked_for(self) -> str:
        return f"{self.key} looked for"

    def _look(self) -> None:
        """The reader has written the patterns, or has read them: only then are they looked for on the disk."""
        st.session_state[self._looked_for] = st.session_state[f"{self.key}_paths"]


def _expanded(patterns: Sequence[str], most: int) -> list[Path]:
    """The matching files, named below the field; none where something is wrong."""
    if not patterns:
        return []
    try:
        paths = expand(patterns, lambda: st.session_state.get("stop"))  # raises where the page is left or drawn again
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return []
    if len(paths) > most:
        st.error(f"Limit: {most:,} files per import. These are {len(paths):,}.", icon=":material/error:")
        return []
    named = [escape_markdown(path.name) for path in paths[:MOST_NAMED]]
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    st.caption(f"{counted(len(paths), 'file')}: {', '.join(named)}{more}")
    return paths


def show_import(
    files: FileInput, lead: str, command: Sequence[str], options: Callable[[], list[str]], *, key: str
) -> None:
    """Draw the form. ``options`` draws the fields below the files and gives the command's words for them."""
    st.markdown(lead)
    given = files.show()
    words = [*command, *options(), "--"]
    if st.button("Import", type="primary", icon=":material/upload_file:", key=key, disabled=not given) and tasks.submit(
        f"Import of {given.title}", [*words, *given.paths], given.inputs
    ):
        files.clear()
        st.rerun()
    st.caption("The same from a terminal:")
    names = given.names or [files.example]
    st.code(shlex.join([".venv/bin/python", "-m", "engine", *words, *names]), language=None, wrap_lines=True)


def option_input(
    label: str, key: str, option: str, placeholder: str = "a name of your own", help_: str = ""
) -> list[str]:
    """A text field, and the command's words for it: none where it is empty."""
    text = st.text_input(
        label, key=key, bind="query-params", max_chars=MOST_TEXT, placeholder=placeholder, help=help_ or None
    )
    value = " ".join((text or "").split())
    return [f"{option}={value}"] if value else []
