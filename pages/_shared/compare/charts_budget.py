"""Where does the time go? Wall time in measured parts, and the rest that no counter explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from engine.comparing.slowdown import TimeBudget, time_budget
from engine.store.entries import Entry
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import drawn, listed, on_axis, percent, seconds
from pages._shared.compare.state import Chosen
from pages._shared.theme import Palette, palette

QUESTION = "Where does the time go?"
HELP = """
Wall time of a run in parts that were measured: making templates, the first pass over prompts (prefill), the other
passes (forward), the LP (constraint), and drawing tokens (sampling). Unexplained is what they leave of the wall time:
computed, not guessed. Judging the answers came after it and is no part of it.

On a GPU a counter tells when work was queued, not when it was done, so a part may hold what another one waited for.
Estimates that a report states are no counters; they are not drawn.
"""
PARTS = {
    "template_s": "template",
    "prefill_s": "prefill",
    "forward_s": "forward",
    "constraint_s": "constraint",
    "sampling_s": "sampling",
}
UNEXPLAINED, UNCOUNTED = "unexplained", "not counted"
PATTERNS = {"template": "x", "prefill": "/", "constraint": "\\", "sampling": ".", UNEXPLAINED: "", UNCOUNTED: "-"}
SECONDS, A_SAMPLE, SHARE = "seconds", "seconds a sample", "share of the wall time"
TITLES = {SECONDS: "wall time (s)", A_SAMPLE: "wall time a sample (s)", SHARE: "share of the wall time"}
LANE_HEIGHT = 46


@dataclass(frozen=True, slots=True)
class Budget:
    """One run's, with how many samples it is spread over."""

    told: TimeBudget
    samples: int | None

    @property
    def pieces(self) -> dict[str, float]:
        """Seconds by part; the whole as ``not counted`` where no part is known."""
        found = {PARTS[part.name]: part.seconds for part in self.told.parts}
        if not found and self.told.wall_s is not None:
            return {UNCOUNTED: self.told.wall_s}
        return found | ({} if self.told.unexplained_s is None else {UNEXPLAINED: self.told.unexplained_s})

    def scale(self, unit: str) -> float | None:
        """What seconds are divided by; None where that is not known."""
        return {SECONDS: 1.0, A_SAMPLE: self.samples, SHARE: self.told.wall_s}[unit] or None


@st.fragment
def show(chosen: Chosen) -> None:
    """Draw the chart."""
    with card("budget", QUESTION, HELP) as here:
        unit = (
            st.segmented_control(
                "Time in",
                list(TITLES),
                default=SECONDS,
                required=True,
                key="time_in",
                bind="query-params",
                label_visibility="collapsed",
            )
            or SECONDS
        )
        budgets = [budget_of(entry) for entry in chosen.runs]
        here.tell(answer(chosen, budgets))
        here.data(lambda: rows(chosen, budgets))
        drawable = [one for one in budgets if one.pieces and one.scale(unit) is not None]
        if drawable:
            here.draw(figure(chosen, drawable, unit), alt=alt(chosen, drawable))
        here.leave_out(*_notes(chosen, budgets, drawable))


def budget_of(entry: Entry) -> Budget:
    return Budget(time_budget(entry), entry.row.get("samples"))


def answer(chosen: Chosen, budgets: Sequence[Budget]) -> str:
    """The largest part of each, and how much is unexplained."""
    counted = [one for one in budgets if one.told.parts and one.told.wall_s]
    if not counted:
        return "Nobody counted the parts of these runs' time."
    said: dict[str, list[str]] = {}
    for one in counted:
        name, most = max(one.pieces.items(), key=lambda piece: piece[1])
        said.setdefault(name, []).append(f"{chosen.letter(one.told.run_id)} {percent(most / (one.told.wall_s or 1))}")
    largest = "; ".join(f"{name} takes most: {listed(shares)}" for name, shares in said.items())
    rests = [(one.told.unexplained_s or 0.0) / (one.told.wall_s or 1.0) for one in counted]
    rest = percent(rests[0]) if len(rests) == 1 else f"{percent(min(rests))} to {percent(max(rests))}"
    judging = [
        f"{chosen.letter(one.told.run_id)} {seconds(one.told.judging_s)}"
        for one in counted
        if one.told.judging_s is not None
    ]
    after = f" Judging came after: {listed(judging)}." if judging else ""
    largest = f"{largest[:1].upper()}{largest[1:]}; unexplained {rest}."
    return f"{largest} Each is one run on one machine, with no interval.{after}"


