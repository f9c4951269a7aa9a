"""Inputs that the Tokenizer lab's sections share: tokenizers and placeholder."""

from __future__ import annotations

import streamlit as st

from engine.chem.bin_files import bins_from, read_bins
from engine.lp_records import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.records import BinFormat
from engine.text.template import GUESSED_PLACEHOLDER
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer
from pages._shared.uploads import uploads
from pages._shared.words import TOKENIZER_NAMES

_ASKED = "tokenizer folders asked for"
BARE_BINS = {
    "256 uniform bins": bins_from({"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256}),
    "250 bins of 0.104 Å": BinFormat.equal(-13.0, 13.0, 0.104),
    "212 bins of 0.104 Å": BinFormat.equal(-11.0, 11.0, 0.104),
}
"""Those of the group."""
OLDER_BINS = {"Bins of 0.042 Å": BinFormat.in_brackets(0.042, 21.0), "Bins of 0.05 Å": BinFormat.in_brackets(0.05, 9.0)}
OF_FILE = "a file"
PLACEHOLDERS = [DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER, "-0.0000,0.0000,0.0000"]


def tokenizers() -> list[TextTokenizer]:
    """The two of the field, and a third where its folder is given."""
    # A built-in name typed as a third tokenizer is still the same tokenizer.
    return [load_tokenizer(name) for name in dict.fromkeys((*BUILT_IN, "" if folder_waits() else _folder())) if name]


def label_of(tokenizer: TextTokenizer) -> str:
    return TOKENIZER_NAMES.get(tokenizer.name, tokenizer.name)


def bins_input(*, is_bare: bool) -> BinFormat | None:
    """Which bins a text has, which it does not say; None until they are chosen."""
    forms = BARE_BINS if is_bare else OLDER_BINS
    options = [*forms, *([OF_FILE] if is_bare else [])]
    chosen = st.selectbox(
        "Bins",
        options,
        index=None,
        key="bins",
        placeholder="choose the bins of its model, to judge it",
        help="A text does not say where its bins begin and end: each model has its own.",
    )
    if chosen != OF_FILE:
        return forms.get(chosen or "")
    files = uploads("File of bins", ["json"], key="bins_file", help="The group's own: mode, L, H, n_bins, edges")
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
        help="Path of a Hugging Face tokenizer folder on the app's machine.",
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


def drift_words(drift: int | None) -> str:
    """A drift as the app writes it everywhere."""
    if drift is None:
        return "unknown"
    return "exact" if drift == 0 else f"+{drift} junk-prone" if drift > 0 else f"−{-drift} cut"
