"""How much does an LP mask? FREE positions and masked entries of a run's molecules, from its LP's own tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from engine.comparing.templates import MaskSize, MaskSizes, dense_mask_bytes
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare import charts_data as data
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import SYMBOLS, drawn, large, listed, on_axis, plural
from pages._shared.compare.state import Chosen
from pages._shared.theme import palette

QUESTION = "How much does an LP mask?"
HELP = """
Counted from the LP's tables, not measured: positions of a molecule at which the model may choose (FREE), and entries
of the vocabulary that are forbidden there. Forced positions need no mask. Only the run's first 1,000 molecules.

It says what there is to mask, not what masking costs: the drivers here keep classes of tokens, and nobody makes the
dense mask whose size is given. Under `exact` and `none` the model chooses how many positions there are.
"""
POSITIONS, ENTRIES, LEGAL = "FREE positions a molecule", "masked entries a molecule", "legal tokens at a position"
BATCH = 32
REPORTED_GB = dense_mask_bytes(BATCH, 2_000, 152_000) / 1e9
HEIGHT, LANE_HEIGHT = 330, 52


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
        return any(one.positions == "open" for one in self.molecules)

    @property
    def batch(self) -> int:
        return self.run.row.get("batch_size") or BATCH


@st.fragment
def show(store: Store, chosen: Chosen) -> None:
    """Draw the chart. The first time it takes half a second a run, so it says how far it is."""
    with card("masks", QUESTION, HELP) as here:
        if not chosen.measured:
            here.tell("None of these runs has samples, so their molecules are not known.")
            return
        shown = st.selectbox(
            "Shown", [POSITIONS, ENTRIES, LEGAL], key="masked", bind="query-params", label_visibility="collapsed"
        )
        found = _counted(store, chosen)
        here.tell(answer(chosen, found))
        here.data(lambda: rows(chosen, found))
        if all(one.is_open for one in found):  # then nothing else can be drawn
            shown = LEGAL
        drawable = [one for one in found if one.molecules and (shown == LEGAL or not one.is_open)]
        if drawable:
            here.draw(FIGURES[shown](chosen, drawable), alt=f"{shown}. {alt(chosen, found)}")
        here.leave_out(*_notes(chosen, found, drawable))


def _counted(store: Store, chosen: Chosen) -> list[Masked]:
    found = []
    spot = st.empty()
    for place, run in enumerate(chosen.measured):
        spot.progress(
            place / len(chosen.measured), f"Making the LP's tables, {place + 1} of {len(chosen.measured)} runs"
        )
        found.append(Masked(run, data.masks_of(store, run)))
    spot.empty()
    return found


def answer(chosen: Chosen, found: Sequence[Masked]) -> str:
    """What masks most, what a dense mask of it would take, and what is the model's choice."""
    fixed = [one for one in found if one.molecules and not one.is_open]
    is_open = [chosen.letter(one.run.id) for one in found if one.is_open]
    choice = f"Under {listed(is_open)} the model chooses how many positions there are." if is_open else ""
    if not fixed:
        return choice or "Of none of these runs can the masks be counted here."
    most = max(fixed, key=lambda one: _median(one, lambda size: size.masked))
    sizes = most.sizes
    letter = chosen.letter(most.run.id)
    said = (
        f"{letter} masks most: in the median {_median(most, lambda size: size.free_positions):,.0f} FREE positions and "
    )
    said += f"{large(_median(most, lambda size: size.masked))} entries a molecule."
    dense = None if sizes is None else sizes.dense_bytes(most.batch)
    if dense is not None:
        said += f" A dense mask for its batch of {most.batch} would take {dense / 1e9:.2g} GB"
        said += f" (the reports' {REPORTED_GB:.1f} GB: 32 answers of 2,000 positions and 152,000 entries)."
    return f"{said} {choice} These are counts, so there is no uncertainty.".replace("  ", " ")


def _median(one: Masked, of: Callable[[MaskSize], int | None]) -> float:
    known = [value for size in one.molecules if (value := of(size)) is not None]
    return statistics.median(known) if known else 0.0


def _by_atoms(what: Callable[[MaskSize], int | None], title: str) -> Callable[[Chosen, Sequence[Masked]], go.Figure]:
    def drawn_figure(chosen: Chosen, found: Sequence[Masked]) -> go.Figure:
        figure = go.Figure([_points(chosen, one, what) for one in found])
        figure.update_xaxes(title="atoms of the molecule", rangemode="tozero")
        figure.update_yaxes(title=title, rangemode="tozero")
        if what is _entries:
            figure.update_yaxes(type="log", exponentformat="SI", dtick=1)
        figure.update_layout(height=HEIGHT, margin={"t": 40}, legend={"font": {"size": 12}})
        return figure

    return drawn_figure


def _positions(size: MaskSize) -> int | None:
    return size.free_positions


def _entries(size: MaskSize) -> int | None:
    return size.masked


