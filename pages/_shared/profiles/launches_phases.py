"""Steps as bars of phases: the mean of each trace, and one that wrote junk beside one that did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import streamlit as st

from engine.inspection.memo import Memo
from engine.profile.figures import number, time_of
from engine.profile.phases import PHASES, Phases, State, StepPhases, phases_of_steps
from engine.profile.words import listed
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare.charts_card import card
from pages._shared.compare.charts_words import on_axis
from pages._shared.profiles.state import Chosen
from pages._shared.theme import Palette, palette

MEAN_Q = "What is a step made of?"
MEAN_HELP = """
A step is one pass through the model and what goes with it: making templates (before the first one), the pass over the
prompts (prefill), over new tokens (forward), the LP (constraint), and drawing tokens (sample). *Other* is what no mark
covers. Times are the host's: where a device works on its own, a phase is what it took to ask for the work.
"""
PAIR_Q = "Is a step that writes junk a longer one?"
PAIR_HELP = """
One step without junk and one that wrote some, each the one nearest to the middle of its kind. A step belongs to all
rows of its batch: one that wrote junk in one row may have written clean tokens in the others. Two steps are an example,
and no measure; the means over all of their kind stand in the sentence.
"""
STATES: tuple[State, ...] = ("normal", "junk", "cut")
STATE_WORDS = {"normal": "without junk", "junk": "with junk", "cut": "with a cut", "unknown": "unknown"}
PATTERNS = {"template": "x", "prefill": "/", "constraint": "\\", "sample": "."}
LANE_HEIGHT, MOST_PIECES = 46, 6
_kept: Memo[Phases] = Memo(6)


@dataclass(frozen=True, slots=True)
class Lane:
    """One bar."""

    name: str
    phases_us: dict[str, float]
    said: str = ""


def show(store: Store, chosen: Chosen) -> None:
    told = [(entry, phases_of(store, entry)) for entry in chosen.traces]
    if not any(phases.steps for _, phases in told):
        _means(chosen, told)  # it says why, and that is all there is to say
        return
    left, right = st.columns(2, gap="small")
    with left:
        _means(chosen, told)
    with right:
        _examples(chosen, told)


def phases_of(store: Store, entry: Entry) -> Phases:
    return _kept.of((entry.files.where, *entry.key), lambda: phases_of_steps(store, entry))


Told = Sequence[tuple[Entry, Phases]]


@st.fragment
def _means(chosen: Chosen, told: Told) -> None:
    with card("phases", MEAN_Q, MEAN_HELP) as here:
        lanes = [
            Lane(chosen.name(entry), phases.mean_us(), f"{len(phases.steps):,} steps")
            for entry, phases in told
            if phases.steps
        ]
        here.tell(mean_words(chosen, told))
        if lanes:
            here.data(lambda: _rows(lanes))
            here.draw(_figure(lanes, "mean of a step"), alt=_alt(lanes))
        here.leave_out(*_unknown(chosen, [(entry, one) for entry, one in told if not one.steps]))


def mean_words(chosen: Chosen, told: Told) -> str:
    """The mean step of each, and its largest phase."""
    parts = []
    for entry, phases in told:
        if not phases.steps:
            continue
        means = phases.mean_us()
        whole = sum(means.values())
        name, most = max(means.items(), key=lambda one: one[1])
        letter = f"in {chosen.letter(entry)} " if len(told) > 1 else ""
        share = f", {number(100 * most / whole)} % of it {name}" if whole else ""
        parts.append(f"{letter}a step takes {time_of(whole)} on average{share}")
    if not parts:
        return "No trace here says where a step begins."
    said = "; ".join(parts)
    templates = [(entry, one.template_us) for entry, one in told if one.template_us is not None]
    before = listed([f"{time_of(us)} in {chosen.letter(entry)}" for entry, us in templates])
    after = f" Templates took {before} before the first step." if before and len(told) > 1 else ""
    if templates and len(told) == 1:
        after = f" Templates took {time_of(templates[0][1])} before the first step."
    return f"{said[:1].upper()}{said[1:]}.{after}"


@st.fragment
def _examples(chosen: Chosen, told: Told) -> None:
    with card("junk-step", PAIR_Q, PAIR_HELP) as here:
        lanes = examples(chosen, told)
        here.tell(junk_words(chosen, told))
        if lanes:
            here.data(lambda: _rows(lanes))
            here.draw(_figure(lanes, "one step"), alt=_alt(lanes))
        wrote = [f"{lane.name}: {lane.said}." for lane in lanes if lane.said]
        here.leave_out(*wrote, *_unknown(chosen, [one for one in told if one[1].why]))


def examples(chosen: Chosen, told: Told) -> list[Lane]:
    """One step of each kind that a trace has; of a trace without junk or a cut, its normal one."""
    found = []
    for entry, phases in told:
        letter = f"{chosen.letter(entry)} · " if len(told) > 1 else ""
        for state in STATES:
            if (step := phases.example(state)) is not None:
                words = f"{letter}step {step.step + 1:,} · {STATE_WORDS[state]}"
                found.append(Lane(words, dict(step.phases_us), _pieces(step)))
    return found


def _pieces(step: StepPhases) -> str:
    """What it wrote, the junk first."""
    tokens = sorted(step.tokens, key=lambda one: not one.mark)
    shown = [f"“{one.piece}”" + (f" ({one.mark})" if one.mark else "") for one in tokens if one.piece][:MOST_PIECES]
    more = len(step.tokens) - len(shown)
    return "wrote " + " ".join(shown) + (f" and {more:,} more" if more > 0 else "") if shown else ""


def junk_words(chosen: Chosen, told: Told) -> str:
    """How many steps wrote junk, and their mean beside that of the others; what is not known where nothing is."""
    parts = []
    for entry, phases in told:
        counted = {state: len(phases.of(state)) for state in STATES}
        if not any(counted.values()):
            continue
        of = f"of {len(phases.steps):,} steps" + (f" of {chosen.letter(entry)}" if len(told) > 1 else "")
        if not counted["junk"]:
            parts.append(f"{of} none wrote junk" + (f", {counted['cut']:,} cut a number" if counted["cut"] else ""))
            continue
        sums = [sum(phases.mean_us(state).values()) for state in ("junk", "normal")]
        beside = f", {time_of(sums[1])} without" if counted["normal"] else ""
        parts.append(f"{of} {counted['junk']:,} wrote junk: {time_of(sums[0])} on average{beside}")
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else "Which steps wrote junk is not known here."


def _unknown(chosen: Chosen, told: Told) -> list[str]:
    if not told:
        return []
    reasons: dict[str, list[str]] = {}
    for entry, phases in told:
        reasons.setdefault(phases.why, []).append(chosen.letter(entry))
    return [f"{listed(letters)}: {why}" for why, letters in reasons.items() if why]


def _colours(colours: Palette) -> dict[str, str]:
    """As the Compare page's budget has them."""
    return {
        "template": colours.copy,
        "prefill": colours.accent,
        "forward": colours.accent,
        "constraint": colours.boundary,
        "sample": colours.free,
        "other": colours.grid,
    }


