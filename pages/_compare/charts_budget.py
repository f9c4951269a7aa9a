"""Where does the time go? Wall time in measured parts, and the rest that no counter explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.comparing.slowdown import TimeBudget, time_budget
from engine.figures.words import capitalised, listed, percent, seconds
from engine.store.entries import Entry
from engine.store.store import Store
from pages._compare.runs import RunSelection
from pages._shared.charts.card import card, choice
from pages._shared.charts.chart import Axis, Chart, Marks, RefLine, chart, lanes
from pages._shared.charts.phases import PHASE_PATTERNS, phase_colours
from pages._shared.charts.text import on_axis
from pages._shared.theme import palette

QUESTION = "Where does the time go?"
HELP = """
Wall time of a run in measured parts: making templates, the first pass over prompts (prefill), the other passes
(forward), the LP (constraint), and sampling tokens. Unexplained is the wall time minus these parts: computed, not
measured. Checking the answers comes later and is not included.

On a GPU a timer sees when work was queued, not when it was done, so a part may include waiting for another one.
Estimates stated by a report are not measurements and are not drawn.
"""
PARTS = {
    "template_s": "template",
    "prefill_s": "prefill",
    "forward_s": "forward",
    "constraint_s": "constraint",
    "sampling_s": "sampling",
}
UNEXPLAINED, UNCOUNTED = "unexplained", "not counted"
PATTERNS = {**PHASE_PATTERNS, UNCOUNTED: "-"}
SECONDS, PER_SAMPLE, SHARE = "seconds", "seconds per sample", "share of the wall time"
TITLES = {SECONDS: "wall time (s)", PER_SAMPLE: "wall time per sample (s)", SHARE: "share of the wall time"}


@dataclass(frozen=True, slots=True)
class Budget:
    """One run's time, and how many samples it is spread over."""

    time: TimeBudget
    samples: int | None

    @property
    def pieces(self) -> dict[str, float]:
        """Seconds by part; the whole as ``not counted`` where no part is known."""
        parts = {PARTS[part.name]: part.seconds for part in self.time.parts}
        if not parts and self.time.wall_s is not None:
            return {UNCOUNTED: self.time.wall_s}
        return parts | ({} if self.time.unexplained_s is None else {UNEXPLAINED: self.time.unexplained_s})

    def scale(self, unit: str) -> float | None:
        """What seconds are divided by; None where that is not known."""
        return {SECONDS: 1.0, PER_SAMPLE: self.samples, SHARE: self.time.wall_s}[unit] or None


@st.fragment
def show(_store: Store, chosen: RunSelection) -> None:
    with card("budget", QUESTION, HELP) as panel:
        unit = choice("Time in", list(TITLES), "time_in")
        budgets = [budget_of(entry) for entry in chosen.entries]
        panel.tell(answer(chosen, budgets))
        panel.data(lambda: rows(chosen, budgets))
        drawable = [budget for budget in budgets if budget.pieces and budget.scale(unit) is not None]
        if drawable:
            panel.draw(budget_chart(chosen, drawable, unit))
        panel.leave_out(*_notes(chosen, budgets, drawable))


def budget_of(entry: Entry) -> Budget:
    return Budget(time_budget(entry), entry.row.get("samples"))


def answer(chosen: RunSelection, budgets: Sequence[Budget]) -> str:
    """The largest part of each, and how much is unexplained."""
    counted = [(budget, budget.time.wall_s) for budget in budgets if budget.time.parts and budget.time.wall_s]
    if not counted:
        return "The parts of these runs' time were not measured."
    largest: dict[str, list[str]] = {}
    for budget, wall_s in counted:
        name, most = max(budget.pieces.items(), key=lambda piece: piece[1])
        largest.setdefault(name, []).append(f"{chosen.letter(budget.time.run_id)} {percent(most / wall_s)}")
    parts = "; ".join(f"{name} takes most: {listed(shares)}" for name, shares in largest.items())
    rests = [(budget.time.unexplained_s or 0.0) / wall_s for budget, wall_s in counted]
    rest = percent(rests[0]) if len(rests) == 1 else f"{percent(min(rests))} to {percent(max(rests))}"
    checking = [
        f"{chosen.letter(budget.time.run_id)} {seconds(budget.time.judging_s)}"
        for budget, _ in counted
        if budget.time.judging_s is not None
    ]
    after = f" Checking the answers came later: {listed(checking)}." if checking else ""
    return f"{capitalised(parts)}; unexplained {rest}. Each is one run on one machine, with no interval.{after}"


