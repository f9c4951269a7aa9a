"""All molecules of a start at a glance: a grid of drawings with each lane's verdict, the worst first."""

from __future__ import annotations

import streamlit as st

from engine.inspection.verdict_marks import VerdictMarks, marks_by_sample, worst_first
from engine.store.store import Store
from pages._live import session
from pages._live.board import put_sample, shown_sample
from pages._shared.components.molecule_grid import GridCell, molecule_grid
from pages._shared.inspected import open_store
from pages._shared.small_drawing import small_drawing
from pages._shared.theme import DARK, palette

HEIGHT_PX = 330


def show_grid() -> None:
    """Nothing where there is one answer only, or no lane has ended well."""
    lanes = session.lanes()
    watch = lanes[0].watch
    store = open_store()
    there = {entry.id for entry in store.found().entries}
    run_ids = [lane.run_id if lane.run_id in there else None for lane in lanes]
    if watch.samples < 2 or not any(run_ids):
        return
    known = _marks(store, tuple(run_id for run_id in run_ids if run_id is not None))
    marks = [known.get(run_id or "", {}) for run_id in run_ids]
    order = worst_first(marks, watch.samples)
    generations = watch.lane.plan.plan.generations

    def name(sample: int) -> str:
        words = f"Molecule {sample // generations + 1}" if len(watch.molecules) > 1 else ""
        more = f"sample {sample % generations + 1}" if generations > 1 else ""
        return ", ".join(filter(None, (words, more))).capitalize()

    molecule_grid(
        [GridCell(name(sample), sample // generations, tuple(lane.get(sample) for lane in marks)) for sample in order],
        [small_drawing(molecule.smiles, palette() is DARK) for molecule in watch.molecules],
        [lane.title for lane in lanes],
        key=f"molecule_grid {hash((session.name(), *order))}",  # places of another order mean others
        label="Molecules" if len(watch.molecules) > 1 else "Samples",
        selected=order.index(shown_sample()),
        on_pick=lambda place: None if place is None else put_sample(order[place]),
        height=HEIGHT_PX,
    )


@st.cache_data(max_entries=16, show_spinner="Reading verdicts …")
def _marks(_store: Store, run_ids: tuple[str, ...]) -> dict[str, dict[int, VerdictMarks]]:
    """Runs never change."""
    return marks_by_sample(_store, run_ids)
