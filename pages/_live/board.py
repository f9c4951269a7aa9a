"""The drawing beside the inputs, with the atom being written, and the choice of the shown sample."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.records import Molecule
from pages._live import lanes as live_lanes
from pages._live import session
from pages._shared.components.molecule2d import molecule2d
from pages._shared.errors import escape_markdown
from pages._shared.inspected import inspected_in, open_store
from pages._shared.theme import DARK, palette
from pages._shared.words import wrong_atoms

HEIGHT_PX = 210
TICK_S = 0.5
_MOLECULE, _ANSWER = "molecule", "answer"


def choose_sample(molecules: Sequence[Molecule]) -> None:
    """Widgets that choose the shown sample and its molecule, where there are several.

    ``molecules`` are those of the inputs above, which may have changed since.
    """
    watch = session.lanes()[0].watch
    generations = watch.lane.plan.plan.generations
    if watch.samples > 1:
        left, right, words = st.columns([1, 1, 3], vertical_alignment="bottom")
        count = len(watch.molecules)
        if count > 1:
            left.number_input(f"Molecule (of {count})", 1, count, key=_MOLECULE, bind="query-params")
        if generations > 1:
            (right if count > 1 else left).number_input(
                f"Sample (of {generations})", 1, generations, key=_ANSWER, bind="query-params"
            )
        words.code(watch.molecule_of(shown_sample()).smiles, language=None)
    if [molecule.smiles for molecule in molecules] != [molecule.smiles for molecule in watch.molecules]:
        which = escape_markdown(watch.molecule_of(shown_sample()).smiles)
        st.caption(f":material/info: Results below are for {which}; press Generate to update.")


def shown_sample() -> int:
    """The chosen sample; 0 by default."""
    lanes = session.lanes()
    if not lanes:
        return 0
    generations = lanes[0].watch.lane.plan.plan.generations
    answer = st.session_state.get(_ANSWER) or 1
    return _place(len(lanes[0].watch.molecules)) * generations + min(int(answer), generations) - 1


def drawing(molecules: Sequence[Molecule]) -> None:
    """The molecule in two dimensions; the atom that is being written is highlighted."""
    if not molecules:
        return
    molecule = molecules[_place(len(molecules))]
    is_running = any(not lane.seen.has_ended for lane in session.lanes())
    (_ticking if is_running and _is_shown(molecule) else _draw)(molecule)


def size_words(molecules: Sequence[Molecule]) -> str:
    """``Molecule 2 of 5: 9 heavy atoms``."""
    if not molecules:
        return ""
    place = _place(len(molecules))
    which = f"Molecule {place + 1} of {len(molecules)}: " if len(molecules) > 1 else ""
    return which + counted(molecules[place].heavy_atoms, "heavy atom")


def _place(count: int) -> int:
    chosen = st.session_state.get(_MOLECULE) or 1
    return int(chosen) - 1 if chosen <= count else 0


def _is_shown(molecule: Molecule) -> bool:
    """Whether the lanes write the drawn molecule."""
    lanes = session.lanes()
    return bool(lanes) and lanes[0].watch.molecule_of(shown_sample()).smiles == molecule.smiles


def _wrong_in() -> dict[int, str]:
    """Atoms that a check of a finished lane's molecule names: the lanes' numbers."""
    store, lanes_of = open_store(), dict[int, list[int]]()
    for lane in session.lanes():
        seen = inspected_in(store, lane.run_id, shown_sample())
        for atom in () if seen is None else wrong_atoms(seen.sample):
            lanes_of.setdefault(atom, []).append(lane.number)
    return {atom: ",".join(map(str, numbers)) for atom, numbers in lanes_of.items()}


def _draw(molecule: Molecule) -> None:
    is_shown = _is_shown(molecule)
    wrong = {atom: lanes for atom, lanes in _wrong_in().items() if atom < molecule.atoms} if is_shown else {}
    try:
        highlights = dict.fromkeys(wrong, palette().wrong)
        svg = draw_svg(molecule, highlights=highlights, notes=wrong, dark=palette() is DARK, height=HEIGHT_PX)
    except DriftscopeError as error:
        st.info(escape_markdown(str(error)), icon=":material/image_not_supported:")
        return
    picked = live_lanes.picked_atom(shown_sample()) if is_shown else None
    running = next((lane for lane in session.lanes() if lane.seen.state == "running"), None)
    molecule2d(
        svg,
        key="drawing",
        label=f"2D drawing of {molecule.smiles}",
        atoms=[
            f"atom {atom}, {descriptor}" + (f": wrong in lane {wrong[atom]}" if atom in wrong else "")
            for atom, descriptor in enumerate(molecule.descriptors)
        ],
        selected=picked,
        lit=running.watch.atom_being_written(shown_sample()) if running is not None and is_shown else None,
        height=HEIGHT_PX,
    )
    if wrong:
        st.caption("Marked: atoms that a failed check names, with the numbers of the lanes.")


_ticking = st.fragment(_draw, run_every=TICK_S)
