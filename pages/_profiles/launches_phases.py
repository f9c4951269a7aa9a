"""Steps as bars of phases: the mean of each trace, and one that wrote junk beside one that did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.figures.words import listed, microseconds, number
from engine.inspection.memo import Memo
from engine.profile.phases import PHASES, Phases, State, StepPhases, phases_of_steps
from engine.store.entries import Entry
from engine.store.store import Store
from pages._profiles.traces import TraceSelection
from pages._shared.charts.card import card
from pages._shared.charts.chart import Axis, Chart, Marks, chart
from pages._shared.charts.chart import lanes as lane_axis
from pages._shared.charts.text import on_axis
from pages._shared.theme import palette

MEAN_Q = "What is a step made of?"
MEAN_HELP = """
A step is one pass through the model and what goes with it: making templates (before the first one), the pass over the
prompts (prefill), over new tokens (forward), the LP (constraint), and drawing tokens (sample). *Other* is what no mark
covers. Times are the host's: where a device works on its own, a phase is what it took to ask for the work.
"""
PAIR_Q = "Do steps that write junk take longer?"
PAIR_HELP = """
One step without junk and one with junk, each the one nearest to the median of its kind. A step covers all rows of
its batch: junk in one row does not mean junk in the others. Two steps are only an example; the sentence gives the means
over all steps of each kind.
"""
STATES: tuple[State, ...] = ("normal", "junk", "cut")
STATE_WORDS = {"normal": "without junk", "junk": "with junk", "cut": "with a cut", "unknown": "unknown"}
PATTERNS = {"template": "x", "prefill": "/", "constraint": "\\", "sample": "."}
MOST_PIECES = 6
_kept: Memo[Phases] = Memo(6)


@dataclass(frozen=True, slots=True)
class PhaseLane:
    """One bar."""

    name: str
    phases_us: dict[str, float]
    said: str = ""


def show(store: Store, chosen: TraceSelection) -> None:
    told = [(entry, phases_of(store, entry)) for entry in chosen.entries]
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
def _means(chosen: TraceSelection, told: Told) -> None:
    with card("phases", MEAN_Q, MEAN_HELP) as frame:
        lanes = [
            PhaseLane(chosen.name(entry.id), phases.mean_us(), f"{len(phases.steps):,} steps")
            for entry, phases in told
            if phases.steps
        ]
        frame.tell(mean_words(chosen, told))
        if lanes:
            frame.data(lambda: _rows(lanes))
            frame.draw(_chart(lanes, "mean of a step"))
        frame.leave_out(*_unknown(chosen, [(entry, one) for entry, one in told if not one.steps]))


def mean_words(chosen: TraceSelection, told: Told) -> str:
    """The mean step of each, and its largest phase."""
    parts = []
    for entry, phases in told:
        if not phases.steps:
            continue
        means = phases.mean_us()
        whole = sum(means.values())
        name, most = max(means.items(), key=lambda one: one[1])
        letter = f"in {chosen.letter(entry.id)} " if len(told) > 1 else ""
        share = f", {number(100 * most / whole)} % of it {name}" if whole else ""
        parts.append(f"{letter}a step takes {microseconds(whole)} on average{share}")
    if not parts:
        return "No trace marks where its steps begin."
    said = "; ".join(parts)
    templates = [(entry, one.template_us) for entry, one in told if one.template_us is not None]
    before = listed([f"{microseconds(us)} in {chosen.letter(entry.id)}" for entry, us in templates])
    after = f" Templates took {before} before the first step." if before and len(told) > 1 else ""
    if templates and len(told) == 1:
        after = f" Templates took {microseconds(templates[0][1])} before the first step."
    return f"{said[:1].upper()}{said[1:]}.{after}"


@st.fragment
def _examples(chosen: TraceSelection, told: Told) -> None:
    with card("junk-step", PAIR_Q, PAIR_HELP) as frame:
        lanes = examples(chosen, told)
        frame.tell(junk_words(chosen, told))
        if lanes:
            frame.data(lambda: _rows(lanes))
            frame.draw(_chart(lanes, "one step"))
        wrote = [f"{lane.name}: {lane.said}." for lane in lanes if lane.said]
        frame.leave_out(*wrote, *_unknown(chosen, [one for one in told if one[1].why]))


def examples(chosen: TraceSelection, told: Told) -> list[PhaseLane]:
    """One step of each kind that a trace has; of a trace without junk or a cut, its normal one."""
    found = []
    for entry, phases in told:
        letter = f"{chosen.letter(entry.id)} · " if len(told) > 1 else ""
        for state in STATES:
            if (step := phases.example(state)) is not None:
                words = f"{letter}step {step.step + 1:,} · {STATE_WORDS[state]}"
                found.append(PhaseLane(words, dict(step.phases_us), _pieces(step)))
    return found


def _pieces(step: StepPhases) -> str:
    """What it wrote, the junk first."""
    tokens = sorted(step.tokens, key=lambda token: not token.mark)
    shown = [f"“{token.piece}”" + (f" ({token.mark})" if token.mark else "") for token in tokens if token.piece][
        :MOST_PIECES
    ]
    more = len(step.tokens) - len(shown)
    return "wrote " + " ".join(shown) + (f" and {more:,} more" if more > 0 else "") if shown else ""


def junk_words(chosen: TraceSelection, told: Told) -> str:
    """How many steps wrote junk, and their mean beside that of the others; what is not known where nothing is."""
    parts = []
    for entry, phases in told:
        counted = {state: len(phases.of(state)) for state in STATES}
        if not any(counted.values()):
            continue
        of = f"of {len(phases.steps):,} steps" + (f" of {chosen.letter(entry.id)}" if len(told) > 1 else "")
        if not counted["junk"]:
            parts.append(f"{of} none wrote junk" + (f", {counted['cut']:,} cut a number" if counted["cut"] else ""))
            continue
        sums = [sum(phases.mean_us(state).values()) for state in ("junk", "normal")]
        beside = f", {microseconds(sums[1])} without" if counted["normal"] else ""
        parts.append(f"{of} {counted['junk']:,} wrote junk: {microseconds(sums[0])} on average{beside}")
    said = "; ".join(parts)
    return f"{said[:1].upper()}{said[1:]}." if said else "Which steps wrote junk is not known."


def _unknown(chosen: TraceSelection, told: Told) -> list[str]:
    if not told:
        return []
    reasons: dict[str, list[str]] = {}
    for entry, phases in told:
        reasons.setdefault(phases.why, []).append(chosen.letter(entry.id))
    return [f"{listed(letters)}: {why}" for why, letters in reasons.items() if why]


def _chart(steps: Sequence[PhaseLane], title: str) -> Chart:
    """As the Compare page's budget has its parts."""
    colours = palette()
    hues = {
        "template": colours.copy,
        "prefill": colours.accent,
        "forward": colours.accent,
        "constraint": colours.boundary,
        "sample": colours.free,
        "other": colours.grid,
    }
    most = max((sum(step.phases_us.values()) for step in steps), default=0.0)
    scale, unit = (1000.0, "ms") if most >= 1000 else (1.0, "µs")
    bars = [
        {
            "lane": lane,
            "step": step.name,
            "phase": phase,
            "value": step.phases_us.get(phase, 0.0) / scale,
            "us": step.phases_us.get(phase, 0.0),
            "colour": hues[phase],
            "pattern": PATTERNS.get(phase, ""),
        }
        for phase in PHASES
        if any(phase in step.phases_us for step in steps)
        for lane, step in enumerate(steps)
    ]
    told = [f"{step.name}: " + ", ".join(f"{name} {microseconds(us)}" for name, us in step.phases_us.items())
            for step in steps]  # fmt: skip
    return chart(
        Marks(
            kind="bars",
            rows=bars,
            x="value",
            y="lane",
            group="phase",
            is_across=True,
            hover=lambda row: (row["step"], f"{row['phase']}: {microseconds(row['us'])}"),
        ),
        x=Axis(title=f"{title}, {unit}", from_zero=True),
        y=lane_axis([on_axis(step.name) for step in steps]),
        bars="stack",
        height=120 + 46 * len(steps),
        top=56,
        alt=". ".join(told) + ".",
    )


def _rows(lanes: Sequence[PhaseLane]) -> list[dict[str, object]]:
    return [
        {
            "step": lane.name,
            "what": lane.said,
            **{f"{name} (µs)": lane.phases_us.get(name) for name in PHASES},
            "all (µs)": sum(lane.phases_us.values()),
        }
        for lane in lanes
    ]
