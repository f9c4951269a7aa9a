"""What the sections of the Tokenizer lab share: the tokenizers and the placeholder that a reader has chosen."""

from __future__ import annotations

import streamlit as st

from engine.records import NumberFormat
from engine.text.reference import reference_texts
from engine.text.template import DEFAULT_PLACEHOLDER, GUESSED_PLACEHOLDER, SHORT_PLACEHOLDER
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer

NAMES = {"qwen3": "Qwen3", "llama3": "LLaMA-3.2 chem"}
PLACEHOLDERS = [DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER, "-0.0000,0.0000,0.0000"]


def tokenizers() -> list[TextTokenizer]:
    """The two of the field, and a third where its folder is given."""
    folder = st.session_state.get("tokenizer_folder", "").strip()
    # A built-in name typed as a third tokenizer is still the same tokenizer.
    return [load_tokenizer(name) for name in dict.fromkeys((*BUILT_IN, folder)) if name]


def label_of(tokenizer: TextTokenizer) -> str:
    return NAMES.get(tokenizer.name, tokenizer.name)


def placeholder_input() -> str:
    """A choice of placeholders that takes any other one, too."""
    chosen = st.selectbox(
        "Placeholder",
        PLACEHOLDERS,
        key="placeholder",
        accept_new_options=True,
        bind="query-params",
        help="What a position LP puts into every block of its template. Type another one and press Enter.",
    )
    return chosen or DEFAULT_PLACEHOLDER


def folder_input() -> None:
    """Where a third tokenizer lies."""
    st.text_input(
        "Another tokenizer",
        key="tokenizer_folder",
        placeholder="folder with a tokenizer.json",
        bind="query-params",
        help="The path, on the machine that runs the app, of any Hugging Face tokenizer folder.",
    )


def drift_words(drift: int | None) -> str:
    """A drift in the words that the app uses for it everywhere."""
    if drift is None:
        return "unknown"
    return "exact" if drift == 0 else f"+{drift} junk-prone" if drift > 0 else f"−{-drift} cut"


@st.cache_data(max_entries=5_000, show_spinner=False)
def reference_text(smiles: str, least_decimals: int = 4) -> str:
    """Enriched text of a molecule's first reference conformer."""
    return reference_texts(smiles, NumberFormat(least_decimals=least_decimals))[0]
