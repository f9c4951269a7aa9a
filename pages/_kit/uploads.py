"""Files that a visitor chose. Streamlit keeps their bytes until the tab is closed: here they go once they were handed
on, or the page is left. Not while the page's other views are looked at: going back to the field finds them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.typing import UploadedFile

from engine.jobs.commands import file_name
from engine.paths import cache_folder
from engine.user_files import replacing

_HELD, _PAGE = "uploads held", "uploads of page"


def uploads(label: str, types: Sequence[str], *, key: str, several: bool = False, help: str) -> list[UploadedFile]:
    """The field, and the files in it."""
    chosen = st.file_uploader(label, list(types), accept_multiple_files=several, key=key, help=help)
    each = chosen if isinstance(chosen, list) else [chosen]
    files = [file for file in each if file is not None]
    st.session_state.setdefault(_HELD, {})[key] = [file.file_id for file in files]
    return files


def keep_upload(name: str, content: bytes) -> Path:
    """In the cache, once: a question that is asked of a file, and a command that works for it, need its path."""
    path = cache_folder() / "uploads" / hashlib.sha256(content).hexdigest()[:16] / file_name(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(content)
    return path


def release(*keys: str) -> None:
    """The bytes of these fields' files; a field that is still shown has to get another key."""
    context, held = get_script_run_ctx(), st.session_state.get(_HELD, {})
    ids = [id_ for key in keys for id_ in held.pop(key, ())]
    if context is not None and isinstance(context.uploaded_file_mgr, MemoryUploadedFileManager):
        for id_ in ids:
            context.uploaded_file_mgr.remove_file(context.session_id, id_)


def release_of_other_pages(page: str) -> None:
    if st.session_state.get(_PAGE) != page:
        release(*st.session_state.get(_HELD, ()))
    st.session_state[_PAGE] = page
