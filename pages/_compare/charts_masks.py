"""How much does an LP mask? FREE positions and masked entries of a run's molecules, from its LP's own tables."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.comparing.templates import MaskSize, MaskSizes, dense_mask_bytes
from engine.figures.words import counted, large, listed, number
from engine.store.entries import Entry
from engine.store.store import Store
from pages._compare import charts_data as data
from pages._compare.charts_data import unseen
from pages._compare.runs import RunSelection
from pages._shared.charts.card import card
from pages._shared.charts.chart import SYMBOLS, Axis, Chart, Marks, chart, lanes
from pages._shared.charts.text import on_axis, safe
from pages._shared.theme import palette

QUESTION = "How much does an LP mask?"
HELP = """
Counted from the LP's tables, not measured: positions of a molecule at which the model may choose (FREE), and entries
of the vocabulary that are forbidden there. Forced positions need no mask. Only the run's first 1,000 molecules.

It says how much there is to mask, not what masking costs: Driftscope keeps classes of tokens and never builds the
dense mask whose size is given. Under `exact` and `none` the model chooses how many positions there are.
"""
POSITIONS, ENTRIES, LEGAL = "FREE positions per molecule", "masked entries per molecule", "legal tokens at a position"
COLUMNS = {ENTRIES: "masked", POSITIONS: "free_positions"}
AXES = {
    POSITIONS: "FREE positions per molecule",
    ENTRIES: "forbidden tokens, over FREE positions",
    LEGAL: "legal tokens at one position, fewest to most",
}
"""What is shown, on its axis."""
POWERS = {f"{digits}{unit}": f"{digits} {unit}" for digits in (1, 10, 100) for unit in "kMG"}  # as texts have them
BATCH = 32
REPORTED_GB = dense_mask_bytes(BATCH, 2_000, 152_000) / 1e9


@dataclass(frozen=True, slots=True)
class Masked:
    """One run's; ``sizes`` is None where the run has no molecules to count for."""

    run: Entry
    sizes: MaskSizes | None

    @property
    def molecules(self) -> tuple[MaskSize, ...]:
        return () if self.sizes is None else self.sizes.molecules

    @property
    def is_open(self) -> bool:
        """Whether the model chooses how many positions there are."""
        return any(size.positions == "open" for size in self.molecules)

    def median(self, column: str) -> float:
        known = [value for size in self.molecules if (value := getattr(size, column)) is not None]
        return statistics.median(known) if known else 0.0


@st.fragment
def show(store: Store, chosen: RunSelection) -> None:
    """Draw the chart. The first time it takes half a second per run, so it shows progress."""
    with card("masks", QUESTION, HELP) as panel:
        if not chosen.measured:
            panel.tell("None of these runs has samples, so their molecules are not known.")
            return
        shown = st.selectbox(
            "Shown", [*COLUMNS, LEGAL], key="masked", bind="query-params", label_visibility="collapsed"
        )
        runs, progress, total = [], st.empty(), len(chosen.measured)
        for place, run in enumerate(chosen.measured):
            progress.progress(place / total, f"Building the LP's tables, run {place + 1} of {total}")
            runs.append(Masked(run, data.masks_of(store, run)))
        progress.empty()
        panel.tell(answer(chosen, runs))
        panel.data(lambda: rows(chosen, runs))
        if all(run.is_open for run in runs):  # then nothing else can be drawn
            shown = LEGAL
        drawable = [run for run in runs if run.molecules and (shown == LEGAL or not run.is_open)]
        if drawable:
            alt = f"{shown}. {'. '.join(alt_lines(chosen, runs))}."
            panel.draw(masks_chart(chosen, drawable, shown, alt))
        panel.leave_out(*_notes(chosen, runs, drawable))


def answer(chosen: RunSelection, runs: Sequence[Masked]) -> str:
    """Which run masks most, the size of its dense mask, and where positions are the model's choice."""
    fixed = [run for run in runs if run.molecules and not run.is_open]
    is_open = [chosen.letter(run.run.id) for run in runs if run.is_open]
    choice = f"Under {listed(is_open)} the model chooses how many positions there are." if is_open else ""
    if not fixed:
        return choice or "The masks of these runs cannot be counted here."
    most = max(fixed, key=lambda run: run.median("masked"))
    sentence = f"{chosen.letter(most.run.id)} masks most: median {large(most.median('masked'))} masked entries"
    sentence += f" per molecule, at {most.median('free_positions'):,.0f} FREE positions."
    batch = most.run.row.get("batch_size") or BATCH
    dense = None if most.sizes is None else most.sizes.dense_bytes(batch)
    if dense is not None:
        sentence += f" A dense mask for its batch of {batch} would take {number(dense / 1e9)} GB"
        sentence += f" (the reports' {REPORTED_GB:.1f} GB: 32 answers of 2,000 positions and 152,000 entries)."
    return f"{sentence} {choice} These are exact counts.".replace("  ", " ")


