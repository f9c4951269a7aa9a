"""Live generation: molecules under up to four LPs side by side, written before the reader's eyes."""

import streamlit as st

from engine.live.lane import Lane
from engine.records import Molecule
from pages._shared.errors import shown_errors
from pages._shared.frame import page
from pages._shared.live import lanes as live_lanes
from pages._shared.live import session
from pages._shared.live.board import choose_sample, drawing, shown_sample, size_words
from pages._shared.live.inputs import lane_inputs, lanes_of, model_input, molecule_inputs, quick_inputs, sampling_input
from pages._shared.live.results import show_results

TITLE = "Live generation"
ICON = ":material/bolt:"
LEAD = (
    "A model writes a molecule's 3D structure as text, without and with logits processors (LPs), from the same seed. "
    "An LP that counts positions leaves **junk** in coordinates and **cuts** them; both are marked as they are written."
)
NOTHING_YET = (
    "**Generate** writes the molecule in each lane, token by token. Afterwards every lane has its check, its conformer "
    "beside a reference, and its figures as ratios to the first lane's."
)


def asked() -> tuple[Molecule, ...]:
    """What is wanted, and the button that starts it. Gives the molecules that are asked for."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        molecules, problems = molecule_inputs()
        for problem in problems:
            st.error(problem, icon=":material/error:")
        model, numbers = st.columns(2)
        with model:
            entry = model_input()
        with numbers:
            seed, samples = quick_inputs()
        st.caption(size_words(molecules))
    with right:
        drawing(molecules)
    chosen = lane_inputs()
    with st.container(horizontal=True):
        start = st.container(width="content")
        with st.popover("Sampling, length, device", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
    lanes: tuple[Lane, ...] = ()
    if entry is not None:
        session.warm(entry, device)
    if molecules and entry is not None and chosen:
        lanes = lanes_of(molecules, entry, chosen, sampling, seed=seed, samples=samples, limit=limit, device=device)
    if start.button(
        "Generate",
        type="primary",
        icon=":material/play_arrow:",
        key="generate",
        disabled=not lanes,
        shortcut="Ctrl+Enter",
        help="Writes the lanes, one after the other, so that each has the machine to itself.",
    ):
        live_lanes.forget_picks()
        session.start(lanes, molecules)
        st.rerun()  # the drawing above shows the atom in work from now on
    return molecules


page(TITLE, ICON, LEAD)
with shown_errors():
    goes_on = session.poll()
    molecules = asked()
    if session.lanes():
        choose_sample(molecules)
        (live_lanes.show_running if goes_on else show_results)(shown_sample())
    else:
        st.info(NOTHING_YET, icon=":material/bolt:")