def part_colours(colours: Palette) -> dict[str, str]:
    """Blue for what is copied, orange for what is chosen freely, as everywhere; the model's own work in the accent."""
    return {
        "template": colours.copy,
        "prefill": colours.accent,
        "forward": colours.accent,
        "constraint": colours.boundary,
        "sampling": colours.free,
        UNEXPLAINED: colours.grid,
        UNCOUNTED: colours.muted,
    }


def figure(chosen: Chosen, budgets: Sequence[Budget], unit: str) -> go.Figure:
    colours = palette()
    found = go.Figure()
    names = [name for name in (*PARTS.values(), UNEXPLAINED, UNCOUNTED) if any(name in one.pieces for one in budgets)]
    for name in names:
        found.add_trace(_bars(name, chosen, budgets, unit, part_colours(colours)[name]))
    for place, one in enumerate(budgets):
        if one.told.excess_s and one.told.wall_s is not None:
            end = one.told.wall_s / (one.scale(unit) or 1.0)
            line = {"color": colours.text, "width": 2, "dash": "dot"}
            found.add_shape(type="line", x0=end, x1=end, y0=place - 0.45, y1=place + 0.45, line=line)
    found.update_yaxes(
        tickvals=list(range(len(budgets))),
        ticktext=[on_axis(chosen.name(one.told.run_id)) for one in budgets],
        range=[len(budgets) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
    )
    found.update_xaxes(title=TITLES[unit], tickformat=".0%" if unit == SHARE else None, rangemode="tozero")
    found.update_layout(
        barmode="stack",
        height=110 + LANE_HEIGHT * len(budgets),
        margin={"t": 56},
        legend={"traceorder": "normal", "font": {"size": 12}},
    )
    return found


def _bars(name: str, chosen: Chosen, budgets: Sequence[Budget], unit: str, colour: str) -> go.Bar:
    values = [one.pieces.get(name) for one in budgets]
    return go.Bar(
        name=name,
        orientation="h",
        y=list(range(len(budgets))),
        x=[
            None if value is None else value / (one.scale(unit) or 1.0)
            for value, one in zip(values, budgets, strict=True)
        ],
        marker={
            "color": colour,
            "line": {"color": colour, "width": 1},
            "pattern": {"shape": PATTERNS.get(name, ""), "fillmode": "replace", "fgcolor": colour, "size": 6},
        },
        customdata=[
            [drawn(chosen.name(one.told.run_id)), seconds(value), percent(_share(one, value))]
            for value, one in zip(values, budgets, strict=True)
        ],
        hovertemplate="%{customdata[0]}<br>" + name + ": %{customdata[1]}, %{customdata[2]}<extra></extra>",
    )


def _share(one: Budget, value: float | None) -> float | None:
    return None if value is None or not one.told.wall_s else value / one.told.wall_s


def alt(chosen: Chosen, budgets: Sequence[Budget]) -> str:
    lines = []
    for one in budgets:
        parts = [f"{name} {seconds(value)}" for name, value in one.pieces.items()]
        lines.append(f"{chosen.name(one.told.run_id)}: {', '.join(parts)} of {seconds(one.told.wall_s)}")
    return f"Wall time in parts. {'. '.join(lines)}."


def rows(chosen: Chosen, budgets: Sequence[Budget]) -> list[dict[str, object]]:
    """A row a run, in seconds."""
    return [
        {
            "run": chosen.name(one.told.run_id),
            "origin": one.told.origin,
            "samples": one.samples,
            "wall (s)": one.told.wall_s,
            **{f"{words} (s)": one.pieces.get(words) for words in PARTS.values()},
            "unexplained (s)": one.told.unexplained_s,
            "excess (s)": one.told.excess_s,
            "judging after it (s)": one.told.judging_s,
        }
        for one in budgets
    ]


def _notes(chosen: Chosen, budgets: Sequence[Budget], drawable: Sequence[Budget]) -> list[str]:
    """What a budget itself says of its gaps, once for all runs of which it holds."""
    said: dict[str, list[str]] = {}
    for one in budgets:
        sentence = one.told.sentence
        for column, words in PARTS.items():
            sentence = sentence.replace(column, words)
        if sentence:
            said.setdefault(sentence, []).append(chosen.letter(one.told.run_id))
    hidden = [chosen.name(one.told.run_id) for one in budgets if one not in drawable]
    gone = [f"Not drawn, for want of a time: {listed(hidden)}."] if hidden else []
    return [*(f"{listed(letters)}: {sentence}" for sentence, letters in said.items()), *gone]
