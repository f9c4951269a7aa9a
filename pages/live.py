"""Live generation: molecules under up to four LPs side by side, token by token."""

from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from engine.decode.plan import Plan
from engine.errors import DriftscopeError
from engine.jobs.plan import ModelChoice, RunPlan
from engine.models.registry import bins_of
from engine.records import Molecule
from engine.text.examples import examples_of
from pages._kit.errors import error_markdown, shown_errors
from pages._kit.frame import page
from pages._kit.generation_inputs import bins_input, examples_input, quick_inputs, sampling_input
from pages._kit.sections import fold, is_unfolded, put_unfolded
from pages._kit.shown import put_shown
from pages._live import lanes as live_lanes
from pages._live import session
from pages._live.board import choose_sample, preview, shown_sample, size_words
from pages._live.grid import show_grid
from pages._live.inputs import folded_words, lane_inputs, lanes_of, model_input, molecule_inputs
from pages._live.opening import show_opening
from pages._live.results import show_results, show_running

TITLE = "Live generation"
ICON = ":material/bolt:"
LEAD = (
    "A model writes a 3D molecule as text, with and without logits processors (LPs). "
    "LPs that count positions leave **junk** in coordinates and **cut** them."
)
INPUTS = "live_inputs_open"


def inputs(wrong: DeltaGenerator) -> tuple[Molecule, ...]:
    """All inputs, folded to a line with the Generate button; the molecules that are typed in. ``wrong`` is where errors
    are, since a folded form would hide them."""
    with st.container(horizontal=True, key="live-line"):
        folded = fold("Inputs", INPUTS, is_unfolded(INPUTS, False), ":material/edit:")
        with st.container(key="live-words"):
            st.markdown(folded_words())
        start = st.container(width="content")
    with folded:
        left, right = st.columns([3, 2], gap="large")
        with left:
            molecules = molecule_inputs(wrong)
            model, numbers = st.columns((3, 4))
            with model:
                entry = model_input(wrong)
            with numbers:
                seed, samples, conformers = quick_inputs()
            st.caption(size_words(molecules))
        with right:
            preview(molecules)
        chosen = lane_inputs()
        with st.popover("Sampling, length, device", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
            bins = bins_input("bins")
            examples = examples_input()
    put_shown(molecules=[molecule.smiles for molecule in molecules], lps=[lp for lp, *_ in chosen])
    lanes: list[RunPlan] = []
    if entry is not None:
        session.warm(entry, device)
    if molecules and entry is not None and chosen:
        try:
            form = bins_of(bins) if bins else None
            before = examples_of(examples) if examples else ""
            plan = Plan(form=form, sampling=sampling, generations=samples, examples=before, seed=seed, limit=limit)
            plan = replace(plan, conformers=conformers)
            lanes = lanes_of(molecules, ModelChoice(entry.alias, entry.step, device=device), plan, chosen)
        except DriftscopeError as error:  # no examples, no bins, or an LP of a lane does not go with the numbers
            wrong.error(error_markdown(error), icon=":material/error:")
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
    return molecules


page(TITLE, LEAD)
with shown_errors():
    session.find_again()
    is_running = session.poll()
    wrong, opening = st.container(), st.container()
    molecules = inputs(wrong)
    if not session.lanes():
        with opening:
            show_opening()
    else:
        if not is_running:
            show_grid()
        choose_sample(molecules)
        (show_running if is_running else show_results)(shown_sample())
put_shown(page="live")
