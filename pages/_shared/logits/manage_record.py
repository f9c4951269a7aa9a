"""Recording a log from the page: a run of a model here whose logits are logged at the very step, then read in.

It computes nothing: the command line carries it out, and anybody may copy the command.
"""

from __future__ import annotations

import streamlit as st

from engine.decode.plan import Plan
from engine.errors import DriftscopeError
from engine.lp.catalogue import LPS
from engine.models.registry import load_registry
from pages._shared.compare.manage_start import MOST_LABEL, Asked, offer
from pages._shared.errors import escape_markdown
from pages._shared.live.inputs import FIRST_MODEL, quick_inputs, sampling_input
from pages._shared.logits.manage_work import ADD_LOG
from pages._shared.managing import molecules

FIRST_LP, FIRST_MOLECULES, FIRST_VALUES = "none", 4, 10
MOST_VALUES, MOST_IDS, MOST_CHARS = 10_000, 1_000, 8_000
FIRST, IDS = "The first", "Chosen ids"
LOG = "--log-logits"


def show() -> None:
    """Draw the form, the command, and the button."""
    st.markdown(
        "The model writes these molecules, and what each token was chosen from is logged at the very step: raw logits, "
        "before the LP. Each token is then drawn a second time from what was logged. The run is stored, and the log."
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        model, lp = _what()
        values, problem = _values()
        chosen = molecules.molecule_inputs(FIRST_MOLECULES)
    with right:
        seed, samples = quick_inputs()
        with st.expander("Sampling and device", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
        label = st.text_input(
            "Label", key="run_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
        )
    if problem := chosen.problem or problem or ("" if model else "No model is registered."):
        st.info(problem, icon=":material/edit:")
        return
    try:
        plan = Plan(sampling=sampling, generations=samples, seed=seed, limit=limit)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    _offer(Asked((model,), (lp,), plan, device, 0, 0, " ".join((label or "").split()), chosen), values)


def _what() -> tuple[str, str]:
    names = [entry.name for entry in load_registry().entries]
    model = st.selectbox(
        "Model",
        names,
        index=names.index(FIRST_MODEL) if FIRST_MODEL in names else 0,
        key="log_of",
        bind="query-params",
        help="Alias and step: the embedded models, and those of the file that DRIFTSCOPE_MODELS names.",
    )
    lp = st.selectbox(
        "LP", list(LPS), index=list(LPS).index(FIRST_LP), key="log_lp", bind="query-params",
        help="What is logged is raw, whatever the LP; it decides which text the model reads.",
    )  # fmt: skip
    return model or "", lp or FIRST_LP


def _values() -> tuple[str, str]:
    """What the command's option takes, and what is wrong with it."""
    how = st.segmented_control(
        "Values of each row", [FIRST, IDS], default=FIRST, required=True, key="log_how", bind="query-params",
        help="A row has a value for each token of the vocabulary: 150,000 of them. The reports logged the first ten.",
    )  # fmt: skip
    if how == IDS:
        text = st.text_input(
            "Token ids", key="log_ids", bind="query-params", max_chars=MOST_CHARS, placeholder="17, 24, 25"
        )
        return ids_of(text or "")
    first = st.number_input("Values", 1, MOST_VALUES, FIRST_VALUES, key="log_first", bind="query-params", width=220)
    return str(int(first or FIRST_VALUES)), ""


def ids_of(text: str) -> tuple[str, str]:
    """Ids as the command takes them, and what is wrong with them."""
    parts = text.replace(",", " ").split()
    if not parts:
        return "", "Give one token id or more."
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        return "", "Token ids are whole numbers, such as 17, 24, 25."
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids) or len(ids) > MOST_IDS:
        return "", f"Give each id once, and at most {MOST_IDS:,} of them."
    return ",".join(map(str, ids)) + ("," if len(ids) == 1 else ""), ""


def _offer(asked: Asked, values: str) -> None:
    offer(
        asked,
        _what_it_does(asked),
        f"Log “{asked.label}”" if asked.label else f"Log of {asked.models[0]}",
        button="Record",
        key="start_log",
        more=(LOG, values, ADD_LOG),
        hint="; `--logit-log FILE` keeps the file, too",
    )


def _what_it_does(asked: Asked) -> str:
    count = asked.molecules.count
    if count is None:
        return "**1 run** with its log, of all molecules of the file"
    return f"**1 run** with its log, of {count:,} {'molecule' if count == 1 else 'molecules'}"
