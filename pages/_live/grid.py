"""All molecules of a start at a glance: a grid of drawings with each lane's verdict, the worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.chem.verdict import LOADED
from engine.inspection.molecules import sample_table
from pages._kit.components.molecule_list import Cell, Line, molecule_list
from pages._kit.inspected import open_store
from pages._kit.small_drawing import small_drawing
from pages._kit.theme import DARK, palette
from pages._live import session
from pages._live.board import put_sample, shown_sample

Row = Mapping[str, Any]  # of ``sample_table``
HEIGHT_PX = 330
COLUMNS = "run_id sample_id clean passed stereo_right geometry_right usable checks lost_ang".split()
CODES = {True: "r", False: "w", None: "-"}
PARTS = ("text", "stereo", "geometry")
SIGNS = {"r": "✓", "d": "!", "w": "✗", "-": "–"}
WORDS = {"r": "right", "d": "damaged", "w": "wrong", "-": "not judged"}
LEGEND = (
    "A line per lane: T text clean, S stereo right, G geometry right. ✓ yes, ! passes, damaged, ✗ no, – not judged, or "
    "nothing specified. Worst first."
)


def code_of(row: Row) -> str:
    """Text, stereo, geometry, usable, a letter each: right, damaged (it passes and is not clean), wrong, not known."""
    text = "w"
    if row["passed"]:
        text = "r" if row["clean"] else "d"
    return text + "".join(CODES[row[name]] for name in ("stereo_right", "geometry_right", "usable"))


def line_of(lane: int, code: str) -> Line:
    """The lane's number, and a letter with its mark for text, stereo and geometry. No result is an empty code."""
    number = (f"{lane + 1}", "number")
    if not code:
        return [number, ("no result", "")]
    return [number, *((part[0].upper() + SIGNS[mark], mark) for part, mark in zip(PARTS, code, strict=False))]


def code_words(code: str) -> str:
    """``text damaged, stereo right, geometry not judged, not usable``"""
    if not code:
        return "no result"
    words = [f"{part} {WORDS[mark]}" for part, mark in zip(PARTS, code, strict=False)]
    return ", ".join(words if code.endswith("r") else [*words, "not usable"])


def harm_of(row: Row) -> tuple[float, ...]:
    """Not usable (not right where not judged), Å lost, and how many of the first three are not right: all of a text
    without a conformer."""
    code = code_of(row)
    wrong = 3 if LOADED in (row["checks"] or "").split(", ") else (code[0] != "r") + code[1:3].count("w")
    return (code[3] == "w" or (code[3] == "-" and code[0] != "r"), row["lost_ang"] or 0.0, wrong)


def worst_first(samples: Sequence[Sequence[Row | None]]) -> list[int]:
    """Those first with most harm over all lanes; of equals, as they were written."""

    def harm(sample: int) -> list[float]:
        harms = [harm_of(row) for row in samples[sample] if row]
        return [-sum(harm[part] for harm in harms) for part in range(3)]

    return sorted(range(len(samples)), key=harm)


def show_grid() -> None:
    """Nothing where there is one answer only, or no lane has ended well."""
    lanes = session.lanes()
    watch = lanes[0].watch
    store = open_store()
    stored_ids = {entry.id for entry in store.listing().entries}
    run_ids = [lane.run_id if lane.run_id in stored_ids else None for lane in lanes]
    if watch.samples < 2 or not any(run_ids):
        return
    table = sample_table(store, [run_id for run_id in run_ids if run_id is not None]).select(COLUMNS)
    rows: dict[Any, Row] = {(row["run_id"], row["sample_id"]): row for row in table.to_pylist()}
    samples = [[rows.get((run_id, sample)) for run_id in run_ids] for sample in range(watch.samples)]
    order = worst_first(samples)
    generations, titles = watch.plan.plan.generations, [lane.title for lane in lanes]

    def cell(sample: int) -> Cell:
        words = f"Molecule {sample // generations + 1}" if len(watch.molecules) > 1 else ""
        more = f"sample {sample % generations + 1}" if generations > 1 else ""
        name = ", ".join(filter(None, (words, more))).capitalize()
        codes = [code_of(row) if row else "" for row in samples[sample]]
        about = [f"{title}: {code_words(code)}" for title, code in zip(titles, codes, strict=True)]
        lines = [line_of(lane, code) for lane, code in enumerate(codes)]
        return Cell(name, sample // generations, lines, "\n".join(about))

    molecule_list(
        list(map(cell, order)),
        [small_drawing(molecule.smiles, palette() is DARK) for molecule in watch.molecules],
        key=f"molecule_grid {hash((session.name(), *order))}",  # places of another order mean others
        label="Molecules" if len(watch.molecules) > 1 else "Samples",
        selected=order.index(shown_sample()),
        on_pick=lambda index: None if index is None else put_sample(order[index]),
        height=HEIGHT_PX,
        ready=("not usable", "text damaged", "text wrong", "stereo wrong", "geometry wrong"),
        legend=LEGEND,
    )