def masks_chart(chosen: RunSelection, runs: Sequence[Masked], shown: str, alt: str = "") -> Chart:
    if shown == LEGAL:
        return _legal(chosen, runs, alt)
    colours = palette()
    points = [
        {
            "run": safe(chosen.name(run.run.id), 44),
            "letter": chosen.letter(run.run.id),
            "smiles": size.smiles,
            "atoms": size.atoms,
            "value": getattr(size, COLUMNS[shown]),
            **_look(chosen, run),
        }
        for run in runs
        for size in run.molecules
    ]
    marks = Marks(
        kind="points",
        rows=points,
        x="atoms",
        y="value",
        group="run",
        opacity=0.75,
        outline=colours.background,
        hover=lambda row: (f"{row['letter']} {safe(row['smiles'], 60)}", f"{row['atoms']} atoms: {row['value']:,}"),
    )
    powers = {"exponentformat": "SI", "dtick": 1, "labelalias": POWERS} if shown == ENTRIES else {}
    return chart(
        marks,
        x=Axis(title="atoms of the molecule", from_zero=True),
        y=Axis(title=AXES[shown], from_zero=True, is_log=shown == ENTRIES, more=powers),
        height=330,
        top=40,
        alt=alt,
    )


def _look(chosen: RunSelection, run: Masked) -> dict[str, str]:
    symbol = SYMBOLS[chosen.ids.index(run.run.id) % len(SYMBOLS)]
    return {"colour": chosen.colour(run.run.id, palette()), "symbol": symbol}


def _legal(chosen: RunSelection, runs: Sequence[Masked], alt: str) -> Chart:
    """From the fewest to the most legal tokens at one position, on a scale of powers of ten."""
    layers = []
    for lane, run in enumerate(runs):
        (least, most), name = legal_tokens(run), chosen.name(run.run.id)
        ends = [
            {"tokens": least, "text": f"{least:,}" if most > least else "", "text_at": "middle left"},
            {"tokens": most, "text": f" {most:,}", "text_at": "middle right"},
        ]
        layers.append(
            Marks(
                kind="lines",
                rows=[{**end, "lane": lane, "run": name, **_look(chosen, run)} for end in ends],
                x="tokens",
                y="lane",
                size=12,
                thickness=4,
                hover=lambda row: (row["run"], f"{row['tokens']:,} legal"),
            )
        )
    vocabulary = max((run.sizes.vocabulary for run in runs if run.sizes is not None), default=1)
    return chart(
        *layers,
        x=Axis(
            title=AXES[LEGAL],
            is_log=True,
            range=[-0.35, len(str(vocabulary)) + 0.1],
            ticks={10.0**power: f"{10**power:,}" for power in range(len(str(vocabulary)) + 1)},
        ),
        y=lanes([on_axis(chosen.name(run.run.id)) for run in runs], range=[len(runs) - 0.4, -0.7]),
        height=80 + 52 * len(runs),
        top=10,
        alt=alt,
    )


def legal_tokens(run: Masked) -> tuple[int, int]:
    """Fewest and most at one position, over all molecules."""
    vocabulary = 0 if run.sizes is None else run.sizes.vocabulary
    least = vocabulary - max(size.forbidden_most for size in run.molecules)
    return max(1, least), max(1, vocabulary - min(size.forbidden_least for size in run.molecules))


def alt_lines(chosen: RunSelection, runs: Sequence[Masked]) -> list[str]:
    lines = []
    for run in runs:
        if run.molecules:
            least, most = legal_tokens(run)
            free = "chosen by the model" if run.is_open else f"median {run.median('free_positions'):,.0f}"
            lines.append(
                f"{chosen.name(run.run.id)}: FREE positions {free}, {least:,} to {most:,} legal tokens per position"
            )
    return lines


def rows(chosen: RunSelection, runs: Sequence[Masked]) -> list[dict[str, object]]:
    return [
        {
            "run": chosen.name(run.run.id),
            "LP": "" if run.sizes is None else run.sizes.lp,
            "tokenizer": "" if run.sizes is None else run.sizes.tokenizer,
            "SMILES": size.smiles,
            "atoms": size.atoms,
            "positions": size.positions,
            "FREE positions": size.free_positions,
            "masked at a position, least": size.forbidden_least,
            "most": size.forbidden_most,
            "masked entries": size.masked,
        }
        for run in runs
        for size in run.molecules
    ]


def _notes(chosen: RunSelection, runs: Sequence[Masked], drawable: Sequence[Masked]) -> list[str]:
    gaps = [
        f"{chosen.name(run.run.id)}: {run.sizes.reason}"
        if run.sizes.reason
        else f"{chosen.letter(run.run.id)}: {counted(run.sizes.left_out, 'molecule')} not counted."
        for run in runs
        if run.sizes is not None and (run.sizes.reason or run.sizes.left_out)
    ]
    at_most = [chosen.letter(run.run.id) for run in runs if any(size.positions == "at most" for size in run.molecules)]
    is_open = [chosen.letter(run.run.id) for run in runs if run.is_open and run not in drawable]
    return [
        *gaps,
        f"Under {listed(at_most)} a block may end early: figures are upper limits." if at_most else "",
        f"Not drawn here: {listed(is_open)}." if is_open else "",
        *unseen(chosen),
    ]
