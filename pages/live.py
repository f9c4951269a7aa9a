"""Live generation: molecules under up to four LPs side by side, token by token."""

from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.errors import DriftscopeError
from engine.jobs.plan import RunPlan
from engine.records import Molecule
from engine.text.examples import examples_of
from pages._kit.errors import error_markdown, shown_errors
from pages._kit.frame import page
from pages._kit.generation_inputs import examples_input, quick_inputs, sampling_input, show_problems
from pages._kit.sections import fold, is_unfolded, put_unfolded
from pages._kit.shown import put_shown
from pages._live import lanes as live_lanes
from pages._live import session
from pages._live.board import choose_sample, preview, shown_sample, size_words
from pages._live.bring_into_view import bring_into_view
from pages._live.grid import show_grid
from pages._live.inputs import lane_inputs, lanes_of, model_input, molecule_inputs
from pages._live.opening import show_opening
from pages._live.results import show_results, show_running

TITLE = "Live generation"
ICON = ":material/bolt:"
LEAD = (
    "A model writes a 3D molecule as text, with and without logits processors (LPs). "
    "LPs that count positions leave **junk** in coordinates and **cut** them."
)
STORED = (
    "<p style='margin:0'>Stored: "
    "<a href='drift' target='_self'>worst molecules of a run</a> (Drift inspector) · "
    "<a href='compare?view=Advice' target='_self'>which LP to use</a> (Compare, Advice) · "
    "<a href='profiles' target='_self'>where the time goes</a> (Profiles)</p>"
)
INPUTS = "live_inputs_open"


def frame() -> DeltaGenerator:
    """Of the inputs: one line once something was generated, until the reader opens it."""
    if not session.lanes():
        return st.container()
    return fold("Molecules, model and lanes", INPUTS, is_unfolded(INPUTS, False), ":material/edit:")


def inputs() -> tuple[tuple[Molecule, ...], bool]:
    """All inputs and the Generate button; the molecules that are typed in, and whether a line cannot be read."""
    with frame():
        left, right = st.columns([3, 2], gap="large")
        with left:
            molecules, problems = molecule_inputs()
            show_problems(problems)
            above = st.container()
            model, numbers = st.columns((3, 4))
            with model:
                entry = model_input(above)
            with numbers:
                seed, samples, conformers = quick_inputs()
            st.caption(size_words(molecules))
        with right:
            if not molecules and not problems:  # next to an error a hint would be one thing too many
                st.info("Type a SMILES, or choose a named molecule.", icon=":material/edit:")
            preview(molecules)
        chosen = lane_inputs()
    with st.container(horizontal=True):
        start = st.container(width="content")
        with st.popover("Sampling, length, device", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
            examples = examples_input()
    put_shown(molecules=[molecule.smiles for molecule in molecules], lps=[lp for lp, *_ in chosen])
    lanes: list[RunPlan] = []
    if entry is not None:
        session.warm(entry, device)
    if molecules and entry is not None and chosen:
        asked = partial(lanes_of, molecules, entry, chosen, sampling, seed=seed, samples=samples, limit=limit)
        try:
            before = examples_of(examples) if examples else ""
            lanes = asked(device=device, conformers=conformers, examples=before)
        except DriftscopeError as error:  # no examples, or an LP of one of the lanes does not go with the numbers
            st.error(error_markdown(error), icon=":material/error:")
    if start.button(
        "Generate",
        type="primary",
        icon=":material/play_arrow:",
        key="generate",
        disabled=not lanes,
        shortcut="Ctrl+Enter",
        help="Runs the lanes one after the other, so that each has the machine to itself.",
    ):
        live_lanes.pick_atom(None)
        put_unfolded(INPUTS, False)
        session.start(lanes, molecules)
        st.rerun()  # what follows is of these lanes
    return molecules, bool(problems)


page(TITLE, LEAD)
st.html(STORED)
with shown_errors():
    session.find_again()
    is_running = session.poll()
    molecules, has_problems = inputs()
    if session.lanes():
        bring_into_view(f"{session.name()} {'running' if is_running else 'done'}", key="lanes_top")
        if not is_running:
            show_grid()
        choose_sample(molecules)
        (show_running if is_running else show_results)(shown_sample())
    elif not has_problems:
        show_opening()
put_shown(page="live")