def budget_chart(chosen: RunSelection, budgets: Sequence[Budget], unit: str) -> Chart:
    """A lane per run, in parts. Blue: copied; orange: chosen freely; accent: the model's passes."""
    colours = palette()
    phases = phase_colours(colours)
    hues = {part: phases[part] for part in PARTS.values()} | {UNEXPLAINED: colours.grid, UNCOUNTED: colours.muted}
    bars = [
        {
            "lane": lane,
            "run": chosen.name(budget.time.run_id),
            "part": part,
            "value": budget.pieces[part] / (budget.scale(unit) or 1.0),
            "seconds": budget.pieces[part],
            "share": budget.pieces[part] / budget.time.wall_s if budget.time.wall_s else None,
            "colour": hues[part],
            "pattern": PATTERNS.get(part, ""),
        }
        for part in hues
        for lane, budget in enumerate(budgets)
        if part in budget.pieces
    ]
    marks = Marks(
        kind="bars",
        rows=bars,
        x="value",
        y="lane",
        group="part",
        is_across=True,
        hover=lambda row: (row["run"], f"{row['part']}: {seconds(row['seconds'])}, {percent(row['share'])}"),
    )
    ends = [
        (lane, budget.time.wall_s / (budget.scale(unit) or 1.0))
        for lane, budget in enumerate(budgets)
        if budget.time.excess_s and budget.time.wall_s is not None
    ]
    descriptions = [
        f"{chosen.name(budget.time.run_id)}: "
        f"{', '.join(f'{name} {seconds(value)}' for name, value in budget.pieces.items())}"
        f" of {seconds(budget.time.wall_s)}"
        for budget in budgets
    ]
    return chart(
        marks,
        x=Axis(title=TITLES[unit], is_share=unit == SHARE, from_zero=True),
        y=lanes([on_axis(chosen.name(budget.time.run_id)) for budget in budgets]),
        lines=[
            RefLine(end, lane - 0.45, end, lane + 0.45, dash="dot", width=2, colour=colours.text) for lane, end in ends
        ],
        bars="stack",
        height=110 + 46 * len(budgets),
        top=56,
        alt=f"Wall time in parts. {'. '.join(descriptions)}.",
    )


def rows(chosen: RunSelection, budgets: Sequence[Budget]) -> list[dict[str, object]]:
    """A row per run, in seconds."""
    return [
        {
            "run": chosen.name(budget.time.run_id),
            "origin": budget.time.origin,
            "samples": budget.samples,
            "wall (s)": budget.time.wall_s,
            **{f"{words} (s)": budget.pieces.get(words) for words in PARTS.values()},
            "unexplained (s)": budget.time.unexplained_s,
            "excess (s)": budget.time.excess_s,
            "checking afterwards (s)": budget.time.judging_s,
        }
        for budget in budgets
    ]


def _notes(chosen: RunSelection, budgets: Sequence[Budget], drawable: Sequence[Budget]) -> list[str]:
    """What is unknown of each budget, said once for all runs that share it."""
    gaps: dict[str, list[str]] = {}
    for budget in budgets:
        sentence = budget.time.sentence
        for column, words in PARTS.items():
            sentence = sentence.replace(column, words)
        if sentence:
            gaps.setdefault(sentence, []).append(chosen.letter(budget.time.run_id))
    hidden = [chosen.name(budget.time.run_id) for budget in budgets if budget not in drawable]
    missing = [f"Not drawn, time unknown: {listed(hidden)}."] if hidden else []
    return [*(f"{listed(letters)}: {sentence}" for sentence, letters in gaps.items()), *missing]
