"""Capturing a profile from the page: a run of some models under some LPs with the profiler around a window of it.

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
from pages._shared.managing import molecules
from pages._shared.profiles.manage_work import PROFILE

FIRST_LPS = ("none", "exact")
FIRST_MOLECULES, FIRST_STEPS, MOST_STEPS, MOST_RUNS = 8, 64, 10_000, 8


def show() -> None:
    """Draw the form, the command, and the button."""
    st.markdown(
        "The model writes these molecules once under each LP, with torch’s profiler around a window of forward passes. "
        "Each run is stored, and its trace beside it, with what the engine counted meanwhile."
    )
    left, right = st.columns([3, 2], gap="large")
    with left:
        model, lps = _what()
        chosen = molecules.molecule_inputs(FIRST_MOLECULES)
    with right:
        steps, skip = _window()
        seed, samples = quick_inputs()
        with st.expander("Sampling and device", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
        label = st.text_input(
            "Label", key="run_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
        )
    problem = chosen.problem or _problem(model, lps)
    if problem:
        st.info(problem, icon=":material/edit:")
        return
    try:
        plan = Plan(sampling=sampling, generations=samples, seed=seed, limit=limit)
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    asked = Asked((model,), tuple(lps), plan, device, 0, 0, " ".join((label or "").split()), chosen)
    _offer(asked, profile_words(steps, skip))


def profile_words(steps: int, skip: int) -> list[str]:
    """For the command line. What is its default is left out."""
    found = [PROFILE]
    found += [] if steps == FIRST_STEPS else ["--profile-steps", str(steps)]
    return found + (["--profile-skip", str(skip)] if skip else [])


def _what() -> tuple[str, list[str]]:
    names = [entry.name for entry in load_registry().entries]
    model = st.selectbox(
        "Model",
        names,
        index=names.index(FIRST_MODEL) if FIRST_MODEL in names else 0,
        key="profile_model",
        bind="query-params",
        help="Alias and step: the embedded models, and those of the file that DRIFTSCOPE_MODELS names.",
    )
    lps = st.multiselect(
        "LPs",
        list(LPS),
        default=list(FIRST_LPS),
        key="profile_lp",
        bind="query-params",
        help="A run and a trace under each. `none` is the control.",
    )
    return model or "", lps


def _window() -> tuple[int, int]:
    left, right = st.columns(2)
    steps = left.number_input(
        "Forward passes", 1, MOST_STEPS, FIRST_STEPS, key="profile_steps", bind="query-params",
        help="That the trace covers at most; it grows with them, some 1,200 events each on a CPU",
    )  # fmt: skip
    skip = right.number_input(
        "Behind the first", 0, MOST_STEPS, 0, key="profile_skip", bind="query-params",
        help="Passes before the window begins. With 0 templates and prefill are in it.",
    )  # fmt: skip
    return int(steps or FIRST_STEPS), int(skip or 0)


def _problem(model: str, lps: list[str]) -> str:
    if not model or not lps:
        return "Choose a model." if not model else "Choose one LP or more."
    return f"At most {MOST_RUNS} LPs at a time." if len(lps) > MOST_RUNS else ""


def _offer(asked: Asked, profile: list[str]) -> None:
    title = f"Profile “{asked.label}”" if asked.label else f"Profile of {asked.models[0]}"
    offer(asked, _what_it_does(asked), title, button="Capture", key="start_capture", more=profile)


def _what_it_does(asked: Asked) -> str:
    count = asked.molecules.count
    runs = f"**{asked.runs} {'run' if asked.runs == 1 else 'runs'}**, each with its trace"
    if count is None:
        return f"{runs}, of all molecules of the file"
    return f"{runs}, of {count:,} {'molecule' if count == 1 else 'molecules'}"
