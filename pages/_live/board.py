"""The drawings: of the molecule that is typed in, and of the one in the lanes; and which sample the lanes show."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from engine.chem.drawing import draw_svg
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.inspection.faults import wrong_places
from engine.jobs.lane_figures import atom_being_written
from engine.records import Molecule
from pages._kit.components.address import is_restored
from pages._kit.components.molecule2d import molecule2d
from pages._kit.errors import error_markdown, escaped
from pages._kit.inspected import inspected_in, open_store
from pages._kit.theme import DARK, palette
from pages._live import lanes as live_lanes
from pages._live import session

PREVIEW_PX, HEIGHT_PX = 210, 150
MOST_NOTES = 6
_MOLECULE, _ANSWER = "molecule", "answer"
MOST_DIGITS = 9  # of a number in the address


def choose_sample(molecules: Sequence[Molecule]) -> None:
    """Widgets that choose the shown sample and its molecule, where there are several.

    ``molecules`` are those of the inputs above, which may have changed since.
    """
    watch = session.lanes()[0].watch
    generations = watch.plan.plan.generations
    if watch.samples > 1:
        left, right, words = st.columns([1, 1, 3], vertical_alignment="bottom")
        count = len(watch.molecules)
        if count > 1:
            left.number_input(f"Molecule (of {count})", 1, count, key=_MOLECULE, bind="query-params")
        if generations > 1:
            (right if count > 1 else left).number_input(
                f"Sample (of {generations})", 1, generations, key=_ANSWER, bind="query-params"
            )
        words.code(watch.molecule_of(shown_sample()).smiles, language=None, wrap_lines=True)
    if [molecule.smiles for molecule in molecules] != [molecule.smiles for molecule in watch.molecules]:
        which = escaped(watch.molecule_of(shown_sample()).smiles)
        st.caption(f"Results below are for {which}; press Generate to update.")


def shown_sample() -> int:
    """The chosen sample; 0 by default."""
    lanes = session.lanes()
    if not lanes:
        return 0
    generations = lanes[0].watch.plan.plan.generations
    answer = min(_chosen(_ANSWER), generations)
    return _molecule_index(len(lanes[0].watch.molecules)) * generations + answer - 1


def put_sample(sample: int) -> None:
    """Another one is shown; called before the widgets are drawn."""
    generations = session.lanes()[0].watch.plan.plan.generations
    st.session_state.update({_MOLECULE: sample // generations + 1, _ANSWER: sample % generations + 1})


def preview(molecules: Sequence[Molecule]) -> None:
    """The chosen one of the molecules that are typed in, next to the inputs."""
    if not molecules:
        return
    molecule = molecules[_molecule_index(len(molecules))]
    try:
        svg = _svg(molecule.smiles, molecule, (), palette() is DARK, PREVIEW_PX)
    except DriftscopeError as error:
        st.info(error_markdown(error), icon=":material/image_not_supported:")
    else:
        st.image(svg, alt=f"Structure of {molecule.smiles}", width="stretch")


def drawing(shown: int) -> None:
    """The lanes' molecule: the atom being written, the one that was picked, and those that a failed check names."""
    lanes = session.lanes()
    molecule = lanes[0].watch.molecule_of(shown)
    wrong = {atom: numbers for atom, numbers in _wrong_in(shown).items() if atom < molecule.atoms}
    try:
        svg = _svg(molecule.smiles, molecule, tuple(wrong.items()), palette() is DARK, HEIGHT_PX)
    except DriftscopeError as error:
        st.info(error_markdown(error), icon=":material/image_not_supported:")
        return
    running = next((lane for lane in lanes if lane.seen.state == "running"), None)
    molecule2d(
        svg,
        key="drawing",
        label=f"2D drawing of {molecule.smiles}",
        atoms=[
            f"atom {atom}, {descriptor}" + (f": wrong in lane {wrong[atom]}" if atom in wrong else "")
            for atom, descriptor in enumerate(molecule.descriptors)
        ],
        selected=live_lanes.picked_atom(),
        lit=atom_being_written(running.watch, shown) if running is not None else None,
        on_pick=live_lanes.pick_atom,
        height=HEIGHT_PX,
    )


def mark_words(shown: int) -> str:
    """What the drawing's marks mean; nothing where it has none."""
    wrong = len(_wrong_in(shown))
    lanes = "with the numbers of the lanes" if wrong <= MOST_NOTES else "in any lane"
    return f"Marked: atoms that a failed check names, {lanes}." if wrong else ""


def size_words(molecules: Sequence[Molecule]) -> str:
    """``Molecule 2 of 5: 9 heavy atoms``."""
    if not molecules:
        return ""
    index = _molecule_index(len(molecules))
    which = f"Molecule {index + 1} of {len(molecules)}: " if len(molecules) > 1 else ""
    return which + counted(molecules[index].heavy_atoms, "heavy atom")


def _molecule_index(count: int) -> int:
    chosen = _chosen(_MOLECULE)
    return chosen - 1 if chosen <= count else 0


def _chosen(name: str) -> int:
    """A number of the address, also before its widget has read it: after *Back* the session has the former one."""
    former = None if is_restored() else st.session_state.get(name)
    text = str(former or st.query_params.get(name))
    return max(1, int(text)) if text.isdecimal() and len(text) < MOST_DIGITS else 1


def _wrong_in(shown: int) -> dict[int, str]:
    """Atoms that a check of a finished lane's molecule names: the lanes' numbers."""
    store, lanes_of = open_store(), dict[int, list[int]]()
    for lane in session.lanes():
        seen = inspected_in(store, lane.run_id, shown)
        for atom in {atom for _, atom in wrong_places(seen.sample)} if seen is not None else ():
            lanes_of.setdefault(atom, []).append(lane.number)
    return {atom: ",".join(map(str, numbers)) for atom, numbers in lanes_of.items()}


@st.cache_data(max_entries=200, show_spinner=False)
def _svg(smiles: str, _molecule: Molecule, wrong: tuple[tuple[int, str], ...], is_dark: bool, height: int) -> str:
    highlights = dict.fromkeys(dict(wrong), palette().wrong)
    notes = dict(wrong) if len(wrong) <= MOST_NOTES else {}  # more would cover one another
    return draw_svg(_molecule, highlights=highlights, notes=notes, dark=is_dark, height=height)