def _figure(lanes: Sequence[Lane], title: str) -> go.Figure:
    colours = palette()
    hues = _colours(colours)
    most = max((sum(lane.phases_us.values()) for lane in lanes), default=0.0)
    scale, unit = (1000.0, "ms") if most >= 1000 else (1.0, "µs")
    found = go.Figure()
    for name in [one for one in PHASES if any(one in lane.phases_us for lane in lanes)]:
        found.add_trace(
            go.Bar(
                name=name,
                orientation="h",
                y=list(range(len(lanes))),
                x=[lane.phases_us.get(name, 0.0) / scale for lane in lanes],
                marker={
                    "color": hues[name],
                    "line": {"color": hues[name], "width": 1},
                    "pattern": {
                        "shape": PATTERNS.get(name, ""),
                        "fillmode": "replace",
                        "fgcolor": hues[name],
                        "size": 6,
                    },
                },
                customdata=[[on_axis(lane.name), time_of(lane.phases_us.get(name, 0.0))] for lane in lanes],
                hovertemplate="%{customdata[0]}<br>" + name + ": %{customdata[1]}<extra></extra>",
            )
        )
    found.update_yaxes(
        tickvals=list(range(len(lanes))),
        ticktext=[on_axis(lane.name) for lane in lanes],
        range=[len(lanes) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
    )
    found.update_xaxes(title=f"{title}, {unit}", rangemode="tozero")
    found.update_layout(
        barmode="stack",
        height=120 + LANE_HEIGHT * len(lanes),
        margin={"t": 56, "r": 16},
        legend={"traceorder": "normal", "font": {"size": 12}},
    )
    return found


def _alt(lanes: Sequence[Lane]) -> str:
    said = [
        f"{lane.name}: " + ", ".join(f"{name} {time_of(us)}" for name, us in lane.phases_us.items()) for lane in lanes
    ]
    return ". ".join(said) + "."


def _rows(lanes: Sequence[Lane]) -> list[dict[str, object]]:
    return [
        {
            "step": lane.name,
            "what": lane.said,
            **{f"{name} (µs)": lane.phases_us.get(name) for name in PHASES},
            "all (µs)": sum(lane.phases_us.values()),
        }
        for lane in lanes
    ]
