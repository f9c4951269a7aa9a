"""What a run was made with, as far as it is available here: its tokenizer, its number format, its placeholder.

A stored run names these. What is missing on this machine is reported in words; the rest is still shown.
"""

from __future__ import annotations

from engine.errors import DriftscopeError, TokenizerError, shown
from engine.inspection.runs import RunFacts
from engine.lp_records import usual_placeholder
from engine.models.registry import OWN_TOKENIZER, ModelEntry, load_registry
from engine.records import NumberFormat
from engine.text.blocks import READ_FORMAT
from engine.text.tokenizers import BUILT_IN, TextTokenizer, load_tokenizer


def run_tokenizer(run: RunFacts) -> tuple[TextTokenizer | None, str]:
    """The run's tokenizer, or None and why."""
    if not run.tokenizer:
        return None, "The run does not name its tokenizer."
    try:
        return load_tokenizer(_tokenizer_name(run)), ""
    except DriftscopeError as error:
        return None, f"Its tokenizer is not available here: {error.what}."


def number_format(run: RunFacts) -> NumberFormat:
    """As the run says; else its model's registry entry; else any number of up to four decimals."""
    if run.form is not None:
        return run.form
    entry = model_entry(run)
    return READ_FORMAT if entry is None else entry.numbers


def placeholder_of(run: RunFacts) -> str:
    """What drift is counted against: the run's own, or the default where its LP has none."""
    return run.placeholder or usual_placeholder(number_format(run))


def model_entry(run: RunFacts) -> ModelEntry | None:
    """The registry's entry of this very model and step; None where it has none, or does not read."""
    alias, _, step = run.model.partition(":")
    try:
        return load_registry().find(alias, step) if step else None
    except DriftscopeError:
        return None


def _tokenizer_name(run: RunFacts) -> str:
    """A run tells a folder's name only; where the folder lies, the registry knows."""
    if run.tokenizer in BUILT_IN:
        return run.tokenizer
    entry = model_entry(run)
    if entry is None:
        raise TokenizerError(f"no model here has the tokenizer {shown(run.tokenizer)}", "Register its model")
    return str(entry.folder) if entry.tokenizer == OWN_TOKENIZER and entry.folder else entry.tokenizer
