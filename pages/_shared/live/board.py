"""The drawing beside the inputs, with the atom in work, and which of several samples the page shows."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.errors import DriftscopeError
from engine.records import Molecule
from pages._shared.components.molecule2d import molecule2d
from pages._shared.errors import escape_markdown
from pages._shared.live import lanes as live_lanes
from pages._shared.live import session
from pages._shared.theme import DARK, palette

HEIGHT_PX = 210
TICK_S = 0.5
_MOLECULE, _ANSWER = "molecule", "answer"


def choose_sample(molecules: Sequence[Molecule]) -> None:
    """Widgets that choose the sample whose texts stand in the strips, where there are several, and its molecule.

    ``molecules`` are those of the inputs above, which may be others by now.
    """
    watch = session.lanes()[0].watch
    generations = watch.lane.plan.plan.generations
    if watch.samples > 1:
        one, two, words = st.columns([1, 1, 3], vertical_alignment="bottom")
        count = len(watch.molecules)
        if count > 1:
            one.number_input(f"Shown molecule, of {count}", 1, count, key=_MOLECULE, bind="query-params")
        if generations > 1:
            (two if count > 1 else one).number_input(
                f"Shown sample, of {generations}", 1, generations, key=_ANSWER, bind="query-params"
            )
        words.code(watch.molecule_of(shown_sample()).smiles, language=None)
    if [one.smiles for one in molecules] != [one.smiles for one in watch.molecules]:
        which = escape_markdown(watch.molecule_of(shown_sample()).smiles)
        st.caption(f":material/info: The lanes below are of {which}, not of what is asked for above.")


def shown_sample() -> int:
    """What is chosen there; 0 where nothing is."""
    lanes = session.lanes()
    if not lanes:
        return 0
    generations = lanes[0].watch.lane.plan.plan.generations
    answer = st.session_state.get(_ANSWER) or 1
    return _place(len(lanes[0].watch.molecules)) * generations + min(int(answer), generations) - 1


def drawing(molecules: Sequence[Molecule]) -> None:
    """The molecule in two dimensions; the atom that is being written is lit."""
    if not molecules:
        st.info("Type a SMILES, or choose a named molecule.", icon=":material/edit:")
        return
    molecule = molecules[_place(len(molecules))]
    goes_on = any(not one.seen.ended for one in session.lanes())
    (_ticking if goes_on and _is_shown(molecule) else _draw)(molecule)


def size_words(molecules: Sequence[Molecule]) -> str:
    """How large what is drawn is, and how many there are."""
    if not molecules:
        return ""
    place = _place(len(molecules))
    which = f"Molecule {place + 1} of {len(molecules)}: " if len(molecules) > 1 else ""
    atoms = molecules[place].heavy_atoms
    return f"{which}{atoms} heavy {'atom' if atoms == 1 else 'atoms'}"


def _place(count: int) -> int:
    chosen = st.session_state.get(_MOLECULE) or 1
    return int(chosen) - 1 if chosen <= count else 0


def _is_shown(molecule: Molecule) -> bool:
    """Whether the lanes write the very molecule that is drawn."""
    lanes = session.lanes()
    return bool(lanes) and lanes[0].watch.molecule_of(shown_sample()).smiles == molecule.smiles


@st.fragment(run_every=TICK_S)
def _ticking(molecule: Molecule) -> None:
    _draw(molecule)


def _draw(molecule: Molecule) -> None:
    try:
        svg = draw_svg(molecule, dark=palette() is DARK, height=HEIGHT_PX)
    except DriftscopeError as error:
        st.info(escape_markdown(str(error)), icon=":material/image_not_supported:")
        return
    picked = live_lanes.picked_atom(shown_sample()) if _is_shown(molecule) else None
    molecule2d(
        svg,
        key="drawing",
        label=f"2D drawing of {molecule.smiles}",
        atoms=[f"atom {atom}, {descriptor}" for atom, descriptor in enumerate(molecule.descriptors)],
        selected=picked,
        lit=_in_work(molecule),
        height=HEIGHT_PX,
    )


def _in_work(molecule: Molecule) -> int | None:
    running = (one for one in session.lanes() if one.seen.state == "running")
    one = next(running, None)
    return one.watch.atom_in_work(shown_sample()) if one is not None and _is_shown(molecule) else None