def _points(chosen: Chosen, one: Masked, what: Callable[[MaskSize], int | None]) -> go.Scatter:
    colours = palette()
    return go.Scatter(
        name=drawn(chosen.name(one.run.id), 44),
        x=[size.atoms for size in one.molecules],
        y=[what(size) for size in one.molecules],
        mode="markers",
        marker={
            "size": 9,
            "opacity": 0.75,
            "color": chosen.colour(one.run.id, colours),
            "symbol": SYMBOLS[chosen.ids.index(one.run.id) % len(SYMBOLS)],
            "line": {"width": 1, "color": colours.background},
        },
        showlegend=True,
        text=[drawn(size.smiles, 60) for size in one.molecules],
        hovertemplate=f"{chosen.letter(one.run.id)} %{{text}}<br>%{{x}} atoms: %{{y:,}}<extra></extra>",
    )


def _legal(chosen: Chosen, found: Sequence[Masked]) -> go.Figure:
    """From the fewest to the most tokens that may come at one position, on a scale of powers of ten."""
    colours = palette()
    figure = go.Figure()
    for place, one in enumerate(found):
        least, most = legal_tokens(one)
        colour = chosen.colour(one.run.id, colours)
        figure.add_trace(
            go.Scatter(
                x=[least, most],
                y=[place, place],
                mode="lines+markers+text",
                line={"color": colour, "width": 4},
                marker={"size": 12, "color": colour, "symbol": SYMBOLS[chosen.ids.index(one.run.id) % len(SYMBOLS)]},
                text=[f"{least:,}", f"{most:,}"] if most > least else ["", f"{most:,}"],
                textposition="top center",
                cliponaxis=False,
                hovertemplate=f"{drawn(chosen.name(one.run.id))}<br>%{{x:,}} legal<extra></extra>",
                showlegend=False,
            )
        )
    vocabulary = max((one.sizes.vocabulary for one in found if one.sizes is not None), default=1)
    figure.update_xaxes(
        type="log", range=[-0.35, len(str(vocabulary)) + 0.1], dtick=1, title=LEGAL, exponentformat="none"
    )
    figure.update_yaxes(
        tickvals=list(range(len(found))),
        ticktext=[on_axis(chosen.name(one.run.id)) for one in found],
        range=[len(found) - 0.4, -0.7],
        showgrid=False,
        zeroline=False,
    )
    figure.update_layout(height=80 + LANE_HEIGHT * len(found), margin={"t": 10})
    return figure


FIGURES = {
    POSITIONS: _by_atoms(_positions, POSITIONS),
    ENTRIES: _by_atoms(_entries, ENTRIES),
    LEGAL: _legal,
}


def legal_tokens(one: Masked) -> tuple[int, int]:
    """Fewest and most at one position, over all molecules."""
    vocabulary = 0 if one.sizes is None else one.sizes.vocabulary
    least = vocabulary - max(size.forbidden_most for size in one.molecules)
    return max(1, least), max(1, vocabulary - min(size.forbidden_least for size in one.molecules))


def alt(chosen: Chosen, found: Sequence[Masked]) -> str:
    lines = []
    for one in found:
        if one.molecules:
            least, most = legal_tokens(one)
            free = "as many as the model likes" if one.is_open else f"median {_median(one, _positions):,.0f}"
            lines.append(f"{chosen.name(one.run.id)}: FREE positions {free}, {least:,} to {most:,} tokens legal at one")
    return f"{'. '.join(lines)}."


def rows(chosen: Chosen, found: Sequence[Masked]) -> list[dict[str, object]]:
    """A row a molecule and run."""
    return [
        {
            "run": chosen.name(one.run.id),
            "LP": "" if one.sizes is None else one.sizes.lp,
            "tokenizer": "" if one.sizes is None else one.sizes.tokenizer,
            "SMILES": size.smiles,
            "atoms": size.atoms,
            "positions": size.positions,
            "FREE positions": size.free_positions,
            "masked at a position, least": size.forbidden_least,
            "most": size.forbidden_most,
            "masked entries": size.masked,
        }
        for one in found
        for size in one.molecules
    ]


def _notes(chosen: Chosen, found: Sequence[Masked], drawable: Sequence[Masked]) -> list[str]:
    said = [
        f"{chosen.name(one.run.id)}: {one.sizes.reason}"
        if one.sizes.reason
        else f"{chosen.letter(one.run.id)}: {plural(one.sizes.left_out, 'molecule')} not counted."
        for one in found
        if one.sizes is not None and (one.sizes.reason or one.sizes.left_out)
    ]
    at_most = [chosen.letter(one.run.id) for one in found if any(size.positions == "at most" for size in one.molecules)]
    is_open = [chosen.letter(one.run.id) for one in found if one.is_open and one not in drawable]
    without = [chosen.name(run.id) for run in chosen.runs if run not in chosen.measured]
    return [
        *said,
        f"Under {listed(at_most)} a block may end early: figures are the most." if at_most else "",
        f"Not drawn here: {listed(is_open)}." if is_open else "",
        f"Without samples: {listed(without)}." if without else "",
    ]
