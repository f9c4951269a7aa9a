"""Inputs that the Tokenizer lab's sections share: tokenizers and placeholder."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st

from engine.chem.bin_files import BARE_BINS, CODES, OLDER_BINS, read_bins
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.records import Alphabet
from engine.text.template import PLACEHOLDERS
from engine.text.tokenizer_build import QWEN_BINS, QWEN_CODES
from engine.text.tokenizers import BUILT_IN, TextTokenizer, tokenizers_with
from pages._kit.uploads import uploads

_ASKED = "tokenizer folders asked for"
OF_FILE = "a file"


def tokenizers() -> list[TextTokenizer]:
    """The two of the field, and a third where its folder is given."""
    return tokenizers_with(chosen_folder())


def chosen_folder() -> str:
    """Empty where none is given, or it waits for a click."""
    return "" if folder_waits() else _folder()


def bins_input(kind: str) -> Alphabet | None:
    """Which bins or codes a text has, which it does not say; None until they are chosen."""
    by_kind: dict[str, Mapping[str, Alphabet]] = {"bins": BARE_BINS, "binned": OLDER_BINS, "codes": CODES}
    forms = by_kind[kind]
    options = [*forms, *([] if kind == "binned" else [OF_FILE])]
    chosen = st.selectbox(
        "Codes" if kind == "codes" else "Bins",
        options,
        index=None,
        key="bins",
        placeholder="choose those of its model, to judge it",
        help="A text does not say where its bins begin and end, or how many codes there are: each model has its own.",
    )
    if chosen != OF_FILE:
        return forms.get(chosen or "")
    files = uploads(
        f"File of {'codes' if kind == 'codes' else 'bins'}",
        ["json"],
        key="bins_file",
        help="The group's own: mode, L, H, n_bins, edges; of codes mode, levels",
    )
    return read_bins(files[0].getvalue(), files[0].name) if files else None


def placeholder_input() -> str:
    """A choice of placeholders that accepts others too."""
    chosen = st.selectbox(
        "Placeholder",
        PLACEHOLDERS,
        key="placeholder",
        accept_new_options=True,
        bind="query-params",
        help="What a position LP puts into every block of its template. To add another, type it and press Enter.",
    )
    return chosen or DEFAULT_PLACEHOLDER


def folder_input() -> None:
    """The folder of a third tokenizer."""
    st.text_input(
        "Another tokenizer",
        key="tokenizer_folder",
        placeholder="folder with a tokenizer.json",
        bind="query-params",
        on_change=_ask,
        help=f"Path of a Hugging Face tokenizer folder on the app's machine, or {QWEN_BINS} or {QWEN_CODES}.",
    )
    if folder_waits():
        st.button(
            "Read this folder", on_click=_ask, icon=":material/folder_open:", help="A link names it, and reads nothing."
        )


def _folder() -> str:
    return str(st.session_state.get("tokenizer_folder", "")).strip()


def folder_waits() -> bool:
    """What came by the address alone waits for a click: a link may name any file."""
    return _folder() not in {"", *BUILT_IN, *st.session_state.get(_ASKED, ())}


def _ask() -> None:
    st.session_state[_ASKED] = {*st.session_state.get(_ASKED, ()), _folder()}
