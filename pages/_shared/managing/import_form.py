"""Importing files into the store: uploaded, or read where they lie on the machine that the app runs on."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

import streamlit as st

from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.file_patterns import expand
from engine.runner.background import Input
from pages._shared.choices import one_of
from pages._shared.errors import escape_markdown
from pages._shared.managing import tasks

UPLOAD, HERE = "Upload", "On this machine"
MOST_PATHS, MOST_NAMED, MOST_FILES, MOST_TEXT = 4_000, 5, 2_000, 200


def show_import(
    key: str,
    types: Sequence[str],
    example: str,
    lead: str,
    command: Sequence[str],
    fields: Sequence[tuple[str, str, str, str]],
    options: Callable[[], list[str]] = list,
) -> None:
    """``key`` begins the names of the widgets. ``fields`` are texts: label, key, the command's option, placeholder;
    ``options`` draws more, and gives its words."""
    st.markdown(lead)
    uploads: list[Input] = []
    paths: list[str] = []
    if one_of("Source", (UPLOAD, HERE), f"{key}_from") == HERE:
        paths = _paths(key, example)
    else:
        number = st.session_state.setdefault(f"{key} so far", 0)
        given = st.file_uploader(
            "Files", list(types), accept_multiple_files=True, key=f"{key}_{number}",
            help=f"At most {st.get_option('server.maxUploadSize'):,} MB each, as `server.maxUploadSize` in "
            "`.streamlit/config.toml` says. Larger files can be read where they lie. An upload is deleted afterwards.",
        )  # fmt: skip
        uploads = [(one.name, one.getvalue()) for one in given or ()]
    names = [*paths, *(name for name, _ in uploads)]
    words = [*command]
    for place, (label, name, option, placeholder) in zip(st.columns(2) * len(fields), fields, strict=False):
        text = place.text_input(label, key=name, bind="query-params", max_chars=MOST_TEXT, placeholder=placeholder)
        words += [f"{option}={value}"] if (value := " ".join((text or "").split())) else []
    words += [*options(), "--"]
    title = f"Import of {names[0] if len(names) == 1 else f'{len(names)} files'}" if names else ""
    is_pressed = st.button("Import", type="primary", icon=":material/upload_file:", key=f"{key}_go", disabled=not names)
    if is_pressed and tasks.submit(title, [*words, *paths], uploads):
        st.session_state[f"{key} so far"] = st.session_state.get(f"{key} so far", 0) + 1  # a widget without the files
        st.rerun()
    st.caption("The same from a terminal:")
    shown = [".venv/bin/python", "-m", "engine", *words, *(names[:MOST_NAMED] or [example])]
    st.code(shlex.join(shown), language=None, wrap_lines=True)


def _paths(key: str, example: str) -> list[str]:
    """The matching files, named below the field. A link fills it in, and nothing is looked for before a click."""

    def look() -> None:
        st.session_state[f"{key} looked for"] = st.session_state[f"{key}_paths"]

    text = st.text_area(
        "Files or patterns, one per line", key=f"{key}_paths", height=90, bind="query-params", on_change=look,
        max_chars=MOST_PATHS, placeholder=example,
        help="On the machine that the app runs on, which may not be yours. \\*\\* matches folders.",
    )  # fmt: skip
    patterns = [line.strip() for line in (text or "").splitlines() if line.strip()]
    if not patterns:
        return []
    if st.session_state.get(f"{key} looked for") != text:
        st.info("These came with the address. Nothing has been looked for yet.", icon=":material/link:")
        st.button("Look for files", key=f"{key}_look", on_click=look)
        return []
    try:
        paths = expand(patterns, lambda: st.session_state.get("stop"))  # raises where the page is left or drawn again
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return []
    if len(paths) > MOST_FILES:
        st.error(f"Limit: {MOST_FILES:,} files per import. These are {len(paths):,}.", icon=":material/error:")
        return []
    more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
    named = ", ".join(escape_markdown(path.name) for path in paths[:MOST_NAMED])
    st.caption(f"{counted(len(paths), 'file')}: {named}{more}")
    return [str(path.absolute()) for path in paths]
